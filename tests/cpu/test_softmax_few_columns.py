"""Test softmax and log_softmax along an axis that is followed by few columns.

The kernel combines several positions along the axis in one vector.
"""

import mpsgraph as mg
import numpy as np
import pytest

SHAPES = [(7, 2), (257, 3), (100, 16), (1000, 5), (3, 41, 2, 4), (1, 1, 7), (300, 17), (5, 33, 1, 3)]


def exact(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_over_few_columns_matches_numpy(shape, dtype):
    rng = np.random.default_rng(0)
    axis = min(len(shape) - 2, 1)
    x, start = ((rng.standard_normal(shape) * 3).astype(dtype) for _ in range(2))
    x.flat[0] = 60  # overflows unless the maximum is subtracted
    g = mg.Graph()
    p, s = g.placeholder(shape, dtype), g.placeholder(shape, dtype)
    y, z = g.softmax(p, axis), g.log_softmax(p, axis)
    wanted = [y, z, g.gradients(y, [p], start=s)[p], g.gradients(z, [p], start=s)[p]]
    types = {p: (shape, dtype), s: (shape, dtype)}
    a, b = x.astype(np.float64), start.astype(np.float64)
    e = exact(a, axis)
    expected = [
        e,
        a - a.max(axis, keepdims=True) - np.log(np.exp(a - a.max(axis, keepdims=True)).sum(axis, keepdims=True)),
        e * (b - (b * e).sum(axis, keepdims=True)),
        b - e * b.sum(axis, keepdims=True),
    ]
    tolerance = {"float16": 4e-3, "float32": 3e-6, "float64": 1e-13}[dtype]
    for some in (slice(0, 4), slice(2, 3), slice(3, 4)):  # gradients together with results, and alone
        found = g.compile(types, wanted[some]).run([x, start])
        for one, right in zip(found, expected[some], strict=True):
            scale = max(1.0, np.abs(right).max())
            np.testing.assert_allclose(one.numpy(), right, rtol=tolerance, atol=tolerance * scale)


def test_nan_in_softmax_input_affects_only_its_column():
    x = np.random.default_rng(1).standard_normal((1000, 5)).astype(np.float32)
    x[333, 2] = np.nan
    g = mg.Graph()
    p = g.placeholder(x.shape)
    found = g.run({p: x}, g.softmax(p, 0)).numpy()
    assert np.isnan(found[:, 2]).all()
    others = [0, 1, 3, 4]
    np.testing.assert_allclose(found[:, others], exact(x[:, others].astype(np.float64), 0), rtol=2e-5)
