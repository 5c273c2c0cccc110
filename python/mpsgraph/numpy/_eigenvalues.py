"""Eigenvalues of symmetric and Hermitian matrices and singular values by Jacobi rotations, and other eigenvalues by QR
steps.

A sweep consists of rounds, one fewer than there are rows. Each round rotates every row of the first half with one row
of the second half, all pairs at once, and then exchanges rows so that every pair of rows meets once per sweep. The
PyTorch and JAX frontends use these functions, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core import Tensor
from ..graph import Graph
from . import _matrices as m_

SWEEPS = 30
"""Maximum number of sweeps of Jacobi rotations. No matrix is expected to need as many."""


def _exchange(size: int) -> np.ndarray:
    """Return the order of rows after a round, as in a round-robin tournament in which the first row stays in place."""
    half = size // 2
    top, bottom = list(range(half)), list(range(half, size))
    moved = [top[0], bottom[0], *top[1:-1]] if half > 1 else top
    below = [*bottom[1:], top[-1]] if half > 1 else bottom
    return np.array([*moved, *below], np.int32)


def _real(g: Graph, x: Tensor) -> Tensor:
    return g.real_part(x) if x.dtype.is_complex else x


def _squares(g: Graph, x: Tensor) -> Tensor:
    return g.absolute_square(x) if x.dtype.is_complex else g.square(x)


def _rotations(g: Graph, p: Tensor, q: Tensor, between: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of the Jacobi rotations that make the off-diagonal elements zero.

    p and q are the diagonal elements for each pair of rows, and `between` are the off-diagonal elements. The sines
    contain the phases of complex off-diagonal elements.
    """
    size = g.absolute(between)
    zero = g.equal(size, 0.0)
    one, none = m_.number(g, 1, p), m_.number(g, 0, p)
    safe = g.select(zero, one, size)
    ratio = (q - p) / (safe * 2.0)
    tangent = g.select(g.less_than(ratio, 0.0), -one, one)
    tangent = tangent / (g.absolute(ratio) + g.square_root(g.square(ratio) + 1.0))
    tangent = g.select(zero, none, tangent)
    cosine = g.reciprocal_square_root(g.square(tangent) + 1.0)
    phase = between / g.cast(safe, between.dtype)
    return g.cast(cosine, between.dtype), g.cast(tangent * cosine, between.dtype) * phase


def _turned(g: Graph, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    half = m_.sizes(x)[1] // 2
    top, bottom = g.slice_axis(x, 1, 0, half), g.slice_axis(x, 1, half, half)
    back = g.conjugate(sine) if x.dtype.is_complex else sine
    return g.concat([top * cosine - bottom * sine, top * back + bottom * cosine], 1)


def _swept(g: Graph, initial: list[Tensor], round_: Any, apart: Any, rounds: int, epsilon: float) -> list[Tensor]:
    """Repeat sweeps of Jacobi rotations until they converge.

    They have converged when the function `apart`, which measures the remaining error, returns at most epsilon for each
    matrix of the batch. At most SWEEPS sweeps are made.
    """
    count = g.constant(0, (), "int32")

    def goes_on(number: Tensor, *state: Tensor) -> tuple[Tensor, list[Tensor]]:
        rest = g.reshape(g.reduction_maximum(apart(*state), [0]), ())
        more = g.logical_and(g.less_than(number, SWEEPS), g.greater_than(rest, epsilon))
        return more, [number, *state]

    def sweep(number: Tensor, *state: Tensor) -> list[Tensor]:
        return [number + 1, *g.for_(rounds, initial=list(state), body=lambda _, *s: round_(*s))]

    return g.while_([count, *initial], goes_on, sweep)[1:]


def _scaled(g: Graph, a: Tensor) -> tuple[Tensor, Tensor]:
    """Divide each matrix by its largest absolute value, so that squares neither overflow nor vanish. Return both."""
    largest = g.reduction_maximum(g.absolute(a), [1, 2])
    scale = g.select(g.logical_and(g.greater_than(largest, 0.0), g.is_finite(largest)), largest,
                     m_.number(g, 1, largest))  # fmt: skip
    return a / g.cast(scale, a.dtype), scale


def symmetric(g: Graph, a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues (B, n) of symmetric or Hermitian matrices in ascending order, and eigenvectors (B, n,
    n) as columns.
    """
    batch, n, _ = m_.sizes(a)
    if n == 1:
        return _real(g, g.reshape(a, [batch, 1])), m_.eye(g, batch, 1, a)
    size = n + n % 2
    half, order = size // 2, g.constant(_exchange(size))
    one = g.constant(np.eye(size).astype(a.dtype.numpy)[None])
    a, scale = _scaled(g, a)
    if size != n:  # The padding row never rotates, and is back at its position after each sweep.
        a = g.concat([a, m_.zeros(g, [batch, 1, n], a)], 1)
        a = g.concat([a, m_.zeros(g, [batch, size, 1], a)], 2)
    off = g.constant((1 - np.eye(size)).astype(a.dtype.numpy)[None])

    def round_(a: Tensor, v: Tensor) -> list[Tensor]:
        values = _real(g, g.reduction_sum(a * one, 2))
        corner = g.slice(a, [0, 0, half], [batch, half, size])
        between = g.reduction_sum(corner * g.constant(np.eye(half).astype(a.dtype.numpy)[None]), 2)
        cosine, sine = _rotations(g, g.slice_axis(values, 1, 0, half), g.slice_axis(values, 1, half, half), between)
        a = _turned(g, m_.adjoint(g, _turned(g, a, cosine, sine)), cosine, sine)
        v = _turned(g, v, cosine, sine)
        a = g.gather(g.gather(a, order, 1), order, 2)
        return [a, g.gather(v, order, 1)]

    def apart(a: Tensor, v: Tensor) -> Tensor:
        whole = g.reduction_sum(_squares(g, a), [1, 2])
        return g.reshape(g.reduction_sum(_squares(g, a * off), [1, 2]) / g.maximum(whole, 1e-30), [batch])

    epsilon = float(np.finfo(a.dtype.numpy).eps) ** 2
    a, v = _swept(g, [a, m_.eye(g, batch, size, a)], round_, apart, size - 1, epsilon)
    values = _real(g, g.slice_axis(g.reshape(g.reduction_sum(a * one, 2), [batch, size]), 1, 0, n))
    v = g.slice(v, [0, 0, 0], [batch, n, n])
    places = g.arg_sort(values, 1)
    rows = g.gather_along_axis(1, v, g.broadcast_to(g.expand_dims(places, [2]), [batch, n, n]))
    values = g.gather_along_axis(1, values, places) * g.reshape(scale, [batch, 1])
    return values, m_.adjoint(g, rows)


def whole_of(g: Graph, a: Tensor, lower: bool) -> Tensor:
    """Return symmetric or Hermitian matrices, given one of their triangles."""
    half = m_.triangle(g, a, lower, strict=True)
    middle = a * m_.eye(g, 1, m_.sizes(a)[1], a)
    if a.dtype.is_complex:
        middle = g.cast(g.real_part(middle), a.dtype)
    return half + middle + m_.adjoint(g, half)


def hermitian(g: Graph, a: Tensor, lower: bool) -> tuple[Tensor, Tensor]:
    """Return eigenvalues and eigenvectors of symmetric or Hermitian matrices, of which one triangle is read."""
    return symmetric(g, whole_of(g, a, lower))


def singular(g: Graph, a: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the singular values (B, n) of matrices in descending order, and left and right singular vectors as
    columns.

    The matrices must not have more columns than rows.
    """
    batch, m, n = m_.sizes(a)
    size = n + n % 2
    half, order = size // 2, g.constant(_exchange(size))
    epsilon = float(np.finfo(a.dtype.numpy).eps)
    a, unit = _scaled(g, a)
    # The columns of a are stored as rows, so that pairs are contiguous.
    rows = g.swap_axes(a, 1, 2)
    if size != n:
        rows = g.concat([rows, m_.zeros(g, [batch, 1, m], a)], 1)

    def round_(b: Tensor, v: Tensor, worst: Tensor) -> list[Tensor]:
        top, bottom = g.slice_axis(b, 1, 0, half), g.slice_axis(b, 1, half, half)
        p, q = (g.reduction_sum(_squares(g, x), 2) for x in (top, bottom))
        between = g.reduction_sum(top * (g.conjugate(bottom) if a.dtype.is_complex else bottom), 2)
        scale = g.square_root(p) * g.square_root(q)
        none = g.equal(scale, 0.0)
        share = g.absolute(between) / g.select(none, m_.number(g, 1, p), scale)
        share = g.select(none, m_.number(g, 0, p), share)
        cosine, sine = _rotations(g, p, q, g.select(g.greater_than(share, epsilon), between, m_.number(g, 0, a)))
        b, v = (g.gather(_turned(g, x, cosine, sine), order, 1) for x in (b, v))
        most = g.reshape(g.reduction_maximum(share, [1, 2]), [batch])
        return [b, v, g.maximum(worst, most)]

    count = g.constant(0, (), "int32")

    def goes_on(number: Tensor, b: Tensor, v: Tensor, worst: Tensor) -> tuple[Tensor, list[Tensor]]:
        rest = g.reshape(g.reduction_maximum(worst, [0]), ())
        more = g.logical_and(g.less_than(number, SWEEPS), g.greater_than(rest, 4 * epsilon))
        return more, [number, b, v]

    def sweep(number: Tensor, b: Tensor, v: Tensor) -> list[Tensor]:
        start = [b, v, g.constant(0, [batch], unit.dtype)]
        return [number + 1, *g.for_(max(size - 1, 1), initial=start, body=lambda _, *s: round_(*s))]

    start = [count, rows, m_.eye(g, batch, size, a), g.constant(1, [batch], unit.dtype)]
    _, rows, v = g.while_(start, goes_on, sweep)
    rows, v = g.slice_axis(rows, 1, 0, n), g.slice(v, [0, 0, 0], [batch, n, n])
    values = g.reshape(g.square_root(g.reduction_sum(_squares(g, rows), 2)), [batch, n])
    places = g.arg_sort(values, 1, True)
    values = g.gather_along_axis(1, values, places)
    wide = g.expand_dims(places, [2])
    rows = g.gather_along_axis(1, rows, g.broadcast_to(wide, [batch, n, m]))
    v = g.gather_along_axis(1, v, g.broadcast_to(wide, [batch, n, n]))
    first = g.slice_axis(values, 1, 0, 1)
    tiny = g.expand_dims(g.less_than_or_equal_to(values, first * (4 * epsilon)), [2])
    left = rows / g.cast(g.select(tiny, m_.number(g, 1, values), g.expand_dims(values, [2])), a.dtype)
    left = g.swap_axes(g.select(tiny, m_.number(g, 0, a), left), 1, 2)
    # Missing columns come from the reflections that complete an orthogonal matrix.
    q, _ = m_.qr(g, left, full)
    part = g.select(g.swap_axes(tiny, 1, 2), g.slice_axis(q, 2, 0, n), left)
    if full and m > n:
        part = g.concat([part, g.slice_axis(q, 2, n, m - n)], 2)
    return values * g.reshape(unit, [batch, 1]), part, g.swap_axes(v, 1, 2)


def svd(g: Graph, a: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return u, the singular values in descending order, and the adjoint of v, with a = u diag(values) v^H."""
    wide = m_.sizes(a)[1] < m_.sizes(a)[2]
    values, u, v = singular(g, m_.adjoint(g, a) if wide else a, full)
    return (v, values, m_.adjoint(g, u)) if wide else (u, values, m_.adjoint(g, v))


# --- eigenvalues of general matrices, by QR steps to triangular form --------------------------------------------------
def schur(g: Graph, a: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the Schur form a = z t z^H of complex matrices by shifted QR steps on an active block that shrinks.

    All matrices of a batch take the same number of steps. A matrix that is already triangular stays triangular.
    """
    batch, n, _ = m_.sizes(a)
    real = "float64" if a.dtype.itemsize == 16 else "float32"
    epsilon = float(np.finfo(real).eps)
    rows, columns = m_.rows_of(g, n), m_.columns_of(g, n)
    below = g.constant((np.arange(n)[None] < np.arange(n)[:, None])[None])
    identity, limit = m_.eye(g, batch, n, a), 40 * n
    zero, none = m_.number(g, 0, a), g.constant(0.0, (), real)

    def element(x: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return m_.picked(g, g.equal(columns, j), m_.picked(g, g.equal(rows, i), x, 1), 2)

    def step(number: Tensor, last: Tensor, t: Tensor, z: Tensor) -> list[Tensor]:
        before = g.maximum(last - 1, 0)
        p, q, r, s = (element(t, i, j) for i in (before, last) for j in (before, last))
        # Wilkinson's shift: the eigenvalue of the last 2x2 block that is closer to the last element.
        half = (p - s) * m_.number(g, 0.5, a)
        root = _complex_root(g, half * half + q * r)
        away = g.less_than(g.real_part(g.conjugate(half) * root), none)
        under = half + g.select(away, -root, root)
        still = g.equal(g.absolute(under), none)
        shift = s - g.select(still, zero, q * r / g.select(still, m_.number(g, 1, a), under))
        odd = g.equal(g.modulo(number, 11), 10)
        shift = g.select(odd, s + g.cast(g.absolute(r), a.dtype), shift)
        inside = g.cast(g.cast(g.less_than_or_equal_to(rows, last), real), a.dtype)
        across = g.cast(g.cast(g.less_than_or_equal_to(columns, last), real), a.dtype)
        part = (t - shift * identity) * inside * across + identity * (m_.number(g, 1, a) - inside)
        unitary, _ = m_.qr(g, part, True)
        t = g.matrix_multiplication(g.matrix_multiplication(m_.adjoint(g, unitary), t), unitary)
        z = g.matrix_multiplication(z, unitary)
        left = g.reduction_sum(g.select(below, g.absolute(t), none), 2)
        scale = g.reduction_maximum(g.absolute(t), [1, 2])
        waits = g.logical_and(g.greater_than(left, scale * epsilon), g.less_than_or_equal_to(rows, last))
        last = g.reduction_maximum(g.select(waits, rows, g.constant(0, (), "int32")), 1)
        return [number + 1, last, t, z]

    def goes_on(number: Tensor, last: Tensor, t: Tensor, z: Tensor) -> tuple[Tensor, list[Tensor]]:
        rest = g.reshape(g.reduction_maximum(g.reshape(last, [-1]), [0]), ())
        return g.logical_and(g.greater_than(rest, 0), g.less_than(number, limit)), [number, last, t, z]

    start = [g.constant(0, (), "int32"), g.constant(n - 1, [batch, 1, 1], "int32"), a, identity]
    _, _, t, z = g.while_(start, goes_on, step)
    return m_.triangle(g, t, False), z


def _complex_root(g: Graph, x: Tensor) -> Tensor:
    """Return the principal square root of complex numbers."""
    size = g.absolute(x)
    real, imaginary = g.real_part(x), g.imaginary_part(x)
    first = g.square_root(g.maximum((size + real) * 0.5, 0.0))
    second = g.square_root(g.maximum((size - real) * 0.5, 0.0))
    return g.complex_tensor(first, g.select(g.less_than(imaginary, 0.0), -second, second))


def _vectors_of_triangle(g: Graph, t: Tensor) -> Tensor:
    """Return the eigenvectors of upper triangular matrices as columns, by back substitution from the diagonal up."""
    batch, n, _ = m_.sizes(t)
    rows, columns = m_.rows_of(g, n), m_.columns_of(g, n)
    one, zero = m_.number(g, 1, t), m_.number(g, 0, t)
    diagonal = g.reduction_sum(t * m_.eye(g, 1, n, t), 2)
    across = g.reshape(diagonal, [batch, 1, n])
    tiny = g.cast(g.reduction_maximum(g.absolute(t), [1, 2]) * 1e-7, t.dtype)
    start = m_.eye(g, batch, n, t)

    def row(number: Tensor, v: Tensor) -> Tensor:
        i = g.constant(n - 1, (), "int32") - number
        here = g.equal(rows, i)
        of_row = m_.picked(g, here, t, 1)
        inner = g.select(g.greater_than(columns, i), of_row, zero)
        sums = g.matrix_multiplication(inner, v)
        apart = m_.picked(g, g.equal(columns, i), of_row, 2) - across
        apart = g.select(g.equal(g.absolute(apart), 0.0), g.select(g.equal(g.absolute(tiny), 0.0), one, tiny), apart)
        found = g.select(g.less_than(i, columns), -sums / apart, v)
        return g.select(here, found, v)

    return g.for_(n, initial=[start], body=row)[0]


def eigenvectors(g: Graph, t: Tensor, z: Tensor) -> Tensor:
    """Return the normalized eigenvectors of matrices as columns, given their Schur forms."""
    vectors = g.matrix_multiplication(z, _vectors_of_triangle(g, t))
    norm = g.square_root(g.reduction_sum(g.absolute_square(vectors), 1))
    return vectors / g.cast(norm, vectors.dtype)


def diagonal(g: Graph, t: Tensor) -> Tensor:
    """Return the diagonals (B, n) of matrices (B, n, n)."""
    batch, n, _ = m_.sizes(t)
    return g.reshape(g.reduction_sum(t * m_.eye(g, 1, n, t), 2), [batch, n])
