"""The constant-folding twin of every case: once with its inputs fed, once as constants, equal bit for bit.

What a compiler computes before anything runs must be what the kernels would have made of it. Operands are those of the
cases, integers of each type at the ends of its range, and floats that are no ordinary numbers. Where a kernel rounds,
another one may have been taken for constants, which adds in another order: then the last places may differ, but no NaN,
infinity or sign.
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
WIDE = 16  # values of one operand


def twins(case: Case, dtype: str, arrays: list[np.ndarray]) -> None:
    """Fed and constant, in one graph each; errors of one are errors of the other."""
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
    """The same bits, but for the payload of NaN; of what is rounded the same to the type's tolerance."""
    rounds = dtype in dtypes.TOLERANCE and not case.exact
    tolerance = dtypes.TOLERANCE[dtype] * case.tolerance if rounds else 0
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=what)
    if a.dtype.kind == "f" and not rounds:
        number = ~np.isnan(a)
        np.testing.assert_array_equal(np.signbit(a[number]), np.signbit(b[number]), err_msg=f"{what}: sign of zero")


@pytest.mark.parametrize(("case", "dtype"), BY_TYPE, ids=[f"{c.id}-{d}" for c, d in BY_TYPE])
def test_constants_give_what_feeds_give(case: Case, dtype: str):
    twins(case, dtype, feeds(case.inputs, dtype))


def near_the_ends(dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Integers of a type at its ends and around zero, and some of any size."""
    limits = np.iinfo(dtype)
    near = [limits.min, limits.min + 1, -2, -1, 0, 1, 2, 3, 5, limits.max // 2, limits.max // 2 + 1, limits.max - 1]
    small = [n for n in [*near, limits.max] if limits.min <= n <= limits.max]
    anything = rng.integers(limits.min, limits.max, WIDE, dtype=dtype, endpoint=True)
    return np.concatenate([np.array(small, dtype), anything])[-WIDE:]


@pytest.mark.parametrize(("case", "dtype"), ENDS, ids=[f"{c.operation}-{d}" for c, d in ENDS])
def test_constants_at_the_ends_of_their_range(case: Case, dtype: str, rng: np.random.Generator):
    """Every pair, or triple, of them in one graph, and each number alone, which folds by another way."""
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
def test_constants_that_are_no_ordinary_numbers(case: Case, dtype: str):
    sides = np.meshgrid(*[SPECIAL for x in case.inputs if typed(x)])
    columns = iter([dtypes.array(np.ravel(side), dtype) for side in sides])
    arrays = [next(columns) if typed(x) else np.resize(x.ravel(), sides[0].size) for x in case.inputs]
    twins(case, dtype, arrays)
