"""Cost rules of PyTorch operations, one family a file; :func:`roofline.programs.torch_registry.load` imports them."""
