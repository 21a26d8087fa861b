"""Cost rules of JAX primitives, one family a file; :func:`roofline.programs.jax.registry.load` imports them."""
