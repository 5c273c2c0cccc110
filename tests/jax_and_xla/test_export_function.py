"""Test mpsgraph.jax.function: names, structures, state, execution order, loops, random numbers, and errors."""

import mpsgraph as mg
import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed: make test-jax")
jnp = jax.numpy


def counting() -> tuple[mg.Graph, mg.Tensor, mg.Tensor, mg.Operation]:
    g = mg.Graph()
    x, v = g.placeholder((-1,), name="x"), g.variable(np.float32([2]), name="v")
    return g, x, v, g.assign(v, v + 1.0)


def test_exported_function_takes_and_returns_state():
    g, x, v, add = counting()
    step = jax.jit(mg.jax.function(g, {"product": x * v}, [add]))
    state = {"v": np.float32([2])}
    for expected in (6.0, 8.0):  # The product is computed after the assignment.
        made, state = step(state, {"x": np.float32([2])})
        assert made["product"].tolist() == [expected]
    assert g.variable_value(v).tolist() == [2], "the variable of the graph must not change"


def test_variable_read_in_exported_function_sees_earlier_assigns():
    g = mg.Graph()
    v = g.variable(np.float32([1]), name="v")
    before = g.read(v)
    g_assign = g.assign(v, before * 10.0)
    after = g.control_dependency([g_assign], lambda: g.read(v))
    function = mg.jax.function(g, [before, after], [g_assign])
    (first, second), state = function(function.state(), {})
    assert (first.tolist(), second.tolist(), state["v"].tolist()) == ([1], [10], [10])


def test_storing_exported_state_updates_the_graph():
    g, x, v, add = counting()
    function = mg.jax.function(g, x * v, [add])
    _, state = function(function.state(), {"x": np.float32([1])})
    function.store(state)
    assert g.variable_value(v).tolist() == [3]
    with pytest.raises(mg.GraphError, match="missing"):
        function.store({})


def test_exported_model_accepts_dynamic_sizes():
    g = mg.Graph()
    x = g.placeholder((-1, 2), name="x")
    model = mg.Model(g, {"points": x}, {"sums": g.reduction_sum(x, axes=1)})
    function = mg.jax.function(model)
    for rows in (1, 3):
        made, _ = function({}, {"points": np.ones((rows, 2), np.float32)})
        assert made["sums"].shape == (rows, 1)


def test_jax_grad_of_exported_function_matches_graph_gradients():
    g = mg.Graph()
    x = g.placeholder((3,), name="x")
    loss = g.reshape(g.reduction_sum(g.tanh(x) * x), ())
    ours = g.gradients(loss, [x])[x]
    fed = {"x": np.float32([0.5, -1, 2])}
    function = mg.jax.function(g, loss)
    theirs = jax.grad(lambda feeds: function({}, feeds)[0])(fed)["x"]
    np.testing.assert_allclose(theirs, g.run({x: fed["x"]}, ours).numpy(), rtol=1e-6)


def test_mismatched_names_dtypes_and_arguments_raise():
    g, x, v, add = counting()
    function = mg.jax.function(g, x * v, [add])
    with pytest.raises(mg.GraphError, match=r"missing \['x'\]"):
        function(function.state(), {})
    with pytest.raises(mg.GraphError, match=r"unknown \['w'\]"):
        function({**function.state(), "w": 1}, {"x": np.float32([1])})
    with pytest.raises(mg.DTypeError, match="float64"):
        function(function.state(), {"x": np.zeros(1)})
    with pytest.raises(mg.GraphError, match="a Graph needs targets"):
        mg.jax.function(g)
    with pytest.raises(mg.GraphError, match="precision"):
        mg.jax.function(g, x, precision="low")
    with pytest.raises(mg.GraphError, match="must be a Graph"):
        mg.jax.function(3)


def test_64_bit_types_require_x64_mode():
    g = mg.Graph()
    x = g.placeholder((2,), mg.float64, name="x")
    function, fed = mg.jax.function(g, x * 2.0), {"x": np.array([1.0, 1e-9])}
    with pytest.raises(mg.DTypeError, match="64-bit types"):
        function({}, fed)
    with jax.enable_x64(True):
        assert function({}, fed)[0].dtype == np.float64


def test_error_lists_all_unsupported_operation_kinds(monkeypatch):
    from mpsgraph.jax.lax import _table

    g = mg.Graph()
    x = g.placeholder((2,), name="x")
    made = g.sin(x) + g.cos(x)
    for kind in ("sin", "cos"):
        monkeypatch.delitem(_table.lowers._entries, ("", kind))
    with pytest.raises(mg.UnsupportedError, match="2 kinds") as error:
        mg.jax.function(g, made)({}, {"x": np.float32([1, 2])})
    assert "  sin 'sin'" in str(error.value) and "  cos 'cos'" in str(error.value)


def test_export_error_lists_each_custom_operation():
    soft, hard = (mg.python_operation(f"own.{name}", lambda x: x) for name in ("softshrink", "hardshrink"))
    g = mg.Graph()
    x = g.placeholder((2,), name="x")
    made = soft(hard(soft(x, name="shrunk")), name="again")
    with pytest.raises(mg.UnsupportedError, match="2 kinds of operation cannot be expressed in jax.lax") as error:
        mg.jax.function(g, made)({}, {"x": np.float32([1, 2])})
    assert "  custom own.softshrink 'shrunk'" in str(error.value)
    assert "  custom own.hardshrink 'hardshrink'" in str(error.value)


def test_out_of_range_index_gives_nan_and_skips_updates():
    g = mg.Graph()
    x, i = g.variable(np.float32([1, 2, 3]), name="x"), g.placeholder((1,), mg.int32, name="i")
    y = g.gather(x, i, axis=0, out_of_range="error")
    update = g.assign(x, x * 2.0)
    function = jax.jit(mg.jax.function(g, y, [update]))
    state = {"x": np.float32([1, 2, 3])}
    inside, after = function(state, {"i": np.int32([2])})
    assert (inside.tolist(), after["x"].tolist()) == ([3], [2, 4, 6])
    outside, after = function(state, {"i": np.int32([3])})
    assert np.isnan(outside).all() and after["x"].tolist() == [1, 2, 3]


# --- loops and random numbers -----------------------------------------------------------------------------------------


def powers(g: mg.Graph, x: mg.Tensor, count: mg.Tensor) -> mg.Tensor:
    return g.for_(0, count, 1, [x], lambda i, y: [y * x])[0]


def test_gradient_of_dynamic_loop_needs_loop_limit():
    g = mg.Graph()
    x, count = g.placeholder((), name="x"), g.placeholder((), mg.int32, name="count")
    d = g.gradients(powers(g, x, count), [x])[x]
    fed = {"x": np.float32(2), "count": np.int32(3)}
    with jax.enable_x64(True):  # The core counts iterations in 64 bits.
        with pytest.raises(mg.UnsupportedError, match="loop_limit"):
            mg.jax.function(g, d)({}, fed)
        assert float(jax.jit(mg.jax.function(g, d, loop_limit=8))({}, fed)[0]) == 32  # 4 x³
        assert np.isnan(mg.jax.function(g, d, loop_limit=2)({}, fed)[0]), "a loop_limit that is too small must give NaN"


def test_assignments_within_loops_are_returned_as_state():
    g = mg.Graph()
    v = g.variable(np.float32(1), name="v")

    def body(i: mg.Tensor, y: mg.Tensor) -> list[mg.Tensor]:
        assign = g.assign(v, g.read(v) * 2.0)
        return [g.control_dependency([assign], lambda: y + g.read(v))]

    total = g.for_(3, initial=[g.constant(0.0)], body=body)[0]
    expected = g.run({}, total).item()
    function = mg.jax.function(g, total)
    made, state = jax.jit(function)({"v": np.float32(1)}, {})
    assert (float(made), float(state["v"])) == (expected, 8.0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "float64", "int64"])
def test_exported_uniform_random_numbers_are_bitwise_equal(dtype: str):
    g = mg.Graph()
    state = g.variable(_state(7), mg.int32)
    made = _random(g, (3, 37), state, distribution="uniform", dtype=dtype, min=-1.5, max=2.25, max_integer=1000)
    expected = g.run({}, list(made.outputs))
    with jax.enable_x64(True):
        found, _ = jax.jit(mg.jax.function(g, list(made.outputs)))(mg.jax.function(g, list(made.outputs)).state(), {})
    for value, tensor in zip(found, made.outputs, strict=True):
        assert np.asarray(value).tobytes() == expected[tensor].numpy().tobytes()


@pytest.mark.parametrize("distribution", ["normal", "truncated_normal"])
@pytest.mark.parametrize("method", ["box_muller", "inverse_cdf"])
def test_exported_normal_random_numbers_are_equal_up_to_rounding(distribution: str, method: str):
    g = mg.Graph()
    state = g.variable(_state(11), mg.int32)
    made = _random(g, (2000,), state, distribution=distribution, sampling_method=method)
    expected = g.run({}, list(made.outputs))
    function = mg.jax.function(g, list(made.outputs))
    (values, after), _ = jax.jit(function)(function.state(), {})
    np.testing.assert_allclose(values, expected[made.outputs[0]].numpy(), rtol=2e-5, atol=2e-6)
    assert np.asarray(after).tobytes() == expected[made.outputs[1]].numpy().tobytes()


def _state(seed: int) -> np.ndarray:
    # The counter is about to carry into its next words.
    return np.array([1, 2**31 - 5, -1, 3, 4, seed, 99], np.int32)


def _random(g: mg.Graph, shape: tuple[int, ...], state: mg.Tensor, **attributes: object) -> mg.Operation:
    return g.create("random", [g.constant(np.array(shape, np.int32)), g.read(state)], attributes)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64])
def test_scatter_division_with_overflowing_divisor_product_is_exact(dtype):
    large = int(np.sqrt(float(np.iinfo(dtype).max))) * 3
    updates = np.array([large, large, 0, 5, 3, 2], dtype)
    g = mg.Graph()
    x = g.placeholder((4,), np.dtype(dtype).name, name="x")
    places = g.constant(np.int32([0, 0, 1, 1, 2, 2]))
    y = g.scatter(g.constant(updates), places, 0, "div", data=x)
    fed = np.array([np.iinfo(dtype).max, 100, 100, 7], dtype)
    assert g.run({x: fed}, y).numpy().tolist() == [0, 0, 16, 7]
    with jax.enable_x64(True):
        function = mg.jax.function(g, {"y": y})
        assert function(function.state(), {"x": fed})[0]["y"].tolist() == [0, 0, 16, 7]
