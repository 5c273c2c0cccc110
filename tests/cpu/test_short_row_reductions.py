"""Test reductions over a short last axis (vectorized across rows) and a long one (vectorized along rows)."""

import mpsgraph as mg
import numpy as np
import pytest

SIZES = [1, 2, 3, 5, 17, 31, 48, 49, 64, 1000]
DTYPES = ["float32", "float16", "float64", "int32", "int8", "uint8", "int64", "uint64"]


def numbers(dtype, shape):
    """Return numbers with many ties, and some NaN for floats."""
    rng = np.random.default_rng([0, *shape])
    if dtype.startswith("u"):
        return rng.integers(0, np.iinfo(dtype).max // 3, shape, dtype=dtype)
    x = np.round(rng.standard_normal(shape) * 20)
    x[rng.random(shape) < 0.3] = x.flat[0]
    if dtype.startswith("float"):
        x[rng.random(shape) < 0.05] = np.nan
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_short_row_reductions_match_numpy(dtype, size):
    for rows in (1, 7, 700):
        x = numbers(dtype, (rows, size))
        g = mg.Graph()
        fed = g.placeholder(x.shape, dtype)
        wide = np.float64 if dtype.startswith("float") else dtype
        expected = {
            g.reduction_sum(fed, [-1]): x.sum(-1, keepdims=True, dtype=wide),
            g.reduction_maximum_propagate_nan(fed, [-1]): x.max(-1, keepdims=True),
            g.reduction_minimum(fed, [-1]): np.fmin.reduce(x, -1, keepdims=True),
            g.reduction_arg_maximum(fed, -1): x.argmax(-1)[:, None],
            g.reduction_arg_minimum(fed, -1): x.argmin(-1)[:, None],
        }
        results = g.run({fed: x}, list(expected))
        for tensor, right in expected.items():
            rtol = {"float16": 1e-3, "float32": 1e-6}.get(dtype, 1e-14) if dtype.startswith("float") else 0
            np.testing.assert_allclose(results[tensor].numpy().astype(wide), right.astype(wide), rtol=rtol, atol=0)


@pytest.mark.parametrize("size", [2, 3, 17, 48, 49])
def test_short_row_reductions_fused_into_a_kernel_match_numpy(size):
    x = numbers("float32", (700, size))
    g = mg.Graph()
    fed = g.placeholder(x.shape)
    square = g.square(fed)
    total, largest = g.reduction_sum(square, [-1]), g.reduction_maximum(square, [-1])
    results = g.run({fed: x}, [total, largest])
    right = np.square(np.float64(x))
    np.testing.assert_allclose(results[total].numpy(), right.sum(-1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(results[largest].numpy(), np.fmax.reduce(right, -1, keepdims=True), rtol=1e-6)
