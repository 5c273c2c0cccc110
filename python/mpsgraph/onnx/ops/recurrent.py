"""Translations of RNN, GRU, and LSTM to the graph's own recurrent operations where possible.

Layers that these operations do not support are unrolled into one group of operations per time step: layers with
clipping, coupled gates, peepholes (in MPSGraph, peepholes use the previous cell state, even for the output gate), or
activations that MPSGraph lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._core import Tensor, int32
from ...errors import GraphError, ShapeError
from ...interchange.recurrent import reordering
from ..building.node import Node, Results, operator
from . import recurrent_steps as by_steps

Operands = dict[str, Any]
Layer = Callable[[Tensor, Operands], "list[Tensor]"]
_ACTIVATIONS = ("tanh", "sigmoid", "relu")  # Activations that ONNX and MPSGraph both have, under the same names.


def known_activations(node: Node) -> list[str] | None:
    """Return the activations that all directions use, or None if the layer must be unrolled into single time steps."""
    # activation_alpha and activation_beta apply only to other activations.
    node.without_effect("output_sequence", "activation_alpha", "activation_beta")
    defaults, direction = by_steps.DEFAULTS[node.name], node.attribute("direction", "forward")
    if direction not in ("forward", "reverse", "bidirectional"):
        raise GraphError(f"direction must be forward, reverse, or bidirectional, got {direction!r}")
    directions = 2 if direction == "bidirectional" else 1
    stated = [name.lower() for name in node.attribute("activations", defaults * directions)]
    first = stated[: len(defaults)]
    if stated != first * directions or not set(stated) <= set(_ACTIVATIONS):
        return None
    return None if node.attribute("clip", 0.0) or node.attribute("input_forget", 0) or node.has(7) else first


class Layers:
    """A recurrent node with its operands in MPSGraph's conventions: time is the first axis, and directions are
    concatenated.
    """

    gates_axis = 1  # The axis of the weights that contains the gates.

    def __init__(self, node: Node, kind: str) -> None:
        self.node, self.g = node, node.g
        self.order = order = reordering(kind, "onnx", "graph")  # The ONNX gate index of each MPSGraph gate.
        self.batch_first = bool(node.attribute("layout", 0))
        self.direction = node.attribute("direction", "forward")
        self.directions = 2 if self.direction == "bidirectional" else 1
        self.hidden = node.attribute("hidden_size", 0) or node.size(node.tensor(2), -1)
        by_steps.require_known_weights(node)
        shape = node.shape(node.tensor(1))
        if (shape[0], shape[self.gates_axis]) != (self.directions, len(order) * self.hidden):
            raise ShapeError(
                f"weights of a {self.direction} layer must have sizes {self.directions} (directions) and "
                f"{len(order)} x {self.hidden} (gates), got shape {node.tensor(1).shape}"
            )
        self.x = self.g.swap_axes(node.tensor(0), 0, 1) if self.batch_first else node.tensor(0)

    def run(self, layer: Layer, states: int) -> list[Tensor]:
        """Compute the layer and return all outputs of the node: the states of all time steps, and the final states.

        `layer` is the function that computes the states after each time step, with shape (steps, batch, directions *
        hidden).
        """
        g, lengths = self.g, self._lengths()
        if lengths is None:
            flags = {"reverse": self.direction == "reverse", "bidirectional": self.directions == 2}
            histories = layer(self.x, self._operands(None, states) | flags)[:states]
            apart = [g.stack(g.split(h, 2, 2), 1) if self.directions == 2 else g.expand_dims(h, 1) for h in histories]
            y, finals = apart[0], [self._last(history) for history in apart]
        else:
            parts = [self._with_lengths(layer, i, states, lengths) for i in range(self.directions)]
            y = g.stack([part[0] for part in parts], 1)
            finals = [g.stack([part[1 + k] for part in parts], 0) for k in range(states)]
        if self.batch_first:
            y, finals = g.transpose(y, [2, 0, 1, 3]), [g.swap_axes(final, 0, 1) for final in finals]
        return [y, *finals]

    def _lengths(self) -> Tensor | None:
        """Return the number of time steps of each batch entry, or None if all entries have the full length."""
        if not self.node.has(4):
            return None
        lengths, steps = self.node.known_ints(4), self.node.dims(self.x)[0]
        whole = lengths is not None and steps >= 0 and set(lengths) <= {steps}
        return None if whole else self.node.cast(self.node.tensor(4), int32)

    # --- operands --------------------------------------------------------------------------------------------------

    def _operands(self, i: int | None, states: int) -> Operands:
        """Return the weights, biases, and initial states of direction i, or of all directions if i is None."""
        g, node = self.g, self.node
        of_input, of_state = (self._ordered(self._part(operand, i), -2) for operand in (1, 2))
        result = {"recurrent_weight": of_state, "input_weight": self._flat(of_input, node.size(of_input, -1))}
        if node.has(3):
            both = self._part(3, i)
            ours, theirs = g.split(both, 2, node.rank(both) - 1)
            result |= self._biases(self._ordered(ours, -1), self._ordered(theirs, -1))
        names = ("initial_state", "initial_cell")[:states]
        return result | {name: self._state(5 + k, i) for k, name in enumerate(names) if node.has(5 + k)}

    def _biases(self, ours: Tensor, theirs: Tensor) -> Operands:
        g, axis = self.g, self.node.rank(theirs) - 1
        if self.node.name != "GRU" or not self.node.attribute("linear_before_reset", 0):
            return {"bias": self._flat(g.addition(ours, theirs))}
        # The reset gate multiplies the candidate's recurrent bias, so the two biases of the candidate cannot be added.
        *gates, candidate = g.split(theirs, 3, axis)
        summed = [g.addition(a, b) for a, b in zip(g.split(ours, 3, axis), gates, strict=False)]
        bias = g.concat([*summed, g.slice_axis(ours, axis, 2 * self.hidden, self.hidden)], axis)
        return {"bias": self._flat(bias), "secondary_bias": self._flat(candidate)}

    def _part(self, operand: int, i: int | None) -> Tensor:
        """Return the part of an operand for direction i, or for all directions if i is None.

        The direction axis is removed if the part has one direction only.
        """
        x = self.node.tensor(operand)
        if i is None and self.directions == 2:
            return x
        return self.g.squeeze(self.g.slice_axis(x, 0, i or 0, 1), [0])

    def _ordered(self, x: Tensor, axis: int) -> Tensor:
        """Reorder gates along an axis from ONNX's order to MPSGraph's."""
        if list(self.order) == sorted(self.order):
            return x
        axis = self.node.axis(x, axis)
        gates = self.g.split(x, len(self.order), axis)
        return self.g.concat([gates[k] for k in self.order], axis)

    def _flat(self, x: Tensor, *behind: int) -> Tensor:
        """Merge directions and gates into one axis."""
        return self.g.reshape(x, (-1, *behind)) if self.node.rank(x) > 1 + len(behind) else x

    def _state(self, operand: int, i: int | None) -> Tensor:
        """Return an initial state of shape (batch, hidden), or (batch, 2 * hidden) for two directions."""
        g, x = self.g, self.node.tensor(operand)
        x = x if self.batch_first else g.swap_axes(x, 0, 1)
        if i is None and self.directions == 2:
            return g.reshape(x, (-1, 2 * self.hidden))
        return g.squeeze(g.slice_axis(x, 1, i or 0, 1), [1])

    # --- results ---------------------------------------------------------------------------------------------------

    def _backwards(self, i: int) -> bool:
        return self.direction == "reverse" or i == 1

    def _last(self, history: Tensor) -> Tensor:
        """Return the state after the last time step, with shape (directions, batch, hidden).

        For a reverse direction, this state is at index 0.
        """
        g, lasts = self.g, []
        for i in range(self.directions):
            start, mask = (0, 0b1110) if self._backwards(i) else (-1, 0b1111)
            one = g.slice_axis(history, 1, i, 1)
            lasts.append(g.squeeze(g.slice(one, [start, 0, 0, 0], [1, 0, 0, 0], end_mask=mask), [0]))
        return lasts[0] if len(lasts) == 1 else g.concat(lasts, 0)

    def _with_lengths(self, layer: Layer, i: int, states: int, lengths: Tensor) -> list[Tensor]:
        """Run one direction on batch entries of different lengths.

        Returns the outputs, which are zero past the end of each entry, and the states at each entry's end.
        """
        g, node = self.g, self.node
        x = by_steps.turned(node, self.x, lengths) if self._backwards(i) else self.x
        histories = layer(x, self._operands(i, states))[:states]
        inside = g.less_than(g.expand_dims(by_steps.steps_of(node, x), 1), lengths)
        y = g.select(g.expand_dims(inside, 2), histories[0], 0.0)
        last = g.expand_dims(g.maximum(g.subtraction(lengths, 1), 0), 1)
        any_step = g.expand_dims(g.greater_than(lengths, 0), 1)
        finals = []
        for k, history in enumerate(histories):
            final = g.squeeze(g.gather(g.swap_axes(history, 0, 1), last, 1, 1), [1])
            finals.append(g.select(any_step, final, self._state(5 + k, i) if node.has(5 + k) else 0.0))
        return [by_steps.turned(node, y, lengths) if self._backwards(i) else y, *finals]


@operator("RNN", upto=22)
def rnn(node: Node) -> Results:
    names = known_activations(node)
    if names is None:
        return by_steps.rnn(node)
    return Layers(node, "single_gate_rnn").run(
        lambda x, given: node.g.single_gate_rnn(x, **given, activation=names[0]), 1
    )


@operator("GRU", upto=22)
def gru(node: Node) -> Results:
    names = known_activations(node)
    if names is None:
        return by_steps.gru(node)
    how: Operands = {"reset_after": bool(node.attribute("linear_before_reset", 0)), "output_gate_activation": names[1]}
    how |= {f"{gate}_gate_activation": names[0] for gate in ("update", "reset")}
    return Layers(node, "gru").run(lambda x, given: node.g.gru(x, **given, **how), 1)


@operator("LSTM", upto=22)
def lstm(node: Node) -> Results:
    names = known_activations(node)
    if names is None:
        return by_steps.lstm(node)
    how: Operands = {f"{gate}_gate_activation": names[0] for gate in ("input", "forget", "output")}
    how |= {"cell_gate_activation": names[1], "activation": names[2], "produce_cell": True}
    return Layers(node, "lstm").run(lambda x, given: node.g.lstm(x, **given, **how), 2)
