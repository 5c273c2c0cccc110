"""Building of a graph from the nodes of an ONNX model."""
