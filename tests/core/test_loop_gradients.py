"""Derivatives of loops beside their values: variables, random numbers, what is kept for them and what is not.

Values against central differences are among the cases of control_flow.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from harness import device

pytestmark = pytest.mark.both_devices

DTYPE, PRECISION = ("float64", 1e-12) if device.has("float64") else ("float32", 2e-6)


def program_of(g: mg.Graph, feeds: dict, targets: list) -> str:
    """The program that runs, as text."""
    seen: dict[str, str] = {}
    g.compile(feeds, targets, options=mg.CompilationDescriptor(observe=seen.__setitem__))
    return seen["simplify"]


def test_variables_that_a_loop_reads_get_the_sum_over_its_iterations():
    g = mg.Graph()
    w = g.variable(np.array([[0.5, -0.25], [0.125, 0.75]]), DTYPE)
    x = g.placeholder((1, 2), DTYPE)
    (y,) = g.for_(3, initial=[x], body=lambda i, h: g.tanh(h @ w))
    d = g.gradients(y, [w])[w]
    value, numbers = g.variable_value(w).astype(np.float64), np.array([[1.0, -2.0]])

    def loss(weights: np.ndarray) -> float:
        h = numbers
        for _ in range(3):
            h = np.tanh(h @ weights)
        return float(h.sum())

    steps = [1e-6 * np.eye(4)[k].reshape(2, 2) for k in range(4)]
    wanted = [(loss(value + s) - loss(value - s)) / 2e-6 for s in steps]
    np.testing.assert_allclose(g.run({x: numbers.astype(DTYPE)}, d).numpy().ravel(), wanted, rtol=2e-6)


def test_weights_that_stay_are_read_again_and_not_kept():
    g = mg.Graph()
    w, x = g.variable(np.eye(8), mg.float32), g.placeholder((4, 8))
    (y,) = g.for_(5, initial=[x], body=lambda i, h: g.tanh(h @ (w * 2.0)))
    d = g.gradients(y, [w, x])
    kept = [line for line in program_of(g, {x: (4, 8)}, list(d.values())).splitlines() if "history_push" in line]
    assert kept and not [line for line in kept if "[8,8]" in line]


@pytest.mark.parametrize("where", ["in the loop", "before the derivative", "after the derivative"])
def test_assigned_variables_are_differentiated_as_they_were(where: str):
    """The derivative is that of the values that the forward pass saw, whatever is assigned since."""
    g = mg.Graph()
    v, x = g.variable(3.0), g.placeholder(())

    def body(i, h):
        product = h * v
        if where != "in the loop":
            return product
        return g.control_dependency([g.assign(v, v + 1.0)], lambda: g.identity(product))

    (y,) = g.for_(2, initial=[x], body=body)
    operations = [g.assign(v, g.constant(100.0))] if where == "before the derivative" else []
    d = g.gradients(y, [x, v])
    if where == "after the derivative":
        operations = [g.assign(v, g.constant(100.0))]
    found = g.run({x: np.float32(2.0)}, [y, d[x], d[v]], operations)
    first, second = (3.0, 4.0) if where == "in the loop" else (3.0, 3.0)
    assert [found[t].item() for t in (y, d[x], d[v])] == [2 * first * second, first * second, 2 * (first + second)]
    assert g.variable_value(v) == (5 if where == "in the loop" else 100)


def test_random_numbers_are_drawn_once():
    """The derivative has the masks of the forward pass, each iteration its own."""
    g = mg.Graph(seed=5)
    x = g.placeholder((1000,))
    state = g.constant(mg.random.philox_state(1))

    def body(i, h, state):
        values, following = g.dropout(h, 0.5, state=state)
        return values, following

    y, _ = g.for_(3, initial=[x, state], body=body)
    d = g.gradients(y, [x])[x]
    found = g.run({x: np.ones(1000, np.float32)}, [y, d])
    np.testing.assert_array_equal(found[y].numpy(), found[d].numpy())
    assert set(np.unique(found[y].numpy())) == {0.0, 8.0}


def test_a_hidden_state_advances_once_an_iteration_and_not_for_the_derivative():
    g = mg.Graph(seed=5)
    x = g.placeholder((500,))
    (y,) = g.for_(3, initial=[x], body=lambda i, h: g.dropout(h, 0.5))
    d = g.gradients(y, [x])[x]
    (state,) = g.variables
    before = g.variable_value(state)
    found = g.run({x: np.ones(500, np.float32)}, [y, d])
    np.testing.assert_array_equal(found[y].numpy(), found[d].numpy())
    assert g.variable_value(state)[1] - before[1] == 3 * 256 * 500


def test_nothing_is_kept_when_only_the_loop_runs():
    g = mg.Graph()
    x = g.placeholder((3,))
    (y,) = g.for_(4, initial=[x], body=lambda i, h: g.sin(h) * x)
    before = program_of(g, {x: (3,)}, [y])
    d = g.gradients(g.gradients(y, [x])[x], [x])[x]
    assert program_of(g, {x: (3,)}, [y]) == before
    assert "history_push" in program_of(g, {x: (3,)}, [y, d])


@pytest.mark.xfail(device.IS_METAL, raises=mg.UnsupportedError, strict=True, reason="nothing counts its iterations")
def test_any_number_of_iterations_with_one_program():
    g = mg.Graph()
    x, n = g.placeholder((2,), DTYPE), g.placeholder((), mg.int32)
    (y,) = g.for_(n, initial=[x], body=lambda i, h: h * 0.999 + g.sin(h) * 0.001)
    d = g.gradients(y, [x])[x]
    numbers = np.array([0.5, 2.0])
    for count in (0, 1, 5000, 3):
        h, wanted = numbers, np.ones(2)
        for _ in range(count):
            wanted = wanted * (0.999 + 0.001 * np.cos(h))
            h = h * 0.999 + np.sin(h) * 0.001
        np.testing.assert_allclose(g.run({x: numbers.astype(DTYPE), n: np.int32(count)}, d).numpy(), wanted, rtol=1e-9)
    assert g.cache.count == 1


def test_a_gradient_asked_for_twice_and_within_a_loop():
    """Two derivatives of one loop do not disturb each other, nor one that is used in every iteration of another."""
    g = mg.Graph()
    x = g.placeholder((2,), DTYPE)
    (y,) = g.for_(3, initial=[x], body=lambda i, h: h * h)
    first, again = g.gradients(y, [x])[x], g.gradients(y * y, [x])[x]
    (total,) = g.for_(2, initial=[x], body=lambda i, s: s + g.gradients(y * s, [x])[x])
    by_x = g.gradients(total, [x])[x]
    v = np.array([0.9, 1.1])
    found = g.run({x: v.astype(DTYPE)}, [first, again, total, by_x])
    np.testing.assert_allclose(found[first].numpy(), 8 * v**7, rtol=PRECISION)
    np.testing.assert_allclose(found[again].numpy(), 16 * v**15, rtol=PRECISION)
    a = 1 + 8 * v**7  # each round multiplies by it: d(y s)/dx = 8 x^7 s, s held
    s1 = v + 8 * v**7 * v
    np.testing.assert_allclose(found[total].numpy(), s1 + 8 * v**7 * s1, rtol=PRECISION)
    d_a = 56 * v**6
    np.testing.assert_allclose(found[by_x].numpy(), a * a + v * 2 * a * d_a, rtol=PRECISION)


def test_values_that_do_not_matter_are_not_differentiated():
    """Integers, and floats that nothing wanted reaches, go around beside the others."""
    g = mg.Graph()
    x = g.placeholder((), DTYPE)

    def body(i, h, clock, count):
        return h * clock, clock + 0.5, count + 1

    y, clock, count = g.for_(3, initial=[x, g.constant(1.0, dtype=DTYPE), g.constant(0)], body=body)
    d = g.gradients(y + clock * g.cast(count, DTYPE), [x])[x]
    assert g.run({x: np.array(4.0, DTYPE)}, d).item() == 1.0 * 1.5 * 2.0


def test_what_a_loop_keeps_is_no_tensor():
    g = mg.Graph()
    x = g.placeholder((2,))
    (y,) = g.for_(3, initial=[x], body=lambda i, h: g.sin(h))
    g.gradients(y, [x])
    kept = y.operation.outputs[1]
    with pytest.raises(mg.GraphError, match="keeps for its derivative"):
        g.sin(kept)
    with pytest.raises(mg.GraphError, match="keeps for its derivative"):
        g.run({x: np.ones(2, np.float32)}, kept)
    assert mg.parse(str(g)).verify() is None


@pytest.mark.parametrize("first", [True, False])
def test_a_shape_that_values_decide_between_a_loop_and_its_derivative(first: bool):
    """What a loop keeps lives as long as one program; the error says how to order the two."""
    g = mg.Graph()
    x = g.placeholder((2,))
    (y,) = g.for_(3, initial=[x], body=lambda i, h: g.sin(h) + x)
    before = g.gradients(y, [x])[x]
    size = g.reshape(g.cast(g.reduction_sum(y), "int32"), (1,))
    long = g.broadcast_to(g.constant(1.0), size)
    after = g.gradients(y, [x])[x]
    feeds = {x: np.array([0.5, 1.5], np.float32)}
    if first:
        found = g.run(feeds, [before, long])
        assert found[long].shape == (int(g.run(feeds, y).numpy().sum()),)
        return
    with pytest.raises(mg.UnsupportedError, match=r"\[for\].*build the derivative before that operation"):
        g.run(feeds, [long, after])
