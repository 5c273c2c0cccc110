"""Translation of operators by functions in the `operators` argument of `mpsgraph.onnx.load`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import GraphProto

from ..._core import bfloat16
from ...interchange.custom_operators import called
from .node import Function, Node, Results


def translation(key: str, function: Callable[..., Any]) -> Function:
    """Return a translation function that calls a user's function with a node's operands and attributes."""

    def translate(node: Node) -> Results:
        operands = [
            list(node.sequence(i)) if node.is_sequence(i) else node.optional(i) for i in range(len(node.inputs))
        ]
        attributes = {name: _plain(node, value) for name, value in node.attributes().items()}
        used = [node.wants(i) for i in range(len(node.outputs))]
        while used and not used[-1]:
            used.pop()
        return called(node.importer, key, function, operands, attributes, used)

    return translate


def _plain(node: Node, value: Any) -> Any:
    """Return an attribute as a number, a string, a list, an array, or, for a subgraph, a function."""
    if isinstance(value, GraphProto):
        return lambda *inputs: node.importer.subgraph(value, inputs)
    if isinstance(value, list) and value and isinstance(value[0], GraphProto):
        return [_plain(node, graph) for graph in value]
    elements = getattr(value, "elements", None)  # A tensor that is stored in the file.
    if elements is None:
        return value
    array, dtype = elements
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype == bfloat16 else array
