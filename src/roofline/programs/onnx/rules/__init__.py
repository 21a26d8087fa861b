"""Cost rules of ONNX operators, one family a file; :func:`roofline.programs.onnx.registry.load` imports them."""
