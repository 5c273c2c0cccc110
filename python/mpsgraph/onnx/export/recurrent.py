"""RNN, LSTM and GRU.

ONNX keeps both directions apart, in an axis of their own, and has another order of gates: input, output, forget, cell,
and update, reset, hidden. Weights keep their shape in the file, and nodes bring their gates into order. What these
layers cannot say is written step by step (recurrent_steps.py).
"""

from __future__ import annotations

import numpy as np

from ..._core import Operation, Tensor
from ...interchange.export import Unsaid, required_shape
from ._writer import Writer, writes
from .recurrent_steps import by_steps
from .slicing import ends_of, spans

_ACTIVATIONS = {
    "relu": ("Relu", 0.0, 0.0),
    "tanh": ("Tanh", 0.0, 0.0),
    "sigmoid": ("Sigmoid", 0.0, 0.0),
    "hard_sigmoid": ("HardSigmoid", 0.2, 0.5),
    "none": ("Affine", 1.0, 0.0),
}


class _Layer:
    """The operands of a recurrent operation, as ONNX's takes them."""

    def __init__(self, w: Writer, op: Operation, gates: int, order: list[int], optional: list[str]) -> None:
        self.w, self.op, self.order = w, op, order
        a = op.attributes
        self.directions = 2 if a["bidirectional"] else 1
        operands = iter(op.inputs)
        self.source, self.recurrent = next(operands), next(operands)
        self.given: dict[str, Tensor] = {key: next(operands) for key in optional if a[f"has_{key}"]}
        self.gates, self.hidden = gates, required_shape(self.recurrent)[-1]
        if self.hidden < 0:
            raise Unsaid("the number of hidden units must be known")
        if a["training"]:
            raise Unsaid("gives its gates for training: export the model in inference mode")

    @property
    def attributes(self) -> dict[str, object]:
        """Direction and size."""
        a = self.op.attributes
        direction = "bidirectional" if a["bidirectional"] else "reverse" if a["reverse"] else "forward"
        return {"direction": direction, "hidden_size": self.hidden}

    def activations(self, *names: str) -> dict[str, object]:
        """Each direction's activations; the numbers of those that have any stand in the same order."""
        entries = [_ACTIVATIONS[name] for name in names] * self.directions
        numbers = [(alpha, beta) for name, alpha, beta in entries if name in ("HardSigmoid", "Affine")]
        result: dict[str, object] = {"activations": [name for name, _, _ in entries]}
        if numbers:
            result["activation_alpha"] = [alpha for alpha, _ in numbers]
            result["activation_beta"] = [beta for _, beta in numbers]
        return result

    def ordered(self, name: str) -> str:
        """Gates, which stand in axis 1, in ONNX's order."""
        if self.order == list(range(self.gates)):
            return name
        sizes = self.w.ints([self.hidden] * self.gates)
        parts = self.w.add_several("Split", [name, sizes], self.gates, axis=1)
        return self.w.add("Concat", *(parts[gate] for gate in self.order), axis=1)

    def weights(self) -> list[str]:
        """Source, W and R."""
        w, rows = self.w, self.gates * self.hidden
        recurrent = w.reshape(w.name(self.recurrent), [self.directions, rows, self.hidden])
        if "input_weight" in self.given:
            width = required_shape(self.given["input_weight"])[-1]
            source_weights = w.reshape(w.name(self.given["input_weight"]), [self.directions, rows, width])
        else:  # the source has the products already
            every = np.eye(self.directions * rows, dtype=self.source.dtype.numpy)
            source_weights = w.constant(every.reshape(self.directions, rows, -1))
        return [w.name(self.source), self.ordered(source_weights), self.ordered(recurrent)]

    def bias(self, recurrent: str | None = None) -> str:
        """The biases of source and state; an empty name when there are none."""
        w, rows = self.w, self.gates * self.hidden
        zeros = w.constant(np.zeros((self.directions, rows), self.source.dtype.numpy))
        if "bias" not in self.given and recurrent is None:
            return ""
        own = (
            self.ordered(w.reshape(w.name(self.given["bias"]), [self.directions, rows]))
            if "bias" in self.given
            else zeros
        )
        return w.add("Concat", own, recurrent or zeros, axis=1)

    def state(self, key: str) -> str:
        """(batch, directions hidden) as (directions, batch, hidden); an empty name when it is not given."""
        if key not in self.given:
            return ""
        w = self.w
        if self.directions == 1:
            return w.add("Unsqueeze", w.name(self.given[key]), w.ints([0]))
        return w.transpose(w.reshape(w.name(self.given[key]), [0, 2, self.hidden]), [1, 0, 2])

    def sequence(self, name: str) -> str:
        """(steps, directions, batch, hidden) as (steps, batch, directions hidden)."""
        if self.directions == 1:
            return self.w.add("Squeeze", name, self.w.ints([1]))
        return self.w.reshape(self.w.transpose(name, [0, 2, 1, 3]), [0, 0, 2 * self.hidden])

    def by_steps(self) -> list[str]:
        """The states of all steps, and an LSTM's cells, by Scan."""
        return by_steps(self.w, self.op, self.gates, self.given, self.hidden)


@writes("single_gate_rnn")
def rnn(w: Writer, op: Operation) -> list[str]:
    """RNN."""
    layer = _Layer(w, op, 1, [0], ["input_weight", "bias", "initial_state", "mask"])
    if "mask" in layer.given:
        return layer.by_steps()
    operands = [*layer.weights(), layer.bias(), "", layer.state("initial_state")]
    result = w.add("RNN", *operands, **layer.attributes, **layer.activations(op.attributes["activation"]))
    return [layer.sequence(result)]


@writes("lstm")
def lstm(w: Writer, op: Operation) -> list[str]:
    """LSTM, of which ONNX has the state of each step and the cell of the last."""
    a = op.attributes
    optional = ["input_weight", "bias", "initial_state", "initial_cell", "mask", "peephole"]
    # ours: input, forget, cell, output, or input, cell, forget, output; ONNX's: input, output, forget, cell
    order = [0, 3, 2, 1] if a["forget_gate_last"] else [0, 3, 1, 2]
    layer = _Layer(w, op, 4, order, optional)
    lasts = _last_cells(w, op, layer) if a["produce_cell"] else {}
    gates = {a[f"{gate}_gate_activation"] for gate in ("input", "forget", "output")}
    if "mask" in layer.given or "peephole" in layer.given or lasts is None or len(gates) > 1:
        return layer.by_steps()[: len(op.outputs)]
    names = a["input_gate_activation"], a["cell_gate_activation"], a["activation"]
    states = layer.state("initial_state"), layer.state("initial_cell")
    operands = [*layer.weights(), layer.bias(), "", *states]
    y, _, cells = w.add_several("LSTM", operands, 3, **layer.attributes, **layer.activations(*names))
    for tensor, way in lasts.items():
        one = cells if layer.directions == 1 else w.add("Slice", cells, w.ints([way]), w.ints([way + 1]), w.ints([0]))
        w.give(tensor, "" if way < 0 else one)
    return [layer.sequence(y), ""][: len(op.outputs)]


def _last_cells(w: Writer, op: Operation, layer: _Layer) -> dict[Tensor, int] | None:
    """The slices that take the last step of the cells, by their direction; None where other steps are needed, too.

    Those of both directions at once, of which one half is the last step each, have the direction -1: nothing else may
    use them than slices of that half.
    """
    cells, found = op.outputs[1], dict[Tensor, int]()
    if cells in w.results:
        return None
    for user in w.users.get(cells, []):
        is_last, is_first = (ends_of(user, 0, at_end) for at_end in (True, False))
        if not is_last and not is_first:
            return None
        if layer.directions == 1:
            if not (is_first if op.attributes["reverse"] else is_last):
                return None
            found[user.outputs[0]] = 0
            continue
        both, way = user.outputs[0], 0 if is_last else 1
        halves = w.users.get(both, [])
        if both in w.results or not halves:
            return None
        for half in halves:
            if not spans(half, 2, way * layer.hidden, (way + 1) * layer.hidden):
                return None
            found[half.outputs[0]] = way
        found[both] = -1
    return found


@writes("gru")
def gru(w: Writer, op: Operation) -> list[str]:
    """GRU, with the reset behind the product or in front of it."""
    a = op.attributes
    optional = ["input_weight", "bias", "initial_state", "mask", "secondary_bias"]
    layer = _Layer(w, op, 3, [1, 0, 2] if a["reset_gate_first"] else [0, 1, 2], optional)
    if "mask" in layer.given or a["flip_z"] or a["update_gate_activation"] != a["reset_gate_activation"]:
        return layer.by_steps()
    recurrent_bias = None
    if "secondary_bias" in layer.given:
        own = w.reshape(w.name(layer.given["secondary_bias"]), [layer.directions, layer.hidden])
        zeros = np.zeros((layer.directions, 2 * layer.hidden), layer.source.dtype.numpy)
        recurrent_bias = w.add("Concat", w.constant(zeros), own, axis=1)
    operands = [*layer.weights(), layer.bias(recurrent_bias), "", layer.state("initial_state")]
    names = a["update_gate_activation"], a["output_gate_activation"]
    after = int(a["reset_after"])
    result = w.add("GRU", *operands, linear_before_reset=after, **layer.attributes, **layer.activations(*names))
    return [layer.sequence(result)]
