"""Compare second derivatives of every case with a gradient check with central differences of the gradient."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
from harness.case import Case
from harness.derivatives import assert_gradients, loss_of, weighed_sum
from harness.differentiable import NOT_EMPTY, in_exact_types
from harness.running import run


@in_exact_types(NOT_EMPTY)
def test_second_derivatives_match_finite_differences(case: Case, dtype: str):
    built, loss, wanted, arrays = loss_of(case, dtype)
    first = built.graph.gradients(loss, wanted)
    of = weighed_sum(built.graph, [first[w] for w in wanted], seed=23)
    second = built.graph.gradients(of, wanted)
    assert_gradients(case, built, of, wanted, [second[w] for w in wanted], arrays)


def test_third_derivative_matches_formula():
    g = mg.Graph()
    x = g.placeholder((3,), mg.float64)
    y = g.tanh(x) * g.square(x)
    for _ in range(3):
        y = g.gradients(y, [x])[x]
    numbers = np.array([-0.3, 0.1, 0.8])
    t = np.tanh(numbers)
    d1, d2 = 1 - t**2, -2 * t * (1 - t**2)
    d3 = -2 * (1 - t**2) * (1 - 3 * t**2)
    wanted = d3 * numbers**2 + 3 * d2 * 2 * numbers + 3 * d1 * 2
    np.testing.assert_allclose(g.run({x: numbers}, y).numpy(), wanted, rtol=1e-10)


def test_second_derivative_through_if_matches_taken_branch():
    g = mg.Graph()
    p, x = g.placeholder((), mg.bool_), g.placeholder((2,), mg.float64)
    y = g.if_(p, lambda: x * x * x, lambda: g.sin(x))[0]
    second = g.gradients(g.gradients(y, [x])[x], [x])[x]
    numbers = np.array([0.5, 2.0])
    for taken, wanted in ((True, 6 * numbers), (False, -np.sin(numbers))):
        (found,) = run(g, [p, x], [np.array(taken), numbers], [second])
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


def test_gradient_penalty_matches_finite_differences():
    """Differentiate a loss that contains a gradient, as in WGAN-GP: d/dw of |df/dx|²."""
    g = mg.Graph()
    x, w = g.placeholder((2, 3), mg.float64), g.variable(np.array([[0.5], [-1.0], [2.0]]), mg.float64)
    f = g.reduction_sum(g.sigmoid(x @ w))
    penalty = g.reduction_sum(g.square(g.gradients(f, [x])[x]))
    d = g.gradients(penalty, [w])[w]
    numbers, weights = np.array([[1.0, 0.2, -0.3], [0.1, 0.4, 0.9]]), g.variable_value(w)

    def value(weights: np.ndarray) -> float:
        s = 1 / (1 + np.exp(-(numbers @ weights)))
        return float(np.square(s * (1 - s) @ weights.T).sum())

    steps = [np.eye(3)[:, i : i + 1] * 1e-6 for i in range(3)]
    differences = [[(value(weights + s) - value(weights - s)) / 2e-6] for s in steps]
    np.testing.assert_allclose(g.run({x: numbers}, d).numpy(), differences, rtol=1e-6)
