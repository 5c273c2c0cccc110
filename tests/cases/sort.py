"""Cases of the sort family: both directions, any axis, ties, NaN and infinities, every dtype, and long rows."""

import numpy as np
from harness.case import FLOATS, ORDERED, Case, apart


def arg_sorted(x, axis=-1, descending=False):
    """Sort stably, with NaN after all numbers; equal elements keep their order in both directions."""
    x = np.flip(x, int(axis)) if descending else x
    order = np.argsort(x, int(axis), kind="stable")
    return (np.flip(x.shape[int(axis)] - 1 - order, int(axis)) if descending else order).astype(np.int32)


def sorted_(x, axis=-1, descending=False):
    return np.take_along_axis(x, arg_sorted(x, axis, descending), int(axis))


ORACLES = {"sort": sorted_, "arg_sort": arg_sorted}
CUBE = apart(3, 4, 5, seed=150)
TIES = np.array([[2.0, 1.0, 2.0, 1.0, 2.0], [0.0, -0.0, 0.0, -1.0, -0.0]])
SPECIAL = np.array([np.nan, 1.0, np.inf, -np.inf, -2.0, np.nan, 0.0, 3.0e4, -1e-3])
LONG = np.random.default_rng(151).integers(-900, 900, (2, 5000)) / 8.0
BITS = np.random.default_rng(152).integers(-(2**62), 2**62, (300,)).astype(np.int64)


def cases():
    for kind, oracle in ORACLES.items():
        options = {"dtypes": ORDERED, "exact": True}
        for descending in (False, True):
            suffix = "_descending" if descending else ""
            how = {"descending": descending}
            yield Case(kind, [CUBE], oracle, {"axis": -1, **how}, label="last" + suffix, batch=(0,), **options)
            yield Case(kind, [CUBE], oracle, {"axis": 1, **how}, label="middle" + suffix, batch=(0,), **options)
            yield Case(kind, [TIES], oracle, {"axis": 1, **how}, label="ties" + suffix, gradient=False, batch=(),
                       dtypes=ORDERED, exact=True)  # fmt: skip
            yield Case(kind, [SPECIAL], oracle, {"axis": 0, **how}, label="special" + suffix, gradient=False,
                       dtypes=FLOATS, exact=True)  # fmt: skip
            yield Case(kind, [LONG], oracle, {"axis": 1, **how}, label="long" + suffix, gradient=False, **options)
            yield Case(kind, [LONG.T.copy()], oracle, {"axis": 0, **how}, label="long_lanes" + suffix, gradient=False,
                       dtypes=("float32", "int8", "float64"), exact=True)  # fmt: skip
        yield Case(kind, [BITS], oracle, {}, label="wide_integers", dtypes=("int64", "uint64"), exact=True)
        yield Case(kind, [np.zeros((3, 0))], oracle, {"axis": 1}, label="nothing", batch=(0,), **options)
        yield Case(kind, [np.array([7.0])], oracle, {}, label="one", **options)
        yield Case(kind, [CUBE, np.array(0, np.int32)], oracle, label="tensor_axis", batch=(), **options)


CASES = list(cases())
