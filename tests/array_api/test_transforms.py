"""Test jit, grad, value_and_grad, vmap, stop_gradient, and custom_gradient against numpy and closed formulas."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpsgraph as mg
import mpsgraph.numpy as mnp
import numpy as np
import pytest

rng = np.random.default_rng(5)
X = rng.normal(size=(5, 3, 4)).astype(np.float32)
V = rng.normal(size=(5, 4)).astype(np.float32)
W = rng.normal(size=(4, 2)).astype(np.float32)


@dataclass
class Line:
    slope: Any
    offset: Any


Pair = namedtuple("Pair", ["one", "two"])


# --- jit --------------------------------------------------------------------------------------------------------------
def test_jit_traces_once_for_each_combination_of_types():
    calls = []

    @mg.jit
    def function(x, scale):
        calls.append(x.shape)
        return {"scaled": x * scale, "parts": (x.sum(), [x[0], "text"])}

    for n in (2, 3, 2):
        for scale in (2.0, 3.0):
            found = function(np.arange(n, dtype=np.float32), scale)
            assert found["scaled"].tolist() == (np.arange(n) * scale).tolist()
            assert found["parts"][0].item() == sum(range(n)) and found["parts"][1][1] == "text"
    assert calls == [(2,), (3,)]
    function(np.arange(2, dtype=np.int32), 2)
    assert len(calls) == 3


def test_jit_accepts_nested_structures_and_values_that_are_not_traced():
    @mg.jit
    def function(line: Line, pair: Pair, double: bool = False, name: str | None = None):
        assert isinstance(line, Line) and isinstance(pair, Pair) and isinstance(line.slope, mg.Tensor)
        y = line.slope * pair.one + line.offset
        return Line(y * 2 if double else y, pair), name

    line, name = function(Line(2.0, 1.0), Pair(3.0, np.float32([1, 2])), name="n")
    assert line.slope.item() == 7 and isinstance(line.offset, Pair) and line.offset.two.tolist() == [1, 2]
    assert name == "n" and function(Line(2.0, 1.0), Pair(3.0, 1.0), double=True)[0].slope.item() == 14


def test_jit_of_static_arguments_compiles_for_each_value():
    shaped = mg.jit(lambda x, n, m: mnp.reshape(x, (n, m)), static=(1, "m"))
    x = np.arange(6, dtype=np.float32)
    assert shaped(x, 2, m=3).shape == (2, 3) and shaped(x, 3, m=2).shape == (3, 2)
    assert len(shaped.programs) == 2


def test_static_arguments_are_passed_by_position_or_by_name():
    def powers(x: Any, n: int) -> Any:
        return sum(x**i for i in range(n))

    for static in ("n", ("n",), 1, -1, (1,)):
        compiled = mg.jit(powers, static=static)
        assert compiled(np.float32(2), 3).item() == compiled(np.float32(2), n=3).item() == 7
        assert compiled(np.float32(2), 4).item() == 15 and len(compiled.programs) == 3
    with pytest.raises(mg.GraphError, match="no argument 'm' for static: it has x, n"):
        mg.jit(powers, static="m")
    with pytest.raises(mg.GraphError, match="out of range for 2 arguments"):
        mg.jit(powers, static=2)
    with pytest.raises(mg.GraphError, match="must be hashable"):
        mg.jit(powers, static="n")(np.float32(2), [3])


def test_jit_of_results_that_do_not_depend_on_arguments_returns_new_arrays():
    compiled = mg.jit(lambda: {"a": mnp.ones(2) * 2, "b": np.arange(2.0), "c": 3, "d": None})
    first, second = compiled(), compiled()
    assert first["a"].tolist() == [2, 2] and first["b"].tolist() == [0, 1] and (first["c"], first["d"]) == (3, None)
    second["a"][0] = 5
    assert compiled()["a"].tolist() == [2, 2]
    assert mg.jit(lambda x: 3.0)(np.ones(2)) == 3.0


def test_arrays_of_other_libraries_are_traced():
    class Column:
        def __init__(self, values: list[float]):
            self.values = values

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.asarray(self.values, np.float32)

    compiled = mg.jit(lambda x: x * 2)
    assert compiled(Column([1, 2])).tolist() == [2, 4] and compiled(Column([3, 4])).tolist() == [6, 8]
    assert len(compiled.programs) == 1
    assert mg.grad(lambda x: (x["a"] ** 2).sum())({"a": Column([1, 2])})["a"].tolist() == [2, 4]
    assert mg.vmap(lambda x: x + 1)(Column([1, 2])).tolist() == [2, 3]


def test_structures_keep_subclasses_of_dict():
    values = defaultdict(list, a=np.float32([1, 2]))
    found = mg.grad(lambda p: (p["a"] ** 2).sum())(values)
    assert type(found) is defaultdict and found["b"] == [] and found["a"].tolist() == [2, 4]
    assert mg.jit(lambda p: p)(Counter("aab"))["a"].item() == 2


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x if x > 0 else -x, r"choose by values with mpsgraph\.numpy\.where"),
        (lambda x: float(x), "no value while a function is traced"),
        (lambda x: np.asarray(x), "use functions of mpsgraph.numpy"),
        (lambda x: np.sin(x), r"numpy\.sin cannot be applied.*use `mpsgraph\.numpy\.sin`"),
        (lambda x: np.arctan2(x, 1), r"`mpsgraph\.numpy\.atan2`"),
    ],
)
def test_uses_of_values_while_tracing_raise_with_remedy(function: Callable[[Any], Any], message: str):
    with pytest.raises(mg.DTypeError, match=message):
        mg.jit(function)(np.float32(1))
    assert mg.jit(lambda x: x + 1)(np.float32(1)).item() == 2


def test_traced_operators_promote_dtypes_like_those_of_arrays():
    function: Callable[..., Any] = lambda x, y: ((x + y) / 2, x // 2, x == y)  # noqa: E731
    x, y = np.int32([1, 2]), np.float32([0.5, 2])
    for found, expected in zip(mg.jit(function)(x, y), function(mnp.asarray(x), mnp.asarray(y)), strict=True):
        assert found.dtype == expected.dtype and found.tolist() == expected.tolist()


def test_jit_of_results_whose_shape_depends_on_values():
    found = mg.jit(lambda x: mnp.unique_values(x))(np.float32([3, 1, 3]))
    assert found.tolist() == [1, 3]


def test_jit_inside_jit_and_on_tensors_adds_to_the_graph():
    inner = mg.jit(lambda x: x * 2)
    assert mg.jit(lambda x: inner(x) + 1)(3.0).item() == 7
    g = mg.Graph()
    t = g.placeholder((2,))
    assert g.run({t: np.float32([1, 2])}, inner(t)).tolist() == [2, 4]


def test_jit_refuses_tensors_of_other_graphs():
    other = mg.Graph().constant(1.0)
    with pytest.raises(mg.GraphError, match="another graph"):
        mg.jit(lambda x: other)(1.0)
    with pytest.raises(mg.GraphError, match="another graph"):
        mg.jit(lambda x: mnp.add(x, other))(1.0)


# --- gradients --------------------------------------------------------------------------------------------------------
def test_gradients_nest_to_any_order():
    function, x = (lambda x: mnp.sin(x) * x), 1.3
    expected = [
        np.sin(x) + x * np.cos(x),
        2 * np.cos(x) - x * np.sin(x),
        -3 * np.sin(x) - x * np.cos(x),
        -4 * np.cos(x) + x * np.sin(x),
    ]
    for value in expected:
        function = mg.grad(function)
        assert function(np.float64(x)).item() == pytest.approx(value, rel=1e-12)


def test_gradients_of_structures_have_their_form():
    def loss(line: Line, x, y):
        return ((x * line.slope + line.offset - y) ** 2).mean()

    x = np.linspace(-1, 1, 16, dtype=np.float32)
    line = Line(0.0, 0.0)
    step = mg.value_and_grad(loss)
    for _ in range(100):
        value, gradient = step(line, x, 3 * x - 2)
        assert isinstance(gradient, Line)
        line = Line(line.slope - 0.5 * gradient.slope, line.offset - 0.5 * gradient.offset)
    assert value.item() < 1e-8 and float(line.slope) == pytest.approx(3, abs=1e-3)
    assert float(line.offset) == pytest.approx(-2, abs=1e-3)


def test_gradients_of_several_arguments_and_auxiliary_results():
    function = lambda x, y: ((x**2 * y).sum(), {"twice": 2 * y})  # noqa: E731
    x, y = np.float32([1, 2]), np.float32([3, 4])
    (value, auxiliary), (dx, dy) = mg.value_and_grad(function, (0, 1), has_aux=True)(x, y)
    assert value.item() == 19 and auxiliary["twice"].tolist() == [6, 8]
    assert dx.tolist() == [6, 16] and dy.tolist() == [1, 4]
    assert mg.grad(lambda x, y: (x * y).sum(), 1)(x, y).tolist() == [1, 2]


def test_gradients_use_only_the_named_argument():
    """The inner function also uses the outer variable, which must count as a constant."""
    outer = mg.grad(lambda w: mg.grad(lambda v: v * v * w)(w) * w)
    assert outer(2.0).item() == pytest.approx(3 * 2 * 2.0**2), "d/dw of 2 w w w"


def test_gradients_on_tensors_work_in_loops_of_updates():
    @mg.jit
    def train(w, x, y):
        for _ in range(3):
            w = w - 0.1 * mg.grad(lambda w: ((x * w - y) ** 2).sum())(w)
        return w

    w = 1.0
    for _ in range(3):
        w -= 0.1 * 2 * 2.0 * (2.0 * w - 5.0)
    assert train(1.0, 2.0, 5.0).item() == pytest.approx(w, rel=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mg.grad(lambda x: x * 2)(np.ones(2, np.float32)), mg.ShapeError, r"\.sum\(\)"),
        (lambda: mg.grad(lambda x: x * 2)(3), mg.DTypeError, "astype"),
        (lambda: mg.grad(lambda x: "text")(3.0), mg.GraphError, "rank 0"),
        (lambda: mg.grad(lambda x: x, 2)(3.0), mg.GraphError, "out of range"),
        (lambda: mg.grad(lambda x: x, has_aux=True)(3.0), mg.GraphError, "has_aux"),
        (lambda: mg.vmap(lambda x: x, None)(np.ones(3)), mg.GraphError, "batch axis"),
        (lambda: mg.vmap(lambda x, y: x)(np.ones(3), np.ones(2)), mg.ShapeError, r"\[2, 3\]"),
        (lambda: mg.vmap(lambda x: x, (0, 0))(np.ones(3)), mg.GraphError, "in_axes"),
        (lambda: mg.jit("text"), mg.GraphError, "must be a function"),
    ],
)
def test_invalid_arguments_raise(call: Callable[[], Any], error: type, message: str):
    with pytest.raises(error, match=message):
        call()


# --- stop_gradient and custom_gradient --------------------------------------------------------------------------------
def test_stop_gradient_keeps_values_and_blocks_gradients():
    assert mg.grad(lambda x: x * mg.stop_gradient(x))(3.0).item() == 3
    assert mg.grad(lambda x: x * x.detach() + mg.stop_gradient({"y": x})["y"])(3.0).item() == 3
    g = mg.Graph()
    x = g.placeholder((-1,))
    stopped = mg.stop_gradient(x * 2)
    values = np.float32([1, np.inf, np.nan])
    np.testing.assert_array_equal(g.run({x: values}, stopped), values * 2)
    assert g.run({x: values[:1]}, g.gradients(stopped * x, [x])[x]).tolist() == [2]
    assert mg.stop_gradient(g.constant([1, 2])).dtype == mg.int32


def test_custom_gradient_replaces_the_derivative():
    product = mg.custom_gradient(
        lambda a, b: (a * b, a + b), lambda incoming, a, b: (10 * incoming[0] + incoming[1], incoming[1] * b)
    )

    def function(a, b):
        u, v = product(a, b)
        return u * u + v

    da, db = mg.grad(function, (0, 1))(2.0, 3.0)
    assert da.item() == 10 * 2 * 6 + 1 and db.item() == 3
    assert [x.item() for x in product(2.0, 3.0)] == [6, 5], "arrays are accepted, too"


def test_custom_gradients_chain_and_differentiate_again():
    cube = mg.custom_gradient(lambda x: x**3, lambda incoming, x: 3 * incoming * x**2)
    assert mg.grad(lambda x: cube(cube(x)))(1.1).item() == pytest.approx(9 * 1.1**8, rel=1e-5)
    assert mg.grad(mg.grad(lambda x: cube(cube(x)) + x**2))(1.1).item() == pytest.approx(72 * 1.1**7 + 2, rel=1e-5)
    g = mg.Graph()
    x = g.placeholder((2,))
    y = cube(x) * x + cube(x * 2)
    first = g.gradients(y, [x])[x]
    value = np.float32([1, 2])
    np.testing.assert_allclose(g.run({x: value}, first), 4 * value**3 + 24 * value**2, rtol=1e-6)
    second = g.gradients(first, [x])[x]
    np.testing.assert_allclose(g.run({x: value}, second), 12 * value**2 + 48 * value, rtol=1e-6)


def test_custom_gradient_without_a_gradient_is_zero_or_an_error():
    g = mg.Graph()
    x = g.placeholder(())
    step = mg.custom_gradient(lambda x: mnp.floor(x), lambda incoming, x: None)
    assert g.run({x: np.float32(1.5)}, g.gradients(step(x), [x])[x]).item() == 0
    with pytest.raises(mg.GraphError, match="does not depend"):
        g.gradients(step(x), [x], unconnected="error")


def test_custom_gradient_errors():
    for backward, error, message in (
        (lambda incoming, x: (incoming, incoming), mg.GraphError, "each of the 1 operands, got 2"),
        (lambda incoming, x: 1.0, mg.GraphError, "tensors or None"),
        (lambda incoming, x: mnp.astype(incoming, mnp.float16), mg.DTypeError, "must be float32, got float16"),
    ):
        with pytest.raises(error, match=message):
            mg.grad(mg.custom_gradient(lambda x: x * 2, backward))(1.0)
    g = mg.Graph()
    x = g.placeholder(())
    same = mg.custom_gradient(lambda x: x * 1, lambda incoming, x: incoming)
    with pytest.raises(mg.GraphError, match="inside the block"):
        g.for_(2, initial=[x], body=lambda i, y: same(y))
    y = same(x)
    twin = copy.deepcopy(g)
    with pytest.raises(mg.GraphError, match="build the graph again"):
        twin.gradients(twin.find(y.name).outputs[0], twin.placeholders)


# --- vmap -------------------------------------------------------------------------------------------------------------
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "reduction and broadcasting": (lambda x: x.sum(axis=1, keepdims=True) * x, lambda x: x.sum(1, keepdims=True) * x),
    "constants": (lambda x: x + mnp.asarray([1.0, 2.0, 3.0, 4.0]), lambda x: x + np.float32([1, 2, 3, 4])),
    "transpose": (lambda x: x.T, lambda x: x.T),
    "indexing": (lambda x: x[1:, None, 0], lambda x: x[1:, None, 0]),
    "reshape": (lambda x: x.reshape(2, 6), lambda x: x.reshape(2, 6)),
    "sort": (lambda x: mnp.sort(x, axis=0), lambda x: np.sort(x, 0)),
    "concat and stack": (
        lambda x: mnp.stack([mnp.concat([x, x])] * 2),
        lambda x: np.stack([np.concatenate([x, x])] * 2),
    ),
    "take": (lambda x: mnp.take(x, mnp.asarray([2, 0]), axis=0), lambda x: x[[2, 0]]),
    "statistics": (lambda x: x.mean(axis=0) + x.std(axis=0), lambda x: x.mean(0) + x.std(0)),
    "running sums": (lambda x: mnp.cumulative_sum(x, axis=0), lambda x: np.cumsum(x, 0)),
    "inverse": (lambda x: mnp.linalg.inv(x[:3, :3]), lambda x: np.linalg.inv(x[:3, :3])),
    "loops": (lambda x: mnp.linalg.svdvals(x), lambda x: np.linalg.svd(x, compute_uv=False)),
    "roll and flip": (lambda x: mnp.flip(mnp.roll(x, 1), axis=1), lambda x: np.flip(np.roll(x, 1), 1)),
    "argmax": (lambda x: mnp.argmax(x, axis=1), lambda x: np.argmax(x, 1)),
    "no dependence": (lambda x: mnp.ones(3), lambda x: np.ones(3)),
    "matmul of examples": (lambda x: x @ x.T, lambda x: x @ x.T),
    "pad by concat of constants": (lambda x: mnp.concat([x, mnp.zeros((1, 4))]), lambda x: np.pad(x, ((0, 1), (0, 0)))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap_matches_a_loop_over_examples(name: str):
    function, plain = FUNCTIONS[name]
    expected = np.stack([plain(x) for x in X])
    np.testing.assert_allclose(mg.vmap(function)(X), expected, rtol=1e-4, atol=1e-5)
    turned = np.ascontiguousarray(np.moveaxis(X, 0, 1))
    found = mg.vmap(function, in_axes=1, out_axes=-1)(turned)
    np.testing.assert_allclose(found, np.moveaxis(expected, 0, -1), rtol=1e-4, atol=1e-5)


def test_vmap_of_shared_arguments_and_structures():
    found = mg.vmap(lambda p, x, *, scale: {"y": (x @ p["w"]) * scale}, (None, 0))({"w": W}, X, scale=np.arange(5.0))
    np.testing.assert_allclose(found["y"], (X @ W) * np.arange(5)[:, None, None], rtol=1e-5)
    outer = mg.vmap(lambda a: mg.vmap(lambda b: a * b)(V[0]))(V[1])
    np.testing.assert_allclose(outer, np.outer(V[1], V[0]), rtol=1e-6)


def test_vmap_and_gradients_compose():
    loss = lambda w, x: mnp.tanh(x @ w).sum()  # noqa: E731
    each = mg.vmap(mg.grad(loss), (None, 0))(W, X)
    slope = [x.T.astype(np.float64) @ (1 - np.tanh(x.astype(np.float64) @ W) ** 2) for x in X]
    np.testing.assert_allclose(each, slope, rtol=1e-4, atol=1e-5)
    total = mg.grad(lambda w: mg.vmap(lambda x: loss(w, x))(X).sum())(W)
    np.testing.assert_allclose(total, np.sum(slope, 0), rtol=1e-4, atol=1e-4)
    cubes = lambda x: (x**3).sum()  # noqa: E731
    hessian = mg.vmap(lambda v: mg.grad(lambda y: (mg.grad(cubes)(y) * v).sum())(V[0]))(mnp.eye(4))
    np.testing.assert_allclose(hessian, np.diag(6 * V[0]), rtol=1e-5, atol=1e-5)


def test_vmap_keeps_custom_gradients():
    square = mg.custom_gradient(lambda x: x**2, lambda incoming, x: incoming * 100)
    assert mg.grad(lambda x: mg.vmap(square)(x).sum())(V[0]).tolist() == [100] * 4
    assert mg.vmap(mg.grad(square))(V[0]).tolist() == [100] * 4
    scaled = mg.custom_gradient(lambda x, w: x * w, lambda incoming, x, w: (None, incoming * x * 10))
    slope = mg.grad(lambda w: mg.vmap(lambda x: scaled(x, w))(V[0]).sum())(2.0)
    assert slope.item() == pytest.approx(10 * V[0].sum(), rel=1e-5)


def test_vmap_of_loops_runs_each_example():
    def power(x):
        return x.graph.for_(3, initial=[x], body=lambda i, y: y * x)[0]

    np.testing.assert_allclose(mg.vmap(power)(V), V**4, rtol=1e-5)


def test_vmap_of_the_gradient_of_a_loop_raises_with_remedy():
    def cubed(x: Any) -> Any:
        return x.graph.for_(2, initial=[x], body=lambda i, c: [c * x])[0]

    x = np.float32([1, 2])
    with pytest.raises(mg.UnsupportedError, match="differentiate the sum of the mapped function"):
        mg.vmap(mg.grad(cubed))(x)
    assert mg.grad(lambda x: mg.vmap(cubed)(x).sum())(x).tolist() == [3, 12]
