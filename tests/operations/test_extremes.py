"""Test NaN, infinities, signed zeros, subnormals, and each dtype's largest numbers in every operation.

Fused kernels are also tested. Each float operand of each case gets such a number as its first, middle, and last
element, one at a time, to cover vector loops and remainders. Optimized programs must return NaN exactly where the
reference kernels without optional passes return NaN, and wherever numpy returns NaN. Element-wise operations must match
numpy for all these numbers. Operations that may drop a NaN are listed below with the reason.
"""

from __future__ import annotations

import itertools

import cases
import mpsgraph as mg
import numpy as np
import pytest
from harness import device, dtypes
from harness.case import Case, typed
from harness.running import OPTIMISED, OPTIONAL_PASSES, REFERENCE, Built, build, expected, feeds
from harness.subnormal import flushed

pytestmark = pytest.mark.begins_early

PLAIN = OPTIMISED if device.IS_METAL else mg.CompilationDescriptor(
    reference_kernels=True, disabled_passes=OPTIONAL_PASSES
)  # fmt: skip
SPECIAL = {"float32": (np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-40, -0.0),
           "bfloat16": (np.nan, np.inf, -np.inf, 3.3e38, -3.3e38, 1e-40, -0.0),
           "float16": (np.nan, np.inf, -np.inf, 65504.0, -65504.0, 3e-7, -0.0)}  # fmt: skip
LONG = 20_000  # elements of an operand; longer ones run the same loops

# Operations that may drop a NaN that numpy propagates, because of their definition or because they do not read the
# operand.
DROPS = {
    "minimum": "Apple's minimum returns the other operand; minimum_with_nan_propagation does not",
    "maximum": "Apple's maximum returns the other operand; maximum_with_nan_propagation does not",
    "clamp": "a NaN bound has no effect, and a NaN in x is kept",
    "relu_gradient": "0 wherever the source is not above 0, which includes NaN",
    "select": "the operand that is not selected is not read",
    "power": "x^0 and 1^x are 1, as in C",
}
# Operations along axes that may drop a NaN, by prefix of their names. The numpy versions of many are matmuls with
# zeros, and zero times NaN is NaN.
PASSES_OVER = {
    "convolution": "taps over padding, and zeros between dilated ones, are not computed",
    "depthwise_convolution": "as for convolution",
    "resize": "a result depends only on the elements between which it lies",
    "pad_gradient": "the gradient of the border is not read",
    "normalization_beta_gradient": "sums the incoming gradient and does not read the source",
    "reduction_maximum": "Apple's maximum ignores NaN; reduction_maximum_propagate_nan does not",
    "reduction_minimum": "Apple's minimum ignores NaN; reduction_minimum_propagate_nan does not",
    "scaled_dot_product_attention": "masked keys are not read, and a query without keys gives 0",
    "gru_gradients": "the slope of hard_sigmoid or relu is 0 unless above its bounds, which NaN is not",
    "lstm_gradients": "as for gru_gradients",
    "single_gate_rnn_gradients": "as for gru_gradients",
    "sample_grid": "the numpy version does not accept NaN coordinates",
}
# The standard library computes such elements and keeps subnormal numbers. Decision 0017 promises neither behavior.
TAKES_SUBNORMALS = {"power": "elements that are not positive and finite"}
# Some kernels of these operations multiply by the zeros of the padding, which the reference kernels skip.
MULTIPLIES_PADDING = ("convolution", "depthwise_convolution")


def positions(size: int) -> list[int]:
    return sorted({0, size // 2, size - 1})


def placed(x: np.ndarray, at: int, value: float) -> np.ndarray:
    changed = x.copy()
    changed.reshape(-1)[at] = value
    return changed


def floats_of(case: Case) -> list[int]:
    return [i for i, x in enumerate(case.inputs) if typed(x) and x.dtype == np.float64 and x.size > 0]


def runner(built: Built, arrays: list[np.ndarray], options: mg.CompilationDescriptor):
    shapes = {p: a.shape for p, a in zip(built.placeholders, arrays, strict=True)}
    executable = built.graph.compile(shapes, built.results, options=options)
    place = {p: i for i, p in enumerate(built.placeholders)}
    order = [place[p] for p in executable.feeds]
    return lambda fed: [dtypes.read(r) for r in executable.run([fed[i] for i in order])]


def swept(case: Case, dtype: str, values: tuple[float, ...]):
    """Yield (operand, value, feeds) for each operand, value, and position."""
    for i in floats_of(case):
        for value, at in itertools.product(values, positions(case.inputs[i].size)):
            inputs = [placed(x, at, value) if j == i else x for j, x in enumerate(case.inputs)]
            with np.errstate(all="ignore"):
                yield i, value, feeds(inputs, dtype)


def float_cases(*wanted: str):
    for case in cases.ALL:
        if not floats_of(case) or case.late or max(x.size for x in case.inputs) > LONG:
            continue
        for dtype in wanted:
            if dtype in case.dtypes and device.has(dtype):
                yield case, dtype


NAN = list(float_cases("float32", "bfloat16"))


@pytest.mark.parametrize(("case", "dtype"), NAN, ids=[f"{c.id}-{d}" for c, d in NAN])
def test_optimized_programs_have_nan_exactly_where_reference_does(case: Case, dtype: str):
    """Kernels that multiply by the zeros of the padding may create a NaN."""
    built, arrays = build(case, dtype), feeds(case.inputs, dtype)
    fast, plain = runner(built, arrays, OPTIMISED), runner(built, arrays, PLAIN)
    for i, _, fed in swept(case, dtype, (np.nan,)):
        for got, wanted in zip(fast(fed), plain(fed), strict=True):
            if got.dtype.kind not in "fc":
                np.testing.assert_array_equal(got, wanted, err_msg=f"NaN in operand {i}")
                continue
            lost, made = np.isnan(wanted) & ~np.isnan(got), np.isnan(got) & ~np.isnan(wanted)
            assert not lost.any(), f"NaN in operand {i} is missing from {lost.sum()} result elements"
            if not case.operation.startswith(MULTIPLIES_PADDING):
                assert not made.any(), f"NaN in operand {i} makes {made.sum()} other result elements NaN"


def passes_over(operation: str) -> bool:
    return operation.startswith(tuple(PASSES_OVER)) and not operation.endswith("propagate_nan")


ALONG_AXES = [(c, d) for c, d in float_cases("float32") if not c.elementwise and not passes_over(c.operation)]


@pytest.mark.parametrize(("case", "dtype"), ALONG_AXES, ids=[c.id for c, _ in ALONG_AXES])
def test_axis_operations_propagate_nan_as_in_numpy(case: Case, dtype: str):
    built = build(case, dtype)
    run = runner(built, feeds(case.inputs, dtype), OPTIMISED)
    for i, _, fed in swept(case, dtype, (np.nan,)):
        for got, wanted in zip(run(fed), expected(case, fed, dtype), strict=True):
            if got.dtype.kind in "fc":
                lost = np.isnan(np.asarray(wanted)) & ~np.isnan(got)
                assert not lost.any(), f"NaN in operand {i} is missing from {lost.sum()} result elements"


# Operations for which an infinite operand may give a result that differs from numpy's.
INFINITE_DIFFERS = {
    "gru": "numpy computes hard_sigmoid with minima; the kernel multiplies infinity by a gate of 0",
    "l2_norm_pooling4d_gradient": "infinity over an infinite norm is NaN",
    "matrix_inverse": "elimination divides by the values that infinity produced in other rows",
    "softmax_cross_entropy": "an infinite label times a logarithm of 0",
    "while": "numpy counts iterations in float64, where the numbers do not overflow",
}


@pytest.mark.parametrize(
    ("case", "dtype"),
    [pair for pair in ALONG_AXES if pair[0].operation not in INFINITE_DIFFERS and "torch" not in pair[0].label],
    ids=lambda value: getattr(value, "id", value),
)
def test_axis_operations_with_inf_and_subnormals_match_numpy(case: Case, dtype: str):
    """Compare results wherever numpy's result is not NaN. Cases with torch labels have expected values for their own
    operands only.
    """
    built = build(case, dtype)
    run = runner(built, feeds(case.inputs, dtype), OPTIMISED)
    for i, value, fed in swept(case, dtype, (np.inf, -np.inf, 1e-40, -0.0)):
        wanted = expected(case, [flushed(a) if typed(x) else a for a, x in zip(fed, case.inputs, strict=True)], dtype)
        for got, numbers in zip(run(fed), wanted, strict=True):
            if got.dtype.kind != "f":
                continue
            with np.errstate(all="ignore"):
                numbers = np.asarray(numbers).astype(np.float32)
            known = ~np.isnan(numbers)
            np.testing.assert_allclose(
                got[known], numbers[known], rtol=1e-3, atol=1e-4 * max(1, case.tolerance), err_msg=f"{value} in {i}"
            )


ELEMENTWISE = [(c, d) for c, d in float_cases("float32") if c.elementwise]


@pytest.mark.parametrize(("case", "dtype"), ELEMENTWISE, ids=[c.id for c, _ in ELEMENTWISE])
def test_elementwise_operations_at_extremes_match_numpy(case: Case, dtype: str):
    """67 elements are four vectors of the widest registers and a remainder."""
    case = Case(**{**vars(case), "inputs": [np.resize(x.ravel(), 67) for x in case.inputs]})
    built, arrays = build(case, dtype), feeds(case.inputs, dtype)
    engines = [runner(built, arrays, options) for options in ((OPTIMISED,) if device.IS_METAL else (OPTIMISED, PLAIN))]
    for i, value, fed in swept(case, dtype, SPECIAL[dtype]):
        if case.operation == "division_no_nan" and i == 1:  # division by zero, for which the case has no numpy result
            continue
        if case.operation in TAKES_SUBNORMALS and value == 1e-40:
            continue
        wanted = expected(case, [flushed(a) if typed(x) else a for a, x in zip(fed, case.inputs, strict=True)], dtype)
        for run in engines:
            for got, numbers in zip(run(fed), wanted, strict=True):
                compare(case, got, np.asarray(numbers), f"{case.id}: {value} in operand {i}")


def compare(case: Case, got: np.ndarray, wanted: np.ndarray, what: str) -> None:
    if got.dtype.kind != "f" or wanted.dtype.kind != "f":
        if got.dtype.kind != "c":  # numpy's complex arithmetic produces NaN where the components have none
            np.testing.assert_array_equal(got, wanted, err_msg=what)
        return
    with np.errstate(all="ignore"):
        wanted = wanted.astype(np.float32).astype(np.float64)
    if case.operation in DROPS:
        got, wanted = got[~np.isnan(wanted)], wanted[~np.isnan(wanted)]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted), err_msg=f"{what}: NaN")
    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-5, err_msg=what)


# --- fused kernels ----------------------------------------------------------------------------------------------------
ACTIVATIONS = {
    "none": lambda g, y: y,
    "relu": lambda g, y: g.relu(y),
    "leaky_relu": lambda g, y: g.leaky_relu(y, 0.1),
    "sigmoid": lambda g, y: g.sigmoid(y),
    "tanh": lambda g, y: g.tanh(y),
    "gelu": lambda g, y: y * (g.erf(y * 0.7071) + 1) * 0.5,
    "relu6": lambda g, y: g.clamp(y, 0, 6),
    "softmax": lambda g, y: g.softmax(y, -1),
}
# Rows, inner size, columns: one row, a few, many, columns that do not fill a vector, and a matrix with one column.
PRODUCTS = [(1, 3, 5), (4, 3, 5), (8, 256, 512), (48, 65, 33), (300, 40, 1), (130, 32, 32)]
CONVOLUTIONS = [(1, 5, 5, 3, 4, 3), (2, 8, 8, 16, 32, 1), (2, 12, 12, 16, 16, 3), (1, 9, 9, 33, 7, 5)]


def product(g, dtype: str, sizes: tuple[int, ...]):
    rows, inner, columns = sizes
    return (lambda x, w: x @ w), (rows, inner), (inner, columns), (rows, columns), (columns,)


def convolution(g, dtype: str, sizes: tuple[int, ...]):
    n, h, w, channels, filters, side = sizes
    shape = (n, h - side + 1, w - side + 1, filters)
    return (lambda x, k: g.convolution2d(x, k)), (n, h, w, channels), (side, side, channels, filters), shape, (filters,)


FORMS = {
    "alone": lambda g, y, bias, residual: y,
    "bias": lambda g, y, bias, residual: y + bias,
    "residual": lambda g, y, bias, residual: y + bias + residual,
    "normalized": lambda g, y, bias, residual: g.normalization(y, bias * 0, bias * 0 + 1, bias * 0 + 1, bias, 1e-5),
}
FUSED = [(product, s) for s in PRODUCTS] + [(convolution, s) for s in CONVOLUTIONS]


@pytest.mark.parametrize("dtype", [d for d in ("float32", "bfloat16") if device.has(d)])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("what", "sizes"), FUSED, ids=[f"{w.__name__}-{s[0]}x{s[1]}x{s[2]}" for w, s in FUSED])
def test_fused_kernels_propagate_nan_like_separate_operations(what, sizes, activation: str, dtype: str):
    """Test all matmul and convolution kernels with NaN and infinities in input, weights, bias, and residual."""
    rng = np.random.default_rng(sum(sizes))
    for form, combined in FORMS.items():
        g = mg.Graph()
        made, *shapes = what(g, dtype, sizes)
        source, weights, result, channels = shapes
        places = [g.placeholder(s, dtype) for s in (source, weights, channels, result)]
        y = ACTIVATIONS[activation](g, combined(g, made(places[0], places[1]), places[2], places[3]))
        arrays = [rng.uniform(-1, 1, s) for s in (source, weights, channels, result)]
        built = Built(g, places, [y])
        plain_feeds = [dtypes.array(a, dtype) for a in arrays]
        fast, plain = runner(built, plain_feeds, OPTIMISED), runner(built, plain_feeds, PLAIN)
        for i, (value, at) in itertools.product(range(4), [(np.nan, 0), (np.nan, -1), (np.inf, 0), (-np.inf, 0)]):
            fed = [dtypes.array(placed(a, at, value), dtype) if j == i else plain_feeds[j]
                   for j, a in enumerate(arrays)]  # fmt: skip
            (got,), (wanted,) = fast(fed), plain(fed)
            said = f"{form}: {value} in operand {i} at {at}"
            np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted), err_msg=said)
            np.testing.assert_array_equal(np.isinf(got), np.isinf(wanted), err_msg=said)


@pytest.mark.both_devices
# --- expected values --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rows", [1, 4, 64])
@pytest.mark.parametrize("options", [OPTIMISED, REFERENCE], ids=["optimised", "reference"])
def test_relu_of_nan_matmul_is_nan(rows: int, options: mg.CompilationDescriptor):
    g = mg.Graph()
    x, w = g.placeholder((rows, 3)), g.placeholder((3, 5))
    executable = g.compile({x: (rows, 3), w: (3, 5)}, [g.relu(x @ w)], options=options)
    fed = {x: np.full((rows, 3), np.nan, np.float32), w: np.ones((3, 5), np.float32)}
    (y,) = executable.run([fed[p] for p in executable.feeds])
    assert np.isnan(y.numpy()).all()


@pytest.mark.both_devices
@pytest.mark.parametrize("dtype", [d for d in ("float32", "float16", "bfloat16", "float64") if device.has(d)])
@pytest.mark.parametrize("count", [2, 16, 67])
def test_remainder_by_infinity_does_not_depend_on_neighbors(dtype: str, count: int):
    """The result is the dividend, or infinity with the sign of the divisor, regardless of neighboring elements."""
    g = mg.Graph()
    x, y = g.placeholder((count,), dtype), g.placeholder((count,), dtype)
    for infinite in positions(count):
        a, b = np.resize([5.0, -5.0], count), np.full(count, 3.0)
        b[infinite] = np.inf
        fed = {x: dtypes.array(a, dtype), y: dtypes.array(b, dtype)}
        results = g.run(fed, [g.modulo(x, y), g.floor_modulo(x, y)])
        for result, wanted in zip(results.values(), (np.fmod(a, b), np.mod(a, b)), strict=True):
            np.testing.assert_array_equal(dtypes.read(result), wanted)


def gradient_of(build_, *arrays: np.ndarray) -> list[np.ndarray]:
    g = mg.Graph()
    places = [g.placeholder(a.shape) for a in arrays]
    found = g.gradients(build_(g, *places), places)
    results = g.run(dict(zip(places, arrays, strict=True)), [found[p] for p in places])
    return [results[found[p]].numpy() for p in places]


@pytest.mark.both_devices
@pytest.mark.parametrize("kind", ["maximum", "minimum"])
def test_gradient_of_nan_extremum_is_nan(kind: str):
    """The behavior is that of PyTorch's amax and amin. For two operands, both gradients are NaN. An ignored NaN
    gets 0.
    """
    x = np.array([[1, np.nan, 2], [3, 3, 3]], np.float32)
    (d,) = gradient_of(lambda g, x: getattr(g, f"reduction_{kind}_propagate_nan")(x, axes=1), x)
    np.testing.assert_allclose(d, [[np.nan] * 3, [1 / 3] * 3], rtol=1e-6)
    (d,) = gradient_of(lambda g, x: getattr(g, f"reduction_{kind}")(x, axes=1), x)
    np.testing.assert_array_equal(d[0], [0, 0, 1] if kind == "maximum" else [1, 0, 0])
    a, b = np.float32([np.nan, 1, 2, np.nan]), np.float32([1, np.nan, 2, np.nan])
    for found in gradient_of(getattr(mg.Graph, f"{kind}_with_nan_propagation"), a, b):
        np.testing.assert_array_equal(found, [np.nan, np.nan, 0.5, np.nan])
    of_a, of_b = gradient_of(getattr(mg.Graph, kind), a, b)
    np.testing.assert_array_equal(of_a, [0, 1, 0.5, np.nan])
    np.testing.assert_array_equal(of_b, [1, 0, 0.5, np.nan])


FAR = [np.nan, np.inf, -np.inf, 1e30, -1e30, 300.0, -300.0, -1.5, 1.5, 127.0, -128.0, 255.0, 256.0, 2.0**31, -(2.0**31)]


@pytest.mark.parametrize("to", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("count", [1, 16, 67])
@pytest.mark.skipif(device.IS_METAL, reason="out-of-range casts are implementation-defined on Metal")
def test_out_of_range_casts_saturate(to: str, count: int):
    """NaN becomes 0. Vector code, scalar code, and fused element-wise kernels must agree."""
    x = np.resize(FAR, count).astype(np.float32)
    limits = np.iinfo(to)
    wanted = [0 if np.isnan(v) else int(min(max(float(v), float(limits.min)), float(limits.max))) if np.isfinite(v)
              else limits.max if v > 0 else limits.min for v in x]  # fmt: skip
    wanted = [min(max(w, limits.min), limits.max) for w in wanted]
    g = mg.Graph()
    place = g.placeholder((count,))
    results = g.run({place: x}, [g.cast(place, to), g.cast(place * 1.0 + 0.0, to)])
    for result in results.values():
        assert result.numpy().tolist() == wanted
