"""Translations of operations in PyTorch's prims namespace, the primitives into which PyTorch decomposes other
operations.

Most of them are equal to an ATen operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core import Tensor
from ...interchange.renames import methods
from . import elementwise, reductions, shapes
from ._table import Call, aten, prims, shape_of

# Primitives that have the arguments and the meaning of the ATen operation with the same name.
for _name in (
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "cat", "ceil", "clone", "cos", "cosh", "div", "eq", "erf", "exp", "exp2", "expm1",
    "floor", "fmod", "ge", "gt", "isfinite", "le", "log", "log10", "log1p", "log2", "lt", "maximum", "minimum", "mul",
    "ne", "neg", "pow", "reciprocal", "remainder", "round", "rsqrt", "scalar_tensor", "sign", "signbit", "sin", "sinh",
    "sqrt", "sub", "tan", "tanh", "trunc", "where", "full", "full_like", "empty", "empty_strided", "reshape",
):  # fmt: skip
    _function = aten.get(_name)
    assert _function is not None, _name
    prims(_name)(_function)


@prims("convert_element_type")
def convert_element_type(call: Call, x: Tensor, dtype: Any) -> Tensor:
    return call.cast(x, call.dtype)


@prims("view_of", "view_of_dtype", "device_put", "copy_strided")
def view_of(call: Call, x: Tensor, *_: Any) -> Tensor:
    return x


@prims("collapse_view", "collapse", "split_dim", "squeeze", "empty_permuted")
def reshaped(call: Call, x: Any, *_: Any, **__: Any) -> Tensor:
    return call.g.reshape(x, call.sizes) if isinstance(x, Tensor) else shapes.zeros(call)


@prims("broadcast_in_dim")
def broadcast_in_dim(call: Call, x: Tensor, shape: Sequence[int], places: Sequence[int]) -> Tensor:
    sizes = [1] * len(call.sizes)
    for place, size in zip(places, shape_of(x), strict=True):
        sizes[place] = size
    return call.g.broadcast_to(call.g.reshape(x, sizes), call.sizes)


@prims("transpose")
def transpose(call: Call, x: Tensor, order: Sequence[int]) -> Tensor:
    return call.g.transpose(x, list(order)) if len(order) > 1 else x


@prims("rev")
def rev(call: Call, x: Tensor, axes: Sequence[int]) -> Tensor:
    return shapes.flip(call, x, axes)


@aten.rows(methods("aten", "reduction", without=("mean",)), domain="prims")
def reduction(call: Call, method: str, x: Tensor, axes: Sequence[int] | None, **_: Any) -> Tensor:
    """Reduce over axes. An empty list means no axes in the prims namespace, but all axes in ATen."""
    if axes is not None and not len(axes):
        return x
    return reductions.reduced(call, method, call.cast(x, call.dtype), None if axes is None else list(axes))


@prims("var")
def var(call: Call, x: Tensor, axes: Sequence[int] | None, correction: float = 1, **_: Any) -> Tensor:
    return reductions.var(call, x, None if axes is None else list(axes), correction=correction)


@prims("iota")
def iota(call: Call, length: int, *, start: int, step: int, **_: Any) -> Tensor:
    return call.g.constant((start + step * np.arange(length)).astype(call.dtype.numpy), dtype=call.dtype)


@prims("fmax", "fmin")
def extremum_of_numbers(call: Call, x: Tensor, y: Tensor) -> Tensor:
    """Return the larger or smaller operand. Where only one operand is NaN, the result is the other operand."""
    g, (x, y) = call.g, call.casts(x, y)
    found = elementwise.binary(call, elementwise.BINARY[f"{call.name[1:]}imum"], x, y)
    if not call.dtype.is_float:
        return found
    return g.select(g.is_nan(x), y, g.select(g.is_nan(y), x, found))


@prims("frexp")
def frexp(call: Call, x: Tensor) -> list[Tensor]:
    """Translate frexp: split numbers into a mantissa in [1/2, 1) and a power of two by manipulating their bits."""
    g = call.g
    if x.dtype.name != "float32":
        call.refuse(f"only float32 is supported, got {x.dtype.name}")
    small = g.less_than(g.absolute(x), 2.0**-126)
    normal = g.select(small, x * 2.0**24, x)
    bits = g.reinterpret_cast(normal, "int32")
    exponent = g.bitwise_and(g.bitwise_right_shift(bits, 23), 255)
    mantissa = g.reinterpret_cast(g.bitwise_or(g.bitwise_and(bits, -2139095041), 126 << 23), "float32")
    plain = g.logical_or(g.equal(x, 0.0), g.equal(exponent, 255))
    power = exponent - 126 - g.select(small, g.constant(24, (), "int32"), g.constant(0, (), "int32"))
    return [g.select(plain, x, mantissa), g.select(plain, g.constant(0, (), "int32"), power)]


@prims("gcd")
def gcd(call: Call, x: Tensor, y: Tensor) -> Tensor:
    g = call.g
    x, y = (g.broadcast_to(g.absolute(call.cast(v, call.dtype)), call.sizes) for v in (x, y))

    def goes_on(a: Tensor, b: Tensor) -> tuple[Tensor, list[Tensor]]:
        flat = g.reshape(g.not_equal(b, 0), [-1])
        return g.reshape(g.reduction_or(flat, [0]), ()), [a, b]

    def step(a: Tensor, b: Tensor) -> list[Tensor]:
        done = g.equal(b, 0)
        rest = g.modulo(a, g.select(done, call.cast(1, b.dtype), b))
        return [g.select(done, a, b), g.select(done, b, rest)]

    return g.while_([x, y], goes_on, step)[0]
