"""Translations of operations on complex numbers: parts, conjugates and angles."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import Tensor
from ...numpy._formulas import sign_of_complex
from ._table import Call, aten, prims, shape_of


@aten("view_as_real", "view_as_real_copy")
def view_as_real(call: Call, x: Tensor) -> Tensor:
    return call.g.stack([call.g.real_part(x), call.g.imaginary_part(x)], len(shape_of(x)))


@aten("view_as_complex", "view_as_complex_copy")
def view_as_complex(call: Call, x: Tensor) -> Tensor:
    g, last = call.g, len(shape_of(x)) - 1
    real, imaginary = (g.reshape(g.slice_axis(x, last, i, 1), call.sizes) for i in range(2))
    return g.complex_tensor(real, imaginary)


@aten("real")
@prims("real")
def real(call: Call, x: Tensor) -> Tensor:
    return call.g.real_part(x) if x.dtype.is_complex else x


@aten("imag")
@prims("imag")
def imag(call: Call, x: Tensor) -> Tensor:
    return call.g.imaginary_part(x)


@aten("complex")
def complex_(call: Call, x: Tensor, y: Tensor) -> Tensor:
    return call.g.complex_tensor(x, y)


@aten("conj", "_conj", "conj_physical", "_conj_physical", "resolve_conj", "_conj_copy", "resolve_neg", "_neg_view",
      "_neg_view_copy")  # fmt: skip
@prims("conj", "conj_physical")
def conj(call: Call, x: Tensor) -> Tensor:
    if call.name in ("_neg_view", "_neg_view_copy"):
        return call.g.negative(x)
    return call.g.conjugate(x) if x.dtype.is_complex and call.name != "resolve_neg" else x


@aten("angle")
def angle(call: Call, x: Tensor) -> Tensor:
    g = call.g
    if x.dtype.is_complex:
        return g.atan2(g.imaginary_part(x), g.real_part(x))
    x = call.cast(x, call.dtype)
    turned = g.select(g.less_than(x, 0.0), call.cast(np.pi, x.dtype), call.cast(0.0, x.dtype))
    return g.select(g.is_nan(x), x, turned)


@aten("sgn")
def sgn(call: Call, x: Tensor) -> Any:
    """Compute x / |x|. The result is 0 where x is 0."""
    g = call.g
    if not x.dtype.is_complex:
        return x if str(x.dtype) == "bool" else g.sign(x)
    return sign_of_complex(g, x)


@aten("polar")
def polar(call: Call, size: Tensor, angles: Tensor) -> Tensor:
    return call.g.complex_tensor(size * call.g.cos(angles), size * call.g.sin(angles))
