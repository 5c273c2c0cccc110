"""Helpers that build ONNX models of several nodes, and small models that several files use.

onnx_node.py builds models of a single node.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name: str, dtype: int = FLOAT, shape=()):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, initialisers=None, opset: int = 21, functions=()) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in (initialisers or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in {f.domain for f in functions})]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def node(op: str, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, name=f"the_{op.lower()}", **attributes)


def linear() -> onnx.ModelProto:
    """Return the model y = x w + b with a dynamic number of rows."""
    weights = {"w": np.float32([[1, 2], [3, 4], [5, 6]]), "b": np.float32([0.5, -0.5])}
    nodes = [node("MatMul", ["x", "w"], ["xw"]), node("Add", ["xw", "b"], ["y"])]
    return model(nodes, [value("x", FLOAT, ("rows", 3))], [value("y", FLOAT, ("rows", 2))], weights)


def reshape() -> onnx.ModelProto:
    inputs = [value("x", FLOAT, ("n",)), value("shape", INT64, (2,))]
    return model([node("Reshape", ["x", "shape"], ["y"])], inputs, [value("y", FLOAT, None)])
