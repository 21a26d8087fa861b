"""Cost rules of JAX primitives, one family a file; :func:`roofline.programs.jax_registry.load` imports them."""
