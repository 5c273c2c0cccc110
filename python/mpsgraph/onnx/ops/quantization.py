"""Translations of linear quantization, and of matmul and convolution on quantized integers."""

from __future__ import annotations

import numpy as np

from ..._core import DType, Tensor, float32, int32, uint8
from ...errors import UnsupportedError
from ...interchange.data_dependent import DataDependent
from ...nn.quantized import pack
from ..building.node import Node, Results, operator
from ..reading.files import dtype_of, is_narrow, limits_of, type_name
from .convolutions import convolution_of_integers
from .linear import matmul_of_bytes

_UINT8, _INT8, _UINT4, _INT4 = 2, 3, 21, 22  # Element types of TensorProto.
_BITS = {_UINT8: 8, _INT8: 8, _UINT4: 4, _INT4: 4}


def _along_axis(node: Node, parameter: Tensor, x: Tensor, i: int) -> Tensor:
    """Reshape operand i, a scale or zero point, to broadcast against x.

    The operand is a scalar, or has one element per index of an axis or per block of indices.
    """
    g = node.g
    rank = node.rank(x)
    block = node.attribute("block_size", 0)
    if node.rank(parameter) == 0 or (parameter.shape == (1,) and rank != 1):
        return g.reshape(parameter, ())
    axis = node.axis(x, node.attribute("axis", 1)) if rank > 1 else 0
    if not block:
        return g.reshape(parameter, [-1 if a == axis else 1 for a in range(rank)])
    shape = list(node.shape(parameter))
    repeated = g.tile(g.expand_dims(parameter, axis + 1), [block if a == axis + 1 else 1 for a in range(rank + 1)])
    shape[axis] *= block
    return g.slice_axis(g.reshape(repeated, shape), axis, 0, node.size(x, axis))


def _operands(node: Node, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor | int, int | None] | None:
    """Return a scale, zero point, and axis as arguments for Graph.quantize, or None if there is one scale per block."""
    g = node.g
    if node.attribute("block_size", 0) or node.rank(scale) > 1:
        return None
    zero = node.optional(2)
    if node.rank(scale) == 0 or scale.shape == (1,):
        return g.reshape(scale, ()), 0 if zero is None else g.reshape(zero, ()), None
    return scale, 0 if zero is None else zero, node.axis(x, node.attribute("axis", 1) if node.rank(x) > 1 else 0)


def _limits(dtype: DType) -> tuple[int, int]:
    info = np.iinfo(str(dtype))
    return int(info.min), int(info.max)


def saturated(node: Node, x: Tensor, dtype: DType, limits: tuple[int, int] | None = None) -> Tensor:
    """Convert real numbers to integers of a dtype, saturating at limits, which default to those of the dtype."""
    low, high = limits or _limits(dtype)
    return node.g.cast(node.g.clamp(x, float(low), float(high)), dtype)


def _quantized(
    node: Node,
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    dtype: DType,
    limits: tuple[int, int] | None = None,
) -> Tensor:
    g = node.g
    rounded = g.rint(g.division(x, scale))
    moved = rounded if zero is None else g.addition(rounded, node.cast(zero, rounded.dtype))
    return saturated(node, moved, dtype, limits)


@operator("QuantizeLinear", upto=28)
def quantize_linear(node: Node) -> Results:
    # saturate applies only to 8-bit floats, which the importer rejects; axis is unused with a scalar scale.
    node.without_effect("saturate", "axis")
    g, x, scale = node.g, node.tensor(0), node.tensor(1)
    number, stored = node.attribute("output_dtype", 0), node.stored_type(2)
    limits = limits_of(stored)
    if is_narrow(stored) and limits is None:
        raise UnsupportedError(f"quantizing to {type_name(stored)} is not supported: quantize to int8 or uint8")
    dtype = node.tensor(2).dtype if node.has(2) else dtype_of(number, "'output_dtype'") if number else uint8
    precision = node.attribute("precision", 0)
    wide = dtype_of(precision, "'precision'") if precision else float32
    x, scale = node.cast(x, wide), node.cast(scale, wide)
    plain = _operands(node, x, scale) if limits is None else None
    if plain is not None:
        return g.quantize(x, plain[0], plain[1], dtype=dtype, axis=plain[2])
    zero = _along_axis(node, node.tensor(2), x, 2) if node.has(2) else None
    return _quantized(node, x, _along_axis(node, scale, x, 1), zero, dtype, limits)


def _packed(node: Node) -> Tensor | None:
    """Return stored weights of 4 bits, or of 8 bits with one scale per block, as packed weights, or None for others.

    Packed weights have groups along the last axis. A matrix with groups along the first axis is packed transposed.
    """
    stored, block = node.stored_type(0), node.attribute("block_size", 0)
    bits = _BITS.get(stored)
    if bits is None or (bits == 8 and not block):  # Integer kernels compute with weights of 8 bits.
        return None
    try:
        elements, scales = node.value(0), node.value(1)
        zeros = node.value(2).astype(np.float32) if node.has(2) else np.zeros((), np.float32)
    except DataDependent:
        return None
    if scales.dtype.kind != "f" or elements.ndim == 0:
        return None
    last = elements.ndim - 1
    axis = node.attribute("axis", 1) % elements.ndim if block or scales.size > 1 else last
    if not block and scales.size > 1:  # one scale per index of the axis: a group is a whole row or column
        if elements.ndim != 2:
            return None
        scales, zeros = np.expand_dims(scales, 1 - axis), np.expand_dims(zeros, 1 - axis) if zeros.ndim else zeros
        axis = 1 - axis
    elif not block:
        scales = np.broadcast_to(scales.reshape(()), (*elements.shape[:-1], 1))
        zeros = zeros.reshape(()) if zeros.size == 1 else zeros
    count = scales.shape[axis] if scales.ndim == elements.ndim else 0
    if not count or elements.shape[axis] % (32 * count) or (block and elements.shape[axis] != count * block):
        return None
    turned = axis != last
    if turned and elements.ndim != 2:
        return None
    if turned:
        elements, scales, zeros = elements.T, scales.T, zeros.T
    shift = 2 ** (bits - 1) if stored in (_INT4, _INT8) else 0
    unsigned = elements.astype(np.uint8) + np.uint8(shift)  # wraps
    if bits == 4:
        unsigned &= np.uint8(15)
    wide = np.ascontiguousarray(scales, np.float32)
    biases = np.ascontiguousarray(-(zeros + np.float32(shift)) * wide, np.float32)
    words, scale, bias = (node.g.constant(value) for value in (pack(unsigned, bits), wide, biases))
    dense = node.g.dequantize_packed(words, scale, bias, bits=bits)
    return node.g.transpose(dense, [1, 0]) if turned else dense


@operator("DequantizeLinear", upto=28)
def dequantize_linear(node: Node) -> Results:
    node.without_effect("axis")  # axis is unused with a scalar scale.
    packed = _packed(node)
    if packed is not None:
        number = node.attribute("output_dtype", 0)
        return node.cast(packed, dtype_of(number, "'output_dtype'") if number else node.tensor(1).dtype)
    g, x, scale = node.g, node.tensor(0), node.tensor(1)
    number = node.attribute("output_dtype", 0)
    result = dtype_of(number, "'output_dtype'") if number else scale.dtype
    wide = node.in_float32(scale)
    plain = _operands(node, x, wide) if not x.dtype.is_float else None  # 8-bit floats are stored as float16.
    if plain is not None:
        return node.cast(g.dequantize(x, plain[0], plain[1], axis=plain[2]), result)
    if node.has(2) and not x.dtype.is_float:  # The zero point of floating-point numbers must be zero.
        x = g.subtraction(node.cast(x, int32), _along_axis(node, node.cast(node.tensor(2), int32), x, 2))
    return node.cast(g.multiplication(g.cast(x, wide.dtype), _along_axis(node, wide, x, 1)), result)


@operator("DynamicQuantizeLinear", upto=11)
def dynamic_quantize_linear(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    low = g.minimum(g.reshape(g.reduction_minimum(x), ()), 0.0)
    high = g.maximum(g.reshape(g.reduction_maximum(x), ()), 0.0)
    scale = g.division(g.subtraction(high, low), 255.0)
    zero = saturated(node, g.rint(g.division(g.negative(low), scale)), uint8)
    return [_quantized(node, x, scale, zero, uint8), scale, zero]


def _requantized(node: Node, sums: Tensor, factor: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Convert sums of integer products to quantized integers.

    A sum represents the real number sum * factor, which is quantized with `scale` and the zero point `zero`.
    """
    g = node.g
    real = g.multiplication(g.cast(sums, float32), g.division(factor, node.in_float32(scale)))
    return saturated(node, g.addition(g.rint(real), node.cast(zero, float32)), zero.dtype)


def _rows(node: Node, parameter: Tensor, x: Tensor) -> Tensor:
    """Reshape a parameter with one element per row of x for broadcasting against x. Scalars are returned unchanged.

    The rows are indexed by x's second-to-last axis.
    """
    return node.g.expand_dims(parameter, 1) if node.rank(parameter) == 1 and parameter.shape != (1,) else parameter


@operator("QLinearMatMul", upto=21)
def quantized_matmul(node: Node) -> Results:
    g = node.g
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.tensors()
    factor = g.multiplication(_rows(node, node.in_float32(a_scale), a), node.in_float32(b_scale))
    return _requantized(node, matmul_of_bytes(node, a, a_zero, b, b_zero), factor, y_scale, y_zero)


@operator("QLinearConv", upto=10)
def quantized_convolution(node: Node) -> Results:
    g = node.g
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (node.tensor(i) for i in range(8))
    sums = convolution_of_integers(node, x, x_zero, w, w_zero)
    channels = [1, -1, *[1] * (node.rank(sums) - 2)]
    if node.has(8):
        sums = g.addition(sums, g.reshape(node.tensor(8), channels))
    if node.rank(w_scale) and w_scale.shape != (1,):
        w_scale = g.reshape(w_scale, channels)
    return _requantized(node, sums, g.multiplication(x_scale, w_scale), y_scale, y_zero)
