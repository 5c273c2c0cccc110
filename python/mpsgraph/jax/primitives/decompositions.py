"""Matrix decompositions and triangular solves, written in JAX for a single matrix and vectorized.

The algorithms work column by column like LAPACK's unblocked routines, with LAPACK's conventions for signs and pivots.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax
from jax import numpy as jnp

from ..._core import Tensor
from ._table import Equation, mapped, primitive, shape


def real_type(x: Any) -> Any:
    """Return the real dtype that corresponds to a possibly complex dtype."""
    return np.finfo(x.dtype).dtype


def single(equation: Equation, function: Any, *operands: Tensor, rank: int = 2) -> Any:
    """Apply a function of single matrices to operands with leading batch axes. float16 and bfloat16 use float32."""
    batch = len(shape(operands[0])) - rank
    if any(0 in aval.shape for aval in (*equation.operands, *equation.results)):
        return [equation.constant(0, aval.dtype.name, aval.shape) for aval in equation.results]
    half = operands[0].dtype.itemsize == 2
    wide = [equation.cast(x, "float32") if half and x.dtype.is_float else x for x in operands]
    found = equation.traced(mapped(function, batch), *wide)
    results = list(found) if isinstance(found, (list, tuple)) else [found]
    if half:
        results = [equation.cast(x, aval.dtype.name) for x, aval in zip(results, equation.results, strict=True)]
    return results


@primitive("cholesky")
def cholesky(equation: Equation, a: Tensor, **_: Any) -> Any:
    return single(equation, _cholesky, a)


def _cholesky(a: Any) -> Any:
    """Return the Cholesky factor L with a = L L^H in the lower triangle, and a itself above the diagonal.

    The result is NaN if a is not positive definite.
    """
    n = a.shape[0]
    rows = jnp.arange(n)

    def column(j: Any, factor: Any) -> Any:
        rest = a[:, j] - factor @ jnp.conj(factor[j])
        pivot = jnp.sqrt(rest[j].real)
        found = jnp.where(rows > j, rest / pivot.astype(a.dtype), 0)
        found = jnp.where(rows == j, pivot.astype(a.dtype), found)
        return factor.at[:, j].set(found)

    factor = lax.fori_loop(0, n, column, jnp.zeros_like(a))
    valid = jnp.all(jnp.isfinite(jnp.diagonal(factor).real))
    return jnp.where(valid, factor + jnp.triu(a, 1), jnp.asarray(np.nan, a.dtype))


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

    def function(a: Any, b: Any) -> Any:
        below = lower
        if conjugate_a:
            a = jnp.conj(a)
        if transpose_a:
            a, below = a.T, not below
        if not left_side:
            a, below, b = a.T, not below, b.T
        found = solved(a, b, below, unit_diagonal)
        return found if left_side else found.T

    return single(equation, function, a, b)


def solved(a: Any, b: Any, lower: bool, unit_diagonal: bool) -> Any:
    """Return the solution x of a x = b for a triangular matrix a. The other triangle of a is not read."""
    n = a.shape[0]
    a = jnp.tril(a, -1 if unit_diagonal else 0) if lower else jnp.triu(a, 1 if unit_diagonal else 0)

    def row(step: Any, x: Any) -> Any:
        i = step if lower else n - 1 - step
        left = b[i] - a[i] @ x
        return x.at[i].set(left if unit_diagonal else left / a[i, i])

    return lax.fori_loop(0, n, row, jnp.zeros_like(b))


@primitive("lu")
def lu(equation: Equation, a: Tensor, **_: Any) -> Any:
    return single(equation, _lu, a)


def _lu(a: Any) -> Any:
    """Factorize a matrix by LU with partial pivoting.

    Returns L and U in one matrix, the rows that were exchanged, and the permutation that results from the exchanges.
    """
    m, n = a.shape
    rows, columns = jnp.arange(m), jnp.arange(n)
    count = min(m, n)

    def column(k: Any, state: Any) -> Any:
        a, pivots, permutation = state
        line = a[:, k]
        size = jnp.abs(line.real) + jnp.abs(line.imag) if jnp.iscomplexobj(a) else jnp.abs(line)
        pivot = jnp.argmax(jnp.where(rows >= k, size, -1)).astype(np.int32)
        order = jnp.where(rows == k, pivot, jnp.where(rows == pivot, k, rows))
        a, permutation = a[order], permutation[order]
        head = a[k, k]
        scaled = jnp.where((rows > k) & (head != 0), a[:, k] / jnp.where(head == 0, jnp.ones_like(head), head), a[:, k])
        a = a.at[:, k].set(scaled)
        below = jnp.where(rows > k, scaled, 0)
        a = a - below[:, None] * jnp.where(columns > k, a[k], 0)[None, :]
        return a, pivots.at[k].set(pivot), permutation

    start = a, jnp.zeros(count, np.int32), jnp.arange(m, dtype=np.int32)
    return lax.fori_loop(0, count, column, start)


@primitive("lu_pivots_to_permutation")
def lu_pivots_to_permutation(equation: Equation, pivots: Tensor, *, permutation_size: int) -> Any:
    def function(pivots: Any) -> Any:
        rows = jnp.arange(permutation_size, dtype=np.int32)

        def exchanged(k: Any, permutation: Any) -> Any:
            other = pivots[k]
            return permutation[jnp.where(rows == k, other, jnp.where(rows == other, k, rows))]

        return lax.fori_loop(0, pivots.shape[0], exchanged, rows)

    return single(equation, function, pivots, rank=1)


def reflected(a: Any, pivoting: bool = False) -> Any:
    """Compute a QR factorization by Householder reflections, optionally with column pivoting.

    Returns R with the reflection vectors below its diagonal, the scalar factors of the reflections, and the order of
    the columns.
    """
    m, n = a.shape
    count = min(m, n)
    rows, columns = jnp.arange(m), jnp.arange(n)
    real = real_type(a)

    def column(j: Any, state: Any) -> Any:
        a, factors, order = state
        if pivoting:
            norms = jnp.sum(jnp.where(rows[:, None] >= j, jnp.abs(a) ** 2, 0), axis=0)
            best = jnp.argmax(jnp.where(columns >= j, norms, -1)).astype(np.int32)
            swapped = jnp.where(columns == j, best, jnp.where(columns == best, j, columns))
            a, order = a[:, swapped], order[swapped]
        line = a[:, j]
        head = line[j]
        rest = jnp.where(rows > j, line, 0)
        scale = jnp.max(jnp.abs(rest))
        safe = jnp.where(scale > 0, scale, jnp.ones_like(scale))
        norm = safe * jnp.sqrt(jnp.sum(jnp.abs(rest / safe.astype(a.dtype)) ** 2))
        size = jnp.hypot(jnp.abs(head), norm)
        beta = jnp.where(head.real < 0, size, -size).astype(real)
        nothing = (norm == 0) & (head.imag == 0)
        divisor = jnp.where(nothing, jnp.ones_like(beta), beta)
        factor = jnp.where(nothing, jnp.zeros_like(head), (divisor.astype(a.dtype) - head) / divisor.astype(a.dtype))
        below = rest / jnp.where(nothing, jnp.ones_like(head), head - beta.astype(a.dtype))
        vector = jnp.where(rows == j, jnp.ones_like(line), below)
        vector = jnp.where(rows < j, jnp.zeros_like(line), vector)
        right = jnp.where(columns > j, 1, 0).astype(a.dtype)
        a = a - jnp.conj(factor) * vector[:, None] * ((jnp.conj(vector) @ a) * right)[None, :]
        kept = jnp.where(rows < j, line, below)
        kept = jnp.where(rows == j, jnp.where(nothing, head, beta.astype(a.dtype)), kept)
        return a.at[:, j].set(kept), factors.at[j].set(factor), order

    start = a, jnp.zeros(count, a.dtype), jnp.arange(n, dtype=np.int32)
    return lax.fori_loop(0, count, column, start)


def unreflected(a: Any, factors: Any, size: int) -> Any:
    """Return the first `size` columns of the product of Householder reflections."""
    m = a.shape[0]
    rows = jnp.arange(m)

    def column(step: Any, q: Any) -> Any:
        j = factors.shape[0] - 1 - step
        vector = jnp.where(rows > j, a[:, j], jnp.where(rows == j, jnp.ones_like(a[:, j]), 0))
        return q - factors[j] * vector[:, None] * (jnp.conj(vector) @ q)[None, :]

    return lax.fori_loop(0, factors.shape[0], column, jnp.eye(m, size, dtype=a.dtype))


@primitive("geqrf")
def geqrf(equation: Equation, a: Tensor, **_: Any) -> Any:
    return single(equation, lambda a: reflected(a)[:2], a)


@primitive("geqp3")
def geqp3(equation: Equation, a: Tensor, pivots: Tensor, **_: Any) -> Any:
    def function(a: Any, pivots: Any) -> Any:
        packed, factors, order = reflected(a, True)
        return packed, order + 1, factors

    return single(equation, function, a, pivots)


@primitive("householder_product")
def householder_product(equation: Equation, a: Tensor, factors: Tensor, **_: Any) -> Any:
    return single(equation, lambda a, factors: unreflected(a, factors, a.shape[1]), a, factors)


def orthogonal(a: Any, full: bool) -> Any:
    """Return Q and R of a matrix."""
    m, n = a.shape
    packed, factors, _ = reflected(a)
    size = m if full else min(m, n)
    return unreflected(packed, factors, size), jnp.triu(packed[:size])


@primitive("qr")
def qr(equation: Equation, a: Tensor, *, full_matrices: bool, pivoting: bool = False, **_: Any) -> Any:
    m, n = shape(a)[-2:]
    if 0 in (m, n):
        if full_matrices and m:
            size = equation.results[0].shape
            eye = np.broadcast_to(np.eye(m, dtype=a.dtype.numpy), size)
            others = [equation.constant(0, r.dtype.name, r.shape) for r in equation.results[1:]]
            return [equation.g.constant(np.ascontiguousarray(eye), dtype=a.dtype), *others]
        return [equation.constant(0, r.dtype.name, r.shape) for r in equation.results]

    def function(a: Any) -> Any:
        packed, factors, order = reflected(a, pivoting)
        size = m if full_matrices else min(m, n)
        found = unreflected(packed, factors, size), jnp.triu(packed[:size])
        return (*found, order) if pivoting else found

    return single(equation, function, a)


@primitive("tridiagonal_solve")
def tridiagonal_solve(equation: Equation, *operands: Tensor, **_: Any) -> Any:
    """Translate tridiagonal_solve by Gaussian elimination with row exchanges on the full matrix."""

    def function(below: Any, middle: Any, above: Any, b: Any) -> Any:
        a = jnp.diag(middle) + jnp.diag(below[1:], -1) + jnp.diag(above[:-1], 1)
        packed, _, order = _lu(a)
        return solved(packed, solved(packed, b[order], True, True), False, False)

    return single(equation, function, *operands, rank=1)
