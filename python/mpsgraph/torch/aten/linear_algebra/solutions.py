"""Translations of solvers that use matrix factorizations, inverses, determinants and the matrix exponential."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._core import Tensor
from ....numpy import _matrices as m_
from .._table import Call, aten
from .decompositions import _shaped, nothing


def _together(call: Call, *matrices: Tensor) -> tuple[list[int], list[Tensor]]:
    """Broadcast the batch axes of several matrices against each other.

    Returns the sizes of the batch axes, and the matrices with all batch axes merged into one.
    """
    g = call.g
    batch = list(np.broadcast_shapes(*(tuple(m_.sizes(x)[:-2]) for x in matrices)))
    wide = [g.broadcast_to(x, [*batch, *m_.sizes(x)[-2:]]) for x in matrices]
    return batch, [m_.flat(g, x) for x in wide]


def triangular(call: Call, a: Tensor, b: Tensor, upper: bool, left: bool, unit: bool) -> Tensor:
    """Solve a x = b, or x a = b, for a triangular matrix a."""
    g = call.g
    if m_.empty(a, b):
        return nothing(call)[0]
    batch, (a, b) = _together(call, a, b)
    if not left:
        a, b, upper = g.swap_axes(a, 1, 2), g.swap_axes(b, 1, 2), not upper
    x = m_.solved(g, a, b, not upper, unit)
    x = x if left else g.swap_axes(x, 1, 2)
    return g.reshape(x, [*batch, *m_.sizes(x)[-2:]])


@aten("linalg_solve_triangular")
def solve_triangular(
    call: Call, a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    return triangular(call, a, b, upper, left, unitriangular)


@aten("triangular_solve")
def triangular_solve(
    call: Call, b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    if m_.empty(a, b):
        return nothing(call)
    turned = call.g.swap_axes(a, -2, -1) if transpose else a
    return [triangular(call, turned, b, upper != transpose, True, unitriangular), a]


@aten("cholesky_solve", "_cholesky_solve_helper")
def cholesky_solve(call: Call, b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    if m_.empty(factor, b):
        return nothing(call)[0]
    batch, (factor, b) = _together(call, m_.adjoint(call.g, factor) if upper else factor, b)
    return call.g.reshape(_of_cholesky(call, factor, b), call.shape)


def _of_cholesky(call: Call, factor: Tensor, b: Tensor) -> Tensor:
    first = m_.solved(call.g, factor, b, True)
    return m_.solved(call.g, m_.adjoint(call.g, factor), first, False)


@aten("cholesky_inverse")
def cholesky_inverse(call: Call, factor: Tensor, upper: bool = False) -> Tensor:
    if m_.empty(factor):
        return nothing(call)[0]
    g = call.g
    flat = m_.flat(g, m_.adjoint(g, factor) if upper else factor)
    batch, n, _ = m_.sizes(flat)
    return g.reshape(_of_cholesky(call, flat, m_.eye(g, batch, n, flat)), call.shape)


@aten("linalg_lu_solve")
def lu_solve(
    call: Call, factors: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    g = call.g
    if m_.empty(factors, b):
        return nothing(call)[0]
    if not left:
        b, adjoint = m_.adjoint(g, b), not adjoint
    rows = g.reshape(pivots, [*m_.sizes(pivots), 1])
    batch, (factors, b, rows) = _together(call, factors, b, rows)
    order = m_.order_of(g, g.reshape(rows, m_.sizes(rows)[:2]), m_.sizes(factors)[1])
    x = m_.lu_solved(call.g, factors, order, b, adjoint)
    return g.reshape(x if left else m_.adjoint(g, x), call.shape)


def _turned(call: Call, a: Tensor) -> bool:
    """Return whether PyTorch factorizes the transpose of a matrix.

    In this case, the factors that it returns are those of the transpose, too.
    """
    return bool(call.arguments[0].is_contiguous()) and not a.dtype.is_complex


@aten("_linalg_solve_ex")
def solve(call: Call, a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    g = call.g
    if m_.empty(a, b):
        return nothing(call)
    vector = len(m_.sizes(b)) == 1 or m_.sizes(b) == m_.sizes(a)[:-1]
    right = g.expand_dims(b, -1) if vector else b
    factors, order, pivots, failed = m_.lu(g, m_.flat(g, a))
    wide = g.reshape(factors, m_.sizes(a))
    places = g.reshape(order, [*m_.sizes(a)[:-1], 1])
    if not left:
        right = m_.adjoint(g, right)
    batch, (one, places, right) = _together(call, wide, places, right)
    x = m_.lu_solved(call.g, one, g.reshape(places, m_.sizes(places)[:2]), right, not left)
    x = x if left else m_.adjoint(g, x)
    return _shaped(call, x, factors, pivots, failed)


@aten("linalg_inv_ex")
def inverse(call: Call, a: Tensor, *, check_errors: bool = False) -> Any:
    if m_.empty(a):
        return nothing(call)
    g, flat = call.g, m_.flat(call.g, a)
    batch, n, _ = m_.sizes(flat)
    factors, order, _, failed = m_.lu(g, flat)
    return _shaped(call, m_.lu_solved(call.g, factors, order, m_.eye(g, batch, n, flat), False), failed)


def _determinant(call: Call, a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Factorize matrices by LU. Return the diagonal of U, the sign of the permutation, the factors and the pivots."""
    return m_.determinant_parts(call.g, m_.flat(call.g, call.g.swap_axes(a, -2, -1) if _turned(call, a) else a))


@aten("_linalg_det")
def determinant(call: Call, a: Tensor) -> Any:
    g = call.g
    if m_.empty(a):
        return [g.constant(1, list(call.result[0].shape), a.dtype), *nothing(call)[1:]]
    diagonal, sign, factors, pivots = _determinant(call, a)
    product = g.reshape(g.reduction_product(diagonal, 1), m_.sizes(sign))
    return _shaped(call, product * sign, factors, pivots)


@aten("_linalg_slogdet")
def sign_and_logarithm(call: Call, a: Tensor) -> Any:
    g = call.g
    if m_.empty(a):
        return [g.constant(1, list(call.result[0].shape), a.dtype), *nothing(call)[1:]]
    if a.dtype.is_complex:
        call.refuse("complex numbers are not supported")
    diagonal, sign, factors, pivots = _determinant(call, a)
    sign = sign * g.reshape(g.reduction_product(g.sign(diagonal), 1), m_.sizes(sign))
    total = g.reshape(g.reduction_sum(g.logarithm(g.absolute(diagonal)), 1), m_.sizes(sign))
    return _shaped(call, sign, total, factors, pivots)


@aten("linalg_matrix_exp")
def matrix_exp(call: Call, a: Tensor) -> Tensor:
    g = call.g
    if m_.empty(a):
        return nothing(call)[0]
    return g.reshape(m_.exponential(g, m_.flat(g, a)), call.shape)
