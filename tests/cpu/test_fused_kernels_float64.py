"""Test generated code for float64 fused kernels: masks, float32 and int32 inputs and outputs, and casts.

Results are compared with the interpreted reference. The last test repeats this file with smaller instruction sets.
"""

import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import HAS_VECTORS, SMALLER_SETS, run_again_with
from harness.running import REFERENCE

LENGTHS = [1, 2, 3, 4, 7, 8, 9, 31, 4099]


def both(build, feeds, coded=True):
    """Return the results of generated code and of the reference.

    If `coded`, assert that the whole kernel is generated code.
    """
    g = mg.Graph()
    placeholders = [g.placeholder(a.shape, a.dtype) for a in feeds]
    results = build(g, *placeholders)
    types = {p: (a.shape, a.dtype) for p, a in zip(placeholders, feeds, strict=True)}
    found = []
    for options in (None, REFERENCE):
        executable = g.compile(types, results, options=options)
        if coded and options is None and HAS_VECTORS:
            assert "generated code" in executable.plan() and "tile functions" not in executable.plan()
        found.append([r.numpy() for r in executable.run(feeds)])
    return found


def check(found, rtol=1e-14):
    for a, b in zip(*found, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)  # generated code uses fused multiply-add


def numbers(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def chain(g, x, y):
    """Build an expression with every kind of operation, more live values than registers, and values used much later."""
    early = [x * k + y for k in (0.5, -1.5, 2.25, 3.0, -0.125, 7.0, 1.0, 0.75, -2.0, 5.0, 9.0, 11.0)]
    value = g.exponent(-g.absolute(x)) + g.tanh(y) - g.erf(x * y)
    value = g.select(g.less_than(x, y), value, g.square_root(g.absolute(value)))
    value = g.maximum(value, g.minimum(x, y)) + g.floor(x) - g.ceil(y) + g.rint(x) * g.truncate(y) + g.round(x)
    for e in early:
        value = value + g.sigmoid(e) * e
    return value


@pytest.mark.parametrize("n", LENGTHS)
def test_long_float64_expression_matches_reference(n):
    check(both(lambda g, x, y: [chain(g, x, y)], [numbers(n), numbers(n, 1)]), 1e-13)


@pytest.mark.parametrize("n", LENGTHS)
def test_fused_float64_kernel_reads_and_writes_bool_masks(n):
    x, y, mask = numbers(n), numbers(n, 1), numbers(n, 2) > 0

    def build(g, x, y, m):
        less = g.logical_xor(g.less_than(x, y), m)
        return [less, g.select(less, x, y), g.cast(less, "float64") + x, g.cast(x, "bool"), g.is_nan(x / 0.0 * 0.0)]

    check(both(build, [x, y, mask]))


@pytest.mark.parametrize("n", LENGTHS)
def test_fused_float64_kernel_reads_and_writes_float32_and_int32(n):
    x, y, k = numbers(n), numbers(n, 1).astype(np.float32), np.arange(n, dtype=np.int32) - 3

    def build(g, x, y, k):
        wide = g.cast(y, "float64") * x + g.cast(k, "float64")
        return [wide, g.cast(wide * 3.0, "float32")]

    check(both(build, [x, y, k]))


@pytest.mark.parametrize("n", LENGTHS)
def test_fused_cast_to_float32_rounds_intermediate_value(n):
    """A float32 value used in arithmetic, not only stored, prevents code generation but must still be rounded."""
    x = numbers(n)

    def build(g, x):
        rounded = g.cast(x * 3.0, "float32")
        return [rounded, g.cast(rounded, "float64") - x * 3.0, rounded * rounded]

    found = both(build, [x], coded=False)
    check(found)
    assert np.array_equal(found[0][1], (x * 3).astype(np.float32).astype(np.float64) - x * 3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", LENGTHS)
def test_fused_casts_to_int32_truncate_and_saturate(n, dtype):
    x = numbers(n) * 1e3
    edges = np.array([np.nan, np.inf, -np.inf, 2.0**31, -(2.0**31), 2.0**31 - 1, -(2.0**31) - 1, 1e300, -0.7, 0.7])
    x[: len(edges)] = edges[:n]
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    found = both(lambda g, x: [g.cast(x, "int32"), g.cast(g.cast(x * 0.5, "int32"), dtype) * 2.0], [x])
    expected = np.nan_to_num(x.astype(np.float64), nan=0).clip(-(2.0**31), 2.0**31 - 1).astype(np.int32)
    assert np.array_equal(found[0][0], expected)
    check(found)


@pytest.mark.parametrize("shape", [(5, 3), (3, 700), (2, 5, 513), (70, 8)])
def test_fused_float64_kernel_broadcasts_rows_and_columns(shape):
    x, row, column, one = numbers(shape), numbers(shape[-1], 1), numbers((*shape[:-1], 1), 2), numbers((), 3)
    mask, single = numbers(shape[-1], 4) > 0, numbers((), 5).astype(np.float32)

    def build(g, x, row, column, one, mask, single):
        return [g.select(mask, x * row, x - column) * one + g.cast(single, "float64")]

    check(both(build, [x, row, column, one, mask, single]))


@pytest.mark.parametrize("odd", [0, 3])
def test_large_fused_results_use_streaming_stores(odd):
    x = numbers((24 << 20) // 8 + 64 + odd)
    check(both(lambda g, x: [x * 2.0 + 1.0], [x]))


def test_fused_float64_special_values_match_numpy():
    x = np.array(
        [0.0, -0.0, 1.5, -1.5, 0.5, -0.5, 2.5, np.inf, -np.inf, np.nan, 1e300, -1e300, 1e-290, 4503599627370497.0]
    )
    left, right = (a.ravel() for a in np.meshgrid(x, x))
    pairs = {"maximum_with_nan_propagation": np.maximum, "minimum_with_nan_propagation": np.minimum,
             "maximum": np.fmax, "minimum": np.fmin, "addition": np.add, "subtraction": np.subtract,
             "multiplication": np.multiply, "division": np.divide, "less_than": np.less, "equal": np.equal,
             "not_equal": np.not_equal, "greater_than_or_equal_to": np.greater_equal}  # fmt: skip
    single = {"floor": np.floor, "ceil": np.ceil, "truncate": np.trunc, "rint": np.rint, "absolute": np.abs,
              "is_nan": np.isnan, "is_infinite": np.isinf, "is_finite": np.isfinite, "square_root": np.sqrt,
              "negative": np.negative, "reciprocal": np.reciprocal}  # fmt: skip
    found = both(
        lambda g, a, b: [getattr(g, k)(a, b) for k in pairs] + [getattr(g, k)(a) for k in single], [left, right]
    )
    with np.errstate(all="ignore"):
        expected = [f(left, right) for f in pairs.values()] + [f(left) for f in single.values()]
    for name, code, plain, exact in zip([*pairs, *single], *found, expected, strict=True):
        np.testing.assert_array_equal(code, plain, name)
        np.testing.assert_array_equal(code, exact, name)


def test_gelu_gradient_in_float64_uses_generated_code():
    """GELU and its gradient compile to generated code."""
    x, start = numbers((37, 21)), numbers((37, 21), 1)

    def build(g, x, start):
        y = x * 0.5 * (g.erf(x * 0.5**0.5) + 1.0)
        return [y, g.gradients(y, [x], start=start)[x]]

    check(both(build, [x, start]), 1e-12)


@pytest.mark.parametrize("instructions", SMALLER_SETS)
def test_tests_of_this_file_pass_with_smaller_instruction_sets(instructions):
    run_again_with(instructions, __file__)
