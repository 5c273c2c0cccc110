"""Translations of ai.onnx.preview.training: one optimizer step over several tensors."""

from __future__ import annotations

from collections.abc import Sequence

from ..._core import Tensor, float32
from ...errors import GraphError
from ..building.node import TRAINING, Node, Results, operator


def _groups(node: Node, kinds: int) -> list[list[Tensor]]:
    """Group the operands that follow the learning rate and step count by kind: all values, all gradients, then each
    state.
    """
    tensors = node.tensors()[2:]
    if len(tensors) % kinds:
        raise GraphError(
            f"after the learning rate and the step count, the number of operands must be a multiple of {kinds}, "
            f"got {len(tensors)}"
        )
    count = len(tensors) // kinds
    return [tensors[i * count : (i + 1) * count] for i in range(kinds)]


def _by_kind(results: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    return [tensor for kind in zip(*results, strict=True) for tensor in kind]


@operator("Adagrad", upto=1, domain=TRAINING)
def adagrad(node: Node) -> Results:
    g, count = node.g, node.tensor(1)
    decayed = g.addition(g.multiplication(node.cast(count, float32), node.attribute("decay_factor", 0.0)), 1.0)
    rate = g.division(node.tensor(0), decayed)
    results = []
    for x, gradient, squares in zip(*_groups(node, 3), strict=True):
        step = g.addition(g.multiplication(x, node.attribute("norm_coefficient", 0.0)), gradient)
        squares = g.addition(squares, g.square(step))
        root = g.addition(g.square_root(squares), node.attribute("epsilon", 1e-6))
        results.append([g.subtraction(x, g.division(g.multiplication(step, rate), root)), squares])
    return _by_kind(results)


@operator("Momentum", upto=1, domain=TRAINING)
def momentum(node: Node) -> Results:
    g, rate, count = node.g, node.tensor(0), node.tensor(1)
    alpha, beta = node.attribute("alpha"), node.attribute("beta")
    first = g.equal(count, 0)
    if node.attribute("mode") not in ("nesterov", "standard"):
        raise GraphError(f"mode must be nesterov or standard, got {node.attribute('mode')!r}")
    share = g.select(first, 1.0, g.constant(float(beta)))  # In the first step, the gradient is not multiplied by beta.
    results = []
    for x, gradient, velocity in zip(*_groups(node, 3), strict=True):
        step = g.addition(g.multiplication(x, node.attribute("norm_coefficient")), gradient)
        new = g.addition(g.multiplication(velocity, float(alpha)), g.multiplication(step, share))
        if node.attribute("mode") == "nesterov":
            step = g.addition(step, g.multiplication(new, float(alpha)))
        else:
            step = new
        results.append([g.subtraction(x, g.multiplication(step, rate)), new])
    return _by_kind(results)


@operator("Adam", upto=1, domain=TRAINING)
def adam(node: Node) -> Results:
    g, rate, count = node.g, node.tensor(0), node.cast(node.tensor(1), float32)
    alpha, beta = node.attribute("alpha", 0.9), node.attribute("beta", 0.999)

    def left(decay: float) -> Tensor:
        return g.subtraction(1.0, g.power(g.constant(float(decay)), count))

    corrected = g.division(g.multiplication(rate, g.square_root(left(beta))), left(alpha))
    rate = g.select(g.greater_than(count, 0.0), corrected, rate)
    results = []
    for x, gradient, mean, squares in zip(*_groups(node, 4), strict=True):
        step = g.addition(g.multiplication(x, node.attribute("norm_coefficient", 0.0)), gradient)
        mean = g.addition(g.multiplication(mean, float(alpha)), g.multiplication(step, 1.0 - alpha))
        squares = g.addition(g.multiplication(squares, float(beta)), g.multiplication(g.square(step), 1.0 - beta))
        root = g.addition(g.square_root(squares), node.attribute("epsilon", 0.0))
        x = g.subtraction(x, g.division(g.multiplication(mean, rate), root))
        results.append([g.multiplication(x, 1.0 - node.attribute("norm_coefficient_post", 0.0)), mean, squares])
    return _by_kind(results)
