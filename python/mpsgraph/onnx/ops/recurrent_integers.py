"""Translation of com.microsoft's DynamicQuantizeLSTM, an LSTM with 8-bit integer weights.

The weights are multiplied by inputs and states quantized to uint8 like DynamicQuantizeLinear: the inputs once for all
time steps, and the states of the whole batch in each step. Products are exact in int32. Products of the inputs and
weights are computed before the loop over time steps, which is one operation, quantized_lstm_sequence.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..._core import Tensor, float32
from ...errors import ShapeError, UnsupportedError
from ..building.node import Node, operator
from ._operands import WithOperands
from .recurrent import Layers, Operands

_ACTIVATIONS = {"relu": 1, "tanh": 2, "sigmoid": 3}  # Activations by their numbers in MPSGraph.


class LayersOfIntegers(Layers):
    """A DynamicQuantizeLSTM node with its operands in a form that the graph's integer LSTM accepts.

    The weights have shape (directions, inputs, 4 * hidden). Their scales and zero points are operands 8 to 11.
    """

    gates_axis = 2

    def __init__(self, node: Node, activations: Sequence[str]) -> None:
        super().__init__(node, "lstm")
        gate, cell, of_state = (_ACTIVATIONS[name] for name in activations)
        self.activations = [gate, gate, cell, gate, of_state]

    def outputs(self) -> list[Tensor]:
        return self.run(self._layer, 2)

    def _operands(self, i: int | None, states: int) -> Operands:
        """Return the direction, and the layer's initial hidden state and initial cell state for it."""
        return {"direction": i, "first": [self._first(5 + k, i) for k in range(states)]}

    def _first(self, operand: int, i: int | None) -> Tensor:
        if self.node.has(operand):
            return self._state(operand, i)
        wide = self.hidden * (self.directions if i is None else 1)
        return self.g.broadcast_to(self.g.constant(0.0), self.node.joined([self.node.dim(self.x, 1), wide]))

    def _layer(self, x: Tensor, given: Operands) -> list[Tensor]:
        """Return the hidden states and cell states of all time steps, for one direction or both."""
        i: int | None = given["direction"]
        g, node = self.g, self.node
        weights, scale, zero = self._of(node.tensor(2), i), self._columns(10, i), self._zeros(11, i)
        if zero is None:
            zero = g.broadcast_to(g.constant(0, dtype=weights.dtype), node.shape(scale))
        operands = [self._projected(x, i), weights, scale, zero, *given["first"]]
        how: Operands = {"places": self.order, "activations": self.activations}
        how["reverse"] = bool(given.get("reverse", False))
        return list(g.create("quantized_lstm_sequence", operands, how).outputs)

    def _projected(self, x: Tensor, i: int | None) -> Tensor:
        """Return the products of inputs and weights plus biases for all time steps.

        The shape is (directions, steps, batch, 4 * hidden).
        """
        g, node = self.g, self.node
        quantize = operator.get("DynamicQuantizeLinear", version=11)
        if quantize is None:
            raise UnsupportedError("DynamicQuantizeLinear is not supported by mpsgraph")
        weights = self._of(node.tensor(1), i)
        directions, inputs, wide = node.shape(weights)
        rows = g.reshape(x, (-1, inputs))
        results = quantize(WithOperands(node, {0: rows}, 1, "DynamicQuantizeLinear"))
        q, step, point = (t for t in results if isinstance(t, Tensor))  # type: ignore[union-attr]
        zero = self._zeros(9, i)
        if zero is None:
            sums = g.integer_matrix_multiplication(q, weights, point)
        # The integer kernels take zero points as one row with an element per column, so each direction is multiplied
        # separately.
        else:
            parts = zip(g.split(weights, directions, 0), g.split(zero, directions, 0), strict=True)
            sums = g.concat([g.integer_matrix_multiplication(q, w, point, z) for w, z in parts], 0)
        factor = g.multiplication(step, g.expand_dims(self._columns(8, i), 1))
        result = g.multiplication(g.cast(sums, float32), factor)
        if node.has(3):
            ours, theirs = g.split(self._of(node.tensor(3), i), 2, 1)
            result = g.addition(result, g.expand_dims(g.addition(ours, theirs), 1))
        return node.reshape(result, [directions, node.dim(x, 0), node.dim(x, 1), wide])

    def _of(self, x: Tensor, i: int | None) -> Tensor:
        """Return the slice of a tensor for direction i, with an axis of size 1, or the whole tensor if i is None."""
        return x if i is None or self.directions == 1 else self.g.slice_axis(x, 0, i, 1)

    def _columns(self, operand: int, i: int | None) -> Tensor:
        """Return scales or zero points broadcast to (directions, 4 * hidden), one per column of the weights."""
        g, node, wide = self.g, self.node, 4 * self.hidden
        x = node.tensor(operand)
        if node.shape(x) not in ((self.directions,), (self.directions, 1), (self.directions, wide)):
            raise ShapeError(
                f"'{x.name}' must have shape ({self.directions},), ({self.directions}, 1), or "
                f"({self.directions}, {wide}), got {x.shape}"
            )
        x = node.cast(x, float32) if x.dtype.is_float else x
        x = self._of(g.reshape(x, (self.directions, -1)), i)
        return g.broadcast_to(x, [self.directions if i is None else 1, wide])

    def _zeros(self, operand: int, i: int | None) -> Tensor | None:
        """Return the zero points, or None if all of them are zero."""
        if not self.node.has(operand) or not any(self.node.known_ints(operand) or [1]):
            return None
        return self._columns(operand, i)
