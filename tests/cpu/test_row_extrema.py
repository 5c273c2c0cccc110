"""Test row and column extrema, their indices, and integer sums, whose kernels are vectorized along a row."""

import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import SMALLER_SETS, run_again_with
from harness.running import REFERENCE

LENGTHS = [1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 200, 1031]
KINDS = ["reduction_maximum", "reduction_minimum", "reduction_maximum_propagate_nan", "reduction_minimum_propagate_nan"]
NUMPY = dict(zip(KINDS, [np.fmax, np.fmin, np.maximum, np.minimum], strict=True))


def results(x, axis, options=None):
    g = mg.Graph()
    p = g.placeholder(x.shape, x.dtype)
    wanted = [getattr(g, k)(p, [axis]) for k in KINDS]
    wanted += [g.reduction_arg_maximum(p, axis), g.reduction_arg_minimum(p, axis)]
    found = g.compile({p: (x.shape, x.dtype)}, wanted, options=options).run([x])
    return [r.numpy().ravel() for r in found]


def check(x):
    for axis in (0, 1):
        expected = [NUMPY[k].reduce(x, axis=axis) for k in KINDS] + [x.argmax(axis), x.argmin(axis)]
        for options in (None, REFERENCE):
            found = results(x, axis, options)
            for kind, a, b in zip([*KINDS, "arg_maximum", "arg_minimum"], found, expected, strict=True):
                np.testing.assert_array_equal(a, b, f"{kind} of {x.shape} {x.dtype} along {axis}")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "uint64"])
@pytest.mark.parametrize("n", LENGTHS)
def test_row_extrema_with_ties_match_numpy(n, dtype):
    rng = np.random.default_rng(n)
    low = 0 if dtype.startswith("u") else -9
    check(rng.integers(low, 10, (37, n)).astype(dtype))  # several elements are the greatest
    if "int" in dtype:
        ends = np.iinfo(dtype)
        check(rng.integers(ends.min, ends.max, (5, n), dtype, endpoint=True))
        check(np.full((3, n), ends.min, dtype))
        check(np.full((3, n), ends.max, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", LENGTHS)
def test_row_extrema_with_nan_and_inf_match_numpy(n, dtype):
    rng = np.random.default_rng(n)
    x = rng.standard_normal((60, n)).astype(dtype)
    x[:20][rng.random((20, n)) < 0.2] = np.nan
    x[10:30][rng.random((20, n)) < 0.2] = np.inf
    x[15:40][rng.random((25, n)) < 0.2] = -np.inf
    x[40] = np.nan
    x[41], x[42] = -np.inf, np.inf
    x[43] = np.where(rng.random(n) < 0.5, np.nan, -np.inf)
    x[44] = np.where(rng.random(n) < 0.5, np.nan, np.inf)
    for at in (0, n // 2, n - 1):  # a single one, in a vector or in the remainder
        x[45 + at % 5, at] = np.nan
    check(x)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "uint32", "int16", "uint16", "int8", "uint8"])
@pytest.mark.parametrize("n", [*LENGTHS, 9001])
def test_integer_row_sums_wrap_around(n, dtype):
    ends = np.iinfo(dtype)
    rows = 41 if n < 9001 else 3  # few long rows, so each column is a short sum
    x = np.random.default_rng(n).integers(ends.min, ends.max, (rows, n), dtype, endpoint=True)
    for axis in (0, 1):
        g = mg.Graph()
        p = g.placeholder(x.shape, dtype)
        found = g.run({p: x}, g.reduction_sum(p, [axis])).numpy()
        np.testing.assert_array_equal(found, x.sum(axis, dtype=dtype, keepdims=True))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8"])
def test_extrema_of_few_long_rows_match_numpy(dtype):
    x = np.random.default_rng(1).integers(0, 9, (3, 9001)).astype(dtype)
    if "float" in dtype:
        x[0, ::5], x[1, ::7], x[2, ::35] = np.nan, np.nan, -np.inf
    check(x)


@pytest.mark.parametrize("instructions", SMALLER_SETS)
def test_tests_of_this_file_pass_with_smaller_instruction_sets(instructions):
    run_again_with(instructions, __file__)
