"""Translations of eigenvalues and singular values, whose algorithms are in mpsgraph.numpy."""

from __future__ import annotations

from typing import Any

from ...._core import Tensor
from ....numpy import _eigenvalues as e_
from ....numpy import _matrices as m_
from .._table import Call, aten
from .decompositions import _shaped, nothing


@aten("_linalg_eigh")
def eigh(call: Call, a: Tensor, half: str = "L", compute_v: bool = True) -> Any:
    g = call.g
    if m_.empty(a):
        return nothing(call)
    values, vectors = e_.hermitian(g, m_.flat(g, a), half in ("L", "l"))
    return _shaped(call, values, vectors if compute_v else g.constant(0, [0], a.dtype))


@aten("_linalg_svd")
def svd(call: Call, a: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None) -> Any:
    g = call.g
    if m_.empty(a):
        return nothing(call)
    u, values, v = e_.svd(g, m_.flat(g, a), full_matrices and compute_uv)
    none = g.constant(0, [0], a.dtype)
    return _shaped(call, u, values, v) if compute_uv else _shaped(call, none, values, none)


@aten("linalg_eig", "_linalg_eigvals")
def eig(call: Call, a: Tensor) -> Any:
    g = call.g
    if m_.empty(a):
        return nothing(call) if isinstance(call.result, (tuple, list)) else nothing(call)[0]
    flat = m_.flat(g, a)
    if not a.dtype.is_complex:
        flat = g.cast(flat, "complex128" if a.dtype.itemsize == 8 else "complex64")
    t, z = e_.schur(g, flat)
    values = e_.diagonal(g, t)
    if not isinstance(call.result, (tuple, list)):
        return g.reshape(values, call.shape)
    return _shaped(call, values, e_.eigenvectors(g, t, z))
