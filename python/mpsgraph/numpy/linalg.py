"""Linear algebra of the array API: products, decompositions, solvers, norms, and eigenvalues.

Functions of matrices accept stacks of matrices with any number of leading axes. The algorithms are in `_matrices` and
`_eigenvalues`, which the PyTorch and JAX frontends use, too. Integer matrices become float32 where the result is not
an integer.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._core import NDArray, Tensor
from .._display import shown
from .._dtypes import DTypeLike, fits
from ..errors import GraphError, ShapeError
from . import _gradients, _matrices
from ._manipulation import axes_of, matrix_transpose
from ._operation import cast_to, graph_of, like, operation, shape_of
from ._products import constant_like, cross, documented, matmul, matrix, outer, tensordot, vecdot
from ._promotion import complex_of, floating, real_of
from ._statistics import reduced
from ._statistics import sum as _sum

Array = NDArray | Tensor


class EigResult(NamedTuple):
    """Result of `eig` and `eigh`.

    Args:
        eigenvalues: Eigenvalues of shape (..., n).
        eigenvectors: Eigenvectors of shape (..., n, n), as columns.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.linalg.eigh(mnp.asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
        [1.0, 2.0]
    """

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """Result of `qr`.

    Args:
        Q: Matrices with orthonormal columns.
        R: Upper triangular matrices.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.linalg.qr(mnp.eye(2)).R.shape
        (2, 2)
    """

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """Result of `slogdet`.

    Args:
        sign: Sign of the determinant, a number of absolute value 1 or 0.
        logabsdet: Natural logarithm of the absolute value of the determinant.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.linalg.slogdet(mnp.eye(2)).sign.item()
        1.0
    """

    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    """Result of `svd`.

    Args:
        U: Left singular vectors as columns.
        S: Singular values in descending order.
        Vh: Right singular vectors as rows, conjugated.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.linalg.svd(mnp.eye(2)).S.tolist()
        [1.0, 1.0]
    """

    U: Any
    S: Any
    Vh: Any


@operation("x")
def _power(x: Any, n: int) -> Any:
    g = graph_of(x)
    x, shape = matrix(x, "matrix_power", True)
    result: Tensor | None = None
    if n == 0:
        eye = np.broadcast_to(np.eye(shape[-1]), shape).astype(x.dtype.numpy)
        return g.constant(eye)
    base = _inverse(x) if n < 0 else x
    n = builtins.abs(n)
    while n:
        if n & 1:
            result = base if result is None else g.matrix_multiplication(result, base)
        n >>= 1
        base = g.matrix_multiplication(base, base) if n else base
    assert result is not None
    return result


@documented(
    "Raise square matrices to an integer power.",
    "x: Array or tensor of shape (..., n, n).; n: Exponent. Negative exponents invert the matrices.",
    "An array with the shape of x.",
    "mnp.linalg.matrix_power(mnp.asarray([[2.0]]), 3).tolist() -> [[8.0]]",
)
def matrix_power(x: Array, n: int, /) -> Any:
    return _power(x, n)


# --- diagonals --------------------------------------------------------------------------------------------------------
def _diagonal(x: Tensor, offset: int) -> Tensor:
    g, shape = graph_of(x), shape_of(x, "diagonal")
    if len(shape) < 2:
        raise ShapeError(f"diagonal requires an array of rank 2 or higher, got shape {shape}")
    m, n = shape[-2:]
    row, column = builtins.max(-offset, 0), builtins.max(offset, 0)
    count = builtins.max(0, builtins.min(m - row, n - column))
    if not count:
        return constant_like(x, (*shape[:-2], 0))
    flat = g.reshape(x, [*shape[:-2], m * n])
    places = (np.arange(count) + row) * n + np.arange(count) + column
    return g.gather(flat, g.constant(places.astype(np.int32)), len(shape) - 2)


@operation("x")
@documented(
    "Return a diagonal of each matrix.",
    "x: Array or tensor of shape (..., m, n).; offset: Index of the diagonal; positive values are above the main "
    "diagonal. Defaults to 0.",
    "An array of shape (..., k).",
    "mnp.linalg.diagonal(mnp.asarray([[1, 2], [3, 4]])).tolist() -> [1, 4]",
)
def diagonal(x: Array, /, *, offset: int = 0) -> Any:
    assert isinstance(x, Tensor)
    return _diagonal(x, offset)


@documented(
    "Compute the sum of a diagonal of each matrix.",
    "x: Array or tensor of shape (..., m, n).; offset: Index of the diagonal; positive values are above the main "
    "diagonal. Defaults to 0.; dtype: dtype of the result. None, the default, means the dtype that `sum` returns.",
    "An array of shape (...).",
    "mnp.linalg.trace(mnp.asarray([[1, 2], [3, 4]])).item() -> 5",
)
def trace(x: Array, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Any:
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def _stacked(
    x: Any,
    shapes: Sequence[Sequence[int]],
    algorithm: _matrices.Algorithm,
    *others: Tensor,
    real: Sequence[int] = (),
    empty: float = 0,
) -> list[Tensor]:
    """Apply an algorithm to stacks of matrices. `real` lists the results that are real if x is complex."""
    types = [(shape, real_of(x.dtype) if i in real else x.dtype) for i, shape in enumerate(shapes)]
    return _matrices.stacked(graph_of(x), types, algorithm, x, *others, empty=empty)


# --- decompositions ---------------------------------------------------------------------------------------------------
@operation("x")
@documented(
    "Compute the Cholesky factors of symmetric or Hermitian positive definite matrices.",
    "x: Array or tensor of shape (..., n, n); only the lower triangle is read.; upper: Whether to return the upper "
    "triangular factor U with U^H U = x instead of L with L L^H = x. Defaults to False.",
    "An array with the shape of x. Elements are NaN if a matrix is not positive definite.",
    "mnp.linalg.cholesky(mnp.asarray([[4.0]])).tolist() -> [[2.0]]",
)
def cholesky(x: Array, /, *, upper: bool = False) -> Any:
    assert isinstance(x, Tensor)
    x, shape = matrix(x, "cholesky", True)
    (factor,) = _stacked(x, [shape], lambda g, a: _matrices.cholesky(g, a)[:1])
    return _matrices.adjoint(graph_of(x), factor) if upper else factor


@operation("x")
def _qr(x: Any, complete: bool) -> Any:
    x, (*batch, m, n) = matrix(x, "qr")
    k = m if complete else builtins.min(m, n)
    return _stacked(x, [(*batch, m, k), (*batch, k, n)], lambda g, a: _matrices.qr(g, a, complete))


@documented(
    "Compute QR factorizations x = Q R, with orthonormal columns in Q and an upper triangular R.",
    'x: Array or tensor of shape (..., m, n).; mode: "reduced" (the default) returns min(m, n) columns of Q, and '
    '"complete" all m.',
    "A named tuple of Q and R.",
    "mnp.linalg.qr(mnp.ones((3, 2))).Q.shape -> (3, 2)",
    "GraphError: If mode is unknown.",
)
def qr(x: Array, /, *, mode: str = "reduced") -> QRResult:
    if mode not in ("reduced", "complete"):
        raise GraphError(f'mode must be "reduced" or "complete", got {shown(mode)}')
    return QRResult(*_qr(x, mode == "complete"))


@operation("x")
def _eigh(x: Any) -> Any:
    x, shape = matrix(x, "eigh", True)
    return _stacked(x, [shape[:-1], shape], lambda g, a: _gradients.hermitian(g, a, True), real=[0])


@documented(
    "Compute eigenvalues, in ascending order, and eigenvectors of symmetric or Hermitian matrices.",
    "x: Array or tensor of shape (..., n, n); only the lower triangle is read.",
    "A named tuple of eigenvalues (..., n) and eigenvectors (..., n, n) as columns.",
    "mnp.linalg.eigh(mnp.asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist() -> [1.0, 2.0]",
)
def eigh(x: Array, /) -> EigResult:
    return EigResult(*_eigh(x))


@documented(
    "Compute the eigenvalues of symmetric or Hermitian matrices, in ascending order.",
    "x: Array or tensor of shape (..., n, n); only the lower triangle is read.",
    "An array of shape (..., n).",
    "mnp.linalg.eigvalsh(mnp.asarray([[2.0, 0.0], [0.0, 1.0]])).tolist() -> [1.0, 2.0]",
)
def eigvalsh(x: Array, /) -> Any:
    return _eigh(x)[0]


@operation("x")
def _eig(x: Any) -> Any:
    x, shape = matrix(x, "eig", True)
    return _stacked(cast_to(x, complex_of(x.dtype)), [shape[:-1], shape], _gradients.general)


@documented(
    "Compute eigenvalues and eigenvectors of square matrices.",
    "x: Array or tensor of shape (..., n, n).",
    "A named tuple of complex eigenvalues (..., n) and eigenvectors (..., n, n) as columns.",
    "mnp.linalg.eig(mnp.asarray([[2.0]])).eigenvalues.tolist() -> [(2+0j)]",
)
def eig(x: Array, /) -> EigResult:
    return EigResult(*_eig(x))


@documented(
    "Compute the eigenvalues of square matrices.",
    "x: Array or tensor of shape (..., n, n).",
    "A complex array of shape (..., n).",
    "mnp.linalg.eigvals(mnp.asarray([[2.0]])).tolist() -> [(2+0j)]",
)
def eigvals(x: Array, /) -> Any:
    return _eig(x)[0]


@operation("x")
def _svd(x: Any, full: bool) -> Any:
    x, (*batch, m, n) = matrix(x, "svd")
    k = builtins.min(m, n)
    rows, columns = (m, n) if full else (k, k)
    shapes = [(*batch, m, rows), (*batch, k), (*batch, columns, n)]
    return _stacked(x, shapes, lambda g, a: _gradients.svd(g, a, full), real=[1])


@documented(
    "Compute singular value decompositions x = U diag(S) Vh.",
    "x: Array or tensor of shape (..., m, n).; full_matrices: Whether U and Vh are square instead of having min(m, n) "
    "columns and rows. Defaults to True.",
    "A named tuple of U, S in descending order, and Vh.",
    "mnp.linalg.svd(mnp.asarray([[3.0, 0.0], [0.0, 4.0]])).S.tolist() -> [4.0, 3.0]",
)
def svd(x: Array, /, *, full_matrices: bool = True) -> SVDResult:
    return SVDResult(*_svd(x, full_matrices))


@documented(
    "Compute the singular values of matrices, in descending order.",
    "x: Array or tensor of shape (..., m, n).",
    "An array of shape (..., min(m, n)).",
    "mnp.linalg.svdvals(mnp.asarray([[3.0, 0.0], [0.0, 4.0]])).tolist() -> [4.0, 3.0]",
)
def svdvals(x: Array, /) -> Any:
    return _svd(x, False)[1]


# --- solutions and determinants -----------------------------------------------------------------------------------
def _inverse(x: Tensor) -> Tensor:
    return _stacked(x, [shape_of(x, "inv")], lambda g, a: [_matrices.inverse(g, a)])[0]


@operation("x")
@documented(
    "Invert square matrices.",
    "x: Array or tensor of shape (..., n, n).",
    "An array with the shape of x, which has infinities or NaN for a singular matrix.",
    "mnp.linalg.inv(mnp.asarray([[2.0]])).tolist() -> [[0.5]]",
)
def inv(x: Array, /) -> Any:
    assert isinstance(x, Tensor)
    return _inverse(matrix(x, "inv", True)[0])


@operation("x1", "x2", promote=(0, 1))
@documented(
    "Solve x1 @ x = x2 for square matrices x1.",
    "x1: Array or tensor of shape (..., n, n).; x2: Array or tensor of shape (n,) or (..., n, k).",
    "An array of shape (..., n) if x2 has rank 1, and otherwise (..., n, k).",
    "mnp.linalg.solve(mnp.asarray([[2.0]]), mnp.asarray([6.0])).tolist() -> [3.0]",
)
def solve(x1: Array, x2: Array, /) -> Any:
    assert isinstance(x1, Tensor) and isinstance(x2, Tensor)
    g = graph_of(x1)
    (a, one), b = matrix(x1, "solve", True), cast_to(x2, floating(x2.dtype))
    vector = len(shape_of(b, "solve")) == 1
    b = g.expand_dims(b, [1]) if vector else b
    two = shape_of(b, "solve")
    if two[-2] != one[-1]:
        raise ShapeError(f"solve: x2 must have {one[-1]} rows, got shape {two}")
    batch = list(np.broadcast_shapes(one[:-2], two[:-2]))
    shape = [*batch, *(two[-2:-1] if vector else two[-2:])]

    def algorithm(g: Any, a: Tensor, b: Tensor) -> list[Tensor]:
        factors, order, _, _ = _matrices.lu(g, a)
        return [_matrices.lu_solved(g, factors, order, b)]

    return _stacked(a, [shape], algorithm, b)[0]


@operation("x")
@documented(
    "Compute the determinants of square matrices.",
    "x: Array or tensor of shape (..., n, n).",
    "An array of shape (...).",
    "mnp.linalg.det(mnp.asarray([[2.0, 0.0], [0.0, 3.0]])).item() -> 6.0",
)
def det(x: Array, /) -> Any:
    assert isinstance(x, Tensor)
    x, shape = matrix(x, "det", True)
    return _stacked(x, [shape[:-2]], lambda g, a: _matrices.determinant(g, a)[:1], empty=1)[0]


@operation("x")
def _slogdet(x: Any) -> Any:
    x, (*batch, n, _) = matrix(x, "slogdet", True)
    if not n:
        return [constant_like(x, batch, value=1), constant_like(x, batch, real_of(x.dtype))]
    return _stacked(x, [batch, batch], lambda g, a: _matrices.log_determinant(g, a)[:2], real=[1])


@documented(
    "Compute the sign and the logarithm of the absolute value of the determinants of square matrices.",
    "x: Array or tensor of shape (..., n, n).",
    "A named tuple of sign and logabsdet. A singular matrix has sign 0 and logabsdet -infinity.",
    "mnp.linalg.slogdet(mnp.eye(2)).logabsdet.item() -> 0.0",
)
def slogdet(x: Array, /) -> SlogdetResult:
    return SlogdetResult(*_slogdet(x))


def _cutoff(x: Any, values: Tensor, rtol: Any, shape: Sequence[int]) -> Tensor:
    """Return the smallest singular value that counts, for each matrix, with an axis of size 1."""
    g = graph_of(values)
    largest = g.reduction_maximum(values, len(shape) - 2)
    if rtol is None:
        return largest * (builtins.max(shape[-2:]) * float(np.finfo(values.dtype.numpy).eps))
    return largest * (g.expand_dims(cast_to(rtol, values.dtype), [len(shape_of(rtol, "rtol"))]))


@operation("x", "rtol")
def _rank(x: Any, rtol: Any) -> Any:
    g = graph_of(x)
    x, shape = matrix(x, "matrix_rank")
    if 0 in shape:
        return constant_like(x, shape[:-2], _core.int32)
    values = _svd_values(x, shape)
    counted = g.cast(g.greater_than(values, _cutoff(x, values, rtol, shape)), _core.int32)
    return reduced(counted, "reduction_sum", [len(shape_of(counted, "rank")) - 1], False)


def _svd_values(x: Tensor, shape: Sequence[int]) -> Tensor:
    values = [*shape[:-2], builtins.min(shape[-2:])]
    return _stacked(x, [values], lambda g, a: _gradients.svd(g, a, False)[1:2], real=[0])[0]


@documented(
    "Compute the ranks of matrices: the numbers of singular values above a fraction of the largest one.",
    "x: Array or tensor of shape (..., m, n).; rtol: The fraction, a number or an array of shape (...). None, the "
    "default, means max(m, n) times the distance from 1 to the next larger number.",
    "An int32 array of shape (...).",
    "mnp.linalg.matrix_rank(mnp.ones((2, 2))).item() -> 1",
)
def matrix_rank(x: Array, /, *, rtol: float | Array | None = None) -> Any:
    return _rank(x, rtol if rtol is None or isinstance(rtol, (NDArray, Tensor)) else float(rtol))


@operation("x", "rtol")
def _pinv(x: Any, rtol: Any) -> Any:
    x, shape = matrix(x, "pinv")
    return pseudo_inverse(x, lambda values: _cutoff(x, values, rtol, shape))


def pseudo_inverse(x: Tensor, cutoff: Callable[[Tensor], Tensor]) -> Tensor:
    """Return pseudo-inverses. cutoff(values) is the largest singular value of each matrix that counts as 0."""
    (*batch, m, n), g = shape_of(x, "pinv"), graph_of(x)
    if 0 in (*batch, m, n):
        return constant_like(x, (*batch, n, m))
    u, values, v = _svd(x, False)
    kept = g.greater_than(values, cutoff(values))
    inverse = g.select(kept, g.reciprocal(g.select(kept, values, like(values, 1))), like(values, 0))
    scaled = _matrices.adjoint(g, v) * g.cast(g.expand_dims(inverse, [len(batch)]), x.dtype)
    return g.matrix_multiplication(scaled, _matrices.adjoint(g, u))


@documented(
    "Compute the Moore-Penrose pseudo-inverses of matrices.",
    "x: Array or tensor of shape (..., m, n).; rtol: Singular values up to this fraction of the largest one count as "
    "0. None, the default, means max(m, n) times the distance from 1 to the next larger number.",
    "An array of shape (..., n, m).",
    "mnp.linalg.pinv(mnp.asarray([[2.0], [0.0]])).tolist() -> [[0.5, 0.0]]",
)
def pinv(x: Array, /, *, rtol: float | Array | None = None) -> Any:
    return _pinv(x, rtol if rtol is None or isinstance(rtol, (NDArray, Tensor)) else float(rtol))


# --- norms --------------------------------------------------------------------------------------------------------
@operation("x")
@documented(
    "Compute norms of vectors.",
    "x: Array or tensor.; axis: The axis or axes of the vectors. None, the default, means all.; keepdims: Whether the "
    "reduced axes stay, with size 1. Defaults to False.; ord: Order of the norm, a number or an infinity. Defaults to "
    "2.",
    "A real array without the reduced axes.",
    "mnp.linalg.vector_norm(mnp.asarray([3.0, 4.0])).item() -> 5.0",
)
def vector_norm(x: Array, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: float = 2) -> Any:
    assert isinstance(x, Tensor)
    g = graph_of(x)
    x = cast_to(x, floating(x.dtype))
    axes = axes_of(axis, len(shape_of(x, "vector_norm")), "vector_norm")
    size = g.absolute(x)
    if ord == 0:
        return reduced(g.cast(g.not_equal(size, 0.0), size.dtype), "reduction_sum", axes, keepdims)
    if not axes:
        return g.identity(size)
    if math.isinf(ord):
        if 0 in shape_of(x, "vector_norm"):
            return reduced(size, "reduction_sum", axes, keepdims)
        word = "maximum" if ord > 0 else "minimum"
        return reduced(size, f"reduction_{word}_propagate_nan", axes, keepdims)
    if ord == 1:
        return reduced(size, "reduction_sum", axes, keepdims)
    if ord == 2:
        return g.square_root(reduced(g.square(size), "reduction_sum", axes, keepdims))
    # An order or its inverse that the dtype cannot represent is infinite, as in numpy.
    power, root = (v if fits(v, size.dtype) else math.copysign(math.inf, v) for v in (float(ord), 1.0 / float(ord)))
    return g.power(reduced(g.power(size, power), "reduction_sum", axes, keepdims), root)


@operation("x")
@documented(
    "Compute norms of matrices.",
    "x: Array or tensor of shape (..., m, n).; keepdims: Whether the last two axes stay, with size 1. Defaults to "
    'False.; ord: "fro" (the default), "nuc", 1, -1, 2, -2, or an infinity.',
    "A real array of shape (...).",
    "mnp.linalg.matrix_norm(mnp.asarray([[3.0, 0.0], [0.0, 4.0]])).item() -> 5.0",
    "GraphError: If ord is unknown.",
)
def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Any:
    assert isinstance(x, Tensor)
    g = graph_of(x)
    x, shape = matrix(x, "matrix_norm")
    rank = len(shape)
    size = g.absolute(x)
    if ord in ("nuc", 2, -2):
        if 0 in shape:
            found = reduced(size, "reduction_sum", [rank - 2, rank - 1], False)
        else:
            method = {"nuc": "reduction_sum", 2: "reduction_maximum", -2: "reduction_minimum"}[ord]
            found = reduced(_svd_values(x, shape), method, [rank - 2], False)
        return g.expand_dims(found, [rank - 2, rank - 1]) if keepdims else found
    if ord is None or ord == "fro":
        return g.square_root(reduced(g.square(size), "reduction_sum", [rank - 2, rank - 1], keepdims))
    if ord not in (1, -1, math.inf, -math.inf):
        raise GraphError(f'ord must be "fro", "nuc", 1, -1, 2, -2, or an infinity, got {shown(ord)}')
    inner = rank - 2 if builtins.abs(float(ord)) == 1 else rank - 1
    other = 2 * rank - 3 - inner
    sums = reduced(size, "reduction_sum", [inner], True)
    word = "maximum" if float(ord) > 0 else "minimum"
    if shape[other] == 0:
        return reduced(reduced(sums, "reduction_sum", [other], True), "reduction_sum", [inner, other], keepdims)
    found = reduced(sums, f"reduction_{word}_propagate_nan", [other], True)
    return found if keepdims else g.squeeze(found, [rank - 2, rank - 1])


__all__ = [
    "EigResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
