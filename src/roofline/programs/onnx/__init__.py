"""ONNX files: every node of the graph, on shapes alone."""
