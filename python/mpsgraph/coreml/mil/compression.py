"""Decompression of quantized, palettized, and sparse weights while the graph is being built.

The results are ordinary constants of the type that the program computes in.
"""

from __future__ import annotations

import math

import numpy as np

from ...errors import GraphError
from .._operation import Call, Results, mil
from .._values import Fixed, bits_of


def _float(call: Call, name: str) -> tuple[np.ndarray, str]:
    """Return a constant floating-point parameter, converted to float32, and the name of the type it was stored with."""
    held = call.operand(name)
    if not isinstance(held, Fixed) or held.kind not in ("FLOAT16", "FLOAT32"):
        raise GraphError(f"parameter '{name}' must be a float16 or float32 constant")
    return held.value.astype(np.float32), held.kind


def _array(call: Call, name: str) -> Fixed:
    held = call.operand(name)
    if not isinstance(held, Fixed) or not isinstance(held.value, np.ndarray):
        raise GraphError(f"parameter '{name}' must be a constant array")
    return held


def _whole(numbers: np.ndarray, kind: str) -> Fixed:
    return Fixed(np.ascontiguousarray(numbers).astype(np.float16 if kind == "FLOAT16" else np.float32), kind)


@mil("constexpr_affine_dequantize")
def affine_dequantize(call: Call) -> Results:
    data = _array(call, "quantized_data").value.astype(np.float32)
    scale, kind = _float(call, "scale")
    zero, axis = _array(call, "zero_point").value.astype(np.float32), call.integer("axis")

    def along(parameter: np.ndarray) -> np.ndarray:
        return parameter.reshape([-1 if i == axis % data.ndim else 1 for i in range(data.ndim)])

    return _whole((data - (along(zero) if zero.ndim else zero)) * (along(scale) if scale.ndim else scale), kind)


def _spread(blocks: np.ndarray, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Expand an array with one element per block to the full shape of the data, repeating each element within its
    block.
    """
    if blocks.ndim != len(shape) or any(b < 1 or n % b for n, b in zip(shape, blocks.shape, strict=True)):
        raise GraphError(
            f"{what} must have one element per block of the data, so each dimension must divide the one in {shape}, "
            f"got {blocks.shape}"
        )
    for axis, n in enumerate(shape):
        if blocks.shape[axis] not in (1, n):
            blocks = np.repeat(blocks, n // blocks.shape[axis], axis)
    return blocks


@mil("constexpr_blockwise_shift_scale")
def blockwise_shift_scale(call: Call) -> Results:
    """Translate constexpr_blockwise_shift_scale, which dequantizes weights as scale * (data - offset).

    There is one scale and one offset per block of the data.
    """
    data = _array(call, "data").value
    scale, kind = _float(call, "scale")
    return _whole(_shifted(call, data, "offset") * _spread(scale, data.shape, "scale"), kind)


def _shifted(call: Call, data: np.ndarray, name: str) -> np.ndarray:
    numbers: np.ndarray = data.astype(np.float32)
    if not call.has(name):
        return numbers
    moved: np.ndarray = numbers - _spread(_array(call, name).value.astype(np.float32), data.shape, name)
    return moved


@mil("constexpr_lut_to_dense")
def lut_to_dense(call: Call) -> Results:
    """Translate constexpr_lut_to_dense, which looks up weights in palettes.

    If parameter `shape` is present, there is one palette and the indices are packed. If it is absent, there is one
    palette per block, and its entries are scalars or vectors.
    """
    indices, palette = _array(call, "indices"), _array(call, "lut")
    if call.has("shape"):
        shape = call.ints("shape")
        bits = int(math.log2(palette.value.size))
        places = bits_of(indices.value.reshape(-1), bits, math.prod(shape), "indices")
        return Fixed(palette.value[places].reshape(shape), palette.kind)
    axis = call.integer("vector_axis", None)
    return Fixed(_looked_up(indices.value, palette.value, axis), palette.kind)


def _looked_up(places: np.ndarray, palette: np.ndarray, axis: int | None) -> np.ndarray:
    if palette.ndim != places.ndim + 2:
        raise GraphError(
            f"a palette for indices of shape {places.shape} must have rank {places.ndim + 2}, got shape {palette.shape}"
        )
    groups, count = palette.shape[:-2], palette.shape[-2]
    number = np.arange(math.prod(groups)).reshape(groups)
    which = _spread(number, places.shape, "the palette")
    if places.size and int(places.max()) >= count:
        raise GraphError(f"index {int(places.max())} is out of range for a palette of {count} entries")
    found = palette.reshape(-1, count, palette.shape[-1])[np.broadcast_to(which, places.shape), places]
    if found.shape[-1] == 1:
        return np.asarray(found[..., 0])
    if axis is None:
        raise GraphError("parameter vector_axis is required for a palette of vectors")
    axis %= places.ndim
    moved = np.moveaxis(found, -1, axis + 1)
    return np.asarray(moved.reshape([*places.shape[:axis], -1, *places.shape[axis + 1 :]]))


def _flags(call: Call, name: str = "mask") -> np.ndarray:
    """Return a sparse weight's mask of stored elements as a bool array with the shape of the weight."""
    mask = _array(call, name)
    if call.has("shape"):
        shape = call.ints("shape")
        return bits_of(mask.value.reshape(-1), 1, math.prod(shape), "mask").reshape(shape).astype(bool)
    return np.asarray(mask.value.astype(bool))


def _filled(flags: np.ndarray, values: np.ndarray) -> np.ndarray:
    if int(flags.sum()) != values.size:
        raise GraphError(
            f"the mask selects {int(flags.sum())} elements, so as many values are needed, got {values.size}"
        )
    whole = np.zeros(flags.shape, values.dtype)
    whole[flags] = values.reshape(-1)
    return whole


@mil("constexpr_sparse_to_dense")
def sparse_to_dense(call: Call) -> Results:
    held = _array(call, "nonzero_data")
    return Fixed(_filled(_flags(call), held.value), held.kind)


@mil("constexpr_lut_to_sparse")
def lut_to_sparse(call: Call) -> Results:
    """Translate constexpr_lut_to_sparse.

    Returns the mask and the palette entries of the elements that the mask selects.
    """
    flags, palette = _flags(call, "indices_mask"), _array(call, "lut")
    axis = call.integer("vector_axis", None)
    places = _filled(flags, _array(call, "indices_nonzero_data").value)
    whole = _looked_up(places, palette.value, axis)
    if whole.shape != flags.shape:
        width = palette.value.shape[-1]
        flags = np.repeat(flags, width, (axis or 0) % flags.ndim)
    return [Fixed(flags.astype(np.uint8), "UINT1"), Fixed(whole[flags], palette.kind)]


@mil("constexpr_sparse_blockwise_shift_scale")
def sparse_blockwise_shift_scale(call: Call) -> Results:
    """Translate constexpr_sparse_blockwise_shift_scale.

    Returns the mask and scale * (data - offset) for the elements that the mask selects.
    """
    flags = _flags(call, "data_mask")
    data = _filled(flags, _array(call, "nonzero_data").value)
    scale, kind = _float(call, "scale")
    whole = _shifted(call, data, "offset") * _spread(scale, data.shape, "scale")
    return [Fixed(flags.astype(np.uint8), "UINT1"), _whole(whole[flags], kind)]


@mil("constexpr_cast")
def constexpr_cast(call: Call) -> Results:
    held, name = _array(call, "source_val"), call.text("output_dtype")
    kind = {"fp16": "FLOAT16", "fp32": "FLOAT32"}.get(name)
    if kind is None:
        call.refuse(f"output_dtype must be fp16 or fp32, got {name}")
    return _whole(held.value.astype(np.float32), kind)
