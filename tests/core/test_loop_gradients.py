"""Test derivatives of loops: variables, random numbers, and which intermediate values are saved.

The values themselves are compared with central differences in the control_flow cases.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from harness import device

pytestmark = pytest.mark.both_devices

DTYPE, PRECISION = ("float64", 1e-12) if device.has("float64") else ("float32", 2e-6)


def program_of(g: mg.Graph, feeds: dict, targets: list) -> str:
    """Return the text of the compiled program."""
    seen: dict[str, str] = {}
    g.compile(feeds, targets, options=mg.CompilationDescriptor(observe=seen.__setitem__))
    return seen["simplify"]


def test_gradient_of_variable_read_in_loop_sums_over_iterations():
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


def test_loop_gradient_does_not_save_loop_invariant_weights():
    g = mg.Graph()
    w, x = g.variable(np.eye(8), mg.float32), g.placeholder((4, 8))
    (y,) = g.for_(5, initial=[x], body=lambda i, h: g.tanh(h @ (w * 2.0)))
    d = g.gradients(y, [w, x])
    kept = [line for line in program_of(g, {x: (4, 8)}, list(d.values())).splitlines() if "history_push" in line]
    assert kept and not [line for line in kept if "[8,8]" in line]


@pytest.mark.parametrize("where", ["in the loop", "before the derivative", "after the derivative"])
def test_loop_gradient_uses_variable_values_of_forward_pass(where: str):
    """The derivative must use the values that the forward pass read, even if the variable is assigned afterwards."""
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


def test_loop_gradient_reuses_random_numbers_of_forward_pass():
    """The derivative must reuse the masks of the forward pass, which differ between iterations."""
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


def test_hidden_random_state_advances_once_per_iteration():
    g = mg.Graph(seed=5)
    x = g.placeholder((500,))
    (y,) = g.for_(3, initial=[x], body=lambda i, h: g.dropout(h, 0.5))
    d = g.gradients(y, [x])[x]
    (state,) = g.variables
    before = g.variable_value(state)
    found = g.run({x: np.ones(500, np.float32)}, [y, d])
    np.testing.assert_array_equal(found[y].numpy(), found[d].numpy())
    assert g.variable_value(state)[1] - before[1] == 3 * 256 * 500


def test_loop_without_requested_gradient_saves_no_values():
    g = mg.Graph()
    x = g.placeholder((3,))
    (y,) = g.for_(4, initial=[x], body=lambda i, h: g.sin(h) * x)
    before = program_of(g, {x: (3,)}, [y])
    d = g.gradients(g.gradients(y, [x])[x], [x])[x]
    assert program_of(g, {x: (3,)}, [y]) == before
    assert "history_push" in program_of(g, {x: (3,)}, [y, d])


@pytest.mark.xfail(
    device.IS_METAL,
    raises=mg.UnsupportedError,
    strict=True,
    reason="the number of iterations is unknown on device metal",
)
def test_compiled_loop_gradient_accepts_any_iteration_count():
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


def test_repeated_and_nested_loop_gradients_are_independent():
    """Two derivatives of one loop must be independent, even if one of them is computed inside another loop."""
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
    a = 1 + 8 * v**7  # every iteration multiplies by a: d(y s)/dx = 8 x^7 s with s constant
    s1 = v + 8 * v**7 * v
    np.testing.assert_allclose(found[total].numpy(), s1 + 8 * v**7 * s1, rtol=PRECISION)
    d_a = 56 * v**6
    np.testing.assert_allclose(found[by_x].numpy(), a * a + v * 2 * a * d_a, rtol=PRECISION)


def test_loop_variables_independent_of_input_are_not_differentiated():
    """Some loop variables do not depend on x: an integer and a float, next to a variable that does."""
    g = mg.Graph()
    x = g.placeholder((), DTYPE)

    def body(i, h, clock, count):
        return h * clock, clock + 0.5, count + 1

    y, clock, count = g.for_(3, initial=[x, g.constant(1.0, dtype=DTYPE), g.constant(0)], body=body)
    d = g.gradients(y + clock * g.cast(count, DTYPE), [x])[x]
    assert g.run({x: np.array(4.0, DTYPE)}, d).item() == 1.0 * 1.5 * 2.0


def test_saved_loop_values_cannot_be_used_as_tensors():
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
def test_loop_gradient_after_value_dependent_shape_raises(first: bool):
    """Values saved by a loop live only within one program; the error must explain how to order the two operations."""
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
