"""Cost rules of ONNX operators, one family a file; :func:`roofline.programs.onnx_registry.load` imports them."""
