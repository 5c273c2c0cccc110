"""Code shared by the ONNX, Core ML, PyTorch, and JAX frontends, independent of any one format.

Importers use it to evaluate tensors while a graph is being built, to defer a build until the inputs are known, to work
with shapes that have dynamic dimensions, and to choose which weights are trainable. Exporters use it to walk a graph
and to report every operation that the target format cannot express in one error.
"""
