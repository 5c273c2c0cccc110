"""Test constant folding: every case runs once with its inputs fed and once with constants, and both must agree bitwise.

Folded values must equal those that the kernels compute at run time. Operands are those of the cases, the extremes of
every integer type, and NaN, infinities, and signed zeros. If a kernel rounds, constants may select a different kernel
that sums in a different order. The last digits may then differ, but not a NaN, an infinity, or a sign.
"""

from __future__ import annotations

import cases
import mpsgraph as mg
import numpy as np
import pytest
from harness import device, dtypes
from harness.case import INTEGERS, Case, typed
from harness.running import feed_dtype, feeds, run

pytestmark = pytest.mark.begins_early

BY_TYPE = [
    (case, dtype)
    for case in cases.ALL
    if case.inputs
    for dtype in (case.dtypes if any(typed(x) for x in case.inputs) else ("float32",))
    if device.has(dtype)
]
ENDS = [
    (case, dtype)
    for case in {c.operation: c for c in reversed(cases.ALL)}.values()
    for dtype in case.dtypes
    if dtype in INTEGERS and case.elementwise and device.has(dtype)
]
WIDE = 16  # elements per operand


def twins(case: Case, dtype: str, arrays: list[np.ndarray]) -> None:
    """Run a case once with feeds and once with constants, and compare the results and errors."""
    fed = mg.Graph()
    places = [fed.placeholder(a.shape, feed_dtype(x, dtype)) for x, a in zip(case.inputs, arrays, strict=True)]
    wanted = run(fed, places, arrays, case.tensors(fed, *places))
    constant = mg.Graph()
    values = [constant.constant(a, dtype=feed_dtype(x, dtype)) for x, a in zip(case.inputs, arrays, strict=True)]
    got = run(constant, [], [], case.tensors(constant, *values))
    for a, b in zip(got, wanted, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), case.id
        equal(case, str(a.dtype), dtypes.read(a), dtypes.read(b), f"{case.id} {dtype}")


def equal(case: Case, dtype: str, a: np.ndarray, b: np.ndarray, what: str) -> None:
    """Assert bitwise equality except for NaN payloads, or equality within the tolerance of dtype if the operation
    rounds.
    """
    rounds = dtype in dtypes.TOLERANCE and not case.exact
    tolerance = dtypes.TOLERANCE[dtype] * case.tolerance if rounds else 0
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=what)
    if a.dtype.kind == "f" and not rounds:
        number = ~np.isnan(a)
        np.testing.assert_array_equal(np.signbit(a[number]), np.signbit(b[number]), err_msg=f"{what}: sign of zero")


@pytest.mark.parametrize(("case", "dtype"), BY_TYPE, ids=[f"{c.id}-{d}" for c, d in BY_TYPE])
def test_folded_constants_give_same_results_as_feeds(case: Case, dtype: str):
    twins(case, dtype, feeds(case.inputs, dtype))


def near_the_ends(dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Return the extremes of an integer type, numbers around zero, and some random ones."""
    limits = np.iinfo(dtype)
    near = [limits.min, limits.min + 1, -2, -1, 0, 1, 2, 3, 5, limits.max // 2, limits.max // 2 + 1, limits.max - 1]
    small = [n for n in [*near, limits.max] if limits.min <= n <= limits.max]
    anything = rng.integers(limits.min, limits.max, WIDE, dtype=dtype, endpoint=True)
    return np.concatenate([np.array(small, dtype), anything])[-WIDE:]


@pytest.mark.parametrize(("case", "dtype"), ENDS, ids=[f"{c.operation}-{d}" for c, d in ENDS])
def test_folded_integer_extremes_give_same_results_as_feeds(case: Case, dtype: str, rng: np.random.Generator):
    """Fold all combinations in one graph, then each element alone, which takes a different code path."""
    sides = np.meshgrid(*[near_the_ends(dtype, rng) for x in case.inputs if typed(x)])
    columns = iter([np.ascontiguousarray(side.ravel()[:4096]) for side in sides])
    count = min(sides[0].size, 4096)
    arrays = [next(columns) if typed(x) else np.resize(x.ravel(), count) for x in case.inputs]
    twins(case, dtype, arrays)
    for i in rng.integers(0, count, 4):
        twins(case, dtype, [a[i : i + 1] for a in arrays])


SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 6.0e4, -6.0e4, 0.5, -2.5, 3.0]
FLOATING = [
    (case, dtype)
    for case in cases.ALL
    for dtype in case.dtypes
    if case.elementwise and dtype in dtypes.TOLERANCE and not dtype.startswith("complex") and device.has(dtype)
]


@pytest.mark.parametrize(("case", "dtype"), FLOATING, ids=[f"{c.id}-{d}" for c, d in FLOATING])
def test_folded_nan_inf_and_signed_zeros_give_same_results_as_feeds(case: Case, dtype: str):
    sides = np.meshgrid(*[SPECIAL for x in case.inputs if typed(x)])
    columns = iter([dtypes.array(np.ravel(side), dtype) for side in sides])
    arrays = [next(columns) if typed(x) else np.resize(x.ravel(), sides[0].size) for x in case.inputs]
    twins(case, dtype, arrays)
