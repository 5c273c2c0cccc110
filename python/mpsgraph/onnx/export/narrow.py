"""Constants of an ONNX graph, stored in types of 4 or 8 bits that represent all their elements exactly."""

from __future__ import annotations

from collections.abc import Container

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from ..._narrow import widened

LEAST_ELEMENTS = 64
"""Smaller constants are left as they are, because a Cast node takes about as many bytes as they would save."""

_FLOATS = {
    TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    TensorProto.FLOAT8E5M2: "float8_e5m2",
}
_REAL = (TensorProto.FLOAT, TensorProto.FLOAT16)


def narrow_constants(graph: GraphProto, kept: Container[str]) -> None:
    """Replace constants by narrow initializers that Cast nodes convert back, where no element changes.

    Args:
        graph: The main graph; constants in subgraphs are not changed.
        kept: Names of initializers that must not change.
    """
    casts: list[NodeProto] = []
    tensors: list[TensorProto] = []
    for tensor in graph.initializer:
        narrow = None if tensor.name in kept else _narrowed(tensor)
        if narrow is None:
            tensors.append(tensor)
        else:
            casts.append(_cast(tensors, narrow, tensor.name, tensor.data_type))
    nodes: list[NodeProto] = []
    for node in graph.node:
        value = next((a.t for a in node.attribute if a.name == "value"), None) if node.op_type == "Constant" else None
        narrow = None if value is None else _narrowed(value)
        if value is None or narrow is None:
            nodes.append(node)
        else:
            nodes.append(_cast(tensors, narrow, node.output[0], value.data_type))
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(tensors)
    graph.node.extend([*casts, *nodes])


def _cast(tensors: list[TensorProto], narrow: TensorProto, name: str, number: int) -> NodeProto:
    """Add the initializer `narrow` to tensors and return the node that computes the constant `name` from it."""
    narrow.name = f"{name}_narrow"
    tensors.append(narrow)
    return helper.make_node("Cast", [narrow.name], [name], name=f"Cast:{name}", to=number)


def _narrowed(tensor: TensorProto) -> TensorProto | None:
    """Return a tensor of a narrow type with the same elements, or None if there is none."""
    if int(np.prod(tensor.dims)) < LEAST_ELEMENTS or tensor.data_type not in (
        *_REAL, TensorProto.INT8, TensorProto.UINT8,
    ):  # fmt: skip
        return None
    value = np.asarray(numpy_helper.to_array(tensor))
    if tensor.data_type in _REAL:
        for number, kind in _FLOATS.items():
            codes = _codes(value, kind)
            if codes is not None:
                return _tensor(number, tensor.dims, codes.tobytes())
        return None
    signed = tensor.data_type == TensorProto.INT8
    low, high = (-8, 7) if signed else (0, 15)
    if value.min() < low or value.max() > high:
        return None
    return _tensor(TensorProto.INT4 if signed else TensorProto.UINT4, tensor.dims, packed_nibbles(value))


def packed_nibbles(value: np.ndarray) -> bytes:
    """Pack the lowest four bits of integers into bytes, the first integer into the lower half."""
    flat = np.append(value.reshape(-1).astype(np.int64) & 15, np.zeros(value.size % 2, np.int64))
    return bytes((flat[0::2] | flat[1::2] << 4).astype(np.uint8))


def _codes(value: np.ndarray, kind: str) -> np.ndarray | None:
    """Return the bytes that represent all numbers exactly as 8-bit floats, or None. NaN has no exact counterpart."""
    numbers = widened(np.arange(256), kind).astype(np.float32)
    order = np.argsort(numbers, kind="stable")
    order = order[~np.isnan(numbers[order])]
    real = value.astype(np.float32).reshape(-1)
    found = order[np.searchsorted(numbers[order], real).clip(0, len(order) - 1)]
    if not np.array_equal(numbers[found], real):
        return None
    zero = real == 0  # Positive and negative zeros are equal.
    found = np.where(zero, np.where(np.signbit(real), 128, 0), found)
    return np.asarray(found, np.uint8)


def _tensor(number: int, dims: object, data: bytes) -> TensorProto:
    return TensorProto(data_type=number, dims=dims, raw_data=data)


__all__ = ["LEAST_ELEMENTS", "narrow_constants", "packed_nibbles"]
