"""Cases of the cumulative family: both directions, inclusive and exclusive, any axis, with zeros, ties, and NaN."""

import numpy as np
from harness.case import ALGEBRAIC, FLOATS, NUMBERS, Case, apart, off_zero, values

COMBINE = {
    "cumulative_sum": np.add,
    "cumulative_product": np.multiply,
    "cumulative_minimum": np.minimum,
    "cumulative_maximum": np.maximum,
}


def neutral(kind, dtype):
    if kind in ("cumulative_sum", "cumulative_product"):
        return 0 if kind == "cumulative_sum" else 1
    limits = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return limits[kind == "cumulative_minimum"]


def cumulative(kind):
    """Compute a cumulative operation element by element."""

    def oracle(x, axis, exclusive=False, reverse=False):
        lanes = np.moveaxis(x, int(axis), 0)
        result = np.empty_like(lanes)
        running = np.full(lanes.shape[1:], neutral(kind, x.dtype), x.dtype)
        for i in range(len(lanes))[:: -1 if reverse else 1]:
            after = COMBINE[kind](running, lanes[i])
            result[i] = running if exclusive else after
            running = after
        return np.moveaxis(result, 0, int(axis))

    return oracle


CUBE = apart(2, 5, 3, seed=140) / 4
NUMBER = np.array(1.5)
ZEROS = np.array([[2.0, 0.0, 3.0, 1.5], [0.0, 1.0, 0.0, 2.0], [0.5, 3.0, -2.0, 0.0]])
FLAGS = [{}, {"exclusive": True}, {"reverse": True}, {"exclusive": True, "reverse": True}]


def cases():
    for kind in COMBINE:
        oracle = cumulative(kind)
        exact = kind in ("cumulative_minimum", "cumulative_maximum")
        options = {"dtypes": NUMBERS if exact else ALGEBRAIC, "exact": exact, "tolerance": 4}
        for flags in FLAGS:
            label = "_".join(["middle", *flags])
            # An exclusive extremum starts with an infinity, for which finite differences are NaN.
            finite = not (exact and "exclusive" in flags)
            yield Case(kind, [CUBE], oracle, {"axis": 1, **flags}, label=label, batch=(0,), gradient=finite, **options)
            yield Case(kind, [apart(11, 7, seed=141) / 8], oracle, {"axis": -1, **flags}, label=label + "_rows",
                       batch=(0,), gradient=finite, **options)  # fmt: skip
        yield Case(kind, [CUBE], oracle, {"axis": 0}, label="first", batch=(), **options)
        yield Case(kind, [values(3, 0)], oracle, {"axis": 1}, label="nothing", batch=(0,), **options)
        yield Case(kind, [CUBE, np.array(-2, np.int32)], oracle, label="tensor_axis", batch=(), **options)
        wide = off_zero(2, 70, 65, seed=142, least=0.9, most=1.1)
        yield Case(kind, [wide], oracle, {"axis": 1}, label="wide", batch=(0,), gradient=False, dtypes=FLOATS,
                   exact=exact, tolerance=20)  # fmt: skip


def special(kind, numbers, label):
    return Case(kind, [np.array(numbers)], cumulative(kind), {"axis": 0}, label=label, dtypes=FLOATS, gradient=False,
                exact=True, batch=())  # fmt: skip


CASES = [
    *cases(),
    *(
        Case("cumulative_product", [ZEROS], cumulative("cumulative_product"), {"axis": 1, **flags},
             label="_".join(["zeros", *flags]), dtypes=ALGEBRAIC, tolerance=4, batch=(0,))
        for flags in FLAGS
    ),
    *(special(kind, [1.0, np.nan, 3.0, -np.inf], "nan") for kind in COMBINE),
    *(special(kind, [2.0, 2.0, 1.0, 1.0, 2.0], "ties") for kind in ("cumulative_minimum", "cumulative_maximum")),
]  # fmt: skip
