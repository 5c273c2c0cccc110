"""Test weights packed at a few bits: products, their epilogues and gradients, and errors, against float64 in numpy."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from cases.quantization import dequantized_packed, unpacked

pytestmark = pytest.mark.both_devices
BITS = (2, 3, 4, 5, 6, 8)


def weights(bits: int, rows: int, columns: int, group: int = 64, seed: int = 0):
    random = np.random.default_rng(seed)
    words = random.integers(0, 2**32, (rows, columns * bits // 32)).astype(np.uint32)
    scale, bias = random.normal(size=(2, rows, columns // group)).astype(np.float32)
    return words, scale, bias


def operation(g, given, bits: int, dtype: str = "float32"):
    words, scale, bias = given
    narrow = [g.cast(g.constant(x), dtype) for x in (scale, bias)]
    return g.dequantize_packed(g.variable(words), *narrow, bits=bits, dtype="float32")


def dense(given, bits: int, dtype: str = "float32") -> np.ndarray:
    """Return the matrix in float64, from parameters rounded to dtype."""
    words, *parameters = given
    g = mg.Graph()
    rounded = [g.run({}, g.cast(g.cast(g.constant(x), dtype), "float32")).numpy() for x in parameters]
    return dequantized_packed(words, *(x.astype(np.float64) for x in rounded), bits)


def check(found: np.ndarray, x: np.ndarray, matrix: np.ndarray, tolerance: float = 2e-6) -> None:
    """Compare with x @ matrix in float64; the error is relative to the sum of the absolute products."""
    exact, most = x.astype(np.float64) @ matrix, np.abs(x).astype(np.float64) @ np.abs(matrix)
    assert found.shape == exact.shape
    assert (np.abs(found - exact) <= tolerance * most + 1e-37).all(), np.max(np.abs(found - exact) / most)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(
    ("rows", "columns", "outputs", "group"),
    [
        (1, 512, 41, 64),
        (1, 96, 3, 32),
        (2, 384, 37, 128),
        (7, 640, 64, 32),
        (16, 128, 19, 128),
        (40, 256, 200, 64),
        (200, 1408, 96, 64),
    ],
)
def test_product_with_transposed_packed_weights_equals_dense_product(bits, rows, columns, outputs, group):
    given = weights(bits, outputs, columns, group)
    x = np.random.default_rng(1).normal(size=(rows, columns)).astype(np.float32)
    for dtype in ("float32", "float16", "bfloat16"):
        g = mg.Graph()
        t = g.placeholder(x.shape)
        y = t @ g.transpose(operation(g, given, bits, dtype), (1, 0))
        check(g.run({t: x}, y).numpy(), x, dense(given, bits, dtype).T)


@pytest.mark.parametrize("bits", BITS)
def test_gradient_of_input_is_product_with_packed_weights(bits):
    given = weights(bits, 96, 128, 32)
    x, d = np.random.default_rng(2).normal(size=(2, 5, 128)).astype(np.float32)
    d = np.ascontiguousarray(d[:, :96])
    g = mg.Graph()
    t, incoming = g.placeholder(x.shape), g.placeholder(d.shape)
    y = t @ g.transpose(operation(g, given, bits), (1, 0))
    gradient = g.gradients(g.reduction_sum(y * incoming), [t])[t]
    check(g.run({t: x, incoming: d}, gradient).numpy(), d, dense(given, bits))


def test_gradients_of_scale_and_bias_are_sums_over_groups():
    words, scale, bias = weights(3, 4, 128, 32)
    d = np.random.default_rng(3).normal(size=(4, 128)).astype(np.float32)
    g = mg.Graph()
    s, b = g.variable(scale), g.variable(bias)
    loss = g.reduction_sum(g.dequantize_packed(g.constant(words), s, b, bits=3) * g.constant(d))
    gradients = g.gradients(loss, [s, b])
    found = g.run({}, list(gradients.values()))
    grouped = d.astype(np.float64).reshape(4, 4, 32)
    np.testing.assert_allclose(found[gradients[b]].numpy(), grouped.sum(-1), rtol=1e-4, atol=1e-5)
    elements = unpacked(words, 3).reshape(4, 4, 32)
    np.testing.assert_allclose(found[gradients[s]].numpy(), (grouped * elements).sum(-1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 3, 33])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_epilogue_of_packed_product_equals_separate_operations(rows, dtype):
    given = weights(4, 40, 128)
    random = np.random.default_rng(4)
    x, added = random.normal(size=(2, rows, 128)).astype(np.float32), random.normal(size=(40,)).astype(np.float32)
    residual = np.ascontiguousarray(added[None] * random.normal(size=(rows, 1)).astype(np.float32))
    g = mg.Graph()
    feeds = [g.placeholder(a.shape) for a in (x, residual)]
    t, r = (g.cast(f, dtype) for f in feeds)
    w = g.cast(operation(g, given, 4), dtype)
    y = g.relu(t @ g.transpose(w, (1, 0)) + g.cast(g.constant(added), dtype) + r)
    found = g.run({feeds[0]: x, feeds[1]: residual}, g.cast(y, "float32")).numpy()
    product = x.astype(np.float64) @ dense(given, 4).T
    tolerance = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    most = np.abs(x).astype(np.float64) @ np.abs(dense(given, 4).T)
    assert (np.abs(found - np.maximum(product + added + residual, 0)) <= tolerance * (most + 1)).all()


@pytest.mark.parametrize("bits", BITS)
def test_single_row_with_large_and_small_elements_keeps_the_precision_of_float32(bits):
    """Kernels may compute with integers, whose range depends on the largest element of 32."""
    given = weights(bits, 21, 512)
    random = np.random.default_rng(6)
    x = (random.normal(size=(1, 512)) * 10.0 ** random.integers(-6, 6, (1, 512))).astype(np.float32)
    x[0, 64:128] = 0
    x[0, 128:192] = 1e-36
    g = mg.Graph()
    t = g.placeholder(x.shape)
    y = t @ g.transpose(operation(g, given, bits), (1, 0))
    check(g.run({t: x}, y).numpy(), x, dense(given, bits).T)
    small = np.where(np.arange(512) % 2, 1e-4, -3e-5).astype(np.float32)[None]
    for x in (small, small * np.float32(1e-28)):
        check(g.run({t: x}, y).numpy(), x, dense(given, bits).T)


@pytest.mark.parametrize("bits", [4, 6, 8])
def test_infinite_and_nan_inputs_give_the_results_of_float_arithmetic(bits):
    words, scale, bias = weights(bits, 40, 128)
    matrix = dequantized_packed(words, scale, bias, bits).astype(np.float32)
    for value in (np.inf, -np.inf, np.nan):
        x = np.ones((1, 128), np.float32)
        x[0, 70] = value
        g = mg.Graph()
        t = g.placeholder(x.shape)
        found = g.run({t: x}, t @ g.transpose(operation(g, (words, scale, bias), bits), (1, 0))).numpy()[0]
        expected = value * matrix[:, 70]
        usual = np.isin(found, [np.inf, -np.inf]) & (found == expected)
        # A product of infinity with the scaled element and one with the bias may cancel to NaN.
        assert (usual | np.isnan(found)).all()


def test_batches_of_rows_multiply_packed_weights():
    given = weights(6, 50, 64, 32)
    x = np.random.default_rng(5).normal(size=(2, 3, 64)).astype(np.float32)
    g = mg.Graph()
    t = g.placeholder((-1, -1, 64))
    y = t @ g.transpose(operation(g, given, 6), (1, 0))
    check(g.run({t: x}, y).numpy(), x, dense(given, 6).T)


def test_non_finite_scales_reach_only_their_row():
    words, scale, bias = weights(4, 9, 128, 32)
    scale[4, 1] = np.nan
    x = np.ones((1, 128), np.float32)
    g = mg.Graph()
    found = g.run({}, g.constant(x) @ g.transpose(operation(g, (words, scale, bias), 4), (1, 0))).numpy()[0]
    assert np.isnan(found[4]) and np.isfinite(np.delete(found, 4)).all()


def test_invalid_packed_weights_raise():
    g = mg.Graph()
    words, scale, bias = (g.constant(x) for x in weights(4, 8, 128))
    with pytest.raises(mg.GraphError, match="bits must be 2, 3, 4, 5, 6, or 8, got 7"):
        g.dequantize_packed(words, scale, bias, bits=7)
    with pytest.raises(mg.DTypeError, match="words must be uint32, got int32"):
        g.dequantize_packed(g.cast(words, "int32"), scale, bias)
    with pytest.raises(mg.DTypeError, match="scale must be float32, float16, or bfloat16, got float64"):
        g.dequantize_packed(words, g.cast(scale, "float64"), bias, dtype="float32")
    with pytest.raises(mg.ShapeError, match="scale and bias must have the same shape"):
        g.dequantize_packed(words, scale, g.constant(np.zeros((8, 4), np.float32)))
    with pytest.raises(mg.ShapeError, match="multiple of 32 elements of 4 bits"):
        g.dequantize_packed(words, *[g.constant(np.zeros((8, 8), np.float32))] * 2)
    with pytest.raises(mg.ShapeError, match="except for the last axis"):
        g.dequantize_packed(words, *[g.constant(np.zeros((4, 2), np.float32))] * 2)
