"""Compare cumulative sums, products, and extrema along the last axis with numpy.

The kernels transpose the rows in tiles. Row counts and lengths are around those of a tile (8 rows of 64 elements) and
of the square blocks that are transposed at once. Rows of 1,024 elements are included because the distance between such
rows is a power of two.
"""

import mpsgraph as mg
import numpy as np
import pytest
from harness.running import REFERENCE

ROWS, LENGTHS = [1, 2, 3, 7, 8, 9, 17], [1, 2, 3, 5, 63, 64, 65, 130, 1024]
KINDS = {"sum": np.add, "product": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
START = {"sum": 0, "product": 1}


def oracle(kind, x, reverse, exclusive):
    x = x[:, ::-1] if reverse else x
    y = KINDS[kind].accumulate(x, axis=1, dtype=x.dtype)
    if exclusive:
        y = np.concatenate([np.full_like(y[:, :1], START[kind]), y[:, :-1]], 1)
    return y[:, ::-1] if reverse else y


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "int8", "float16", "complex64"])
@pytest.mark.parametrize("kind", KINDS)
def test_cumulative_operations_along_rows_match_numpy(kind, dtype):
    if dtype == "complex64" and kind not in START:
        pytest.skip("complex numbers have no order")
    rng = np.random.default_rng(0)
    for rows in ROWS:
        for n in LENGTHS:
            x = rng.integers(-2, 3, (rows, n)) if "int" in dtype else 1 + rng.standard_normal((rows, n)) / 9
            x = x.astype(dtype)
            for reverse in (False, True):
                for exclusive in (False, True) if kind in START else (False,):
                    g = mg.Graph()
                    p = g.placeholder(x.shape, dtype)
                    y = getattr(g, f"cumulative_{kind}")(p, 1, exclusive=exclusive, reverse=reverse)
                    wide = x.astype(
                        {"float32": "float64", "float16": "float64", "complex64": "complex128"}.get(dtype, dtype)
                    )
                    with np.errstate(over="ignore"):
                        expected = oracle(kind, wide, reverse, exclusive).astype(dtype)
                    found = g.run({p: x}, y).numpy()
                    tolerance = {"float16": 2e-3, "float32": 2e-6, "complex64": 4e-6}.get(dtype, 1e-12)
                    message = f"{rows} x {n}, reverse {reverse}, exclusive {exclusive}"
                    if "int" in dtype:
                        np.testing.assert_array_equal(found, expected, message)
                    else:
                        np.testing.assert_allclose(found, expected, tolerance, tolerance, err_msg=message)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradient_of_cumulative_product_with_zeros_matches_numpy(dtype):
    """The gradient consists of scans and linear recurrences in both directions."""
    rng = np.random.default_rng(1)
    for rows, n in [(1, 3), (7, 64), (9, 65), (17, 130)]:
        x = rng.choice([0.0, 0.5, -1.0, 1.5], (rows, n), p=[0.1, 0.3, 0.3, 0.3]).astype(dtype)
        start = rng.standard_normal((rows, n)).astype(dtype)
        g = mg.Graph()
        p, s = g.placeholder(x.shape, dtype), g.placeholder(x.shape, dtype)
        y = g.cumulative_product(p, 1)
        gradient = g.gradients(y, [p], start=s)[p]
        types = {p: (x.shape, dtype), s: (x.shape, dtype)}
        found, plain = (g.compile(types, [gradient], options=o).run([x, start])[0].numpy() for o in (None, REFERENCE))
        expected = np.zeros((rows, n))
        for i in range(n):  # d(product j)/d(element i) is the product of the other elements up to j
            others = x.astype(np.float64).copy()
            others[:, i] = 1
            expected[:, i] = (np.cumprod(others, 1) * start)[:, i:].sum(1)
        for one in (found, plain):
            np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-4 if dtype == "float32" else 1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradient_of_cumulative_maximum_goes_to_the_maximal_element(dtype):
    """Each incoming gradient element must go to the index of its running maximum."""
    rng = np.random.default_rng(2)
    for rows, n in [(1, 5), (8, 64), (9, 70), (3, 1024)]:
        x = rng.integers(-5, 6, (rows, n)).astype(dtype)
        g = mg.Graph()
        p = g.placeholder(x.shape, x.dtype)
        y = g.cumulative_maximum(p, 1)
        found = g.run({p: x}, g.gradients(y, [p], start=g.constant(np.ones_like(x)))[p]).numpy()
        expected = np.zeros_like(x)
        for r in range(rows):
            best = 0
            for i in range(n):
                best = i if x[r, i] >= x[r, best] else best
                expected[r, best] += 1
        np.testing.assert_array_equal(found, expected)
