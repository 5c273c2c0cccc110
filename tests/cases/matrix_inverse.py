"""Cases of the matrix_inverse family: sizes, batches, matrices that need row exchanges, and singular ones.

The expected values of the last case are from torch.linalg.inv of torch 2.13.
"""

import numpy as np
from harness.case import FLOATS, Case, values


def inverse(x):
    """Invert matrices by Cramer's rule."""
    n = x.shape[-1]
    result = np.zeros(x.shape)
    for at in np.ndindex(*x.shape[:-2]):
        m = x[at].astype(np.float64)
        for i, j in np.ndindex(n, n):
            minor = np.delete(np.delete(m, j, 0), i, 1)
            result[(*at, i, j)] = (-1) ** (i + j) * np.linalg.det(minor)
        result[at] /= np.linalg.det(m)
    return result.astype(x.dtype)


def well(*shape, seed):
    """Return well-conditioned matrices with large elements off the diagonal."""
    return values(*shape, seed=seed, low=-0.5, high=0.5) + 2 * np.roll(np.eye(shape[-1]), 1, -1)


def case(label, x, batch=(), **options):
    return Case("matrix_inverse", [x], inverse, label=label, batch=batch, **{"tolerance": 8, **options})


SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
SMALL = np.array([[2.0, 1.0], [0.5, -3.0]])
CASES = [
    case("one", well(3, 3, seed=220)),
    case("batch", well(2, 2, 4, 4, seed=221), batch=(0,)),
    case("numbers", np.array([[[4.0]], [[-0.5]]]), batch=(0,)),
    case("large", well(40, 40, seed=222), dtypes=("float32", "float64"), gradient=False, tolerance=30),
    case("exchanged", np.array([[0.0, 0.0, 2.0], [0.0, -1.0, 0.0], [4.0, 0.0, 0.0]])),
    case("nothing", np.zeros((2, 0, 0))),
    Case("matrix_inverse", [SINGULAR], lambda x: np.array([[np.inf, -np.inf], [-np.inf, np.inf]]), label="singular",
         dtypes=("float32", "float64"), gradient=False, build=lambda g, x: g.absolute(g.matrix_inverse(x)) * g.sign(
             g.constant([[1.0, -1.0], [-1.0, 1.0]], dtype=x.dtype))),
    Case("matrix_inverse", [SMALL], lambda x: np.array([[0.46153846, 0.15384616], [0.07692308, -0.30769232]]),
         label="torch", dtypes=("float32",)),
    case("halves", well(3, 3, seed=223), dtypes=FLOATS),
]  # fmt: skip
