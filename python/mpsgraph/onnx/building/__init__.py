"""Building of a graph from the nodes of an ONNX model, with or without assumptions about sizes."""
