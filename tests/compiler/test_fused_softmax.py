"""Test fused softmax: gradients reuse its result, and cross-entropy by class index skips one-hot labels."""

import mpsgraph as mg
import numpy as np
import pytest

PLAIN = mg.CompilationDescriptor(disabled_passes=("fuse",))


def kinds(g, feeds, targets):
    seen = {}
    g.compile(
        {p: v.shape for p, v in feeds.items()}, targets, options=mg.CompilationDescriptor(observe=seen.__setitem__)
    )
    return seen["fuse"]


def beside_plain(g, feeds, targets, tolerance=2e-6):
    """Return the results with the pass, after comparing them with those without it."""
    found, wanted = (
        g.compile({p: v.shape for p, v in feeds.items()}, targets, options=options).run(list(feeds.values()))
        for options in (None, PLAIN)
    )
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=tolerance)
    return [a.numpy() for a in found]


@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("shape", [(5, 7, 33), (300, 3, 2), (2, 1, 5000)])
def test_softmax_gradient_reuses_forward_result(shape, axis):
    g, rng = mg.Graph(), np.random.default_rng(0)
    x, start = g.placeholder(shape), g.placeholder(shape)
    y = g.softmax(x, axis)
    targets = [y, g.gradients(y, [x], start=start)[x]]
    feeds = {p: rng.standard_normal(shape).astype(np.float32) * 3 for p in (x, start)}
    text = kinds(g, feeds, targets)
    assert "softmax_gradient_of_result(" in text and "= softmax_gradient(" not in text
    beside_plain(g, feeds, targets)


def test_softmax_gradient_does_not_reuse_result_of_a_different_axis():
    g = mg.Graph()
    x, start = g.placeholder((4, 6)), g.placeholder((4, 6))
    other = g.gradients(g.softmax(x, 0), [x], start=start)[x]  # the softmax over axis 0 itself is not a target
    feeds = {p: np.ones((4, 6), np.float32) for p in (x, start)}
    assert "= softmax_gradient(" in kinds(g, feeds, [g.softmax(x, 1), other])
    _, found = beside_plain(g, feeds, [g.softmax(x, 1), other])
    np.testing.assert_allclose(found, np.zeros((4, 6)), atol=1e-6)  # the incoming gradient is constant


def losses(g, x, numbers, axis, reduction, **labels):
    depth = x.shape[axis]
    loss = g.softmax_cross_entropy(x, g.one_hot(numbers, depth, axis=axis, **labels), axis=axis, reduction=reduction)
    return [loss, g.gradients(loss * 3.0, [x])[x]]


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize(("shape", "axis"), [((6, 20), -1), ((300, 5), 1), ((3, 9, 4), 1), ((2, 6000), 1)])
def test_cross_entropy_does_not_materialize_one_hot_labels(shape, axis, reduction, dtype):
    g, rng = mg.Graph(), np.random.default_rng(1)
    x = g.placeholder(shape)
    fewer = [n for i, n in enumerate(shape) if i != axis % len(shape)]
    numbers = g.placeholder(fewer, getattr(mg, dtype))
    targets = losses(g, x, numbers, axis, reduction)
    feeds = {
        x: rng.standard_normal(shape).astype(np.float32) * 4,
        numbers: rng.integers(0, min(shape[axis], 250), fewer).astype(dtype),
    }
    text = kinds(g, feeds, targets)
    assert "class_cross_entropy(" in text and "class_cross_entropy_gradient(" in text and "one_hot" not in text
    found = beside_plain(g, feeds, targets)
    exact = feeds[x].astype(np.float64)
    logarithm = exact - np.log(np.exp(exact).sum(axis, keepdims=True))
    taken = -np.take_along_axis(logarithm, np.expand_dims(feeds[numbers].astype(np.int64), axis), axis)
    wanted = {"none": taken, "sum": taken.sum(), "mean": taken.mean()}[reduction]
    np.testing.assert_allclose(found[0], wanted, rtol=1e-5, atol=1e-6)


def test_fused_cross_entropy_ignores_out_of_range_class_index():
    g = mg.Graph()
    x, numbers = g.placeholder((3, 4)), g.placeholder((3,), mg.int32)
    targets = losses(g, x, numbers, -1, "none")
    feeds = {x: np.arange(12, dtype=np.float32).reshape(3, 4), numbers: np.array([-1, 2, 4], np.int32)}
    loss, gradient = beside_plain(g, feeds, targets)
    assert loss[0] == loss[2] == 0 and loss[1] > 0 and not gradient[[0, 2]].any() and gradient[1].any()


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("place", [0, 2])
def test_fused_cross_entropy_of_non_finite_logits_matches_unfused(bad, place):
    """A class with a logit of -inf must not contribute; any other non-finite logit may affect only its own row."""
    g = mg.Graph()
    x, numbers = g.placeholder((3, 5)), g.placeholder((3,), mg.int32)
    source = np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 5)
    source[1, place] = bad
    targets = losses(g, x, numbers, -1, "none")
    loss, gradient = beside_plain(g, {x: source, numbers: np.array([0, 2, 1], np.int32)}, targets)
    assert np.isfinite(loss[[0, 2]]).all() and np.isfinite(gradient[[0, 2]]).all()


@pytest.mark.parametrize("labels", [{"on_value": 0.9, "off_value": 0.1}, {"on_value": 1, "off_value": 0.1}])
def test_cross_entropy_with_smoothed_labels_is_not_fused(labels):
    g = mg.Graph()
    x, numbers = g.placeholder((3, 4)), g.placeholder((3,), mg.int32)
    targets = losses(g, x, numbers, -1, "mean", **labels)
    feeds = {x: np.ones((3, 4), np.float32), numbers: np.array([0, 1, 3], np.int32)}
    assert "class_cross_entropy" not in kinds(g, feeds, targets)


def test_fused_cross_entropy_raises_for_out_of_range_index_in_error_mode():
    g = mg.Graph()
    x, numbers = g.placeholder((2, 4)), g.placeholder((2,), mg.int32)
    loss = losses(g, x, numbers, -1, "mean", out_of_range="error")
    with pytest.raises(mg.errors.OutOfRangeError):
        g.run({x: np.ones((2, 4), np.float32), numbers: np.array([0, 4], np.int32)}, loss)
