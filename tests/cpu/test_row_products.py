"""Compare products of a single row with numpy, for matrices of each dtype, and check that kernels read them in place.

test_instruction_sets.py runs this file with every instruction set.
"""

import mpsgraph as mg
import numpy as np
import pytest

SIZES = [(1, 1), (3, 5), (37, 9), (64, 33), (200, 131), (40, 1100), (300, 4), (2048, 70)]
LIMITS = {"int8": (-128, 128), "uint8": (0, 256)}


def matrix(k, n, dtype, seed=0):
    """Return elements as an array of the dtype, and as float64."""
    rng = np.random.default_rng([seed, k, n])
    if dtype in LIMITS:
        w = rng.integers(*LIMITS[dtype], (k, n)).astype(dtype)
        return w, w.astype(np.float64)
    w = np.round(rng.standard_normal((k, n)) * 16) / 16  # exact in half precision
    return w.astype(np.float32), w


def product(k, n, dtype, wide, transposed, dequantize=None):
    """Return the result of a row times a fed matrix, as float64, what numpy computes, and the plan."""
    given, w = matrix(k, n, dtype)
    x = np.random.default_rng(k).integers(-8, 9, (1, k)) / 8
    g = mg.Graph()
    row = g.placeholder((1, k), wide)
    fed = g.placeholder((n, k) if transposed else (k, n), dtype)
    y = g.cast(fed, wide)
    if dequantize is not None:
        y, w = dequantize(g, y, transposed), dequantize(np, w, False)
    if transposed:
        y = g.transpose(y, (1, 0))
    y = g.cast(row @ y, "float32")
    executable = g.compile({row: row.shape, fed: fed.shape}, [y])
    values = {
        row: mg.numpy.asarray(x, dtype=wide),
        fed: mg.numpy.asarray(given.T if transposed else given, dtype=dtype),
    }
    (found,) = executable.run([values[feed] for feed in executable.feeds])
    return found.numpy().astype(np.float64), x @ w, np.abs(x) @ np.abs(w), executable.plan()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("dtype", "wide"),
    [
        *((dtype, wide) for dtype in ("int8", "uint8") for wide in ("float32", "float16", "bfloat16")),
        *((dtype, "float32") for dtype in ("float32", "float16", "bfloat16")),
    ],
)
@pytest.mark.parametrize(("k", "n"), SIZES)
def test_row_times_narrow_matrix_matches_numpy_without_conversion(k, n, dtype, wide, transposed):
    scale = 2.0**-16 if wide == "float16" and k > 100 else 1.0  # sums of bytes exceed float16
    found, expected, most, plan = product(k, n, dtype, wide, transposed)
    if scale != 1.0 and np.abs(expected).max() > 65000:
        pytest.skip("the result exceeds float16")
    tolerance = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}[wide]
    np.testing.assert_array_less(np.abs(found - expected), tolerance * most + 1e-6)
    if dtype != wide:
        assert f"with a matrix of {dtype}" in plan, plan


def by_column(name, n, transposed, low, high):
    values = np.random.default_rng(n).uniform(low, high, n).astype(np.float32)
    return values[:, None] if transposed else values[None]


@pytest.mark.parametrize("zero", ["none", "one", "by_column"])
@pytest.mark.parametrize("scale", ["one", "by_column"])
@pytest.mark.parametrize("transposed", [False, True])
def test_scales_and_zero_points_of_columns_are_applied_by_the_kernel(transposed, scale, zero):
    k, n = 70, 45

    def dequantize(g, w, turned):
        def parameter(kind, low, high):
            value = by_column(kind, n, turned, low, high) if kind == "by_column" else np.full((1, 1), high, np.float32)
            return value if g is np else g.constant(value)

        if zero != "none":
            w = w - parameter(zero, 100, 140)
        return w * parameter(scale, 0.01, 0.02)

    found, expected, most, plan = product(k, n, "uint8", "float32", transposed, dequantize)
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-6 * most.max())
    assert "with a matrix of uint8" in plan, plan


@pytest.mark.parametrize("transposed", [False, True])
def test_scales_along_rows_stay_in_the_matrix(transposed):
    """Kernels do not apply a scale that differs between the elements of a column."""
    scales = np.random.default_rng(0).uniform(0.5, 2, 24).astype(np.float32)

    def dequantize(g, w, turned):
        by_row = scales[None] if turned else scales[:, None]
        return w * (by_row if g is np else g.constant(by_row))

    found, expected, _, plan = product(24, 24, "int8", "float32", transposed, dequantize)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-3)
    assert "with a matrix of int8" not in plan, plan


def test_zero_point_subtracted_after_the_scale_stays_in_the_matrix():
    def dequantize(g, w, turned):
        scale = np.full((1, 1), 0.5, np.float32)
        return w * (scale if g is np else g.constant(scale)) - 3.0

    found, expected, _, _ = product(33, 17, "int8", "float32", False, dequantize)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-3)


def test_two_rows_times_bytes_match_numpy():
    w, dense = matrix(50, 30, "int8")
    x = np.random.default_rng(1).standard_normal((2, 50)).astype(np.float32)
    g = mg.Graph()
    rows = g.placeholder((2, 50))
    y = rows @ (g.cast(g.constant(w), "float32") * 0.25)
    np.testing.assert_allclose(g.run({rows: x}, y).numpy(), x @ dense * 0.25, rtol=1e-4, atol=1e-3)


def test_row_with_nan_and_infinity_times_bytes():
    x = np.zeros((1, 40), np.float32)
    x[0, 7] = np.inf
    w = np.ones((40, 20), np.int8)
    w[7, 3], w[7, 4] = 0, -1
    g = mg.Graph()
    row = g.placeholder((1, 40))
    y = g.run({row: x}, row @ g.cast(g.constant(w), "float32")).numpy()[0]
    assert np.isnan(y[3]) and y[4] == -np.inf and np.all(np.delete(y, [3, 4]) == np.inf)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("k", "n"), [(3, 5), (37, 70), (64, 32)])
def test_one_row_times_quantized_bytes_agrees_with_two_rows_at_extremes(k, n, transposed):
    """Infinite inputs, inputs that overflow before they are scaled, and infinite scales."""
    rng = np.random.default_rng([k, n])
    bytes_ = rng.integers(128, 256, (n, k) if transposed else (k, n)).astype(np.uint8)
    scale = by_column("scale", n, transposed, 0.001, 0.002)
    scale.flat[n // 2] = np.inf
    x = rng.uniform(-1, 1, (2, k)).astype(np.float32)
    x[:, k // 2] = np.inf
    huge = np.full((2, k), 3e38 / k, np.float32)
    results = {}
    for rows in (1, 2):
        g = mg.Graph()
        fed, quantized = g.placeholder((rows, k)), g.placeholder(bytes_.shape, "uint8")
        w = (g.cast(quantized, "float32") - 127.0) * g.constant(scale)
        y = fed @ (g.transpose(w, (1, 0)) if transposed else w)
        executable = g.compile({fed: fed.shape, quantized: bytes_.shape}, [y])
        assert ("with a matrix of uint8" in executable.plan()) == (rows == 1)
        results[rows] = [executable.run([given[:rows], bytes_])[0].numpy()[0].copy() for given in (x, huge)]
    for one, two in zip(results[1], results[2], strict=True):
        np.testing.assert_array_equal(np.isnan(one), np.isnan(two))
        np.testing.assert_allclose(one, two, rtol=1e-5)
    assert np.isposinf(results[1][0][0]) and np.isfinite(results[1][1][0])
