"""Cost rules of PyTorch operations, one family a file; :func:`roofline.programs.pytorch.registry.load` imports them."""
