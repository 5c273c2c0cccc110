"""Recurrent layers as every format states them: the order of gates, and the operands of the graph's operations."""

from __future__ import annotations

from .._core import Operation, Tensor
from .export import required_shape

# The order in which formats and the variants of the graph's operations concatenate gates.
_ORDERS = {
    "lstm": {
        "graph": "input forget cell output",
        "graph, forget_gate_last": "input cell forget output",
        "onnx": "input output forget cell",
        "mil": "input forget output cell",
    },
    "gru": {
        "graph": "update reset output",
        "graph, reset_gate_first": "reset update output",
        "onnx": "update reset output",
        "mil": "reset output update",
    },
    "single_gate_rnn": dict.fromkeys(("graph", "onnx", "mil"), "output"),
}
_OPTIONAL = {
    "lstm": ("input_weight", "bias", "initial_state", "initial_cell", "mask", "peephole"),
    "gru": ("input_weight", "bias", "initial_state", "mask", "secondary_bias"),
    "single_gate_rnn": ("input_weight", "bias", "initial_state", "mask"),
}


def reordering(kind: str, source: str, target: str) -> list[int]:
    """Return the index in the order of gates of `source` of each gate in the order of `target`.

    Source and target are "graph" or the name of a format.
    """
    before, after = (_ORDERS[kind][order].split() for order in (source, target))
    return [before.index(gate) for gate in after]


class RecurrentOperation:
    """The operands of a recurrent operation of the graph that is exported to a format.

    Attributes:
        source: The layer's input.
        recurrent: The recurrent weights.
        given: The optional operands that the operation has, keyed by name.
        directions: 2 for a bidirectional layer, and 1 otherwise.
        direction: "forward", "reverse", or "bidirectional".
        hidden: The number of hidden units, or -1 if it is dynamic.
        order: The index in the operation's order of gates of each gate in the format's order.
    """

    def __init__(self, operation: Operation, format: str) -> None:
        a, kind, operands = operation.attributes, operation.kind, iter(operation.inputs)
        self.op, self.source, self.recurrent = operation, next(operands), next(operands)
        self.given: dict[str, Tensor] = {key: next(operands) for key in _OPTIONAL[kind] if a[f"has_{key}"]}
        self.directions = 2 if a["bidirectional"] else 1
        self.direction = "bidirectional" if a["bidirectional"] else "reverse" if a["reverse"] else "forward"
        self.hidden = required_shape(self.recurrent)[-1]
        variant = next((v for v in _ORDERS[kind] if v.startswith("graph, ") and a[v.removeprefix("graph, ")]), "graph")
        self.order = reordering(kind, variant, format)
