"""Compare gradients of every operation with respect to every differentiable input with float64 central differences.

Dynamic shapes, broadcasting, float32 in the optimized engine, and operations without a gradient are also tested.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from harness.case import Case
from harness.case_selection import SEVERAL, with_shapes
from harness.derivatives import assert_gradients, has_slope, incoming, loss_of, weighed_sum
from harness.differentiable import CHECKED, NOT_EMPTY, in_exact_types
from harness.running import OPTIMISED, build, feeds, run


@in_exact_types(CHECKED)
def test_gradients_match_finite_differences(case: Case, dtype: str):
    built, loss, wanted, arrays = loss_of(case, dtype)
    gradients = built.graph.gradients(loss, wanted)
    for tensor, gradient in gradients.items():
        assert (gradient.shape, gradient.dtype) == (tensor.shape, tensor.dtype)
    assert_gradients(case, built, loss, wanted, [gradients[w] for w in wanted], arrays)


SHAPES = [[(2, 3), (3,), (2, 1)], [(), (2, 2), (1,)], [(2, 1, 2), (3, 1), (1, 1, 1)]]
BROADCAST = [c for c in SEVERAL if c in CHECKED]


@pytest.mark.parametrize("case", BROADCAST, ids=lambda case: case.id)
def test_gradients_sum_over_broadcast_axes(case: Case):
    for shapes in SHAPES:
        broadcast = with_shapes(case, shapes[: len(case.inputs)])
        built, loss, wanted, arrays = loss_of(broadcast)
        gradients = built.graph.gradients(loss, wanted)
        assert_gradients(broadcast, built, loss, wanted, [gradients[w] for w in wanted], arrays)


@pytest.mark.parametrize("case", [c for c in NOT_EMPTY if c.unranked and not c.late], ids=lambda case: case.id)
def test_gradients_with_dynamic_shapes_are_bitwise_equal(case: Case):
    """Results must not depend on whether sizes are known when the gradient is built or only at run time."""
    built, loss, wanted, arrays = loss_of(case)
    known = run(built.graph, built.placeholders, arrays, list(built.graph.gradients(loss, wanted).values()))
    late = build(case, case.exact_dtypes[0], [(-1,) * x.ndim for x in case.inputs])
    fed = [incoming(r.shape, str(r.dtype), 11 + k) for k, r in enumerate(r for r in built.results if has_slope(r))]
    starts = [late.graph.placeholder(x.shape, x.dtype) for x in fed]
    results = [r for r in late.results if has_slope(r)]
    total = {}
    for result, start in zip(results, starts, strict=True):
        by = late.graph.gradients(result, [late.placeholders[i] for i in case.float_inputs()], start=start)
        total = {t: total[t] + d if t in total else d for t, d in by.items()}
    found = run(late.graph, [*late.placeholders, *starts], [*arrays, *fed], list(total.values()))
    for a, b in zip(known, found, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-12, atol=1e-12)


SINGLE = {"float64": "float32", "complex128": "complex64"}


@pytest.mark.both_devices
@in_exact_types([c for c in NOT_EMPTY if all(SINGLE[d] in c.dtypes for d in c.exact_dtypes)])
def test_optimized_gradients_match_float64(case: Case, dtype: str):
    """Fused gradients in the given dtype are compared with float64."""
    built, loss, wanted, arrays = loss_of(case, dtype)
    exact = run(
        built.graph, built.placeholders, arrays, list(built.graph.gradients(loss, wanted).values()), device="cpu"
    )
    single = build(case, SINGLE[dtype])
    of = weighed_sum(single.graph, single.results, seed=11)
    gradients = single.graph.gradients(of, [single.placeholders[i] for i in case.float_inputs()])
    arrays = feeds(case.inputs, SINGLE[dtype])
    found = run(single.graph, single.placeholders, arrays, list(gradients.values()), OPTIMISED)
    for a, b in zip(exact, found, strict=True):
        tolerance = 4e-5 * max(1.0, np.abs(a.numpy()).max())
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=4e-5, atol=tolerance)


# --- ties, zeros, casts: cases in which finite differences do not apply -----------------------------------------------
def gradient_of(function, *inputs: np.ndarray, start: np.ndarray | None = None) -> list[np.ndarray]:
    g = mg.Graph()
    tensors = [g.placeholder(x.shape, x.dtype) for x in inputs]
    y = function(g, *tensors)
    start_tensor = None if start is None else g.constant(start)
    gradients = g.gradients(y, tensors, start=start_tensor)
    return [r.numpy() for r in run(g, tensors, inputs, [gradients[t] for t in tensors])]


@pytest.mark.parametrize("name", ["reduction_maximum", "reduction_minimum_propagate_nan"])
def test_tied_extrema_share_the_gradient(name: str):
    x = np.array([[1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0]])
    (d,) = gradient_of(lambda g, x: getattr(g, name)(x, axes=1), x, start=np.array([[4.0], [8.0]]))
    np.testing.assert_array_equal(d, [[1, 1, 1, 1], [2, 2, 2, 2]])


def test_equal_operands_of_maximum_share_the_gradient():
    dx, dy = gradient_of(lambda g, x, y: g.maximum(x, y), np.array([1.0, 3.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(dx, [0.5, 1, 0])
    np.testing.assert_array_equal(dy, [0.5, 0, 1])


def test_straight_through_passes_gradient_to_source():
    value, source = np.array([1.0, 5.0]), np.array([0.5, 4.5])
    dv, ds = gradient_of(lambda g, v, s: g.square(g.straight_through(v, s)), value, source)
    np.testing.assert_array_equal(dv, [0, 0])
    np.testing.assert_array_equal(ds, [2, 10])


def test_gradient_of_product_with_zeros_is_exact():
    x = np.array([[2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 3.0, 0.0]])
    (d,) = gradient_of(lambda g, x: g.reduction_product(x, axes=1), x)
    np.testing.assert_allclose(d, [[12, 8, 6], [0, 8, 0], [0, 0, 0]])


def test_gradient_of_power_at_zero_is_not_nan():
    dx, dy = gradient_of(lambda g, x, y: g.power(x, y), np.array([0.0, 0.0, 2.0, -2.0]), np.array([0.0, 2.0, 0.0, 3.0]))
    np.testing.assert_allclose(dx, [0, 0, 0, 12])
    np.testing.assert_allclose(dy[:3], [0, 0, np.log(2)])


def test_clamp_passes_gradient_at_its_bounds():
    dx, low, high = gradient_of(
        lambda g, x, low, high: g.clamp(x, low, high),
        np.array([-1.0, 0.0, 0.5, 1.0, 2.0]),
        np.array(0.0),
        np.array(1.0),
    )
    np.testing.assert_array_equal(dx, [0, 1, 1, 1, 0])
    assert (low, high) == (1, 1)


def test_tied_pooling_window_passes_gradient_to_first_maximum():
    x = np.full((1, 2, 2, 1), 5.0)
    (d,) = gradient_of(lambda g, x: g.max_pooling2d(x, 2), x)
    np.testing.assert_array_equal(d.reshape(2, 2), [[1, 0], [0, 0]])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_gradient_of_cast_is_cast_to_source_dtype(dtype: str):
    x = np.array([1.0, 2.0])
    (d,) = gradient_of(lambda g, x: g.cast(g.cast(x, dtype) * 3, "float64"), x)
    assert d.dtype == np.float64
    np.testing.assert_array_equal(d, [3, 3])


def test_gradient_of_cast_to_integer_is_zero():
    (d,) = gradient_of(lambda g, x: g.cast(g.cast(x, "int32"), "float64") * x, np.array([2.5, -1.5]))
    np.testing.assert_array_equal(d, [2, -1], err_msg="only the other factor has a gradient")


# --- traversal --------------------------------------------------------------------------------------------------------
def test_gradient_sums_over_all_uses_of_a_tensor():
    (d,) = gradient_of(lambda g, x: x * x + x - g.square(x) * x, np.array([1.0, 2.0]))
    np.testing.assert_allclose(d, [2 + 1 - 3, 4 + 1 - 12])


def test_gradient_of_tensor_with_respect_to_itself_is_one():
    (d,) = gradient_of(lambda g, x: x, np.array([7.0, 8.0]))
    np.testing.assert_array_equal(d, [1, 1])


def test_gradient_with_respect_to_intermediate_tensor_is_correct():
    g = mg.Graph()
    x = g.placeholder((2,), mg.float64)
    between = g.square(x)
    y = g.exponent(between)
    d = g.gradients(y, [between, x])
    (by_between, by_x) = run(g, [x], [np.array([0.5, 1.0])], [d[between], d[x]])
    np.testing.assert_allclose(by_between.numpy(), np.exp([0.25, 1.0]))
    np.testing.assert_allclose(by_x.numpy(), np.exp([0.25, 1.0]) * [1, 2])


def test_gradient_of_unconnected_tensor_is_zero_or_raises():
    g = mg.Graph()
    x, other = g.placeholder((2,), mg.float64), g.placeholder((-1, 3), mg.float64, name="other")
    y = g.square(x)
    zeros = g.gradients(y, [other])[other]
    result = g.run({x: np.ones(2), other: np.ones((4, 3))}, zeros)
    np.testing.assert_array_equal(result.numpy(), np.zeros((4, 3)))
    with pytest.raises(mg.GraphError, match="other"):
        g.gradients(y, [x, other], unconnected="error")
    with pytest.raises(mg.GraphError, match="unconnected"):
        g.gradients(y, [x], unconnected="maybe")


def test_integers_and_bools_stop_gradient_flow():
    g = mg.Graph()
    x = g.placeholder((3,), mg.float64)
    y = g.select(x < 0, x * 2, x) * g.cast(g.reduction_arg_maximum(x, 0), mg.float64)
    d = g.gradients(y, [x])[x]
    np.testing.assert_allclose(g.run({x: np.array([-1.0, 1.0, 5.0])}, d).numpy(), [4, 2, 2])


@pytest.mark.parametrize("taken", [True, False])
def test_gradient_through_if_reaches_only_the_taken_branch(taken: bool):
    """Tensors used in the taken branch get its gradient, and those of the other branch get zeros."""
    g = mg.Graph()
    p, x, y = g.placeholder((), mg.bool_), g.placeholder((2,), mg.float64), g.placeholder((2,), mg.float64)
    result = g.if_(p, lambda: g.square(x) * 3, lambda: g.sin(y))[0]
    d = g.gradients(result, [x, y])
    feeds = {p: np.array(taken), x: np.array([1.0, 2.0]), y: np.array([0.5, 0.0])}
    found = g.run(feeds, [d[x], d[y]])
    np.testing.assert_allclose(found[d[x]].numpy(), [6, 12] if taken else [0, 0])
    np.testing.assert_allclose(found[d[y]].numpy(), [0, 0] if taken else np.cos([0.5, 0.0]))


def test_gradient_through_if_reuses_random_numbers():
    """The backward pass must use the numbers that the branch drew, not new ones."""
    g = mg.Graph(seed=3)
    p, x = g.placeholder((), mg.bool_), g.placeholder((100,), mg.float32)
    y = g.if_(p, lambda: x * g.random_uniform((100,)), lambda: x)[0]
    d = g.gradients(y, [x])[x]
    ones = np.ones(100, np.float32)
    for _ in range(2):
        found = g.run({p: np.array(True), x: ones}, [y, d])
        np.testing.assert_array_equal(found[y].numpy(), found[d].numpy())
    assert len(np.unique(found[y].numpy())) > 50


def test_gradient_flows_through_control_dependency():
    g = mg.Graph()
    x, counter = g.placeholder((2,), mg.float64), g.variable(np.zeros(()), mg.float64)
    y = g.control_dependency([g.assign(counter, counter + 1)], lambda: g.square(x))
    d = g.gradients(y, [x])[x]
    np.testing.assert_allclose(g.run({x: np.array([1.0, 3.0])}, d).numpy(), [2, 6])


def test_variable_gradient_sums_over_reads():
    g = mg.Graph()
    v = g.variable(np.array([2.0, 3.0]), mg.float64)
    first = g.read(v)
    y = first * v + g.square(g.read(v))  # 2 v²
    d = g.gradients(y, [v])[v]
    assert d.shape == v.shape
    np.testing.assert_allclose(g.run({}, d).numpy(), [8, 12])


def test_variable_gradient_includes_reads_after_assign():
    """The gradient with respect to v includes both reads, each with the value that was read."""
    g = mg.Graph()
    v = g.variable(np.array([2.0]), mg.float64)
    before = g.read(v)
    assign = g.assign(v, g.constant([10.0], dtype=mg.float64))
    after = g.control_dependency([assign], lambda: g.read(v))
    d = g.gradients(before * after, [v])[v]
    np.testing.assert_allclose(g.run({}, d).numpy(), [12.0])  # after + before


def test_gradient_start_is_the_incoming_gradient():
    x = np.array([1.0, 2.0, 3.0])
    (d,) = gradient_of(lambda g, x: g.square(x), x, start=np.array([1.0, 10.0, 100.0]))
    np.testing.assert_allclose(d, [2, 40, 600])


def test_invalid_gradient_requests_raise():
    g = mg.Graph()
    x, n = g.placeholder((2,), mg.float32), g.placeholder((2,), mg.int32)
    with pytest.raises(mg.DTypeError, match="int32"):
        g.gradients(n, [x])
    with pytest.raises(mg.DTypeError, match="real_part"):
        g.gradients(g.placeholder((2,), mg.complex64), [x])
    with pytest.raises(mg.DTypeError, match="starting gradient"):
        g.gradients(x, [x], start=n)
    with pytest.raises(mg.ShapeError, match="starting gradient"):
        g.gradients(x, [x], start=g.constant(0.0, (3,)))
    with pytest.raises(mg.GraphError, match="another graph"):
        g.gradients(x, [mg.Graph().placeholder((2,))])
