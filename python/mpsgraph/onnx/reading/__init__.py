"""Reading of ONNX files: models, stored tensors, the operators of the standard, and the functions of a model."""
