"""Unrolled translation of recurrent layers with ONNX features that MPSGraph's recurrent operations lack.

Everything independent of the state is computed for all time steps at once. Each step consists of ordinary graph
operations, so gradients of any order work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..._core import Tensor, int32
from ...errors import GraphError, ShapeError, UnsupportedError
from ...interchange import activations as formulas
from ..building.node import Node, Results
from .reductions import reversed_along

Activation = Callable[[Tensor], Tensor]
MOST_STEPS = 4096
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_ALPHA = {"affine": 1.0, "leakyrelu": 0.01, "thresholdedrelu": 1.0, "scaledtanh": 1.0, "hardsigmoid": 0.2, "elu": 1.0}
_BETA = {"affine": 0.0, "scaledtanh": 1.0, "hardsigmoid": 0.5}


def _activation(node: Node, name: str, alpha: float, beta: float) -> Activation:
    g = node.g
    table: dict[str, Activation] = {
        "relu": g.relu,
        "tanh": g.tanh,
        "sigmoid": g.sigmoid,
        "affine": lambda x: formulas.linear(g, x, alpha, beta),
        "leakyrelu": lambda x: g.leaky_relu(x, alpha),
        "thresholdedrelu": lambda x: g.select(g.greater_than_or_equal_to(x, alpha), x, 0.0),
        "scaledtanh": lambda x: formulas.scaled_tanh(g, x, alpha, beta),
        "hardsigmoid": lambda x: formulas.hard_sigmoid(g, x, alpha, beta),
        "elu": lambda x: formulas.elu(g, x, alpha),
        "softsign": lambda x: formulas.softsign(g, x),
        "softplus": lambda x: formulas.softplus(g, x),
    }
    if name not in table:
        raise UnsupportedError(f"activation must be one of {', '.join(table)}, got {name}")
    return table[name]


def _activations(node: Node, directions: int) -> list[list[Activation]]:
    """Return the activation functions of each direction.

    Activations with parameters take them from activation_alpha and activation_beta in order.
    """
    names = [n.lower() for n in node.attribute("activations", DEFAULTS[node.name] * directions)]
    if len(names) != len(DEFAULTS[node.name]) * directions:
        raise GraphError(
            f"activations must list {len(DEFAULTS[node.name])} functions per direction for {directions} directions, "
            f"got {len(names)}"
        )
    alphas: list[float] = list(node.attribute("activation_alpha", []))
    betas: list[float] = list(node.attribute("activation_beta", []))
    made = []
    for name in names:
        alpha = alphas.pop(0) if name in _ALPHA and alphas else _ALPHA.get(name, 0.0)
        beta = betas.pop(0) if name in _BETA and betas else _BETA.get(name, 0.0)
        made.append(_activation(node, name, alpha, beta))
    count = len(DEFAULTS[node.name])
    return [made[i * count : (i + 1) * count] for i in range(directions)]


def require_known_weights(node: Node) -> None:
    """Raise DataDependent if the shape of a weight, bias, or peephole is unknown."""
    for i in (1, 2, 3, 7):
        if node.has(i):
            node.shape(node.tensor(i))


@dataclass
class Layer:
    """The parameters of one direction of a recurrent layer. The first axis of the weights contains the gates."""

    functions: list[Activation]
    weights: Tensor
    recurrent: Tensor
    bias: Tensor | None
    recurrent_bias: Tensor | None
    states: list[Tensor]
    peephole: list[Tensor]


class Recurrence:
    """A recurrent node with its operands converted to one convention for all operators, with time as the first axis."""

    def __init__(self, node: Node, gates: int, states: int) -> None:
        self.node, self.g = node, node.g
        g, self.hidden = node.g, node.attribute("hidden_size", 0) or node.size(node.tensor(2), -1)
        self.batch_first = bool(node.attribute("layout", 0))
        require_known_weights(node)
        x = node.tensor(0)
        self.x = g.swap_axes(x, 0, 1) if self.batch_first else x
        self.steps, self.batch = node.size(self.x, 0), node.dim(self.x, 1)
        if self.steps > MOST_STEPS:
            raise UnsupportedError(
                f"{node.name} with these attributes is unrolled and supports at most {MOST_STEPS} time steps, "
                f"got {self.steps}"
            )
        self.direction = node.attribute("direction", "forward")
        self.directions = 2 if self.direction == "bidirectional" else 1
        self.gates, self.clip = gates, node.attribute("clip", 0.0)
        self.lengths = node.cast(node.tensor(4), int32) if node.has(4) else None
        if node.size(node.tensor(1), 1) != gates * self.hidden or node.size(node.tensor(1), 0) != self.directions:
            raise ShapeError(
                f"weights of a {self.direction} layer must have sizes {self.directions} (directions) and "
                f"{gates} x {self.hidden} (gates), got shape {node.tensor(1).shape}"
            )
        functions = _activations(node, self.directions)
        self.layers = [self._layer(i, functions[i], states) for i in range(self.directions)]

    def _layer(self, i: int, functions: list[Activation], states: int) -> Layer:
        node, g = self.node, self.g

        def part(operand: int) -> Tensor:
            return g.squeeze(g.slice_axis(node.tensor(operand), 0, i, 1), [0])

        biases: Sequence[Tensor | None] = (None, None)
        if node.has(3):
            biases = g.split(part(3), 2, 0)
        zero = g.broadcast_to(g.constant(0, dtype=self.x.dtype), node.joined([self.batch, self.hidden]))
        first = []
        for operand in range(5, 5 + states):
            if not node.has(operand):
                first.append(zero)
            elif self.batch_first:
                first.append(g.squeeze(g.slice_axis(node.tensor(operand), 1, i, 1), [1]))
            else:
                first.append(part(operand))
        peephole = g.split(part(7), 3, 0) if node.name == "LSTM" and node.has(7) else []
        return Layer(functions, part(1), part(2), biases[0], biases[1], first, list(peephole))

    def limited(self, x: Tensor) -> Tensor:
        """Limit the argument of an activation to the range that the node's clip attribute specifies, if it has one."""
        return self.g.clamp(x, -self.clip, self.clip) if self.clip else x

    def times(self, x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
        """Return x times the transposed weights plus the bias, if there is one."""
        g = self.g
        y = g.matrix_multiplication(x, g.transpose(weights, [1, 0]))
        return y if bias is None else g.addition(y, bias)

    def run(self, step: Callable[[Layer, Tensor, list[Tensor]], list[Tensor]]) -> list[Tensor | None]:
        """Build all time steps of the layer with the function `step`.

        Returns the outputs of the node: the states of each step, then the final states.
        """
        g = self.g
        outputs, last = [], []
        for i, layer in enumerate(self.layers):
            backwards = self.direction == "reverse" or i == 1
            ys, states = self._run_layer(layer, backwards, step)
            outputs.append(ys)
            last.append(states)
        y = g.stack(outputs, 1)  # Shape (steps, directions, batch, hidden).
        finals = [g.stack([states[k] for states in last], 0) for k in range(len(last[0]))]
        if self.batch_first:
            y = g.transpose(y, [2, 0, 1, 3])
            finals = [g.swap_axes(final, 0, 1) for final in finals]
        return [y, *finals]

    def _run_layer(
        self, layer: Layer, backwards: bool, step: Callable[..., list[Tensor]]
    ) -> tuple[Tensor, list[Tensor]]:
        g = self.g
        x = turned(self.node, self.x, self.lengths) if backwards else self.x
        gates = g.split(self.times(x, layer.weights, layer.bias), [1] * self.steps, 0)
        states, ys = layer.states, []
        for t, gate in enumerate(gates):
            new = step(layer, g.squeeze(gate, [0]), states)
            y = new[0]
            if self.lengths is not None:  # Past the end of a batch entry, the state is kept and the output is zero.
                going = g.expand_dims(g.greater_than(self.lengths, t), 1)
                new = [g.select(going, a, b) for a, b in zip(new, states, strict=True)]
                y = g.select(going, y, 0.0)
            states = new
            ys.append(y)
        stacked = g.stack(ys, 0)
        return (turned(self.node, stacked, self.lengths) if backwards else stacked), states


def turned(node: Node, x: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse the time steps of each batch entry, leaving the steps past the entry's end in place."""
    if lengths is None:
        return reversed_along(node, x, [0])
    g = node.g
    time, lengths = g.expand_dims(steps_of(node, x), 0), g.expand_dims(lengths, 1)
    index = g.select(g.less_than(time, lengths), g.subtraction(g.subtraction(lengths, 1), time), time)
    return g.swap_axes(g.gather(g.swap_axes(x, 0, 1), index, 1, 1), 0, 1)


def steps_of(node: Node, x: Tensor) -> Tensor:
    """Return the indices of the time steps of x."""
    count = node.dim(x, 0)
    return node.g.coordinate_along_axis(0, [count] if isinstance(count, int) else count)


def rnn(node: Node) -> Results:
    layers = Recurrence(node, 1, 1)

    def step(layer: Layer, gate: Tensor, states: list[Tensor]) -> list[Tensor]:
        state = layers.times(states[0], layer.recurrent, layer.recurrent_bias)
        return [layer.functions[0](layers.limited(node.g.addition(gate, state)))]

    return layers.run(step)


def gru(node: Node) -> Results:
    """Build an unrolled GRU with update gate z and reset gate r.

    The reset gate multiplies the state before the recurrent matmul or, with linear_before_reset, the product after it.
    """
    g, layers = node.g, Recurrence(node, 3, 1)
    after = bool(node.attribute("linear_before_reset", 0))
    hidden = layers.hidden

    def step(layer: Layer, gate: Tensor, states: list[Tensor]) -> list[Tensor]:
        f, candidate = layer.functions
        (h,) = states
        ours = g.split(gate, 3, 1)
        both = layer.recurrent if after else g.slice_axis(layer.recurrent, 0, 0, 2 * hidden)
        bias, last_bias = layer.recurrent_bias, None
        if bias is not None and not after:
            bias, last_bias = g.slice_axis(bias, 0, 0, 2 * hidden), g.slice_axis(bias, 0, 2 * hidden, hidden)
        theirs = g.split(layers.times(h, both, bias), 3 if after else 2, 1)
        z = f(layers.limited(g.addition(ours[0], theirs[0])))
        r = f(layers.limited(g.addition(ours[1], theirs[1])))
        if after:
            seen = g.multiplication(r, theirs[2])
        else:
            last = g.slice_axis(layer.recurrent, 0, 2 * hidden, hidden)
            seen = layers.times(g.multiplication(r, h), last, last_bias)
        new = candidate(layers.limited(g.addition(ours[2], seen)))
        return [g.addition(g.multiplication(g.subtraction(1.0, z), new), g.multiplication(z, h))]

    return layers.run(step)


def lstm(node: Node) -> Results:
    g, layers = node.g, Recurrence(node, 4, 2)
    coupled = bool(node.attribute("input_forget", 0))

    def step(layer: Layer, gate: Tensor, states: list[Tensor]) -> list[Tensor]:
        f, candidate, squash = layer.functions
        h, c = states
        gates = g.addition(gate, layers.times(h, layer.recurrent, layer.recurrent_bias))
        i, o, forget, cell = g.split(gates, 4, 1)
        if layer.peephole:
            i = g.addition(i, g.multiplication(layer.peephole[0], c))
            forget = g.addition(forget, g.multiplication(layer.peephole[2], c))
        i = f(layers.limited(i))
        forget = g.subtraction(1.0, i) if coupled else f(layers.limited(forget))
        c = g.addition(g.multiplication(forget, c), g.multiplication(i, candidate(layers.limited(cell))))
        if layer.peephole:
            o = g.addition(o, g.multiplication(layer.peephole[1], c))
        return [g.multiplication(f(layers.limited(o)), squash(c)), c]

    return layers.run(step)
