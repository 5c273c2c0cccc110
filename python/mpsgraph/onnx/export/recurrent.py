"""Export of RNN, LSTM, and GRU layers to ONNX.

ONNX has a separate axis for directions and orders gates differently from mpsgraph: input, output, forget, cell in LSTM,
and update, reset, hidden in GRU. Weights keep their original shape in the file, and nodes reorder the gates. Layers
that these ONNX operators cannot express are written with Scan (recurrent_steps.py).
"""

from __future__ import annotations

import numpy as np

from ..._core import Operation, Tensor
from ...interchange.export import NotExpressible, required_shape
from ...interchange.recurrent import RecurrentOperation
from ...interchange.renames import names
from ._writer import Writer, writes
from .recurrent_steps import by_steps
from .slicing import ends_of, spans

_ACTIVATIONS = names("onnx", "gate activation")
_NUMBERS = {"HardSigmoid": (0.2, 0.5), "Affine": (1.0, 0.0)}  # The alpha and beta parameters of activations.


class _Layer(RecurrentOperation):
    """The operands of a recurrent operation, converted to ONNX's conventions."""

    def __init__(self, w: Writer, op: Operation) -> None:
        super().__init__(op, "onnx")
        self.w, self.gates = w, len(self.order)
        if self.hidden < 0:
            raise NotExpressible(
                "the number of hidden units is dynamic, but ONNX's recurrent operators need a static one"
            )
        if op.attributes["training"]:
            raise NotExpressible("the layer returns its gates for training: export the model in inference mode")

    @property
    def attributes(self) -> dict[str, object]:
        """Return the ONNX attributes for a recurrent layer's direction and hidden size."""
        return {"direction": self.direction, "hidden_size": self.hidden}

    def activations(self, *names: str) -> dict[str, object]:
        """Return the attributes for the activations of each direction and their alpha and beta parameters."""
        stated = [_ACTIVATIONS[name] for name in names] * self.directions
        numbers = [_NUMBERS[name] for name in stated if name in _NUMBERS]
        result: dict[str, object] = {"activations": stated}
        if numbers:
            result["activation_alpha"] = [alpha for alpha, _ in numbers]
            result["activation_beta"] = [beta for _, beta in numbers]
        return result

    def ordered(self, name: str) -> str:
        """Add nodes that reorder gates along axis 1 from mpsgraph's order to ONNX's."""
        if self.order == list(range(self.gates)):
            return name
        sizes = self.w.ints([self.hidden] * self.gates)
        parts = self.w.add_several("Split", [name, sizes], self.gates, axis=1)
        return self.w.add("Concat", *(parts[gate] for gate in self.order), axis=1)

    def weights(self) -> list[str]:
        """Return the names of the layer's input, the input weights W, and the recurrent weights R."""
        w, rows = self.w, self.gates * self.hidden
        recurrent = w.reshape(w.name(self.recurrent), [self.directions, rows, self.hidden])
        if "input_weight" in self.given:
            width = required_shape(self.given["input_weight"])[-1]
            source_weights = w.reshape(w.name(self.given["input_weight"]), [self.directions, rows, width])
        else:  # The layer's input already contains the products with the input weights, so W is the identity.
            every = np.eye(self.directions * rows, dtype=self.source.dtype.numpy)
            source_weights = w.constant(every.reshape(self.directions, rows, -1))
        return [w.name(self.source), self.ordered(source_weights), self.ordered(recurrent)]

    def bias(self, recurrent: str | None = None) -> str:
        """Return the concatenated input and recurrent biases, or an empty name if there are none."""
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
        """Reshape an initial state from (batch, directions * hidden) to (directions, batch, hidden).

        Returns an empty name if the operation has no such state.
        """
        if key not in self.given:
            return ""
        w = self.w
        if self.directions == 1:
            return w.add("Unsqueeze", w.name(self.given[key]), w.ints([0]))
        return w.transpose(w.reshape(w.name(self.given[key]), [0, 2, self.hidden]), [1, 0, 2])

    def sequence(self, name: str) -> str:
        """Reshape (steps, directions, batch, hidden) to (steps, batch, directions * hidden)."""
        if self.directions == 1:
            return self.w.add("Squeeze", name, self.w.ints([1]))
        return self.w.reshape(self.w.transpose(name, [0, 2, 1, 3]), [0, 0, 2 * self.hidden])

    def by_steps(self) -> list[str]:
        """Write the layer with Scan, step by step. Return the hidden states and, for LSTM, the cell states of all
        time steps.
        """
        return by_steps(self.w, self.op, self.gates, self.given, self.hidden)


@writes("single_gate_rnn")
def rnn(w: Writer, op: Operation) -> list[str]:
    """Export a recurrent layer with a single gate as RNN."""
    layer = _Layer(w, op)
    if "mask" in layer.given:
        return layer.by_steps()
    operands = [*layer.weights(), layer.bias(), "", layer.state("initial_state")]
    result = w.add("RNN", *operands, **layer.attributes, **layer.activations(op.attributes["activation"]))
    return [layer.sequence(result)]


@writes("lstm")
def lstm(w: Writer, op: Operation) -> list[str]:
    """Export an LSTM layer as LSTM, which returns all hidden states but only the last cell state."""
    a = op.attributes
    layer = _Layer(w, op)
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
    """Return a dict that maps each slice that takes the last cell state of a direction to the direction's index.

    Returns None if the graph also uses the cell states of other time steps.

    In a bidirectional layer, the last time step of one direction is the first of the other. A slice of such a time step
    contains the cell states of both directions, but only one of them is the last of its direction. The slice is mapped
    to -1, and only slices that take the half of this direction may use it.
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
    """Export a GRU layer as GRU, with the reset gate applied before or after the recurrent matmul."""
    a = op.attributes
    layer = _Layer(w, op)
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
