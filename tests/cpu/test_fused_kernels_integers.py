"""Compare generated code for int32 and int64 fused kernels, and casts between all dtypes, with numpy and the reference.

Operations without generated code, such as int64 multiplication with AVX2, are interpreted with equal results. The last
test repeats this file with smaller instruction sets.
"""

from functools import partial

import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import HAS_VECTORS, SMALLER_SETS, run_again_with
from harness.running import REFERENCE

LENGTHS = [1, 3, 4, 7, 8, 9, 16, 17, 4099]
WRAPPING = {
    "addition": np.add, "subtraction": np.subtract, "multiplication": np.multiply, "minimum": np.minimum,
    "maximum": np.maximum, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "equal": np.equal, "not_equal": np.not_equal, "less_than": np.less, "less_than_or_equal_to": np.less_equal,
    "greater_than": np.greater, "greater_than_or_equal_to": np.greater_equal,
}  # fmt: skip
SINGLE = {"negative": np.negative, "absolute": np.abs, "sign": np.sign, "bitwise_not": np.invert, "square": np.square}


def run(build, feeds, options=None):
    g = mg.Graph()
    placeholders = [g.placeholder(a.shape, a.dtype) for a in feeds]
    types = {p: (a.shape, a.dtype) for p, a in zip(placeholders, feeds, strict=True)}
    executable = g.compile(types, build(g, *placeholders), options=options)
    return [r.numpy() for r in executable.run(feeds)], executable.plan()


def numbers(n, dtype, seed):
    """Return small and large integers, including the limits of the dtype."""
    rng, ends = np.random.default_rng(seed), np.iinfo(dtype)
    small, large = rng.integers(-9, 10, n), rng.integers(ends.min, ends.max, n, dtype)
    x = np.where(rng.random(n) < 0.6, small, large).astype(dtype)
    x[: min(n, 4)] = np.array([ends.min, ends.max, 0, -1], dtype)[rng.permutation(4)[:n]]
    return x


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("n", LENGTHS)
def test_fused_integer_operations_match_numpy(n, dtype):
    x, y = numbers(n, dtype, 0), numbers(n, dtype, 1)

    def build(g, x, y):
        return [getattr(g, k)(x, y) for k in WRAPPING] + [getattr(g, k)(x) for k in SINGLE]

    found, _ = run(build, [x, y])
    with np.errstate(over="ignore"):
        expected = [f(x, y) for f in WRAPPING.values()] + [f(x) for f in SINGLE.values()]
    for name, a, b in zip([*WRAPPING, *SINGLE], found, expected, strict=True):
        np.testing.assert_array_equal(a, b, name)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("kind", [*WRAPPING, *SINGLE])
def test_single_integer_operation_uses_generated_code(kind, dtype):
    x, y = numbers(100, dtype, 0), numbers(100, dtype, 1)
    feeds = [x, y] if kind in WRAPPING else [x]
    found, plan = run(lambda g, *t: [getattr(g, kind)(*t)], feeds)
    wide_product = dtype == "int64" and kind in ("multiplication", "square")
    if HAS_VECTORS and not (wide_product and "AVX-512" not in mg.Device("cpu").description):
        assert "generated code" in plan, plan
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found[0], {**WRAPPING, **SINGLE}[kind](*feeds))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("n", LENGTHS)
def test_fused_integer_expression_with_masks_and_clamps_matches_numpy(n, dtype):
    x, y, mask = numbers(n, dtype, 0), numbers(n, dtype, 1), numbers(n, dtype, 2) > 0

    def build(g, x, y, m):
        inside = g.logical_and(g.less_than(x, y), m)
        chosen = g.select(inside, x - y, g.clamp(x, -5, 7))
        return [chosen, inside, g.cast(inside, dtype) + g.maximum(y, 0), g.cast(chosen, "bool"), g.signbit(x)]

    found, plan = run(build, [x, y, mask])
    with np.errstate(over="ignore"):
        inside = (x < y) & mask
        chosen = np.where(inside, x - y, np.clip(x, -5, 7))
        expected = [chosen, inside, inside + np.maximum(y, 0), chosen != 0, x < 0]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not HAS_VECTORS or "tile functions" not in plan


@pytest.mark.parametrize("shape", [(5, 3), (3, 700), (70, 8)])
def test_fused_integer_kernel_broadcasts_rows_and_scalars(shape):
    rng = np.random.default_rng(3)
    x, row, one = rng.integers(-99, 99, shape), rng.integers(-99, 99, shape[-1]), np.array(7)
    narrow = rng.integers(-99, 99, (shape[0], 1)).astype(np.int32)
    found, _ = run(lambda g, x, r, o, k: [g.maximum(x + r, o) - g.cast(k, "int64")], [x, row, one, narrow])
    np.testing.assert_array_equal(found[0], np.maximum(x + row, one) - narrow)


TYPES = ["bool", "int8", "uint8", "int16", "int32", "int64", "uint32", "float16", "float32", "float64"]


def cast_and_on(to, g, x):
    return [g.maximum(g.cast(x, to), g.cast(g.cast(x, to), to)), g.cast(x, "float64")]


@pytest.mark.parametrize("to", TYPES)
@pytest.mark.parametrize("source", TYPES)
def test_fused_integer_casts_match_reference(source, to):
    """Cast numbers within and beyond the range, and NaN, alone and between two other operations."""
    for n in LENGTHS:
        rng = np.random.default_rng(n)
        if source == "bool":
            x = rng.integers(0, 2, n).astype(bool)
        elif "int" in source:
            ends = np.iinfo(source)
            x = np.where(rng.random(n) < 0.5, rng.integers(0, 100, n), rng.integers(ends.min, ends.max, n, source))
            x = x.astype(source)
        else:
            x = rng.standard_normal(n) * 10.0 ** rng.integers(-1, 5 if source == "float16" else 22, n)
            x[: min(n, 4)] = np.array([np.nan, np.inf, -np.inf, -0.0])[rng.permutation(4)[:n]]
            with np.errstate(over="ignore"):
                x = x.astype(source)
        alone = [run(lambda g, x: [g.cast(x, to)], [x], options)[0][0] for options in (None, REFERENCE)]
        np.testing.assert_array_equal(*alone, f"{n} of {source} to {to}")
        if to != "bool":
            both = [run(partial(cast_and_on, to), [x], options)[0] for options in (None, REFERENCE)]
            for a, b in zip(*both, strict=True):
                np.testing.assert_array_equal(a, b, f"{n} of {source} to {to}, then on")


def test_large_int64_cast_to_float64_rounds_once():
    x = np.random.default_rng(5).integers(-(2**63), 2**63 - 1, 5000, np.int64) >> np.arange(5000) % 12
    found, _ = run(lambda g, x: [g.cast(x, "float64")], [x])
    np.testing.assert_array_equal(found[0], x.astype(np.float64))


@pytest.mark.parametrize("instructions", SMALLER_SETS)
def test_tests_of_this_file_pass_with_smaller_instruction_sets(instructions):
    run_again_with(instructions, __file__)
