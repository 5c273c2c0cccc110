"""LU, Cholesky and QR factorizations of batches of matrices (B, m, n), and triangular solves.

As in LAPACK's unblocked routines, a loop processes one column at a time. The row and column index is the loop counter,
which is known only at run time, so rows and columns are selected by masks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .._core import DType, Tensor, float32
from .._dtypes import DTypeLike, as_dtype
from ..graph import Graph

Algorithm = Callable[..., Sequence[Tensor]]
"""Function of a graph and batches of matrices (B, m, n) or vectors (B, n), which returns batches."""


def sizes(x: Tensor) -> list[int]:
    return list(x.shape or ())


def stacked(
    g: Graph,
    types: Sequence[tuple[Sequence[int], DTypeLike]],
    algorithm: Algorithm,
    *operands: Tensor,
    ranks: Sequence[int] = (),
    empty: float = 0,
) -> list[Tensor]:
    """Apply an algorithm to operands with any leading axes, which are broadcast and merged into one.

    float16 and bfloat16 are computed in float32. If an operand has no elements, results are identity matrices if they
    are square, and otherwise filled with the number `empty`.

    Args:
        g: The graph.
        types: Shapes and dtypes of the results.
        algorithm: The algorithm.
        *operands: Matrices or vectors.
        ranks: Ranks of the operands without their leading axes. Defaults to 2 for all.
        empty: Defaults to 0.
    """
    if any(0 in sizes(x) for x in operands):
        return [_of_nothing(g, shape, as_dtype(dtype), empty) for shape, dtype in types]
    cut = [len(sizes(x)) - rank for x, rank in zip(operands, ranks or [2] * len(operands), strict=True)]
    batch = list(np.broadcast_shapes(*(tuple(sizes(x)[:n]) for x, n in zip(operands, cut, strict=True))))
    flat = []
    for x, n in zip(operands, cut, strict=True):
        inner = sizes(x)[n:]
        x = g.cast(x, float32) if x.dtype.is_float and x.dtype.itemsize == 2 else x
        x = x if sizes(x)[:n] == batch else g.broadcast_to(x, [*batch, *inner])
        flat.append(g.reshape(x, [int(np.prod(batch)), *inner]))
    found = []
    for x, (shape, dtype) in zip(algorithm(g, *flat), types, strict=True):
        x = g.reshape(x, list(shape)) if 0 not in shape else _of_nothing(g, shape, x.dtype, 0)
        found.append(x if x.dtype == as_dtype(dtype) else g.cast(x, dtype))
    return found


def _of_nothing(g: Graph, shape: Sequence[int], dtype: DType, empty: float) -> Tensor:
    square = len(shape) > 1 and shape[-1] == shape[-2] and 0 not in shape and not dtype.is_integer
    if square:
        return g.constant(np.broadcast_to(np.eye(shape[-1]), tuple(shape)).astype(dtype.numpy))
    return g.constant(empty, list(shape), dtype)


def adjoint(g: Graph, x: Tensor) -> Tensor:
    turned = g.swap_axes(x, -2, -1)
    return g.conjugate(turned) if x.dtype.is_complex else turned


def rows_of(g: Graph, count: int) -> Tensor:
    return g.constant(np.arange(count, dtype=np.int32).reshape(1, count, 1))


def columns_of(g: Graph, count: int) -> Tensor:
    return g.constant(np.arange(count, dtype=np.int32).reshape(1, 1, count))


def number(g: Graph, value: float, like: Tensor) -> Tensor:
    return g.constant(value, (), like.dtype)


def zeros(g: Graph, shape: list[int], like: Tensor) -> Tensor:
    return g.constant(0, shape, like.dtype)


def eye(g: Graph, batch: int, n: int, like: Tensor, columns: int | None = None) -> Tensor:
    one = g.constant(np.eye(n, columns).astype(like.dtype.numpy)[None])
    return g.broadcast_to(one, [batch, n, n if columns is None else columns])


def picked(g: Graph, mask: Tensor, x: Tensor, axis: int) -> Tensor:
    """Return the one row or column of each matrix at which the mask is true. The selected axis is kept with size 1."""
    return g.reduction_sum(g.select(mask, x, number(g, 0, x)), axis)


def lu(g: Graph, a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute LU factorizations with partial pivoting.

    Returns L and U in one matrix, the row permutation (B, m), LAPACK's pivots (B, min(m, n)), and the first step of
    each matrix whose pivot was 0 (B,), or 0 if there was none. Pivots and steps count from 1.
    """
    batch, m, n = sizes(a)
    rows, columns = rows_of(g, m), columns_of(g, n)
    steps = min(m, n)

    def step(k: Tensor, a: Tensor, order: Tensor, pivots: Tensor, failed: Tensor) -> list[Tensor]:
        here, below, column_k = g.equal(rows, k), g.greater_than(rows, k), g.equal(columns, k)
        column = picked(g, column_k, a, 2)
        if a.dtype.is_complex:  # LAPACK compares sums of absolute parts.
            size = g.absolute(g.real_part(column)) + g.absolute(g.imaginary_part(column))
        else:
            size = g.absolute(column)
        best = g.reduction_arg_maximum(g.select(g.less_than(rows, k), number(g, -1, size), size), 1)
        place = g.select(here, best, g.select(g.equal(rows, best), k, g.broadcast_to(rows, [batch, m, 1])))
        a = g.gather_along_axis(1, a, g.broadcast_to(place, [batch, m, n]))
        order = g.gather_along_axis(1, order, place)
        pivots = g.select(here, best + 1, pivots)
        column, row = picked(g, column_k, a, 2), picked(g, here, a, 1)
        pivot = picked(g, here, column, 1)
        zero = g.equal(pivot, number(g, 0, pivot))
        failed = g.select(g.logical_and(zero, g.equal(failed, 0)), k + 1, failed)
        factor = g.select(below, column / g.select(zero, number(g, 1, pivot), pivot), number(g, 0, a))
        a = a - factor * g.select(g.greater_than(columns, k), row, number(g, 0, a))
        return [g.select(g.logical_and(below, column_k), factor, a), order, pivots, failed]

    order = g.broadcast_to(rows, [batch, m, 1])
    start = [a, order, order + 1, g.constant(0, [batch, 1, 1], "int32")]
    factors, order, pivots, failed = g.for_(steps, initial=start, body=step)
    pivots = g.slice_axis(g.reshape(pivots, [batch, m]), 1, 0, steps)
    return factors, g.reshape(order, [batch, m]), pivots, g.reshape(failed, [batch])


def order_of(g: Graph, pivots: Tensor, m: int) -> Tensor:
    """Return the permutations (B, m) that result from LAPACK's pivots (B, k), each of which exchanges two rows."""
    batch, count = sizes(pivots)
    rows, places = rows_of(g, m), g.constant(np.arange(count, dtype=np.int32).reshape(1, count))

    def step(k: Tensor, order: Tensor) -> Tensor:
        other = g.reduction_sum(g.select(g.equal(places, k), pivots, g.constant(0, (), "int32")), 1) - 1
        other = g.reshape(other, [batch, 1, 1])
        place = g.select(g.equal(rows, other), k, g.broadcast_to(rows, [batch, m, 1]))
        return g.gather_along_axis(1, order, g.select(g.equal(rows, k), other, place))

    start = g.broadcast_to(rows, [batch, m, 1])
    return g.reshape(g.for_(count, initial=[start], body=step)[0] if count else start, [batch, m])


def permutation(g: Graph, order: Tensor, like: Tensor) -> Tensor:
    """Return P with P L U = A, given the row order of an LU factorization. Column i of P is 1 at row order[i]."""
    found = g.one_hot(order, sizes(order)[-1], dtype="float32")
    return g.cast(g.swap_axes(found, -2, -1), like.dtype)


def triangle(g: Graph, a: Tensor, lower: bool, *, unit: bool = False, strict: bool = False) -> Tensor:
    _, m, n = sizes(a)
    rows, columns = np.indices((m, n))
    keep = columns < rows if lower else columns > rows
    if not (unit or strict):
        keep = keep | (columns == rows)
    kept = g.select(g.constant(keep[None]), a, number(g, 0, a))
    return kept + g.constant(np.eye(m, n).astype(a.dtype.numpy)[None]) if unit else kept


def solved(g: Graph, a: Tensor, b: Tensor, lower: bool, unit: bool = False) -> Tensor:
    """Solve a x = b for a triangular matrix a, without reading its other triangle."""
    batch, n, _ = sizes(a)
    rows = rows_of(g, n)
    inner = triangle(g, a, lower, strict=True)
    diagonal = g.reduction_sum(a * g.constant(np.eye(n).astype(a.dtype.numpy)[None]), 2)

    def step(k: Tensor, x: Tensor) -> Tensor:
        here = g.equal(rows, k if lower else g.constant(n - 1, (), "int32") - k)
        found = picked(g, here, b, 1) - g.matrix_multiplication(picked(g, here, inner, 1), x)
        return g.select(here, found if unit else found / picked(g, here, diagonal, 1), x)

    return g.for_(n, initial=[zeros(g, sizes(b), b)], body=step)[0]


def solved_triangular(g: Graph, a: Tensor, b: Tensor, lower: bool, unit: bool, left: bool) -> Tensor:
    """Solve a x = b for a triangular matrix a, or x a = b if `left` is false."""
    if left:
        return solved(g, a, b, lower, unit)
    return g.swap_axes(solved(g, g.swap_axes(a, 1, 2), g.swap_axes(b, 1, 2), not lower, unit), 1, 2)


def cholesky(g: Graph, a: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the Cholesky factor L with a = L L^H from the lower half of a.

    Also returns the first step that failed for each matrix, counted from 1, or 0 if no step failed.
    """
    batch, n, _ = sizes(a)
    rows, columns = rows_of(g, n), columns_of(g, n)

    def step(k: Tensor, factor: Tensor, failed: Tensor) -> list[Tensor]:
        here, column_k = g.equal(rows, k), g.equal(columns, k)
        row = picked(g, here, factor, 1)
        row = g.conjugate(row) if a.dtype.is_complex else row
        column = picked(g, column_k, a, 2) - g.reduction_sum(factor * row, 2)
        pivot = picked(g, here, column, 1)
        real = g.real_part(pivot) if a.dtype.is_complex else pivot
        fails = g.logical_and(g.not_(g.greater_than(real, 0.0)), g.equal(failed, 0))
        failed = g.select(fails, k + 1, failed)
        root = g.cast(g.square_root(real), a.dtype)
        found = g.select(g.greater_than(rows, k), column / root, g.select(here, root, number(g, 0, a)))
        return [g.select(column_k, found, factor), failed]

    start = [zeros(g, sizes(a), a), g.constant(0, [batch, 1, 1], "int32")]
    factor, failed = g.for_(n, initial=start, body=step)
    return factor, g.reshape(failed, [batch])


def reflections(g: Graph, a: Tensor, pivoting: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Compute QR factorizations by Householder reflections, as LAPACK's geqrf does, or geqp3 with pivoting of columns.

    Returns R with the vectors of the reflections below its diagonal, the scalar factors of the reflections (B, min(m,
    n)), and the order of the columns (B, n). Q is the product of the reflections.
    """
    batch, m, n = sizes(a)
    rows, columns, steps = rows_of(g, m), columns_of(g, n), min(m, n)
    one = number(g, 1, a)

    def pivoted(k: Tensor, a: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
        rest = g.select(g.less_than(rows, k), number(g, 0, a), a)
        norms = g.reduction_sum(g.absolute_square(rest), 1)
        best = g.reduction_arg_maximum(g.select(g.less_than(columns, k), number(g, -1, norms), norms), 2)
        place = g.select(g.equal(columns, best), k, g.broadcast_to(columns, [batch, 1, n]))
        place = g.select(g.equal(columns, k), best, place)
        return g.gather_along_axis(2, a, g.broadcast_to(place, [batch, m, n])), g.gather_along_axis(2, order, place)

    def step(k: Tensor, a: Tensor, factors: Tensor, order: Tensor) -> list[Tensor]:
        if pivoting:
            a, order = pivoted(k, a, order)
        here, below, column_k = g.equal(rows, k), g.greater_than(rows, k), g.equal(columns, k)
        column = picked(g, column_k, a, 2)
        head = picked(g, here, column, 1)
        # Divided by the largest absolute value, squares neither overflow nor vanish.
        parts = g.absolute(g.select(g.less_than(rows, k), number(g, 0, a), column))
        unit = g.reduction_maximum(parts, 1)
        unit = g.select(g.equal(unit, 0.0), number(g, 1, unit), unit)
        shares = g.square(parts / unit)
        tail = g.reduction_sum(g.select(below, shares, number(g, 0, shares)), 1)
        real, rest = (head, None) if not a.dtype.is_complex else (g.real_part(head), g.imaginary_part(head))
        still = g.equal(tail, 0.0)
        if rest is not None:
            still = g.logical_and(still, g.equal(rest, 0.0))
        norm = g.square_root(g.reduction_sum(shares, 1)) * unit
        beta = g.cast(g.select(g.less_than(real, 0.0), norm, -norm), a.dtype)
        safe = g.select(still, one, beta)
        factor = g.select(still, number(g, 0, a), (safe - head) / safe)
        vector = g.select(below, column / g.select(still, one, head - beta), g.select(here, one, number(g, 0, a)))
        vector = g.select(g.logical_and(still, below), number(g, 0, a), vector)
        turned = g.conjugate(factor) if a.dtype.is_complex else factor
        moved = a - turned * vector * g.matrix_multiplication(adjoint(g, vector), a)
        a = g.select(g.greater_than(columns, k), moved, a)
        new = g.select(here, g.select(still, head, beta), g.select(below, vector, column))
        return [g.select(column_k, new, a), g.select(g.equal(columns_of(g, steps), k), factor, factors), order]

    start = [a, zeros(g, [batch, 1, steps], a), g.broadcast_to(columns, [batch, 1, n])]
    found, factors, order = g.for_(steps, initial=start, body=step) if steps else start
    return found, g.reshape(factors, [batch, steps]), g.reshape(order, [batch, n])


def product_of_reflections(g: Graph, a: Tensor, factors: Tensor) -> Tensor:
    """Return Q (B, m, m), given the reflection vectors below the diagonal of a and their scalar factors."""
    batch, m, n = sizes(a)
    rows, columns, count = rows_of(g, m), columns_of(g, n), sizes(factors)[-1]
    wide = g.reshape(factors, [batch, 1, count])

    def step(number_: Tensor, q: Tensor) -> Tensor:
        k = g.constant(count - 1, (), "int32") - number_
        column = picked(g, g.equal(columns, k), a, 2)
        vector = g.select(g.greater_than(rows, k), column, number(g, 0, a))
        vector = g.select(g.equal(rows, k), number(g, 1, a), vector)
        factor = picked(g, g.equal(columns_of(g, count), k), wide, 2)
        return q - factor * vector * g.matrix_multiplication(adjoint(g, vector), q)

    start = eye(g, batch, m, a)
    return g.for_(count, initial=[start], body=step)[0] if count else start


def qr(g: Graph, a: Tensor, complete: bool) -> tuple[Tensor, Tensor]:
    batch, m, n = sizes(a)
    factors, scales, _ = reflections(g, a)
    q, r = product_of_reflections(g, factors, scales), triangle(g, factors, False)
    if complete or m <= n:
        return q, r
    return g.slice_axis(q, 2, 0, n), g.slice_axis(r, 1, 0, n)


def lu_solved(g: Graph, factors: Tensor, order: Tensor, b: Tensor, transposed: bool = False) -> Tensor:
    """Solve P L U x = b, given an LU factorization, or (P L U)^H x = b if `transposed` is set."""
    p = permutation(g, order, factors)
    if not transposed:
        first = solved(g, factors, g.matrix_multiplication(g.swap_axes(p, 1, 2), b), True, True)
        return solved(g, factors, first, False)
    turned = adjoint(g, factors)
    first = solved(g, turned, b, True)
    return g.matrix_multiplication(p, solved(g, turned, first, False, True))


def inverse(g: Graph, a: Tensor) -> Tensor:
    if not a.dtype.is_complex:
        return g.matrix_inverse(a)
    factors, order, _, _ = lu(g, a)
    return lu_solved(g, factors, order, eye(g, sizes(a)[0], sizes(a)[1], a))


def solved_by_cholesky(g: Graph, factor: Tensor, b: Tensor) -> Tensor:
    """Solve L L^H x = b, given the Cholesky factor L."""
    return solved(g, adjoint(g, factor), solved(g, factor, b, True), False)


def determinant(g: Graph, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the determinants (B, 1) of matrices, and the factors and pivots of their LU factorizations."""
    diagonal, sign, factors, pivots = _determinant_parts(g, a)
    return g.reduction_product(diagonal, 1) * sign, factors, pivots


def log_determinant(g: Graph, a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the signs (B, 1) of the determinants, the logarithms (B, 1) of their absolute values, and the factors and
    pivots of the LU factorizations.
    """
    diagonal, sign, factors, pivots = _determinant_parts(g, a)
    size = g.absolute(diagonal)
    unit = diagonal / g.cast(g.select(g.equal(size, 0.0), number(g, 1, size), size), a.dtype)
    return g.reduction_product(unit, 1) * sign, g.reduction_sum(g.logarithm(size), 1), factors, pivots


def _determinant_parts(g: Graph, a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the diagonal of U, the sign (B, 1) of the permutation, the factors, and the pivots."""
    factors, _, pivots, _ = lu(g, a)
    n = sizes(a)[1]
    diagonal = g.squeeze(g.reduction_sum(factors * eye(g, 1, n, factors), 2), [2])
    exchanged = g.not_equal(pivots, g.constant(np.arange(1, n + 1, dtype=np.int32).reshape(1, n)))
    odd = g.modulo(g.reduction_sum(g.cast(exchanged, "int32"), 1), 2)
    return diagonal, g.cast(1.0 - 2.0 * g.cast(odd, float32), a.dtype), factors, pivots


def exponential(g: Graph, a: Tensor) -> Tensor:
    """Compute exp(a) by scaling and squaring: evaluate the Taylor series of a / 2^s, whose norm is at most 1, and
    square it s times.
    """
    batch, n, _ = sizes(a)
    norm = g.reduction_maximum(g.reduction_sum(g.absolute(a), 1), 2)
    halvings = g.ceil(g.logarithm_base2(g.maximum(norm, 1.0)))
    part = a * g.cast(g.exponent_base2(-halvings), a.dtype)
    found = term = eye(g, batch, n, a)
    for power in range(1, 25 if a.dtype.itemsize > 8 or a.dtype.name == "float64" else 15):
        term = g.matrix_multiplication(term, part) * number(g, 1 / power, a)
        found = found + term
    count = g.cast(halvings, "int32")
    most = g.reshape(g.reduction_maximum(count, [0, 1, 2]), ())

    def square(k: Tensor, x: Tensor) -> Tensor:
        return g.select(g.less_than(k, count), g.matrix_multiplication(x, x), x)

    return g.for_(0, most, 1, initial=[found], body=square)[0]
