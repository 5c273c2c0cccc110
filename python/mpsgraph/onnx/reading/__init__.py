"""Reading of ONNX files: models, stored tensors, and the operators of the standard."""
