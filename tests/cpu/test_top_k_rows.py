"""Test top_k and bottom_k along rows of every dtype. The kernels compare elements as float32, which rounds some dtypes.

Expected values are computed with exact comparisons. Among equal elements, the lower index comes first, and NaN ranks
above all numbers.
"""

import ml_dtypes
import mpsgraph as mg
import numpy as np
import pytest

FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
SIZES = [(1, 1), (5, 3), (8, 8), (9, 2), (16, 16), (17, 3), (31, 31), (40, 1), (300, 3), (300, 65), (5000, 64)]


def of(dtype):
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


def integers(rng, shape, dtype, kind):
    limits = np.iinfo(dtype)
    if kind == "ties":
        return rng.integers(0, 4, shape).astype(dtype)
    if kind == "wide":
        return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    # most of these round to the same float32
    return np.array(limits.max, dtype) - rng.integers(0, 9, shape).astype(dtype)


def floats(rng, shape, dtype, kind):
    if kind == "wide":
        return rng.standard_normal(shape).astype(dtype)
    if kind == "close":  # float64 values closer than the float32 spacing, some beyond the float32 range
        scale = np.where(rng.random((shape[0], 1)) < 0.5, 1.0, 1e300 if dtype == np.float64 else 1e3)
        return (scale * (1 + rng.integers(0, 9, shape) * 2.3e-16)).astype(dtype)
    x = rng.integers(-2, 3, shape).astype(np.float64)
    for special in (np.nan, np.inf, -np.inf, -0.0):
        x[rng.random(shape) < 0.1] = special
    x[0] = np.nan
    return x.astype(dtype)


def order(row, top):
    """Return the indices sorted from best to worst, comparing exactly in Python."""
    is_nan = row != row
    values = [
        0 if nan else x.item() if row.dtype.kind in "iub" else float(x) for x, nan in zip(row, is_nan, strict=True)
    ]
    sign = -1 if top else 1
    return sorted(range(len(row)), key=lambda i: (sign * int(is_nan[i]), sign * values[i], i))


@pytest.mark.parametrize("kind", ["ties", "wide", "close"])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_top_k_and_bottom_k_of_rows_match_numpy(dtype, kind):
    dtype = of(dtype)
    rng = np.random.default_rng(SIZES.index((40, 1)))
    make = integers if dtype.kind in "iu" else floats
    for n, k in SIZES:
        x = make(rng, (3, n), dtype, kind)
        for top in (True, False):
            g = mg.Graph()
            p = g.placeholder(x.shape, x.dtype)
            values, indices = (g.top_k if top else g.bottom_k)(p, k)
            found = g.run({p: x}, [values, indices])
            expected = np.array([order(row, top)[:k] for row in x])
            np.testing.assert_array_equal(found[indices].numpy(), expected, err_msg=f"{n} {k} {top}")
            taken = np.take_along_axis(x, expected, -1)
            assert found[values].numpy().tobytes() == taken.tobytes()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "float64", "int64"])
def test_top_k_along_first_axis_matches_numpy(dtype):
    x = np.random.default_rng(3).integers(0, 50, (70, 4)).astype(dtype)
    g = mg.Graph()
    p = g.placeholder(x.shape, x.dtype)
    values, indices = g.top_k(p, 5, axis=0)
    found = g.run({p: x}, [values, indices])
    expected = np.array([order(row, True)[:5] for row in x.T]).T
    np.testing.assert_array_equal(found[indices].numpy(), expected)
    np.testing.assert_array_equal(found[values].numpy(), np.take_along_axis(x, expected, 0))
