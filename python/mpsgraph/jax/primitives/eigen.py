"""Eigenvalues and singular values, by Jacobi rotations, or by the QR algorithm for nonsymmetric matrices.

Rotations are organized in rounds. In a round, each row belongs to one pair, so that the rotations of all pairs are a
few whole-matrix operations. A fixed permutation forms the pairs of the next round.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax
from jax import numpy as jnp

from ..._core import Tensor
from ._table import Equation, primitive, shape
from .decompositions import orthogonal, real_type, single, solved

SWEEPS = 30


def _rounds(size: int) -> Any:
    """Return the permutation of rows that forms the pairs of the next round.

    As in a round-robin tournament, the first row stays in place, and the others rotate through the two halves.
    """
    half = size // 2
    # List the positions in rotation order, starting with the partner of the first row. The first row itself stays.
    seats = [*range(1, half), *range(size - 1, half - 1, -1)]
    order = list(range(size))
    for place, seat in enumerate(seats):
        order[seat] = seats[place - 1]
    return np.array(order, np.int32)


def _rotations(p: Any, q: Any, between: Any) -> Any:
    """Return the cosine, sine, and phase of the Jacobi rotation that makes each pair of rows orthogonal.

    p and q are the squared norms of the rows (or diagonal elements), and `between` their inner products.
    """
    size = jnp.abs(between)
    apart = size > 0
    safe = jnp.where(apart, size, jnp.ones_like(size))
    tau = (q - p) / (2 * safe)
    tangent = jnp.where(tau < 0, -1, 1).astype(tau.dtype) / (jnp.abs(tau) + jnp.hypot(jnp.ones_like(tau), tau))
    tangent = jnp.where(apart, tangent, 0)
    cosine = 1 / jnp.hypot(jnp.ones_like(tangent), tangent)
    phase = jnp.where(apart, between / safe.astype(between.dtype), jnp.ones_like(between))
    return cosine, tangent * cosine, phase


def _turned(top: Any, bottom: Any, cosine: Any, sine: Any) -> Any:
    """Rotate each row of `top` together with the same row of `bottom`, by angles given as cosines and sines.

    The sines include the complex phases of the rotations.
    """
    cosine, sine = cosine.astype(top.dtype)[:, None], sine[:, None]
    return jnp.concatenate([cosine * top - sine * bottom, jnp.conj(sine) * top + cosine * bottom])


def hermitian(a: Any) -> Any:
    """Return the eigenvalues, in ascending order, and eigenvectors of a Hermitian matrix."""
    n = a.shape[0]
    if n == 1:
        return a[0].real, jnp.ones_like(a)
    size = n + n % 2
    half = size // 2
    a = jnp.pad(a, ((0, size - n), (0, size - n)))
    order, eps = _rounds(size), np.finfo(real_type(a)).eps
    whole = jnp.sum(jnp.abs(a) ** 2)

    def round_(_: Any, state: Any) -> Any:
        a, v = state
        values = jnp.diagonal(a).real
        between = jnp.diagonal(a[:half, half:])
        cosine, sine, phase = _rotations(values[:half], values[half:], between)
        turn = sine.astype(a.dtype) * phase
        a = _turned(a[:half], a[half:], cosine, turn)
        # The columns rotate by the conjugate rotations, so rotate the rows of the adjoint.
        a = jnp.conj(_turned(jnp.conj(a.T)[:half], jnp.conj(a.T)[half:], cosine, turn)).T
        v = _turned(v[:half], v[half:], cosine, turn)
        return a[order][:, order], v[order]

    def goes_on(state: Any) -> Any:
        sweep, a, _ = state
        outside = jnp.sum(jnp.abs(a - jnp.diag(jnp.diagonal(a))) ** 2)
        return (sweep < SWEEPS) & (outside > (eps * eps) * whole)

    def sweep(state: Any) -> Any:
        number, a, v = state
        a, v = lax.fori_loop(0, size - 1, round_, (a, v))
        return number + 1, (a + jnp.conj(a.T)) / 2, v

    _, a, v = lax.while_loop(goes_on, sweep, (0, a, jnp.eye(size, dtype=a.dtype)))
    values, vectors = jnp.diagonal(a).real, jnp.conj(v.T)[:n]
    if size != n:  # The padding row is an eigenvector without elements in the original rows, and is sorted last.
        added = jnp.argmin(jnp.sum(jnp.abs(vectors) ** 2, axis=0))
        values = jnp.where(jnp.arange(size) == added, np.inf, values)
    places = jnp.argsort(values)[:n]
    return values[places], vectors[:, places]


@primitive("eigh")
def eigh(
    equation: Equation, a: Tensor, *, lower: bool, sort_eigenvalues: bool = True, subset_by_index: Any = None, **_: Any
) -> Any:
    if subset_by_index is not None and tuple(subset_by_index) != (0, shape(a)[-1]):
        equation.refuse("computing only a subset of the eigenvalues is not supported")

    def function(a: Any) -> Any:
        half = jnp.tril(a, -1) if lower else jnp.conj(jnp.triu(a, 1).T)
        whole = half + jnp.conj(half.T) + jnp.diag(jnp.diagonal(a).real).astype(a.dtype)
        values, vectors = hermitian(whole)
        return vectors, values

    return single(equation, function, a)


def singular(a: Any, full: bool) -> Any:
    """Return the singular values of a matrix, in descending order, and its left and right singular vectors.

    The matrix must not have more columns than rows.
    """
    m, n = a.shape
    size = n + n % 2
    half = size // 2
    order, eps = _rounds(size) if size > 2 else np.arange(2), np.finfo(real_type(a)).eps

    def round_(_: Any, state: Any) -> Any:
        b, v, worst = state
        top, bottom = b[:half], b[half:]
        p, q = (jnp.sum(jnp.abs(x) ** 2, axis=1) for x in (top, bottom))
        between = jnp.sum(top * jnp.conj(bottom), axis=1)
        scale = jnp.sqrt(p) * jnp.sqrt(q)
        apart = jnp.where(scale > 0, jnp.abs(between) / jnp.where(scale > 0, scale, jnp.ones_like(scale)), 0)
        cosine, sine, phase = _rotations(p, q, jnp.where(apart > eps, between, jnp.zeros_like(between)))
        turn = sine.astype(a.dtype) * phase
        b = _turned(top, bottom, cosine, turn)
        v = _turned(v[:half], v[half:], cosine, turn)
        return b[order], v[order], jnp.maximum(worst, jnp.max(apart))

    def goes_on(state: Any) -> Any:
        sweep, _, _, worst = state
        return (sweep < SWEEPS) & (worst > 4 * eps)

    def sweep(state: Any) -> Any:
        number, b, v, _ = state
        b, v, worst = lax.fori_loop(0, max(size - 1, 1), round_, (b, v, jnp.zeros((), real_type(a))))
        return number + 1, b, v, worst

    # The columns of a are stored as rows, so that pairs are contiguous.
    rows = jnp.pad(a.T, ((0, size - n), (0, 0)))
    start = 0, rows, jnp.eye(size, dtype=a.dtype), jnp.full((), np.inf, real_type(a))
    _, rows, v, _ = lax.while_loop(goes_on, sweep, start)
    values = jnp.sqrt(jnp.sum(jnp.abs(rows) ** 2, axis=1))
    # The padding row is zero. It is sorted last, even among zero singular values.
    added = jnp.sum(jnp.abs(v[:, :n]) ** 2, axis=1) < 0.5
    places = jnp.argsort(jnp.where(added, np.inf, -values))[:n]
    values, rows, v = values[places], rows[places], v[places][:, :n]
    tiny = values <= values[0] * eps * 4
    left = jnp.where(tiny[:, None], 0, rows / jnp.where(tiny, jnp.ones_like(values), values).astype(a.dtype)[:, None])
    # Missing columns come from the reflections that complete an orthogonal matrix.
    q, r = orthogonal(left.T, full)
    signs = jnp.where(tiny, jnp.ones_like(values, dtype=a.dtype), jnp.diagonal(r))
    u = q.at[:, :n].set(jnp.where(tiny[None, :], q[:, :n], left.T * jnp.ones_like(signs)))
    return values, u, jnp.conj(v)


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
    m, n = shape(a)[-2:]
    if subset_by_index is not None and tuple(subset_by_index) != (0, min(m, n)):
        equation.refuse("computing only a subset of the singular values is not supported")

    def function(a: Any) -> Any:
        wide = m < n
        values, u, v = singular(jnp.conj(a.T) if wide else a, full_matrices and compute_uv)
        if not compute_uv:
            return (values,)
        # The decomposition is a = u diag(values) v. For the adjoint, u and v are exchanged.
        return (values, jnp.conj(v.T), jnp.conj(u.T)) if wide else (values, u, v)

    return single(equation, function, a)


@primitive("eig")
def eig(
    equation: Equation,
    a: Tensor,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    **_: Any,
) -> Any:
    def function(a: Any) -> Any:
        triangle, basis = schur(a.astype(np.result_type(a.dtype, np.complex64)))
        found = [jnp.diagonal(triangle)]
        if compute_left_eigenvectors:
            # Left eigenvectors are the eigenvectors of the adjoint, which is lower triangular and is reversed to be
            # upper triangular.
            turned = jnp.conj(triangle.T)[::-1, ::-1]
            found.append(_normal((basis[:, ::-1] @ _triangular_vectors(turned))[:, ::-1]))
        if compute_right_eigenvectors:
            found.append(_normal(basis @ _triangular_vectors(triangle)))
        return tuple(found)

    return single(equation, function, a)


def schur(a: Any) -> Any:
    """Return the Schur form of a matrix: a triangle t and a unitary basis z with a = z t z^H.

    Uses shifted QR steps on an active part of the matrix that shrinks from its end.
    """
    n = a.shape[0]
    rows = jnp.arange(n)
    eps = np.finfo(real_type(a)).eps

    def step(state: Any) -> Any:
        number, last, t, z = state
        # Wilkinson's shift: the eigenvalue of the last 2x2 block that is closer to the last element.
        before = jnp.maximum(last - 1, 0)
        p, q, r, s = t[before, before], t[before, last], t[last, before], t[last, last]
        half = (p - s) / 2
        root = jnp.sqrt(half * half + q * r)
        root = jnp.where((jnp.conj(half) * root).real < 0, -root, root)
        below = half + root
        shift = s - jnp.where(below == 0, 0, q * r / jnp.where(below == 0, jnp.ones_like(below), below))
        # Every eleventh step uses an exceptional shift, because Wilkinson's shift can cycle.
        shift = jnp.where(number % 11 == 10, s + jnp.abs(r).astype(t.dtype), shift)
        inside = (rows <= last).astype(t.dtype)
        part = (t - shift * jnp.eye(n, dtype=t.dtype)) * inside[:, None] * inside[None, :]
        part = part + jnp.diag(1 - inside)
        unitary, _ = orthogonal(part, True)
        t, z = jnp.conj(unitary.T) @ t @ unitary, z @ unitary
        # A row has converged once its elements left of the diagonal are negligible.
        left = jnp.sum(jnp.where(rows[None, :] < rows[:, None], jnp.abs(t), 0), axis=1)
        scale = jnp.max(jnp.abs(t))
        open_ = (left > eps * scale) & (rows <= last)
        return number + 1, jnp.max(jnp.where(open_, rows, 0)), t, z

    def goes_on(state: Any) -> Any:
        number, last, _, _ = state
        return (last > 0) & (number < 40 * n)

    start = 0, jnp.asarray(n - 1, rows.dtype), a, jnp.eye(n, dtype=a.dtype)
    _, _, t, z = lax.while_loop(goes_on, step, start)
    return jnp.triu(t), z


def _triangular_vectors(t: Any) -> Any:
    """Return the eigenvectors of an upper triangular matrix as columns."""
    n = t.shape[0]
    rows = jnp.arange(n)
    smallest = np.finfo(real_type(t)).eps * jnp.max(jnp.abs(t))

    def vector(k: Any) -> Any:
        value = jnp.sum(jnp.where(rows == k, jnp.diagonal(t), 0))
        shifted = jnp.triu(t, 1) + jnp.diag(_away(jnp.diagonal(t) - value, smallest))
        above = (rows < k).astype(t.dtype)
        part = shifted * above[:, None] * above[None, :] + jnp.diag(1 - above)
        right = -jnp.sum(jnp.where(rows[None, :] == k, t, 0), axis=1) * above
        return solved(part, right[:, None], False, False)[:, 0] + (rows == k).astype(t.dtype)

    from jax import vmap

    return vmap(vector, out_axes=1)(rows)


def _away(x: Any, smallest: Any) -> Any:
    """Replace numbers whose absolute value is below a threshold by the threshold.

    The numbers are differences of eigenvalues, and division by them must be safe.
    """
    return jnp.where(jnp.abs(x) < smallest, smallest.astype(x.dtype), x)


def _normal(vectors: Any) -> Any:
    return vectors / jnp.sqrt(jnp.sum(jnp.abs(vectors) ** 2, axis=0)).astype(vectors.dtype)
