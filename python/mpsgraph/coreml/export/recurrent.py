"""Export of recurrent layers to MIL.

MIL needs constant weights, orders gates differently from mpsgraph, and supports bidirectional layers only for lstm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import Operation
from ...interchange.export import NotExpressible, required_shape
from ...interchange.recurrent import RecurrentOperation
from ...interchange.renames import names
from ._writer import Var, Writer, writes

_NAMES = names("mil", "gate activation")


class _Layer(RecurrentOperation):
    """A recurrent operation with its operands converted to MIL's conventions.

    The weights are constants, and each direction of a bidirectional layer has its own.
    """

    def __init__(self, w: Writer, op: Operation) -> None:
        super().__init__(op, "mil")
        self.w = w
        if "mask" in self.given or op.attributes["training"]:
            raise NotExpressible(
                "the layer has a mask per time step or returns its gates for training: remove the mask and export the "
                "model in inference mode"
            )
        self.of_state = w.known(w[self.recurrent], "the weights").reshape(self.directions, -1, self.hidden)
        self.rows = self.of_state.shape[1]

    def ordered(self, x: np.ndarray) -> np.ndarray:
        """Reorder the gates along the first axis from mpsgraph's order to MIL's."""
        parts = np.split(x, len(self.order), 0)
        return np.ascontiguousarray(np.concatenate([parts[gate] for gate in self.order], 0))

    def part(self, key: str, i: int) -> np.ndarray | None:
        """Return direction i's part of the operand named `key`, or None if the operation lacks this operand."""
        if key not in self.given:
            return None
        whole = self.w.known(self.w[self.given[key]], "the weights")
        return np.asarray(whole.reshape(self.directions, -1)[i])

    def weights(self, i: int, back: str = "") -> dict[str, Any]:
        """Return the weights and the bias of direction i as keyword arguments for the MIL builder."""
        if "input_weight" in self.given:
            whole = self.w.known(self.w[self.given["input_weight"]], "the weights")
            inner = whole.reshape(self.directions, self.rows, -1)[i]
        # The layer's input already contains the products with the input weights, so these weights are the identity.
        else:
            inner = np.eye(self.directions * self.rows, dtype=self.of_state.dtype)[i * self.rows : (i + 1) * self.rows]
        result = {f"weight_ih{back}": self.ordered(inner), f"weight_hh{back}": self.ordered(self.of_state[i])}
        bias = self.part("bias", i)
        return result if bias is None else {**result, f"bias{back}": self.ordered(bias)}

    def state(self, key: str, width: int) -> Var:
        """Return an initial state of shape (batch, width), filled with zeros if the operation does not specify one."""
        w, batch = self.w, required_shape(self.source)[1]
        if key in self.given:
            return w[self.given[key]]
        zero = w.number(0, self.source.dtype)
        if batch >= 0:
            return np.full((batch, width), zero)
        size = w.mb.slice_by_index(x=w.mb.shape(x=w[self.source]), begin=[1], end=[2])
        return w.mb.fill(shape=w.mb.concat(values=[size, np.array([width], np.int32)], axis=0), value=zero)


def _activations(op: Operation, *keys: str) -> list[str]:
    return [_NAMES[str(op.attributes[key])] for key in keys]


@writes("lstm")
def lstm(w: Writer, op: Operation) -> Var:
    """Export an LSTM layer as MIL's lstm, which returns all hidden states but only the last cell state."""
    a = op.attributes
    layer = _Layer(w, op)
    if "peephole" in layer.given:
        raise NotExpressible("MIL's lstm defines peepholes differently from mpsgraph: use an LSTM without peepholes")
    if a["produce_cell"]:
        raise NotExpressible(
            "the layer returns the cell states of all time steps (produce_cell), but MIL's lstm returns only the last"
        )
    gates = _activations(op, "input_gate_activation", "forget_gate_activation", "output_gate_activation")
    if len(set(gates)) > 1:
        raise NotExpressible("MIL's lstm needs the same activation for the input, forget, and output gates")
    both = layer.directions == 2
    weights = layer.weights(0) | (layer.weights(1, "_back") if both else {})
    width = layer.directions * layer.hidden
    cell, outer = _activations(op, "cell_gate_activation", "activation")
    return w.mb.lstm(
        x=w[layer.source], initial_h=layer.state("initial_state", width),
        initial_c=layer.state("initial_cell", width), **weights, output_sequence=True,
        direction=layer.direction,
        recurrent_activation=gates[0], cell_activation=cell, activation=outer,
    )[0]  # fmt: skip


def _each_way(layer: _Layer, run: Any) -> Var:
    """Export each direction of a layer by a call of `run`, and concatenate the results."""
    w = layer.w
    if layer.directions == 1:
        return run(0, layer.direction, layer.state("initial_state", layer.hidden))
    whole = layer.state("initial_state", 2 * layer.hidden)
    if isinstance(whole, np.ndarray):
        states = list(np.split(whole, 2, 1))
    else:
        states = list(w.mb.split(x=whole, num_splits=2, axis=1))
    results = [run(i, way, states[i]) for i, way in enumerate(("forward", "reverse"))]
    return w.mb.concat(values=results, axis=2)


@writes("gru")
def gru(w: Writer, op: Operation) -> Var:
    """Export a GRU layer as MIL's gru.

    The reset gate is applied before the recurrent matmul or, with reset_after, after it, which needs target iOS18.
    """
    a = op.attributes
    layer = _Layer(w, op)
    inner, other, outer = _activations(op, *(f"{gate}_gate_activation" for gate in ("update", "reset", "output")))
    if a["flip_z"] or inner != other:
        raise NotExpressible("MIL's gru supports neither a flipped update gate (flip_z) nor different gate activations")
    if a["reset_after"] and w.target < 18:
        raise NotExpressible(f'reset_after needs target="iOS18", got target="iOS{w.target}"')

    def run(i: int, way: str, state: Var) -> Var:
        operands = layer.weights(i)
        if a["reset_after"]:  # With reset_after, MIL has separate biases for the input and the state.
            own, hidden = layer.part("secondary_bias", i), layer.hidden
            zeros = np.zeros(3 * hidden, layer.of_state.dtype)
            seen = zeros if own is None else layer.ordered(np.concatenate([zeros[: 2 * hidden], own]))
            operands |= {"input_bias": operands.get("bias", zeros), "bias": seen, "reset_after": True}
        return w.mb.gru(
            x=w[layer.source], initial_h=state, direction=way, output_sequence=True, recurrent_activation=inner,
            activation=outer, **operands,
        )[0]  # fmt: skip

    return _each_way(layer, run)


@writes("single_gate_rnn")
def rnn(w: Writer, op: Operation) -> Var:
    """Export a recurrent layer with a single gate as MIL's rnn."""
    layer = _Layer(w, op)
    (outer,) = _activations(op, "activation")

    def run(i: int, way: str, state: Var) -> Var:
        return w.mb.rnn(
            x=w[layer.source], initial_h=state, direction=way, output_sequence=True, activation=outer,
            **layer.weights(i),
        )[0]  # fmt: skip

    return _each_way(layer, run)
