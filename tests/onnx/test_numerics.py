"""Test ONNX operators where precision is easily lost: integers, half precision, NaN, empty axes, and slice bounds.

Expected values are computed by numpy: integers with two's complement wraparound, real numbers in float64.
"""

from __future__ import annotations

import ml_dtypes
import mpsgraph as mg
import numpy as np
import pytest
from harness.device import MISSING
from harness.onnx_node import computed, one_node

pytestmark = pytest.mark.both_devices

WIDE = [np.int32, np.int64, np.uint32, np.uint64]
HALVES = [np.float16, ml_dtypes.bfloat16]


def any_of(rng: np.random.Generator, dtype, *shape: int) -> np.ndarray:
    """Return random numbers from the entire range of an integer dtype."""
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def needs_float64() -> None:
    if "float64" in MISSING:
        pytest.skip("the device does not support float64")


# --- integers ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 4), (30, 70, 40), (9, 600, 8)])
def test_integer_matmuls_wrap_around(dtype, shape, rng):
    m, k, n = shape
    a, b, c = any_of(rng, dtype, m, k), any_of(rng, dtype, k, n), any_of(rng, dtype, n)
    np.testing.assert_array_equal(computed("MatMul", a, b), a @ b)
    np.testing.assert_array_equal(computed("Einsum", a, b, equation="ij,jk->ik"), a @ b)
    scaled = computed("Gemm", a, b.T.copy(), c, transB=1, alpha=2.0, beta=3.0)
    np.testing.assert_array_equal(scaled, a @ b * dtype(2) + c * dtype(3))


def test_integer_matmuls_are_exact():
    assert computed("MatMul", np.int64([[2**53 + 1]]), np.int64([[1]])).tolist() == [[2**53 + 1]]
    assert computed("MatMul", np.int32([[2]]), np.int32([[2**30]])).tolist() == [[-(2**31)]]
    assert computed("Einsum", np.int8([100, 100]), np.int8([1, 1]), equation="i,i->").tolist() == -56
    with pytest.raises(mg.UnsupportedError, match="must be integers .* got 0.5"):
        computed("Gemm", np.int32([[2]]), np.int32([[3]]), alpha=0.5)


def test_integer_einsum_over_diagonals_matches_numpy():
    a = np.arange(12, dtype=np.int32).reshape(2, 2, 3)
    b = np.arange(6, dtype=np.int32).reshape(2, 3)
    np.testing.assert_array_equal(computed("Einsum", a, b, equation="iij,ij->i"), np.einsum("iij,ij->i", a, b))


def test_batched_and_vector_integer_matmuls_match_numpy(rng):
    a, b = any_of(rng, np.int64, 2, 3, 30, 40), any_of(rng, np.int64, 3, 40, 20)
    np.testing.assert_array_equal(computed("MatMul", a, b), a @ b)
    np.testing.assert_array_equal(computed("MatMul", a, b[0, :, 0]), a @ b[0, :, 0])


def test_integer_matmul_of_dynamic_size_matches_numpy():
    a, b = any_of(np.random.default_rng(1), np.int64, 5, 40), any_of(np.random.default_rng(2), np.int64, 40, 6)
    model, feeds = one_node("MatMul", [a, b])
    for info in model.graph.input:
        for i, dimension in enumerate(info.type.tensor_type.shape.dim):
            dimension.dim_param = f"{info.name}_{i}"
    np.testing.assert_array_equal(mg.onnx.load(model).run(feeds)["y0"].numpy(), a @ b)


@pytest.mark.parametrize("terms", [3, 257, 258, 259, 2000])
def test_8_bit_matmuls_are_exact(terms, rng):
    """Use the largest number of terms that float32 can sum exactly, with the largest differences from the zero
    points.
    """
    a, b = any_of(rng, np.uint8, 5, terms), any_of(rng, np.int8, terms, 6)
    a[0], b[:, 0] = 255, 127
    expected = a.astype(np.int32) @ (b.astype(np.int32) + 128)
    result = computed("MatMulInteger", a, b, np.uint8(0), np.int8(-128))
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, expected)
    one = np.float32(1)
    narrow = computed("QLinearMatMul", a, one, np.uint8(3), b, one, np.int8(5), np.float32(1000), np.uint8(100))
    products = (a.astype(np.int64) - 3) @ (b.astype(np.int64) - 5)
    np.testing.assert_array_equal(narrow, np.clip(np.rint(products / 1000) + 100, 0, 255).astype(np.uint8))


@pytest.mark.parametrize(("channels", "groups"), [(3, 1), (28, 1), (29, 1), (64, 1), (64, 2)])
def test_8_bit_convolutions_are_exact(channels, groups, rng):
    if groups > 1:
        needs_float64()  # Splitting groups into blocks of channels requires float64.
    x, w = any_of(rng, np.uint8, 1, channels, 5, 5), any_of(rng, np.uint8, 4, channels // groups, 3, 3)
    x[0, :, 0], w[0] = 255, 255
    a, b = np.pad(x.astype(np.int64) - 3, [(0, 0), (0, 0), (1, 1), (1, 1)]), w.astype(np.int64) - 200
    expected = np.zeros((1, 4, 5, 5), np.int64)
    each, out = channels // groups, 4 // groups
    for group in range(groups):
        part, filters = a[:, group * each : (group + 1) * each], b[group * out : (group + 1) * out]
        for i in range(3):
            for j in range(3):
                taken = np.einsum("nchw,oc->nohw", part[:, :, i : i + 5, j : j + 5], filters[:, :, i, j])
                expected[:, group * out : (group + 1) * out] += taken
    result = computed("ConvInteger", x, w, np.uint8(3), np.uint8(200), pads=[1, 1, 1, 1], group=groups)
    np.testing.assert_array_equal(result, expected.astype(np.int32))


@pytest.mark.parametrize("dtype", WIDE)
def test_integer_reductions_and_arithmetic_wrap_around(dtype, rng):
    x, limits = any_of(rng, dtype, 7, 9), np.iinfo(dtype)
    with np.errstate(all="ignore"):
        reductions = {
            "ReduceSum": x.sum(1, dtype=dtype),
            "ReduceProd": x.prod(1, dtype=dtype),
            "ReduceSumSquare": (x * x).sum(1, dtype=dtype),
            "ReduceL1": np.abs(x).sum(1, dtype=dtype),
            "ReduceMax": x.max(1),
            "ReduceMin": x.min(1),
        }
        for op, expected in reductions.items():
            result = computed(
                op, x, np.int64([1]), known=[1], keepdims=0, opset=20 if op in "ReduceMaxReduceMin" else 18
            )
            np.testing.assert_array_equal(result, expected, err_msg=op)
        np.testing.assert_array_equal(computed("Pow", x, np.full((), 3, dtype)), x * x * x)
        np.testing.assert_array_equal(computed("Pow", x, np.float32(2), known=[1]), x * x)
    low, high = dtype(limits.max // 3), dtype(limits.max // 2 + 1)
    np.testing.assert_array_equal(computed("Clip", x, low, high), np.clip(x, low, high))
    d = np.maximum(any_of(rng, dtype, 7, 9), dtype(1))
    np.testing.assert_array_equal(computed("Mod", x, d), np.mod(x, d))
    np.testing.assert_array_equal(computed("Mod", x, d, fmod=1), np.fmod(x, d))
    quotients = [abs(int(a)) // int(b) * (1 if a >= 0 else -1) for a, b in zip(x.ravel(), d.ravel(), strict=True)]
    np.testing.assert_array_equal(computed("Div", x, d).ravel().tolist(), quotients)


def test_integer_means_are_exact():
    for dtype in WIDE:
        assert computed("ReduceMean", np.array([2**24 + 1] * 2, dtype), opset=18).tolist() == [2**24 + 1]
    assert computed("ReduceMean", np.int32([2**31 - 1] * 3), opset=18).tolist() == [2**31 - 1]
    assert computed("ReduceMean", np.int64([2**61 + 1] * 2), opset=18).tolist() == [2**61 + 1]
    assert computed("ReduceMean", np.int32([-3, 0]), opset=18).tolist() == [-1]  # Integer means round toward zero.


def test_64_bit_pad_value_is_exact():
    x, far = np.int64([[1, 2]]), np.int64(2**53 + 1)
    expected = [[far, far, far], [1, 2, far]]
    assert computed("Pad", x, np.int64([1, 0, 0, 1]), far, known=[1, 2]).tolist() == expected


def test_unique_rows_treat_zeros_of_both_signs_as_equal():
    rows = np.float32([[-0.0, 1], [0.0, 2], [0.0, 1], [-0.0, 2]])
    assert computed("Unique", rows, axis=0).tolist() == [[0, 1], [0, 2]]


def test_range_and_one_hot_of_large_integers_are_exact():
    first = 2**62
    numbers = [np.int64(first), np.int64(first + 3), np.int64(1)]
    for known in ([], [0, 1, 2]):
        assert computed("Range", *numbers, known=known).tolist() == [first, first + 1, first + 2]
        assert computed("Range", np.int64(5), np.int64(-4), np.int64(-2), known=known).tolist() == [5, 3, 1, -1, -3]
        assert computed("Range", np.int64(5), np.int64(9), np.int64(-2), known=known).tolist() == []
    hot = computed("OneHot", np.int64([2**32, 1, -1]), np.int64(3), np.float32([0, 1]), known=[1])
    assert hot.tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 1]]


# --- empty axes and slice bounds --------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
@pytest.mark.parametrize("given", [True, False])
def test_reduction_over_no_axes_applies_only_elementwise_function(dtype, given):
    """Nothing is summed, but the function of each element still applies, as in ONNX Runtime 1.32."""
    x, positive = np.array([-2, 3], dtype), np.array([1, 20], dtype)
    axes = [np.int64([])] if given else []
    for op, expected in {
        "ReduceSumSquare": [4, 9],
        "ReduceL1": [2, 3],
        "ReduceSum": [-2, 3],
        "ReduceMean": [-2, 3],
        "ReduceProd": [-2, 3],
        "ReduceMax": [-2, 3],
        "ReduceMin": [-2, 3],
    }.items():
        result = computed(op, x, *axes, known=[1] * given, noop_with_empty_axes=1, keepdims=0, opset=18)
        assert result.dtype == dtype and result.tolist() == expected, op
    if dtype == np.int32:
        needs_float64()
    for op, expected in {"ReduceL2": [1, 20], "ReduceLogSum": np.log([1.0, 20]), "ReduceLogSumExp": [1, 20]}.items():
        result = computed(op, positive, *axes, known=[1] * given, noop_with_empty_axes=1, opset=18)
        np.testing.assert_allclose(result, np.asarray(expected).astype(dtype), rtol=1e-3)


SLICES = {  # (start, end, step): the elements of 0..4 that remain, from ONNX Runtime 1.32.
    (-10, 5, 1): [0, 1, 2, 3, 4],
    (-10, -20, -1): [0],
    (-6, -(2**63), -1): [0],
    (-10, 2**63 - 1, 2): [0, 2, 4],
    (10, -20, -2): [4, 2, 0],
    (-3, -20, -1): [2, 1, 0],
    (2**63 - 1, -(2**63), -1): [4, 3, 2, 1, 0],
    (3, 1, 1): [],
}


@pytest.mark.parametrize("known", [(1, 2, 3, 4), (3,), (2, 3, 4), (1, 2, 3)])
@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize("limits", SLICES)
def test_slices_with_out_of_range_bounds_match_numpy(limits, stated, known):
    start, end, step = limits
    operands = [np.arange(5, dtype=np.float32), *(np.int64([v]) for v in (start, end, 0, step))]
    model, feeds = one_node("Slice", operands, known=known)
    if not stated:
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    assert mg.onnx.load(model).run(feeds)["y0"].numpy().tolist() == SLICES[limits]


# --- NaN --------------------------------------------------------------------------------------------------------------
STAYS = {
    **{
        op: {}
        for op in ("Abs", "Ceil", "Floor", "Round", "Sign", "Neg", "Exp", "Log", "Sqrt", "Tanh", "Sigmoid", "Erf")
    },
    **{op: {} for op in ("Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Gelu", "HardSigmoid", "HardSwish", "Softplus")},
    **{op: {} for op in ("Erf", "Mish", "Softsign", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceL2")},
    **{op: {} for op in ("ReduceLogSumExp", "ReduceL1", "ReduceProd", "ReduceSumSquare", "CumSum", "LpNormalization")},
    "Swish": {},
    **{op: {"axis": 1} for op in ("Softmax", "LogSoftmax")},
}


@pytest.mark.parametrize("op", STAYS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_nan_propagates(op, dtype):
    """NaN is tested among other values and as the only value."""
    more = [np.int64(1)] if op == "CumSum" else []
    row = np.array([[np.nan, 1, -1, 2, 0.5, -0.5, 3, 4, 5]], dtype)
    for x in (row, row[:, :1]):
        assert np.isnan(computed(op, x, *more, known=[1] * len(more), **STAYS[op]).ravel()[0]), op


def test_threshold_operators_map_nan_to_zero():
    """The expected values follow the standard's definition of the operators and ONNX Runtime."""
    x = np.float32([np.nan, 2])
    assert computed("Shrink", x).tolist() == [0, 2]
    assert computed("ThresholdedRelu", x).tolist() == [0, 2]


@pytest.mark.parametrize("bounds", [(0, 1), (None, 1), (0, None)])
def test_clip_and_extrema_propagate_nan(bounds):
    x = np.float32([np.nan, -2, 2])
    low, high = (None if b is None else np.float32(b) for b in bounds)
    expected = np.clip(x, low, high)
    assert np.isnan(expected[0])
    np.testing.assert_array_equal(computed("Clip", x, low, high), expected)
    for op, of in (("Max", np.maximum), ("Min", np.minimum)):
        other = np.float32([1, np.nan, 0])
        np.testing.assert_array_equal(computed(op, x, other), of(x, other))


def test_lp_normalization_of_zeros_is_zero():
    x = np.float32([[0, 0], [3, 4], [np.nan, 1]])
    np.testing.assert_allclose(computed("LpNormalization", x, axis=1), [[0, 0], [0.6, 0.8], [np.nan, np.nan]])
    np.testing.assert_allclose(computed("LpNormalization", x[:2], axis=1, p=1), [[0, 0], [3 / 7, 4 / 7]], rtol=1e-6)


# --- half precision ---------------------------------------------------------------------------------------------------
def close(result: np.ndarray, expected: np.ndarray, dtype) -> None:
    """Compare with a tolerance of two units in the last place of dtype."""
    assert result.dtype == dtype
    unit = 2.0**-10 if dtype == np.float16 else 2.0**-7
    wide = result.astype(np.float64)
    assert np.isfinite(wide).all()
    np.testing.assert_allclose(wide, expected, rtol=2 * unit, atol=unit * 1e-2 * np.abs(expected).max())


def standardized(x: np.ndarray, axes: tuple[int, ...], epsilon: float = 1e-5) -> np.ndarray:
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + epsilon)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("data", ["large", "many", "mixed"])
def test_half_precision_reductions_accumulate_in_float32(dtype, data, rng):
    made = {"large": np.full(4, 60000.0), "many": np.full(70000, 0.5), "mixed": np.abs(rng.normal(size=5000)) + 1}
    x = made[data].astype(dtype)
    wide = x.astype(np.float64)
    for op, expected in {
        "ReduceMean": wide.mean(),
        "ReduceL2": np.sqrt((wide**2).sum()),
        "ReduceLogSum": np.log(wide.sum()),
        "ReduceLogSumExp": np.log(np.exp(wide - wide.max()).sum()) + wide.max(),
        **({"ReduceL1": wide.sum(), "ReduceSum": wide.sum()} if dtype != np.float16 or data != "large" else {}),
    }.items():
        if np.abs(expected) < 65504 or dtype != np.float16:
            close(computed(op, x, opset=18), np.array([expected]), dtype)
    image = np.broadcast_to(x[: 4 if data == "large" else 1000].reshape(1, 1, 2, -1), (1, 2, 2, x[:1000].size // 2))
    close(computed("GlobalAveragePool", image.copy()), image.astype(np.float64).mean((2, 3), keepdims=True), dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_normalizations_accumulate_in_float32(dtype, rng):
    """Squares of ±300 overflow float16, and bfloat16 cannot resolve the differences from 60."""
    one, zero = np.ones(4, dtype), np.zeros(4, dtype)
    x = np.array([[300, -300, 300, -300], [128, -128, 128, -128]], dtype)
    wide = x.astype(np.float64)
    close(computed("LayerNormalization", x, one, zero), standardized(wide, (1,)), dtype)
    close(computed("RMSNormalization", x, one), wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5), dtype)
    rows = (rng.normal(size=(3, 4096)) + 60).astype(dtype)
    wide = rows.astype(np.float64)
    result = computed("LayerNormalization", rows, np.ones(4096, dtype), np.zeros(4096, dtype))
    assert np.abs(result.astype(np.float64) - standardized(wide, (1,))).max() < 0.01
    close(computed("LpNormalization", rows), wide / np.sqrt((wide**2).sum(1, keepdims=True)), dtype)
    images = (rng.normal(size=(2, 4, 10, 10)) * 200 + 300).astype(dtype)
    wide = images.astype(np.float64)
    close(computed("InstanceNormalization", images, one, zero), standardized(wide, (2, 3)), dtype)
    close(computed("MeanVarianceNormalization", images), standardized(wide, (0, 2, 3), 0), dtype)
    grouped = standardized(wide.reshape(2, 2, -1), (2,)).reshape(wide.shape)
    close(computed("GroupNormalization", images, one, zero, num_groups=2), grouped, dtype)
    trained = computed("BatchNormalization", images, one, zero, zero, one, training_mode=1, results=3)
    close(trained, standardized(wide, (0, 2, 3)), dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_pooling_and_losses_accumulate_in_float32(dtype, rng):
    images = np.full((1, 2, 60, 60), 30000, dtype)
    close(computed("AveragePool", images, kernel_shape=[30, 30], strides=[30, 30]), np.full((1, 2, 2, 2), 3e4), dtype)
    images = np.full((1, 2, 60, 60), 300, dtype)
    close(computed("LpPool", images, kernel_shape=[30, 30], strides=[30, 30]), np.full((1, 2, 2, 2), 9e3), dtype)
    close(computed("GlobalLpPool", images), np.full((1, 2, 1, 1), 18e3), dtype)
    scores, labels = np.zeros((70000, 5), dtype), rng.integers(0, 5, 70000)
    close(computed("SoftmaxCrossEntropyLoss", scores, labels), np.log(5.0), dtype)
    close(computed("NegativeLogLikelihoodLoss", scores + dtype(-1.5), labels), np.array(1.5), dtype)
    row = (rng.normal(size=(2, 5000)) * 3).astype(dtype)
    exponents = np.exp(row.astype(np.float64))
    close(computed("LogSoftmax", row, axis=1), np.log(exponents / exponents.sum(1, keepdims=True)), dtype)
    close(computed("Mean", *[np.full(3, 60000, dtype)] * 3), np.full(3, 60000.0), dtype)


# --- indices ----------------------------------------------------------------------------------------------------------
DATA = np.arange(6, dtype=np.float32).reshape(2, 3)
PICKED = {  # Operator: (operands with an index of -3 or 2, the ends of an axis of size 3; attributes).
    "Gather": (lambda i: [DATA, np.int64([0, i])], {"axis": 1}),
    "GatherElements": (lambda i: [DATA, np.int64([[0, i], [1, 0]])], {"axis": 1}),
    "GatherND": (lambda i: [DATA, np.int64([[0, 0], [1, i]])], {}),
    "ScatterElements": (lambda i: [DATA, np.int64([[0, i]]), np.float32([[7, 8]])], {"axis": 1}),
    "ScatterND": (lambda i: [DATA, np.int64([[0, 0], [1, i]]), np.float32([7, 8])], {}),
}


@pytest.mark.parametrize("op", PICKED)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("stated", [True, False])
def test_indices_out_of_range_raise(op, known, stated):
    """Indices that would wrap into the valid range in 32 bits raise as well. Indices at both ends of the range are
    valid.
    """
    operands, attributes = PICKED[op]

    def result(index: int) -> np.ndarray:
        model, feeds = one_node(op, operands(index), known=[1] * known, **attributes)
        for i, dimension in enumerate(model.graph.input[0].type.tensor_type.shape.dim if not stated else ()):
            dimension.dim_param = f"d{i}"
        return mg.onnx.load(model).run(feeds)["y0"].numpy()

    np.testing.assert_array_equal(result(-3), result(0))
    np.testing.assert_array_equal(result(2), result(-1))
    for outside in (3, -4, 2**32, -(2**33) + 1):
        with pytest.raises(mg.OutOfRangeError, match=r"index -?\d+ at"):
            result(outside)


@pytest.mark.parametrize("known", [True, False])
def test_scalar_gather_index_removes_the_axis(known):
    for index in (1, -2):
        result = computed("Gather", DATA, np.int64(index), known=[1] * known, axis=1)
        np.testing.assert_array_equal(result, DATA[:, 1])


def test_constant_index_out_of_range_raises_on_import():
    model, _ = one_node("Gather", [DATA, np.int64([[0, 1], [-4, 0]])], known=[1], axis=1)
    with pytest.raises(mg.OutOfRangeError, match=r"Gather 'the_gather': index -4 at \(1, 0\) must be between -3 and 2"):
        mg.onnx.load(model)


def test_labels_out_of_range_raise():
    scores, labels = np.zeros((4, 5), np.float32), np.int64([0, 4, -1, 2])
    for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        with pytest.raises(mg.OutOfRangeError):
            computed(op, scores, labels)
        ignoring = computed(op, scores, labels, ignore_index=-1)
        np.testing.assert_allclose(ignoring, np.log(5.0) if op.startswith("Soft") else 0, rtol=1e-6)
        weights = np.float32([1, 2, 3, 4, 5])
        computed(op, scores, labels, weights, ignore_index=-1)
        with pytest.raises(mg.OutOfRangeError):
            computed(op, scores, labels, weights, ignore_index=-2)
