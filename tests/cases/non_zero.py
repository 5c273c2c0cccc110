"""Cases of the non_zero family: any rank and dtype, all or no elements nonzero, and operations on the
resulting indices.
"""

import numpy as np
from harness.case import ANY, Case, apart


def non_zero_indices(x):
    return np.array([at for at in np.ndindex(*x.shape) if x[at] != 0], np.int32).reshape(np.count_nonzero(x), x.ndim)


SPARSE = np.array([[1.0, 0.0, 3.0, 0.0], [0.0, -10.0, 0.0, 0.0], [0.0, 0.0, 0.0, 7.0]])
LONG = np.where(np.random.default_rng(230).random((3, 5000)) < 0.3, 1.0, 0.0)


def case(label, x, **options):
    settings = {"dtypes": ANY, "exact": True, "batch": (0,) if x.ndim else (), "late": True, **options}
    return Case("non_zero_indices", [x], non_zero_indices, label=label, **settings)


def picked(g, x):
    """Double the nonzero elements, an operation that follows a value-dependent shape."""
    return g.gather_nd(x, g.non_zero_indices(x)) * 2


CASES = [
    case("sparse", SPARSE),
    case("cube", np.where(apart(2, 3, 4, seed=231) > 0, apart(2, 3, 4, seed=231), 0.0)),
    case("all", np.ones((2, 3))),
    case("none", np.zeros((2, 3))),
    case("nothing", np.zeros((0, 3))),
    case("number", np.array(2.0)),
    case("zero", np.array(0.0)),
    case("long", LONG, dtypes=("float32", "int8", "bool")),
    Case("non_zero_indices", [SPARSE], lambda x: x[x != 0] * 2, build=picked, label="used", batch=(), late=True,
         gradient=False),  # a finite difference at a zero changes the size of the result
]  # fmt: skip
