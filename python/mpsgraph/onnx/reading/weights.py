"""Detection of weights in Constant nodes, for files whose exporters do not use initializers.

Most constants are sizes or scalar factors in formulas, so a constant counts as a weight only if it has more than one
element and a node of the main graph consumes it at an operand position for weights, together with a value computed from
the model's inputs (not just from their shapes). The constant may be cast, transposed, or reshaped first. Operand
positions for weights are the weights of convolutions, matmuls, recurrent layers, normalizations, lookup tables, and
PRelu slopes, and both operands of +, -, *, and /.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from ...errors import GraphError

_ANY = range(16)
_PLACES: dict[str, Iterable[int]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "FusedConv"), (1, 2)),
    **dict.fromkeys(("Gemm", "MatMul", "Einsum", "FusedGemm", "FusedMatMul"), _ANY),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Sum"), _ANY),
    **dict.fromkeys(("RNN", "GRU", "LSTM"), (1, 2, 3)),
    **dict.fromkeys(("LayerNormalization", "InstanceNormalization", "GroupNormalization"), (1, 2)),
    **dict.fromkeys(("RMSNormalization", "SimplifiedLayerNormalization", "PRelu", "BiasGelu", "FastGelu"), (1,)),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), (2, 3, 4)),
    "BatchNormalization": (1, 2, 3, 4),
    "Gather": (0,),
    "Attention": (1, 2),
}
# Operators whose result counts as the same weight as their first operand.
_TURNS = ("Identity", "Cast", "Reshape", "Transpose", "Unsqueeze", "Squeeze", "Flatten")
_SIZES = ("Shape", "Size")
_GRAPH, _GRAPHS = AttributeProto.GRAPH, AttributeProto.GRAPHS


def weights_in_constants(graph: GraphProto) -> frozenset[str]:
    """Return the names of the results of those Constant nodes that hold weights."""
    nodes = graph.node[:]
    kinds = [node.op_type for node in nodes]
    if "Constant" not in kinds:
        return frozenset()
    fixed = {tensor.name for tensor in graph.initializer[:]}
    data = {info.name for info in graph.input if info.name not in fixed}  # Names that depend on inputs.
    sources: dict[str, str] = {}  # Maps each name derived from a constant to the constant's name.
    found: set[str] = set()
    for kind, node in zip(kinds, nodes, strict=True):
        if kind == "Constant":
            if _is_large(node):
                sources[node.output[0]] = node.output[0]
            continue
        operands = node.input[:]
        if kind in _TURNS and operands and operands[0] in sources:
            sources[node.output[0]] = sources[operands[0]]
            continue
        if data.isdisjoint(operands) and data.isdisjoint(_read_inside(node)):
            continue
        if kind not in _SIZES:
            data.update(node.output[:])
        places = _PLACES.get(kind, ())
        found.update(sources[name] for i, name in enumerate(operands) if i in places and name in sources)
    return frozenset(found)


def buffers_of(model: ModelProto) -> frozenset[str]:
    """Return the non-trainable variables, such as moving averages, listed in a file from `mpsgraph.onnx.export`."""
    names = _property(model, "mpsgraph.buffers", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise GraphError("[onnx] metadata property 'mpsgraph.buffers' must be a JSON list of initializer names")
    return frozenset(names)


def states_of(model: ModelProto) -> dict[str, str]:
    """Return the state variables listed in a file from `mpsgraph.onnx.export`, with the outputs that update them."""
    states = _property(model, "mpsgraph.states", {})
    given = {info.name for info in model.graph.output}
    stored = {tensor.name for tensor in model.graph.initializer}
    if not isinstance(states, dict) or not set(states) <= stored or not {*states.values()} <= given:
        raise GraphError(
            "[onnx] metadata property 'mpsgraph.states' must be a JSON object that maps initializers to outputs"
        )
    return states


def _property(model: ModelProto, key: str, default: Any) -> Any:
    stated = next((entry.value for entry in model.metadata_props if entry.key == key), None)
    try:
        return default if stated is None else json.loads(stated)
    except (ValueError, RecursionError):
        return None


def _is_large(node: NodeProto) -> bool:
    """Return whether a Constant node holds a tensor of more than one element."""
    return any(math.prod(a.t.dims[:]) > 1 for a in node.attribute[:] if a.name == "value")


def _read_inside(node: NodeProto) -> list[str]:
    """Return the names that the subgraphs of a node read, including names that are defined inside the subgraphs."""
    read = []
    for attribute in node.attribute[:]:
        number = attribute.type
        for graph in [attribute.g] if number == _GRAPH else attribute.graphs if number == _GRAPHS else ():
            for inner in graph.node[:]:
                read += [*inner.input[:], *_read_inside(inner)]
    return read
