"""Test fused kernels on half-precision, 8-bit, and bool tensors, with every value of a dtype and around vector lengths.

Generated code loads and stores these dtypes as vectors. With AVX2, the remainder of a row goes through a buffer.
Results are compared with numpy, and the tests are repeated with smaller instruction sets.
"""

import mpsgraph as mg
import numpy as np
import pytest
from harness import dtypes, running
from harness.instructions import HAS_VECTORS, SMALLER_SETS, run_again_with

LENGTHS = [*range(1, 34), 63, 64, 65, 4099]
HALVES = ("float16", "bfloat16")
INTEGERS = ("int8", "uint8")
EVERY_BYTE = np.arange(1 << 8, dtype=np.uint8)


def every_half(dtype):
    bits = np.arange(1 << 16, dtype=np.uint16)
    return bits.view(dtypes.BFLOAT16 if dtype == "bfloat16" else np.float16)


def plain(x, dtype):
    with np.errstate(invalid="ignore"):  # some of the values are signaling NaNs
        return dtypes.plain(x, dtype)


def results(build, arrays, types, options=None):
    g = mg.Graph()
    inputs = [g.placeholder(a.shape, t) for a, t in zip(arrays, types, strict=True)]
    made = build(g, *inputs)
    found = running.run(g, inputs, arrays, made if isinstance(made, list) else [made], options)
    return [plain(y.numpy(), str(y.dtype)) for y in found]


def assert_same(found, expected):
    """Assert equality including the sign of zero. NaN payloads may differ."""
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("dtype", HALVES)
def test_every_half_precision_value_is_read_and_written_exactly(dtype):
    x = every_half(dtype)
    numbers = plain(x, dtype)
    widened, negative, finite = results(lambda g, x: [g.cast(x, "float32"), -x, g.is_finite(x)], [x], [dtype])
    assert_same(widened, numbers)
    # Processors with native bfloat16 rounding flush subnormal results to zero.
    kept = ~((np.abs(numbers) < 2.0**-126) & (numbers != 0)) if dtype == "bfloat16" else np.full(numbers.shape, True)
    assert_same(negative[kept], -numbers[kept])
    np.testing.assert_array_equal(finite, np.isfinite(numbers))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("n", [64, 65, 79, 100, 1000, 2048, 2051, 5000])
def test_half_precision_row_sums_are_exact_for_small_multiples(dtype, n):
    """Sum a row directly, a broadcast row, and a row that is also used in float32."""
    x = np.random.default_rng(n).integers(-8, 9, (5, n)).astype(np.float32) / 8  # sums are exact
    x[3, n - 1] = np.inf

    def build(g, x):
        wide, row = g.cast(x, "float32"), g.broadcast_to(x[1:2], [5, n])
        return [g.reduction_sum(wide, axes=[1]), wide * 2, g.reduction_sum(g.cast(row, "float32"), axes=[1])]

    sums, twice, of_row = results(build, [dtypes.array(x, dtype)], [dtype])
    np.testing.assert_array_equal(sums[:, 0], x.sum(axis=1, dtype=np.float64))
    np.testing.assert_array_equal(twice, 2 * x)
    np.testing.assert_array_equal(of_row[:, 0], [x[1].sum(dtype=np.float64)] * 5)


@pytest.mark.parametrize("dtype", HALVES)
def test_float32_rounds_to_nearest_half_precision_value(dtype):
    """Check each half-precision value, the midpoints between neighbors, and the float32 numbers next to both."""
    halves = plain(every_half(dtype), dtype)
    halves = np.sort(halves[np.isfinite(halves)])
    between = (halves[1:] + halves[:-1]) / 2
    x = np.concatenate([halves, between]).astype(np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))])
    x = np.concatenate([x[(np.abs(x) >= 2.0**-126) | (x == 0)], np.float32([np.inf, -np.inf, np.nan, 3.4e38, -3.4e38])])
    with np.errstate(over="ignore"):
        expected = dtypes.plain(dtypes.array(x, dtype), dtype)
    assert_same(results(lambda g, x: g.cast(x, dtype), [x], ["float32"])[0], expected)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_float32_casts_to_8_bit_integers_saturate(dtype):
    least, largest = np.iinfo(dtype).min, np.iinfo(dtype).max
    whole = np.arange(-300, 301, dtype=np.float32)
    extremes = np.float32([np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 2.0**31, -(2.0**31), 2.0**32, 1e-45, -1e-45, -0.0])
    x = np.concatenate([whole, whole + 0.5, whole + 0.25, np.nextafter(whole, np.float32(0)), extremes])
    expected = np.where(np.isnan(x), 0, np.clip(np.trunc(x), least, largest)).astype(dtype)
    np.testing.assert_array_equal(results(lambda g, x: g.cast(x, dtype), [x], ["float32"])[0], expected)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("zero_point", [None, 3])
def test_quantize_and_dequantize_match_numpy(dtype, zero_point):
    rng = np.random.default_rng(0)
    x = np.concatenate([
        np.arange(-600, 600) * np.float32(0.005), rng.normal(size=4099), [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e38]
    ]).astype(np.float32)  # fmt: skip
    scale, point = np.float32(0.01), np.array(zero_point or 0, dtype)
    with np.errstate(over="ignore"):
        steps = np.rint(x / scale) + np.float32(zero_point or 0)
    limits = np.iinfo(dtype)
    expected = np.where(np.isnan(steps), 0, np.clip(steps, limits.min, limits.max)).astype(dtype)
    given = {} if zero_point is None else {"zero_point": zero_point}
    found = results(lambda g, x: g.quantize(x, scale=0.01, dtype=dtype, **given), [x], ["float32"])[0]
    np.testing.assert_array_equal(found, expected)
    every = EVERY_BYTE.view(dtype)
    back = results(lambda g, q: g.dequantize(q, scale=0.01, **given), [every], [dtype])[0]
    np.testing.assert_array_equal(back, (every.astype(np.float32) - np.float32(point)) * scale)


def mixture(g, half, brain, signed, unsigned, flag, single):
    """Build an expression that reads and writes every narrow dtype."""
    total = g.cast(half, "float32") * 0.5 + g.cast(brain, "float32") + g.cast(signed, "float32")
    chosen = g.select(flag, total, g.cast(unsigned, "float32") - single)
    targets = ("float16", "bfloat16", "int8", "uint8", "float32")
    return [*(g.cast(chosen, t) for t in targets), g.logical_xor(flag, g.greater_than(chosen, single))]


def mixed(rng, shapes):
    kinds = ("float16", "bfloat16", "int8", "uint8", "bool", "float32")
    made = []
    for kind, shape in zip(kinds, shapes, strict=True):
        numbers = rng.integers(-100, 100, shape)
        made.append(numbers > 0 if kind == "bool" else dtypes.array(numbers.astype(np.float64), kind))
    return made, kinds


def mixture_by_numpy(half, brain, signed, unsigned, flag, single):
    half, brain = dtypes.plain(half, "float16"), dtypes.plain(brain, "bfloat16")
    total = half * 0.5 + brain + signed.astype(np.float64)
    chosen = np.where(flag, total, unsigned.astype(np.float64) - single)
    half = dtypes.plain(dtypes.array(chosen, "float16"), "float16")
    brain = dtypes.plain(dtypes.array(chosen, "bfloat16"), "bfloat16")
    whole = [np.clip(np.trunc(chosen), np.iinfo(t).min, np.iinfo(t).max) for t in INTEGERS]
    return [half, brain, *whole, chosen, flag ^ (chosen > single)]


def assert_mixture(shapes, seed, options=None):
    arrays, kinds = mixed(np.random.default_rng(seed), shapes)
    for found, expected in zip(results(mixture, arrays, kinds, options), mixture_by_numpy(*arrays), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("n", LENGTHS)
def test_fused_mixed_dtypes_around_vector_length_match_numpy(n):
    assert_mixture([(n,)] * 6, n)


@pytest.mark.parametrize("single", range(6))
@pytest.mark.parametrize("n", [5, 16, 1031])
def test_fused_mixed_dtypes_with_scalar_operand_match_numpy(single, n):
    assert_mixture([(1,) if i == single else (n,) for i in range(6)], n)


@pytest.mark.parametrize("byte", [0, 1, 2, 0x80, 0xFF])
@pytest.mark.parametrize("n", [5, 37])
def test_scalar_bool_is_true_for_any_nonzero_byte(byte, n):
    flag, x = np.array([byte], np.uint8).view(bool), np.arange(n, dtype=np.float32)
    found = results(lambda g, f, v: g.select(f, v * 2.0, v - 1.0), [flag, x], ["bool", "float32"])[0]
    np.testing.assert_array_equal(found, x * 2 if byte else x - 1)


@pytest.mark.parametrize("other", [(1, 1), (3, 1), (1, 1031)], ids=str)
@pytest.mark.parametrize("which", range(6))
def test_fused_mixed_dtypes_with_broadcast_rows_match_numpy(which, other):
    assert_mixture([other if i == which else (3, 1031) for i in range(6)], which)


@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 3, 1), (37, 9)], ids=str)
def test_fused_mixed_dtypes_with_short_broadcast_rows_match_numpy(shape):
    assert_mixture([shape, shape[-1:], shape, (shape[0], *[1] * (len(shape) - 1)), shape, shape], 1)


def test_narrow_dtype_results_do_not_depend_on_thread_count():
    before = mg.get_num_threads()
    try:
        for count in sorted({1, before}):
            mg.set_num_threads(count)
            assert_mixture([(3, 70_001)] * 6, 7)
    finally:
        mg.set_num_threads(before)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("n", [7, 8, 1023, 4096])
def test_fused_half_precision_reductions_match_numpy(dtype, n):
    """The operands are integers, whose sums are exact in float32."""
    x = np.random.default_rng(n).integers(-8, 8, (6, n)).astype(np.float64)

    def sums(g, h):
        return [g.reduction_sum(g.cast(h, "float32") * 2.0 + 1.0, axes=axes) for axes in ([0, 1], [1], [0])]

    found = results(sums, [dtypes.array(x, dtype)], [dtype])
    for y, axes in zip(found, [(0, 1), 1, 0], strict=True):
        np.testing.assert_array_equal(y.ravel(), np.sum(2 * x + 1, axes).ravel())


def test_narrow_dtypes_use_generated_code():
    if not HAS_VECTORS:
        pytest.skip("code generation requires vectors")
    g = mg.Graph()
    x, q, h = g.placeholder((100,)), g.placeholder((100,), "int8"), g.placeholder((100,), "float16")
    for y in (g.quantize(x, scale=0.5), g.dequantize(q, scale=0.5), h + h * 0.5, g.less_than(x, 1.0)):
        plan = g.compile({t: t.shape for t in (x, q, h)}, y).plan()
        assert "generated code" in plan and "tile functions" not in plan, plan


@pytest.mark.parametrize("name", SMALLER_SETS)
def test_tests_of_this_file_pass_with_smaller_instruction_sets(name):
    run_again_with(name, __file__)
