"""Cases of the top_k family: largest and smallest, any axis and k, ties, NaN, and the gradients of the values."""

import numpy as np
from harness.case import FLOATS, NUMBERS, ORDERED, Case, apart

from cases.sort import LONG, SPECIAL, TIES, arg_sorted

CUBE = apart(3, 4, 5, seed=160)


def indices_of(x, k, axis, largest):
    order = arg_sorted(x, axis, descending=largest)
    return np.take(order, range(int(k)), int(axis)).astype(np.int32)


def best(largest):
    def oracle(x, k, axis=-1):
        indices = indices_of(x, k, axis, largest)
        return [np.take_along_axis(x, indices, int(axis)), indices]

    return oracle


def gradient(largest):
    def oracle(g, x, k, axis=-1):
        result = np.zeros(x.shape, g.dtype)
        np.put_along_axis(result, indices_of(x, k, axis, largest), g, int(axis))
        return result

    return oracle


def scalar(number):
    return np.array(number, np.int32)


def cases():
    for kind, largest in (("top_k", True), ("bottom_k", False)):
        oracle, back = best(largest), gradient(largest)
        options = {"dtypes": ORDERED, "exact": True}
        yield Case(kind, [CUBE], oracle, {"k": 2}, label="last", batch=(0,), **options)
        yield Case(kind, [CUBE], oracle, {"k": 3, "axis": 1}, label="middle", batch=(0,), **options)
        yield Case(kind, [CUBE], oracle, {"k": 5}, label="all", batch=(0,), **options)
        yield Case(kind, [CUBE], oracle, {"k": 0}, label="none", batch=(0,), **options)
        yield Case(kind, [TIES], oracle, {"k": 4}, label="ties", batch=(), gradient=False, **options)
        yield Case(kind, [SPECIAL], oracle, {"k": 6}, label="special", gradient=False, dtypes=FLOATS, exact=True)
        yield Case(kind, [LONG], oracle, {"k": 40}, label="long", gradient=False, **options)
        late = {"batch": (), "late": True}
        yield Case(kind, [CUBE, scalar(2), scalar(0)], oracle, label="tensors", **late, **options)
        settings = {"dtypes": NUMBERS, "exact": True}
        name = kind + "_gradient"
        g = apart(3, 4, 2, seed=161)
        yield Case(name, [g, CUBE], back, {"k": 2}, label="last", batch=(0, 1), **settings)
        yield Case(
            name, [apart(3, 1, 5, seed=162), CUBE], back, {"k": 1, "axis": -2}, label="one", batch=(0, 1), **settings
        )
        yield Case(name, [g, CUBE, scalar(2), scalar(-1)], back, label="tensors", batch=(), **settings)


CASES = list(cases())
