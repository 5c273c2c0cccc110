"""Matrix decompositions, triangular solves, eigenvalues, and singular values, by the algorithms of mpsgraph.numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core import Tensor
from ...graph import Graph
from ...numpy import _eigenvalues as e_
from ...numpy import _gradients
from ...numpy import _matrices as m_
from ._table import Equation, primitive, shape


def _stacked(equation: Equation, algorithm: m_.Algorithm, *operands: Tensor, ranks: Sequence[int] = ()) -> list[Tensor]:
    """Apply an algorithm to operands with any leading axes. The results have the types that JAX predicts."""
    types = [(aval.shape, aval.dtype.name) for aval in equation.results]
    return m_.stacked(equation.g, types, algorithm, *operands, ranks=ranks)


@primitive("cholesky")
def cholesky(equation: Equation, a: Tensor, **_: Any) -> Any:
    """Translate cholesky. The result has the triangle above the diagonal of a; it is NaN if a is not positive
    definite.
    """

    def function(g: Graph, a: Tensor) -> list[Tensor]:
        factor, failed = m_.cholesky(g, a)
        whole = factor + m_.triangle(g, a, False, strict=True)
        valid = g.reshape(g.equal(failed, 0), [m_.sizes(a)[0], 1, 1])
        return [g.select(valid, whole, m_.number(g, np.nan, a))]

    return _stacked(equation, function, a)


@primitive("triangular_solve")
def triangular_solve(
    equation: Equation,
    a: Tensor,
    b: Tensor,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Any:
    """Translate triangular_solve, which returns x with op(a) x = b or x op(a) = b."""

    def function(g: Graph, a: Tensor, b: Tensor) -> list[Tensor]:
        a = g.conjugate(a) if conjugate_a and a.dtype.is_complex else a
        a = g.swap_axes(a, 1, 2) if transpose_a else a
        return [m_.solved_triangular(g, a, b, lower != transpose_a, unit_diagonal, left_side)]

    return _stacked(equation, function, a, b)


@primitive("lu")
def lu(equation: Equation, a: Tensor, **_: Any) -> Any:
    def function(g: Graph, a: Tensor) -> list[Tensor]:
        factors, order, pivots, _ = m_.lu(g, a)
        return [factors, pivots - 1, order]

    return _stacked(equation, function, a)


@primitive("lu_pivots_to_permutation")
def lu_pivots_to_permutation(equation: Equation, pivots: Tensor, *, permutation_size: int) -> Any:
    return _stacked(equation, lambda g, p: [m_.order_of(g, p + 1, permutation_size)], pivots, ranks=[1])


@primitive("geqrf")
def geqrf(equation: Equation, a: Tensor, **_: Any) -> Any:
    return _stacked(equation, lambda g, a: m_.reflections(g, a)[:2], a)


@primitive("geqp3")
def geqp3(equation: Equation, a: Tensor, pivots: Tensor, **_: Any) -> Any:
    def function(g: Graph, a: Tensor) -> list[Tensor]:
        packed, factors, order = m_.reflections(g, a, True)
        return [packed, order + 1, factors]

    return _stacked(equation, function, a)


@primitive("householder_product")
def householder_product(equation: Equation, a: Tensor, factors: Tensor, **_: Any) -> Any:
    def function(g: Graph, a: Tensor, factors: Tensor) -> list[Tensor]:
        return [g.slice_axis(m_.product_of_reflections(g, a, factors), 2, 0, m_.sizes(a)[2])]

    return _stacked(equation, function, a, factors, ranks=[2, 1])


@primitive("qr")
def qr(equation: Equation, a: Tensor, *, full_matrices: bool, pivoting: bool = False, **_: Any) -> Any:
    m, n = shape(a)[-2:]

    def function(g: Graph, a: Tensor) -> list[Tensor]:
        packed, factors, order = m_.reflections(g, a, pivoting)
        size = m if full_matrices else min(m, n)
        q = g.slice_axis(m_.product_of_reflections(g, packed, factors), 2, 0, size)
        r = g.slice_axis(m_.triangle(g, packed, False), 1, 0, size)
        return [q, r, order] if pivoting else [q, r]

    return _stacked(equation, function, a)


@primitive("tridiagonal_solve")
def tridiagonal_solve(equation: Equation, *operands: Tensor, **_: Any) -> Any:
    """Translate tridiagonal_solve by Gaussian elimination with row exchanges on the full matrix."""

    def function(g: Graph, below: Tensor, middle: Tensor, above: Tensor, b: Tensor) -> list[Tensor]:
        count = m_.sizes(middle)[1]
        # Row i of the matrix has below[i], middle[i], and above[i] at columns i - 1, i, and i + 1.
        parts = [
            g.expand_dims(x, [2]) * g.constant(np.eye(count, k=k).astype(x.dtype.numpy))
            for x, k in ((below, -1), (middle, 0), (above, 1))
        ]
        a = parts[0] + parts[1] + parts[2]
        factors, order, _, _ = m_.lu(g, a)
        return [m_.lu_solved(g, factors, order, b)]

    return _stacked(equation, function, *operands, ranks=[1, 1, 1, 2])


# --- eigenvalues and singular values ----------------------------------------------------------------------------------
@primitive("eigh")
def eigh(
    equation: Equation, a: Tensor, *, lower: bool, sort_eigenvalues: bool = True, subset_by_index: Any = None, **_: Any
) -> Any:
    if subset_by_index is not None and tuple(subset_by_index) != (0, shape(a)[-1]):
        equation.refuse("computing only a subset of the eigenvalues is not supported")
    return _stacked(equation, lambda g, a: _gradients.hermitian(g, a, lower)[::-1], a)


@primitive("svd")
def svd(
    equation: Equation,
    a: Tensor,
    *,
    full_matrices: bool,
    compute_uv: bool,
    subset_by_index: Any = None,
    **_: Any,
) -> Any:
    if subset_by_index is not None and tuple(subset_by_index) != (0, min(shape(a)[-2:])):
        equation.refuse("computing only a subset of the singular values is not supported")

    def function(g: Graph, a: Tensor) -> list[Tensor]:
        u, values, v = _gradients.svd(g, a, full_matrices and compute_uv)
        return [values, u, v] if compute_uv else [values]

    return _stacked(equation, function, a)


@primitive("eig")
def eig(
    equation: Equation,
    a: Tensor,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    **_: Any,
) -> Any:
    def function(g: Graph, a: Tensor) -> list[Tensor]:
        if not a.dtype.is_complex:
            a = g.cast(a, "complex128" if a.dtype.itemsize == 8 else "complex64")
        t, z = e_.schur(g, a)
        found = [e_.diagonal(g, t)]
        if compute_left_eigenvectors:
            # Left eigenvectors are the eigenvectors of the adjoint, whose Schur form is reversed to be triangular.
            adjoint = g.reverse(m_.adjoint(g, t), [1, 2])
            found.append(g.reverse(e_.eigenvectors(g, adjoint, g.reverse(z, [2])), [2]))
        if compute_right_eigenvectors:
            found.append(e_.eigenvectors(g, t, z))
        return found

    return _stacked(equation, function, a)
