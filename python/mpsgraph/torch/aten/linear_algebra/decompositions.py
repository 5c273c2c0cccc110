"""Translations of matrix factorizations: LU with pivots, Cholesky, QR and products of Householder reflections."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...._core import Tensor
from ....numpy import _matrices as m_
from .._table import Call, aten


def nothing(call: Call) -> list[Tensor]:
    """Return the results of a call on matrices without elements.

    A square matrix among the results is an identity matrix. All other results are zeros.
    """
    said = call.result if isinstance(call.result, (tuple, list)) else [call.result]
    found = []
    for r in said:
        if r.dim() >= 2 and r.numel() and r.shape[-1] == r.shape[-2] and not r.dtype == torch.int32:
            eye = np.broadcast_to(np.eye(r.shape[-1]), tuple(r.shape))
            found.append(call.g.constant(eye.astype(str(r.dtype).removeprefix("torch."))))
        else:
            found.append(call.g.constant(0, list(r.shape), str(r.dtype).removeprefix("torch.")))
    return found


def _shaped(call: Call, *found: Tensor) -> list[Tensor]:
    return [call.g.reshape(x, list(r.shape)) for x, r in zip(found, call.result, strict=True)]


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


@aten("linalg_lu_factor_ex")
def lu_factor(call: Call, a: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    if not pivot:
        call.refuse("pivot=False is not supported: use pivot=True")
    if m_.empty(a):
        return nothing(call)
    factors, _, pivots, failed = m_.lu(call.g, m_.flat(call.g, a))
    return _shaped(call, factors, pivots, failed)


@aten("linalg_lu")
def lu(call: Call, a: Tensor, *, pivot: bool = True) -> Any:
    if not pivot:
        call.refuse("pivot=False is not supported: use pivot=True")
    if m_.empty(a):
        return nothing(call)
    factors, order, _, _ = m_.lu(call.g, m_.flat(call.g, a))
    return _shaped(call, m_.permutation(call.g, order, a), *_halves(call, factors))


def _halves(call: Call, factors: Tensor) -> tuple[Tensor, Tensor]:
    g, (_, m, n) = call.g, m_.sizes(factors)
    lower = m_.triangle(g, factors, True, unit=True)
    upper = m_.triangle(g, factors, False)
    return (g.slice_axis(lower, 2, 0, min(m, n)), g.slice_axis(upper, 1, 0, min(m, n)))


@aten("lu_unpack")
def lu_unpack(call: Call, factors: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    g = call.g
    if m_.empty(factors):
        return nothing(call)
    flat = m_.flat(g, factors)
    none = g.constant(0, [0], factors.dtype)
    order = m_.order_of(g, g.reshape(pivots, [m_.sizes(flat)[0], -1]), m_.sizes(flat)[1])
    halves = _halves(call, flat) if unpack_data else (none, none)
    return _shaped(call, m_.permutation(g, order, factors) if unpack_pivots else none, *halves)


@aten("linalg_cholesky_ex")
def cholesky_ex(call: Call, a: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    if m_.empty(a):
        return nothing(call)
    factor, failed = m_.cholesky(call.g, m_.flat(call.g, m_.adjoint(call.g, a) if upper else a))
    return _shaped(call, m_.adjoint(call.g, factor) if upper else factor, failed)


@aten("cholesky")
def cholesky(call: Call, a: Tensor, upper: bool = False) -> Any:
    if m_.empty(a):
        return nothing(call)[0]
    factor, _ = m_.cholesky(call.g, m_.flat(call.g, m_.adjoint(call.g, a) if upper else a))
    return call.g.reshape(m_.adjoint(call.g, factor) if upper else factor, call.shape)


@aten("linalg_qr")
def qr(call: Call, a: Tensor, mode: str = "reduced") -> Any:
    g = call.g
    if m_.empty(a):
        return nothing(call)
    q, r = m_.qr(g, m_.flat(g, a), mode == "complete")
    return _shaped(call, g.constant(0, [0], a.dtype) if mode == "r" else q, r)


@aten("geqrf")
def geqrf(call: Call, a: Tensor) -> Any:
    return nothing(call) if m_.empty(a) else _shaped(call, *m_.reflections(call.g, m_.flat(call.g, a))[:2])


@aten("linalg_householder_product")
def householder_product(call: Call, a: Tensor, factors: Tensor) -> Tensor:
    g = call.g
    if m_.empty(a):
        return nothing(call)[0]
    flat = m_.flat(g, a)
    q = m_.product_of_reflections(g, flat, g.reshape(factors, [m_.sizes(flat)[0], m_.sizes(factors)[-1]]))
    return g.reshape(g.slice_axis(q, 2, 0, m_.sizes(flat)[2]), call.shape)


@aten("ormqr")
def ormqr(call: Call, a: Tensor, factors: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    g = call.g
    if m_.empty(a, other):
        return nothing(call)[0]
    flat, b = m_.flat(g, a), m_.flat(g, other)
    q = m_.product_of_reflections(g, flat, g.reshape(factors, [m_.sizes(flat)[0], m_.sizes(factors)[-1]]))
    q = m_.adjoint(g, q) if transpose else q
    return g.reshape(g.matrix_multiplication(*((q, b) if left else (b, q))), call.shape)
