"""Code shared by the ONNX, Core ML, PyTorch, and JAX frontends, independent of any one format.

Importers use it to evaluate tensors while a graph is being built, to defer a build until the inputs are known, to
handle shapes with dynamic dimensions, and to choose which weights are trainable. Exporters use it to find the
operations to export, and to report in one error every operation that the target format cannot express.
"""
