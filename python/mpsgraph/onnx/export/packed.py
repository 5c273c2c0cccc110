"""Export of packed weights to ONNX: MatMulNBits of com.microsoft for matmuls, and standard operators for the rest.

With `narrow=True`, packed weights of 4 bits become uint4 initializers and DequantizeLinear nodes instead.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ..._core import Operation, Tensor
from ...interchange.export import NotExpressible, known_array, required_shape
from ._writer import Writer, writes
from .narrow import packed_nibbles

MICROSOFT = "com.microsoft"


@writes("dequantize_packed")
def dequantize_packed(w: Writer, op: Operation) -> str:
    """Export dequantization with BitShift and BitwiseAnd, and a multiplication and an addition per group."""
    bits, dtype = int(op.attributes["bits"]), op.outputs[0].dtype
    if 32 % bits:
        raise NotExpressible(f"elements of {bits} bits, which cross the borders of words, cannot be exported to ONNX")
    if w.narrow and bits == 4 and (y := _four_bits(w, op)) is not None:
        return y
    words, groups = required_shape(op.inputs[0])[-1], required_shape(op.inputs[1])[-1]
    if words < 0 or groups < 1:
        raise NotExpressible("the last axes of words and scale must be static and not empty")
    per_word, last = 32 // bits, w.ints([-1])
    shifts = w.constant(np.arange(per_word, dtype=np.uint32) * np.uint32(bits))
    each = w.add("BitShift", w.add("Unsqueeze", w.name(op.inputs[0]), last), shifts, direction="RIGHT")
    whole = w.add("BitwiseAnd", each, w.constant(np.array([2**bits - 1], np.uint32)))
    leading = [0] * (len(required_shape(op.inputs[0])) - 1)
    real = w.add("Cast", w.reshape(whole, [*leading, groups, words * per_word // groups]), to=1)
    scale, bias = (w.add("Unsqueeze", w.add("Cast", w.name(t), to=1), last) for t in op.inputs[1:3])
    y = w.reshape(w.add("Add", w.add("Mul", real, scale), bias), [*leading, words * per_word])
    return y if str(dtype) == "float32" else w.cast(y, dtype)


def _four_bits(w: Writer, op: Operation) -> str | None:
    """Return the name of the weights, dequantized from an initializer of 4-bit integers, or None if unknown."""
    words, scale, bias = (_known(w, tensor) for tensor in op.inputs)
    if words is None or scale is None or bias is None or scale.dtype != np.float32:
        return None
    axis, shape = scale.ndim - 1, required_shape(op.outputs[0])
    data = np.ascontiguousarray(words).astype("<u4").tobytes()  # Both formats begin with the lowest bits.
    stored = w.stored("weights", TensorProto.UINT4, shape, data)
    names = [stored, w.constant_node(scale, op.inputs[1].dtype, "scales")]
    with np.errstate(divide="ignore", invalid="ignore"):
        zeros = np.rint(-bias / scale)
    exact = bool(((zeros >= 0) & (zeros <= 15) & (-zeros * scale == bias)).all())
    if exact:
        names.append(w.stored("zero_points", TensorProto.UINT4, zeros.shape, packed_nibbles(zeros)))
    y = w.add("DequantizeLinear", *names, axis=axis, block_size=shape[-1] // scale.shape[-1])
    if not exact:
        grouped = w.reshape(y, [*scale.shape, shape[-1] // scale.shape[-1]])
        biases = w.constant_node(bias[..., None], op.inputs[2].dtype, "biases")
        y = w.reshape(w.add("Add", grouped, biases), list(shape))
    dtype = op.outputs[0].dtype
    return y if str(dtype) == "float32" else w.cast(y, dtype)


def packed_product(w: Writer, op: Operation) -> str | None:
    """Return the name of a MatMulNBits node for x times a transposed packed matrix, or None for other products."""
    turned = op.inputs[1].operation
    if w.narrow or turned.kind != "transpose" or turned.inputs[0].operation.kind != "dequantize_packed":
        return None
    dequantization = turned.inputs[0].operation
    bits, shape = int(dequantization.attributes["bits"]), required_shape(turned.inputs[0])
    values = [_known(w, tensor) for tensor in dequantization.inputs]
    permutation = [int(axis) % 2 for axis in turned.attributes["permutation"]] if len(shape) == 2 else []
    # ONNX Runtime's CPU kernels take real zero points only for 4 bits.
    if bits != 4 or permutation != [1, 0] or any(v is None for v in values):
        return None
    words, scale, bias = (np.ascontiguousarray(v) for v in values if v is not None)
    if str(op.inputs[0].dtype) != "float32" or scale.dtype != np.float32 or (scale == 0).any():
        return None  # A bias without a scale is not expressible by a zero point.
    rows, groups = scale.shape
    block = shape[1] // groups
    packed = words.astype("<u4").view(np.uint8).reshape(rows, groups, block * bits // 8)
    names = [
        w.constant_node(value, tensor.dtype, name)
        for name, value, tensor in (("scales", scale, op.inputs[0]), ("zero_points", -bias / scale, op.inputs[0]))
    ]
    y = w.add(
        "MatMulNBits", w.name(op.inputs[0]), w.constant(packed), *names, K=shape[1], N=rows, bits=bits, block_size=block
    )
    w.nodes[-1].domain = MICROSOFT
    return y


def _known(w: Writer, tensor: Tensor) -> np.ndarray | None:
    """Return the value of a constant or a variable, or None for other tensors and for bfloat16."""
    operation = tensor.operation.inputs[0].operation if tensor.operation.kind == "read" else tensor.operation
    if str(tensor.dtype) == "bfloat16":
        return None
    if operation.kind == "variable" and w.value_of is not None:
        return np.asarray(w.value_of(operation.outputs[0]))
    return known_array(operation.outputs[0])
