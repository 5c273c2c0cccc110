"""Translations of matrix factorizations, solvers, determinants, eigenvalues and singular values.

The algorithms are in mpsgraph.numpy. Signs and pivots follow LAPACK's conventions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..._core import Tensor, int32
from ...graph import Graph
from ...numpy import _eigenvalues, _gradients, linalg
from ...numpy import _matrices as m
from ._table import Call, aten, dtype_of, shape_of


def _stacked(
    call: Call, algorithm: m.Algorithm, *operands: Tensor, ranks: Sequence[int] = (), empty: float = 0
) -> list[Tensor]:
    """Apply an algorithm to operands with any leading axes. The call's results have the types that PyTorch reports."""
    types = [([int(size) for size in r.shape], dtype_of(r.dtype)) for r in call.results]
    return m.stacked(call.g, types, algorithm, *operands, ranks=ranks, empty=empty)


@aten("with_effects")
def with_effects(call: Call, token: Tensor, operation: Any, *arguments: Any, **named: Any) -> list[Any]:
    """Translate with_effects, PyTorch's wrapper that orders operations with side effects by passing a token along.

    The only supported operation is the error check of torch.linalg, which ends the run if the check fails.
    """
    if operation is not torch.ops.aten._linalg_check_errors.default:
        call.refuse(f"only the error check of torch.linalg is supported, got {operation}")
    failures, name = arguments
    message = f"torch.{name}: a matrix is singular or not positive definite"
    return [call.g.check(call.g.equal(failures, 0), message, on=token), *[None] * (len(call.result) - 1)]


# --- factorizations ---------------------------------------------------------------------------------------------------
def _require_pivots(call: Call, pivot: bool) -> None:
    if not pivot:
        call.refuse("pivot=False is not supported: use pivot=True")


@aten("linalg_lu_factor_ex")
def lu_factor(call: Call, a: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    _require_pivots(call, pivot)

    def algorithm(g: Graph, a: Tensor) -> list[Tensor]:
        factors, _, pivots, failed = m.lu(g, a)
        return [factors, pivots, failed]

    return _stacked(call, algorithm, a)


def _unpacked(g: Graph, factors: Tensor, order: Tensor) -> list[Tensor]:
    _, rows, columns = m.sizes(factors)
    lower, upper = m.triangle(g, factors, True, unit=True), m.triangle(g, factors, False)
    count = min(rows, columns)
    return [m.permutation(g, order, factors), g.slice_axis(lower, 2, 0, count), g.slice_axis(upper, 1, 0, count)]


@aten("linalg_lu")
def lu(call: Call, a: Tensor, *, pivot: bool = True) -> Any:
    _require_pivots(call, pivot)
    return _stacked(call, lambda g, a: _unpacked(g, *m.lu(g, a)[:2]), a)


@aten("lu_unpack")
def lu_unpack(call: Call, factors: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    def algorithm(g: Graph, factors: Tensor, pivots: Tensor) -> list[Tensor]:
        return _unpacked(g, factors, m.order_of(g, pivots, m.sizes(factors)[1]))

    return _stacked(call, algorithm, factors, pivots, ranks=[2, 1])


def _cholesky(call: Call, a: Tensor, upper: bool, results: int) -> list[Tensor]:
    def algorithm(g: Graph, a: Tensor) -> list[Tensor]:
        factor, failed = m.cholesky(g, m.adjoint(g, a) if upper else a)
        return [m.adjoint(g, factor) if upper else factor, failed][:results]

    return _stacked(call, algorithm, a)


@aten("linalg_cholesky_ex")
def cholesky_ex(call: Call, a: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    return _cholesky(call, a, upper, 2)


@aten("cholesky")
def cholesky(call: Call, a: Tensor, upper: bool = False) -> Tensor:
    return _cholesky(call, a, upper, 1)[0]


@aten("linalg_qr")
def qr(call: Call, a: Tensor, mode: str = "reduced") -> Any:
    return _stacked(call, lambda g, a: m.qr(g, a, mode == "complete"), a)


@aten("geqrf")
def geqrf(call: Call, a: Tensor) -> Any:
    return _stacked(call, lambda g, a: m.reflections(g, a)[:2], a)


@aten("linalg_householder_product")
def householder_product(call: Call, a: Tensor, factors: Tensor) -> Tensor:
    def algorithm(g: Graph, a: Tensor, factors: Tensor) -> list[Tensor]:
        return [g.slice_axis(m.product_of_reflections(g, a, factors), 2, 0, m.sizes(a)[2])]

    return _stacked(call, algorithm, a, factors, ranks=[2, 1])[0]


@aten("ormqr")
def ormqr(call: Call, a: Tensor, factors: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    def algorithm(g: Graph, a: Tensor, factors: Tensor, b: Tensor) -> list[Tensor]:
        q = m.product_of_reflections(g, a, factors)
        q = m.adjoint(g, q) if transpose else q
        return [g.matrix_multiplication(*((q, b) if left else (b, q)))]

    return _stacked(call, algorithm, a, factors, other, ranks=[2, 1, 2])[0]


# --- solvers, inverses and determinants -------------------------------------------------------------------------------
@aten("linalg_solve_triangular")
def solve_triangular(
    call: Call, a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    return _stacked(call, lambda g, a, b: [m.solved_triangular(g, a, b, not upper, unitriangular, left)], a, b)[0]


@aten("triangular_solve")
def triangular_solve(
    call: Call, b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    def algorithm(g: Graph, a: Tensor, b: Tensor) -> list[Tensor]:
        turned = g.swap_axes(a, 1, 2) if transpose else a
        return [m.solved(g, turned, b, upper == transpose, unitriangular), a]

    return _stacked(call, algorithm, a, b)


@aten("cholesky_solve", "_cholesky_solve_helper")
def cholesky_solve(call: Call, b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    def algorithm(g: Graph, factor: Tensor, b: Tensor) -> list[Tensor]:
        return [m.solved_by_cholesky(g, m.adjoint(g, factor) if upper else factor, b)]

    return _stacked(call, algorithm, factor, b)[0]


@aten("cholesky_inverse")
def cholesky_inverse(call: Call, factor: Tensor, upper: bool = False) -> Tensor:
    size = shape_of(factor)[-1]
    return cholesky_solve(call, call.g.constant(np.eye(size).astype(factor.dtype.numpy)), factor, upper)


@aten("linalg_lu_solve")
def lu_solve(
    call: Call, factors: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    def algorithm(g: Graph, factors: Tensor, pivots: Tensor, b: Tensor) -> list[Tensor]:
        order = m.order_of(g, pivots, m.sizes(factors)[1])
        return [_solved_by_lu(g, factors, order, b, left, adjoint)]

    return _stacked(call, algorithm, factors, pivots, b, ranks=[2, 1, 2])[0]


def _solved_by_lu(g: Graph, factors: Tensor, order: Tensor, b: Tensor, left: bool, adjoint: bool = False) -> Tensor:
    x = m.lu_solved(g, factors, order, b if left else m.adjoint(g, b), adjoint == left)
    return x if left else m.adjoint(g, x)


@aten("_linalg_solve_ex")
def solve(call: Call, a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    g, sizes = call.g, shape_of(a)
    vector = len(shape_of(b)) == 1 or shape_of(b) == sizes[:-1]
    count = min(sizes[-2:])
    of_lu = [(sizes, a.dtype), ([*sizes[:-1]], int32), ([*sizes[:-2], count], int32), (sizes[:-2], int32)]
    factors, order, pivots, failed = m.stacked(g, of_lu, m.lu, a)

    def algorithm(g: Graph, factors: Tensor, order: Tensor, b: Tensor) -> list[Tensor]:
        return [_solved_by_lu(g, factors, order, b, left)]

    said = [([int(size) for size in call.result[0].shape], a.dtype)]
    right = g.expand_dims(b, -1) if vector else b
    return [*m.stacked(g, said, algorithm, factors, order, right, ranks=[2, 1, 2]), factors, pivots, failed]


@aten("linalg_inv_ex")
def inverse(call: Call, a: Tensor, *, check_errors: bool = False) -> Any:
    return _stacked(call, lambda g, a: [m.inverse(g, a), m.lu(g, a)[3]], a)


def _turned(call: Call, a: Tensor) -> Tensor:
    """Return the transpose of matrices if PyTorch factorizes it, so that the factors are the same."""
    return call.g.swap_axes(a, -2, -1) if call.arguments[0].is_contiguous() and not a.dtype.is_complex else a


@aten("_linalg_det")
def determinant(call: Call, a: Tensor) -> Any:
    return _stacked(call, m.determinant, _turned(call, a), empty=1)


@aten("_linalg_slogdet")
def sign_and_logarithm(call: Call, a: Tensor) -> Any:
    sign, logarithm, *others = _stacked(call, m.log_determinant, _turned(call, a), empty=1)
    return [sign, logarithm if shape_of(a)[-1] else call.cast(0.0, logarithm.dtype), *others]


@aten("linalg_matrix_exp")
def matrix_exp(call: Call, a: Tensor) -> Tensor:
    return _stacked(call, lambda g, a: [m.exponential(g, a)], a)[0]


# --- eigenvalues and singular values ----------------------------------------------------------------------------------
@aten("_linalg_eigh")
def eigh(call: Call, a: Tensor, half: str = "L", compute_v: bool = True) -> Any:
    return _stacked(call, lambda g, a: _gradients.hermitian(g, a, half in ("L", "l")), a)


@aten("_linalg_svd")
def svd(call: Call, a: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None) -> Any:
    return _stacked(call, lambda g, a: _gradients.svd(g, a, full_matrices and compute_uv), a)


@aten("linalg_eig", "_linalg_eigvals")
def eig(call: Call, a: Tensor) -> Any:
    several = isinstance(call.result, (tuple, list))
    found = _stacked(call, lambda g, a: _gradients.general(g, a)[: 2 if several else 1], a)
    return found if several else found[0]


@aten("linalg_pinv")
def pinv(call: Call, a: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Tensor:
    """Translate pinv. Singular values count as 0 if they are at most atol, or at most rtol times the largest one."""
    g = call.g
    if hermitian:  # As in PyTorch, only the lower half of a Hermitian matrix is read.
        a = m.stacked(g, [(shape_of(a), a.dtype)], lambda g, a: [_eigenvalues.whole_of(g, a, True)], a)[0]

    def cutoff(values: Tensor) -> Tensor:
        largest = g.reduction_maximum(values, -1)
        rest = max(shape_of(a)[-2:]) * float(np.finfo(values.dtype.numpy).eps) if atol is None else 0.0
        least, share = (
            g.expand_dims(call.cast(x, values.dtype), -1) if isinstance(x, Tensor) else call.cast(x, values.dtype)
            for x in (0.0 if atol is None else atol, rest if rtol is None else rtol)
        )
        return g.maximum(largest * share, least)

    return linalg.pseudo_inverse(a, cutoff)
