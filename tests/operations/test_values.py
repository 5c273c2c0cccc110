"""Compare results of every operation with numpy.

The tests cover every dtype, fast and reference kernels, runs with and without optional passes, and feeds of every kind.
They use the cases in tests/cases. Errors are tested in core/test_types and runtime/test_bad_input, and gradients in
test_gradients.
"""

from __future__ import annotations

import cases
import mpsgraph as mg
import numpy as np
import pytest
from harness import device, dtypes
from harness.case import INTEGERS, Case, typed
from harness.case_selection import ELEMENTWISE, SEVERAL, dtypes_of, with_shapes
from harness.running import AS_WRITTEN, OPTIMISED, REFERENCE, Built, build, check, expected, feeds, strided
from harness.subnormal import flushed

pytestmark = [pytest.mark.both_devices, pytest.mark.begins_early]

CPU = {"optimised": OPTIMISED, "as written": AS_WRITTEN, "reference": REFERENCE}
ENGINES = {"metal": OPTIMISED} if device.IS_METAL else CPU


BY_TYPE = [(case, dtype) for case in cases.ALL for dtype in dtypes_of(case)]


@pytest.mark.parametrize(("case", "dtype"), BY_TYPE, ids=[f"{c.id}-{d}" for c, d in BY_TYPE])
def test_results_match_numpy(case: Case, dtype: str):
    built, arrays = build(case, dtype), feeds(case.inputs, dtype)
    wanted = expected(case, arrays, dtype)
    for result, numbers in zip(built.results, wanted, strict=True):
        assert case.late or result.shape == numbers.shape, "the shape must be known when the graph is built"
    for name, options in ENGINES.items():
        check(case, built.run(arrays, options), wanted, name)


@pytest.mark.parametrize("case", cases.ALL, ids=lambda case: case.id)
def test_strided_feeds_are_copied_and_give_equal_results(case: Case):
    dtype = dtypes_of(case)[0]
    built, arrays = build(case, dtype), feeds(case.inputs, dtype)
    plain = built.run(arrays)
    before = mg.copy_count()
    from_views = built.run([strided(a) for a in arrays])
    assert mg.copy_count() - before == sum(not strided(a).flags.c_contiguous for a in arrays)
    for a, b in zip(plain, from_views, strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


@pytest.mark.parametrize("case", {c.operation: c for c in reversed(cases.ALL)}.values(), ids=lambda case: case.id)
def test_broadcast_feeds_are_copied_and_give_equal_results(case: Case):
    """The feeds are numpy views with strides of zero, which repeat a row or a number."""
    dtype = dtypes_of(case)[0]
    built, arrays = build(case, dtype), feeds(case.inputs, dtype)
    views = [np.broadcast_to(a[(slice(0, 1),) * a.ndim], a.shape) if a.size else a for a in arrays]
    for a, b in zip(built.run(views), built.run([v.copy() for v in views]), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


# --- dynamic shapes ---------------------------------------------------------------------------------------------------
BATCHED = [case for case in cases.ALL if case.batched() and case.inputs[0].size]


def other_batch(case: Case, arrays: list[np.ndarray], length: int) -> list[np.ndarray]:
    def resized(x: np.ndarray) -> np.ndarray:
        return np.take(x, np.arange(length) % len(x), axis=0)

    return [resized(x) if i in case.batched() else x for i, x in enumerate(arrays)]


@pytest.mark.parametrize("case", BATCHED, ids=lambda case: case.id)
def test_dynamic_batch_sizes_match_numpy(case: Case):
    dtype = dtypes_of(case)[0]
    shapes = [(-1, *x.shape[1:]) if i in case.batched() else x.shape for i, x in enumerate(case.inputs)]
    built = build(case, dtype, shapes)
    first = case.inputs[case.batched()[0]].shape[0]
    for length in (first, first + 3, 1, first):
        arrays = other_batch(case, feeds(case.inputs, dtype), length)
        check(case, built.run(arrays), expected(case, arrays, dtype), f"batch {length}")
    assert built.graph.cache.count == len({first, first + 3, 1})


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@pytest.mark.parametrize("case", BATCHED, ids=lambda case: case.id)
def test_empty_batches_match_numpy(case: Case):
    dtype = dtypes_of(case)[0]
    shapes = [(-1, *x.shape[1:]) if i in case.batched() else x.shape for i, x in enumerate(case.inputs)]
    built = build(case, dtype, shapes)
    arrays = [a[:0] if i in case.batched() else a for i, a in enumerate(feeds(case.inputs, dtype))]
    for name, options in ENGINES.items():
        check(case, built.run(arrays, options), expected(case, arrays, dtype), name)


UNRANKED = [case for case in cases.ALL if case.unranked]


@pytest.mark.parametrize("unknown", ["sizes", "rank"])
@pytest.mark.parametrize("case", UNRANKED, ids=lambda case: case.id)
def test_operations_with_dynamic_shapes_or_ranks_match_numpy(case: Case, unknown: str):
    """Graphs are built without sizes, or even without ranks, which are determined at run time."""
    dtype = dtypes_of(case)[0]
    shapes = [(-1,) * x.ndim if unknown == "sizes" else None for x in case.inputs]
    built, arrays = build(case, dtype, shapes), feeds(case.inputs, dtype)
    wanted = expected(case, arrays, dtype)
    for result, numbers in zip(built.results, wanted, strict=True):
        assert result.shape is None or len(result.shape) == numbers.ndim
    check(case, built.run(arrays), wanted, f"unknown {unknown}")


# --- element-wise operations: any shape, any number of elements -------------------------------------------------------
def run_both(case: Case, dtype: str, what: str) -> Built:
    built, arrays = build(case, dtype), feeds(case.inputs, dtype)
    wanted = expected(case, arrays, dtype)
    for name, options in ENGINES.items():
        check(case, built.run(arrays, options), wanted, f"{what} {name}")
    return built


@pytest.mark.parametrize("case", ELEMENTWISE, ids=lambda case: case.id)
def test_elementwise_operations_of_various_sizes_match_numpy(case: Case):
    """Sizes include rank 0, no elements, one element, partial vectors, and enough for several tiles and threads."""
    for shape in [(), (0,), (2, 0, 3), (1,), (17,), (3, 5, 7), (2, 2, 1, 3, 1, 2), (33, 257)]:
        run_both(with_shapes(case, [shape] * len(case.inputs)), dtypes_of(case)[0], f"shape {shape}")


BROADCASTS = [
    [(3, 4), (4,), (3, 1)],
    [(1,), (2, 3, 4), ()],
    [(), (), (5,)],
    [(2, 1, 3), (4, 1), (1, 1, 1)],
    [(3, 0), (1,), (1, 1)],
    [(7, 130), (7, 1), (130,)],
    [(4, 1, 6), (1, 5, 1), (6,)],
]


@pytest.mark.parametrize("case", SEVERAL, ids=lambda case: case.id)
def test_elementwise_operations_broadcast_as_in_numpy(case: Case):
    for shapes in BROADCASTS:
        for rotation in range(len(case.inputs)):
            turned = [shapes[(i + rotation) % len(case.inputs)] for i in range(len(case.inputs))]
            built = run_both(with_shapes(case, turned), dtypes_of(case)[0], f"shapes {turned}")
            assert built.results[0].shape == np.broadcast_shapes(*turned)


# --- non-finite and extreme numbers -----------------------------------------------------------------------------------
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3.0e38, -1.0e-40, 1e-45, 0.5, 88.0, -104.0, 710.0])
REAL_LINE = [
    case for case in ELEMENTWISE if len(case.inputs) == 1 and typed(case.inputs[0]) and "float64" in case.dtypes
]


@pytest.mark.parametrize("dtype", [d for d in ("float32", "float64") if device.has(d)])
@pytest.mark.parametrize("case", REAL_LINE, ids=lambda case: case.id)
def test_special_values_match_numpy(case: Case, dtype: str):
    """Signed zeros, infinities, NaN, and the largest and smallest numbers must match numpy in the same dtype.

    Subnormal numbers are zero where programs flush them.
    """
    numbers = np.array(np.resize(SPECIAL, 40).astype(dtype))
    special = Case(**{**vars(case), "inputs": [numbers.astype(np.float64)]})
    built = build(special, dtype)
    wanted = case.expected(flushed(numbers))[0]
    for name, options in ENGINES.items():
        (result,) = built.run([numbers], options)
        got = result.numpy()
        np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted), err_msg=f"{name}: NaN for inputs {numbers}")
        np.testing.assert_array_equal(np.isinf(got), np.isinf(wanted), err_msg=f"{name}: infinity for inputs {numbers}")
        np.testing.assert_allclose(got, wanted, rtol=5e-6, atol=1e-38, equal_nan=True, err_msg=name)


HALVES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 6.0e4, -6.0e-8, 1.0e-7, 0.5, 11.0, -17.0, 88.0, 0.999, -0.25]


@pytest.mark.parametrize(("dtype", "unit"), [("float16", 2.0**-10), ("bfloat16", 2.0**-7)])
@pytest.mark.parametrize("case", [c for c in REAL_LINE if "float16" in c.dtypes], ids=lambda case: case.id)
def test_half_precision_special_values_match_numpy(case: Case, dtype: str, unit: float):
    """Results must match rounded float64 results of numpy within two units in the last place, with equal
    infinities and NaN.
    """
    fed = dtypes.array(np.resize(HALVES, 40), dtype)
    built = build(Case(**{**vars(case), "inputs": [np.zeros(40)]}), dtype)
    wanted = case.expected(dtypes.plain(fed, dtype))[0]
    rounding = str(built.results[0].dtype)
    with np.errstate(over="ignore"):
        wanted = dtypes.plain(dtypes.array(wanted, rounding), rounding) if rounding == dtype else wanted
    for name, options in ENGINES.items():
        (result,) = built.run([fed], options)
        np.testing.assert_allclose(dtypes.read(result), wanted, rtol=2 * unit, atol=1e-7, equal_nan=True, err_msg=name)


# --- integers at the limits of their range ----------------------------------------------------------------------------
EDGES = (-(2**63), -(2**31), -(2**15), -(2**7), 2**7, 2**8, 2**15, 2**16, 2**31, 2**32, 2**63, 2**64)
NEAR = sorted(set(range(-2, 4)) | {7, 8, 31, 32, 33, 63, 64} | {e + d for e in EDGES for d in (-2, -1, 0, 1)})
WHOLE = [
    (case, dtype)
    for case in {c.operation: c for c in reversed(ELEMENTWISE)}.values()
    for dtype in case.dtypes
    if dtype in INTEGERS
]


@pytest.mark.parametrize(("case", "dtype"), WHOLE, ids=[f"{c.operation}-{d}" for c, d in WHOLE])
def test_integers_at_dtype_limits_match_numpy(case: Case, dtype: str):
    """Test all combinations: no division may crash the process, and results must match numpy in the same dtype."""
    limits = np.iinfo(dtype)
    numbers = np.array([n for n in NEAR if limits.min <= n <= limits.max], dtype)
    sides = np.meshgrid(*[numbers] * sum(typed(x) for x in case.inputs))
    columns = iter([np.ascontiguousarray(side.ravel()) for side in sides])
    arrays = [next(columns) if typed(x) else np.resize(x.ravel(), sides[0].size) for x in case.inputs]
    built = build(with_shapes(case, [a.shape for a in arrays]), dtype)
    fast, *others, plain = (built.run(arrays, options) for options in {**ENGINES, "reference": REFERENCE}.values())
    for results in (fast, *others):
        for a, b in zip(results, plain, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    # division by zero and negative powers are undefined in numpy
    if case.operation in ("division", "division_no_nan", "power"):
        return
    for a, wanted in zip(fast, case.expected(*arrays), strict=True):
        np.testing.assert_array_equal(a.numpy(), np.broadcast_to(wanted, a.shape).astype(str(a.dtype)))
