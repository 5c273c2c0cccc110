"""Compare softmax cross-entropy and its gradient on XLA, where they stay whole, with the CPU device."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="JAX is not installed: make test-jax")
import jax
import mpsgraph as mg

RNG = np.random.default_rng(0)


def compared(g: mg.Graph, feeds: dict[mg.Tensor, np.ndarray], targets: list[mg.Tensor], rtol: float = 2e-6) -> None:
    function = mg.jax.function(g, targets)
    found, _ = jax.jit(function)(function.state(), {tensor.name: value for tensor, value in feeds.items()})
    program = function.program({tensor.name: value for tensor, value in feeds.items()})
    assert "softmax_cross_entropy" in [operation.kind for operation in program.operations]
    results = g.run(feeds, targets)
    expected = [results[target] for target in targets]
    for one, other in zip(found, expected, strict=True):
        one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("form", ["indices", "shares", "off_value", "other_axis"])
def test_losses_and_gradients_match_the_cpu_device(form, axis, reduction, dtype):
    g = mg.Graph()
    x = g.placeholder((3, 5, 5), dtype, "x")
    logits = RNG.normal(size=(3, 5, 5)).astype(np.float32) * 4
    feeds = {x: np.asarray(logits, x.dtype.numpy)}
    if form == "shares":
        labels = g.placeholder((3, 5, 5), dtype, "labels")
        shares = RNG.random((3, 5, 5)).astype(np.float32)
        shares[0] = 0
        feeds[labels] = np.asarray(shares, x.dtype.numpy)
    else:
        indices = g.placeholder((3, 5), "int32", "indices")
        feeds[indices] = RNG.integers(5, size=(3, 5)).astype(np.int32)
        made = {"off_value": 0.1} if form == "off_value" else {}
        where = (2 if axis == 1 else 1) if form == "other_axis" else axis
        labels = g.one_hot(indices, 5, axis=where, dtype=dtype, **made)
    loss = g.softmax_cross_entropy(x, labels, axis=axis, reduction=reduction)
    weighed = g.reduction_sum(loss * g.constant(RNG.random(loss.shape).astype(np.float32), dtype=dtype))
    gradient = g.gradients(weighed, [x])[x]
    compared(g, feeds, [loss, gradient], 2e-6 if dtype == "float32" else 2e-2)


def test_extreme_logits_match_the_cpu_device():
    g = mg.Graph()
    x, indices = g.placeholder((6, 4), name="x"), g.placeholder((6,), "int32", "indices")
    logits = np.float32(
        [
            [0, -np.inf, 1, 2], [1e38, -1e38, 0, 0], [-np.inf, 3, 3, 3], [500, 400, 300, 200], [0, 0, 0, np.nan],
            [-1e38, -1e38, -1e38, -1e38],
        ]
    )  # fmt: skip
    loss = g.softmax_cross_entropy(x, g.one_hot(indices, 4), axis=-1, reduction="none")
    feeds = {x: logits, indices: np.int32([0, 1, 0, 3, 1, 2])}
    compared(g, feeds, [loss, g.gradients(g.reduction_sum(loss), [x])[x]])


def test_ignored_labels_match_the_cpu_device():
    g = mg.Graph()
    x, labels = g.placeholder((4, 7), name="x"), g.placeholder((4,), "int32", "labels")
    loss = mg.nn.losses.cross_entropy(x, labels, ignore_index=-100)
    feeds = {x: RNG.normal(size=(4, 7)).astype(np.float32), labels: np.int32([3, -100, 0, -100])}
    compared(g, feeds, [loss, g.gradients(loss, [x])[x]])
