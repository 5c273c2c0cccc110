"""ONNX models of a single node and their results."""

from __future__ import annotations

from collections.abc import Sequence

import mpsgraph as mg
import numpy as np
import onnx
from onnx import helper, numpy_helper

Operands = Sequence["np.ndarray | None"]


def one_node(
    op: str, operands: Operands, opset: int = 28, domain: str = "", results: int = 1, known=(), **attributes
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return a model of one node and its feeds. None operands are omitted.

    Operands are named x0, x1, ..., results y0, y1, ...; operands whose indices are in `known` become initializers.
    """
    names = [f"x{i}" if array is not None else "" for i, array in enumerate(operands)]
    outputs = [f"y{i}" for i in range(results)]
    node = helper.make_node(op, names, outputs, name=f"the_{op.lower()}", domain=domain, **attributes)
    arrays = {name: np.asarray(array) for name, array in zip(names, operands, strict=True) if name}
    stored = [numpy_helper.from_array(arrays.pop(f"x{i}"), f"x{i}") for i in known]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in arrays.items()
    ]
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=name) for name in outputs], stored)
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), arrays


def computed(op: str, *operands: np.ndarray | None, opset: int = 28, known=(), **attributes) -> np.ndarray:
    """Return the first result of a node."""
    model, feeds = one_node(op, operands, opset, known=known, **attributes)
    return mg.onnx.load(model).run(feeds)["y0"].numpy()
