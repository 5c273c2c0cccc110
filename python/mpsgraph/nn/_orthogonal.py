"""Random matrices with orthonormal columns."""

from __future__ import annotations

import functools

import numpy as np

from .._core import Executable
from ..graph import Graph
from ..precision.mixed_precision import autocast

_TOGETHER = 64  # Householder reflections that are applied together.


def orthonormal_columns(rows: int, columns: int, rng: np.random.Generator) -> np.ndarray:
    """Return a random float32 matrix with orthonormal columns, of which all are equally likely.

    The matrix is the factor Q of a matrix of normal numbers. Nothing is factored: the Householder vectors of such a
    matrix come from vectors of normal numbers, which are drawn directly.

    Source: Stewart, The Efficient Generation of Random Orthogonal Matrices, 1980.
    """
    vectors, signs = [], np.ones(columns, np.float32)
    for first in reversed(range(0, columns, _TOGETHER)):
        count = min(_TOGETHER, columns - first)
        diagonal = np.arange(count)
        v = np.tril(rng.standard_normal((rows - first, count), np.float32))
        # As if the diagonal of the factor R were positive, which makes the decomposition unique.
        signs[first : first + count] = np.where(v[diagonal, diagonal] < 0, 1, -1)
        v[diagonal, diagonal] -= signs[first : first + count] * np.sqrt(np.einsum("ij,ij->j", v, v))
        vectors.append(v)
    return _reflections(rows, columns).run(vectors)[0].numpy() * signs if columns else np.empty((rows, 0), np.float32)


@functools.lru_cache(maxsize=4)
def _reflections(rows: int, columns: int) -> Executable:
    """Return a program that multiplies the reflections of Householder vectors, last block first.

    A block of vectors V reflects by I - V T V', where the inverse of T is the upper triangle of V' V with half its
    diagonal. numpy's threads would wait for each other at every product, which takes seconds on busy processors.
    """
    g, feeds, q = Graph(), {}, None
    with autocast(enabled=False):
        for first in reversed(range(0, columns, _TOGETHER)):
            count = min(_TOGETHER, columns - first)
            v = g.placeholder((rows - first, count))
            feeds[v] = v.shape
            turned = g.transpose(v, [1, 0])
            products = turned @ v
            t = g.matrix_inverse(g.band_part(products, 0, -1) - 0.5 * g.band_part(products, 0, 0))
            before = g.constant(np.eye(rows - first, count, dtype=np.float32)) - v @ (t @ turned[:, :count])
            if q is not None:
                after = g.pad(q, [count, 0], [0, 0]) - v @ (t @ (turned[:, count:] @ q))
                before = g.concat([before, after], 1)
            q = before
        assert q is not None
        return g.compile(feeds, [q], device="cpu")
