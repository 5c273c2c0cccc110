"""Decompositions with closed formulas for their gradients, instead of gradients through every step of their loops.

The formulas hold for results that do not depend on the phases of singular vectors and eigenvectors, which are
arbitrary. Where two singular values or eigenvalues are equal, the terms that their difference divides count as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._core import Tensor
from .._custom_gradients import PREFIX, Record
from ..graph import Graph, gradient_records
from ..ops.control_flow import is_in_block
from . import _eigenvalues, _matrices
from ._matrices import adjoint, number, sizes


def blocked(x: Tensor, name: str | None) -> Tensor:
    """Return x as the result of an operation that passes the gradient to a constant."""
    g: Graph = x.graph  # type: ignore[assignment]
    if x.shape is not None and -1 not in x.shape:
        nothing = g.broadcast_to(g.constant(0, (), x.dtype), x.shape)
    else:  # Comparisons have no gradient.
        nothing = g.cast(g.equal(x, x), x.dtype)
    return g.straight_through(x, nothing, name)


def with_gradient(
    g: Graph, operands: Sequence[Tensor], results: Sequence[Tensor], backward: Callable[..., Any]
) -> list[Tensor]:
    """Return results whose gradient is computed by a function of the incoming gradients and the operands."""
    found = [blocked(r, PREFIX) if r.dtype.is_float or r.dtype.is_complex else r for r in results]
    gradient_records(g).append(Record(list(operands), found, backward))
    return found


def _product(g: Graph, *factors: Tensor) -> Tensor:
    found = factors[0]
    for factor in factors[1:]:
        found = g.matrix_multiplication(found, factor)
    return found


def _diagonal_matrix(g: Graph, values: Tensor) -> Tensor:
    """Return values (B, n) as diagonal matrices (B, n, n)."""
    return g.expand_dims(values, [2]) * _matrices.eye(g, 1, sizes(values)[1], values)


def _differences(g: Graph, values: Tensor) -> Tensor:
    """Return 1 / (values[j] - values[i]) at row i and column j, and 0 where they are equal."""
    apart = g.expand_dims(values, [1]) - g.expand_dims(values, [2])
    same = g.equal(g.absolute(apart), 0.0)
    return g.select(same, number(g, 0, apart), g.reciprocal(g.select(same, number(g, 1, apart), apart)))


def svd(g: Graph, a: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return u, the singular values, and the adjoint of v for a stack of matrices (B, m, n)."""
    u, s, vh = _eigenvalues.svd(g, a, full)
    if is_in_block(g):
        return u, s, vh
    (_, m, n), k = sizes(a), sizes(s)[1]

    def backward(incoming: tuple[Tensor, Tensor, Tensor], a: Tensor) -> Tensor:
        u_, vh_ = g.slice_axis(u, 2, 0, k), g.slice_axis(vh, 1, 0, k)
        du, ds = g.slice_axis(incoming[0], 2, 0, k), g.cast(incoming[1], a.dtype)
        dv, v = adjoint(g, g.slice_axis(incoming[2], 1, 0, k)), adjoint(g, vh_)
        uh, values = adjoint(g, u_), g.cast(s, a.dtype)
        scale = g.cast(_differences(g, g.square(s)), a.dtype)
        left, right = (_product(g, uh, du), _product(g, vh_, dv))
        row, column = g.expand_dims(values, [1]), g.expand_dims(values, [2])
        j, k_ = scale * left, scale * right
        inner = (j + adjoint(g, j)) * row + column * (k_ + adjoint(g, k_)) + _diagonal_matrix(g, ds)
        tiny = g.equal(values, 0.0) if not a.dtype.is_complex else g.equal(s, 0.0)
        inverse = g.select(tiny, number(g, 0, a), g.reciprocal(g.select(tiny, number(g, 1, a), values)))
        if a.dtype.is_complex:  # The phases of u and v are tied to each other.
            turn = right * _matrices.eye(g, 1, k, a)
            inner = inner + (adjoint(g, turn) - turn) * number(g, 0.5, a) * g.expand_dims(inverse, [1])
        found = _product(g, u_, inner, vh_)
        if m > k:
            rest = du - _product(g, u_, left)
            found = found + _product(g, rest * g.expand_dims(inverse, [1]), vh_)
        if n > k:
            rest = dv - _product(g, v, right)
            found = found + _product(g, u_, adjoint(g, rest * g.expand_dims(inverse, [1])))
        return found

    u, s, vh = with_gradient(g, [a], [u, s, vh], backward)
    return u, s, vh


def hermitian(g: Graph, a: Tensor, lower: bool) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues and eigenvectors of Hermitian matrices, of which one triangle is read."""
    whole = _eigenvalues.whole_of(g, a, lower)
    values, vectors = _eigenvalues.symmetric(g, whole)
    if is_in_block(g):
        return values, vectors

    def backward(incoming: tuple[Tensor, Tensor], whole: Tensor) -> Tensor:
        scale = g.cast(_differences(g, values), whole.dtype)
        vh = adjoint(g, vectors)
        inner = scale * _product(g, vh, incoming[1]) + _diagonal_matrix(g, g.cast(incoming[0], whole.dtype))
        found = _product(g, vectors, inner, vh)
        return (found + adjoint(g, found)) * number(g, 0.5, found)

    values, vectors = with_gradient(g, [whole], [values, vectors], backward)
    return values, vectors


def general(g: Graph, a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues and eigenvectors of a stack of matrices."""
    if not a.dtype.is_complex:
        a = g.cast(a, "complex128" if a.dtype.itemsize == 8 else "complex64")
    t, z = _eigenvalues.schur(g, a)
    values, vectors = _eigenvalues.diagonal(g, t), _eigenvalues.eigenvectors(g, t, z)
    if is_in_block(g):
        return values, vectors

    def backward(incoming: tuple[Tensor, Tensor], a: Tensor) -> Tensor:
        vh = adjoint(g, vectors)
        along = _product(g, vh, incoming[1])
        real = g.cast(g.real_part(along), a.dtype) * _matrices.eye(g, 1, sizes(a)[1], a)
        scale = g.conjugate(_differences(g, values))
        inner = scale * (along - _product(g, vh, vectors, real)) + _diagonal_matrix(g, incoming[0])
        factors, order, _, _ = _matrices.lu(g, vh)
        return _matrices.lu_solved(g, factors, order, _product(g, inner, vh))

    values, vectors = with_gradient(g, [a], [values, vectors], backward)
    return values, vectors


__all__ = ["blocked", "general", "hermitian", "svd", "with_gradient"]
