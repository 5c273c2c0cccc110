"""Translations of rnn, gru, and lstm to the graph's recurrent operations.

MIL orders gates differently from mpsgraph: input, forget, output, cell in lstm, and reset, output, update in gru. Cell
clipping is rejected. Peepholes are rejected, too: Core ML's output gate uses the new cell state, and mpsgraph's uses
the previous one.
"""

from __future__ import annotations

from typing import Any

from ..._core import Tensor
from ...interchange.recurrent import reordering
from ...interchange.renames import options
from .._operation import Call, Results, mil

_ACTIVATIONS = options("mil", "gate activation")


def _activation(call: Call, name: str, default: str) -> str:
    found = call.text(name, default)
    if found not in _ACTIVATIONS:
        call.refuse(f"activation {found!r} is not supported")
    return _ACTIVATIONS[found]


def ordered(call: Call, x: Tensor, kind: str) -> Tensor:
    """Reorder the gates of a weight or bias along its first axis from MIL's order to mpsgraph's."""
    order = reordering(kind, "mil", "graph")
    if len(order) == 1:
        return x
    gates = call.g.split(x, len(order), 0)
    return call.g.concat([gates[i] for i in order], 0)


def _operands(call: Call, kind: str, both: bool) -> dict[str, Any]:
    """Return the layer's weights and biases in mpsgraph's order of gates, with both directions concatenated."""
    g, result = call.g, dict[str, Any]()
    for ours, theirs in (("input_weight", "weight_ih"), ("recurrent_weight", "weight_hh"), ("bias", "bias")):
        if ours == "bias" and not call.has("bias"):
            if both and call.has("bias_back"):
                call.refuse("a bias must be given for both directions or neither")
            continue
        parts = [ordered(call, call.weight(theirs), kind)]
        if both:
            parts.append(ordered(call, call.weight(f"{theirs}_back"), kind))
        stacked = both and ours == "recurrent_weight"
        result[ours] = g.stack(parts, 0) if stacked else g.concat(parts, 0) if both else parts[0]
    return result


def _results(call: Call, histories: list[Tensor], direction: str) -> list[Tensor]:
    """Return the outputs of all time steps or of the last one, followed by the final states."""
    g, whole = call.g, call.flag("output_sequence", False)

    def last(history: Tensor) -> Tensor:
        if direction != "bidirectional":
            return g.slice_axis(history, 0, 0 if direction == "reverse" else -1, 1)
        forward, backward = g.split(history, 2, 2)
        return g.concat([g.slice_axis(forward, 0, -1, 1), g.slice_axis(backward, 0, 0, 1)], 2)

    ends = [last(history) for history in histories]
    first = histories[0] if whole else ends[0]
    return [first, *(g.squeeze(end, [0]) for end in ends)]


def _direction(call: Call, *allowed: str) -> str:
    direction = call.text("direction", "forward")
    if direction not in allowed:
        call.refuse(f"direction {direction!r} is not supported")
    return direction


@mil("lstm")
def lstm(call: Call) -> Results:
    direction = _direction(call, "forward", "reverse", "bidirectional")
    for name in ("peephole", "peephole_back"):
        if call.has(name):
            call.refuse("peepholes are not supported")
    if call.has("clip"):
        call.refuse("clipping of the cell state is not supported")
    gates = _activation(call, "recurrent_activation", "sigmoid")
    made = call.g.lstm(
        call.tensor("x"),
        **_operands(call, "lstm", direction == "bidirectional"),
        initial_state=call.tensor("initial_h"),
        initial_cell=call.tensor("initial_c"),
        reverse=direction == "reverse",
        bidirectional=direction == "bidirectional",
        produce_cell=True,
        input_gate_activation=gates,
        forget_gate_activation=gates,
        output_gate_activation=gates,
        cell_gate_activation=_activation(call, "cell_activation", "tanh"),
        activation=_activation(call, "activation", "tanh"),
    )
    return _results(call, made, direction)


@mil("gru")
def gru(call: Call) -> Results:
    """Translate gru. With reset_after, the layer has separate biases for the input and the state, as in PyTorch."""
    g, direction, after = call.g, _direction(call, "forward", "reverse"), call.flag("reset_after", False)
    gates = _activation(call, "recurrent_activation", "sigmoid")
    operands = _operands(call, "gru", False)
    more = call.optional_weight("input_bias")
    if more is not None:
        more = ordered(call, more, "gru")
    if after and "bias" in operands:
        update, reset, output = g.split(operands.pop("bias"), 3, 0)
        operands["secondary_bias"] = output
        seen = g.concat([update, reset, g.multiplication(output, 0.0)], 0)
        operands["bias"] = seen if more is None else g.addition(seen, more)
    elif more is not None:
        operands["bias"] = g.addition(operands["bias"], more) if "bias" in operands else more
    (history,) = g.gru(
        call.tensor("x"),
        **operands,
        initial_state=call.tensor("initial_h"),
        reverse=direction == "reverse",
        reset_after=after,
        update_gate_activation=gates,
        reset_gate_activation=gates,
        output_gate_activation=_activation(call, "activation", "tanh"),
    )
    return _results(call, [history], direction)


@mil("rnn")
def rnn(call: Call) -> Results:
    direction = _direction(call, "forward", "reverse")
    (history,) = call.g.single_gate_rnn(
        call.tensor("x"),
        **_operands(call, "single_gate_rnn", False),
        initial_state=call.tensor("initial_h"),
        activation=_activation(call, "activation", "tanh"),
        reverse=direction == "reverse",
    )
    return _results(call, [history], direction)
