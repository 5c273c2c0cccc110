"""Types and constants of ML Programs, including packed sub-byte types.

A constant is a NumPy array, a string, a list, or a dictionary. Arrays of bfloat16 are stored as uint16 bit patterns.
Types that NumPy lacks (int4, uint1, uint2, uint3, uint4, uint6) are unpacked to one byte per element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core import DType, Tensor
from ..errors import GraphError, UnsupportedError
from ._files import Blobs
from ._wire import Message

MOST_ELEMENTS = 2**40
_NAMES = {
    "BOOL": "bool", "FLOAT16": "float16", "FLOAT32": "float32", "FLOAT64": "float64", "BFLOAT16": "bfloat16",
    "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "UINT8": "uint8", "UINT16": "uint16",
    "UINT32": "uint32", "UINT64": "uint64",
}  # fmt: skip
_BITS = {"INT4": 4, "UINT1": 1, "UINT2": 2, "UINT3": 3, "UINT4": 4, "UINT6": 6}


@dataclass(eq=False)
class Fixed:
    """A constant of an ML Program, with the variable created from it if it is a trainable weight."""

    value: Any  # An array, a string, a list, or a dictionary.
    kind: str  # MIL's name of the element type.
    name: str = ""
    variable: Tensor | None = None

    @property
    def dtype(self) -> DType:
        """The mpsgraph dtype of the elements. Sub-byte types have the dtype that they are unpacked to."""
        if self.kind in _BITS:
            return DType("int8" if self.kind == "INT4" else "uint8")
        return dtype_of(self.kind, f"'{self.name}'")


def dtype_of(kind: str, what: str) -> DType:
    """Return the mpsgraph dtype for a MIL element type, or raise UnsupportedError if there is none."""
    if kind not in _NAMES:
        raise UnsupportedError(f"[coreml] {what} has element type {kind.lower()}, which mpsgraph does not support")
    return DType(_NAMES[kind])


def dims_of(tensor: Message) -> tuple[int, ...] | None:
    """Return the shape of a tensor type, with -1 for dynamic dimensions, or None if the rank is unknown."""
    dims: list[int] = []
    for dimension in tensor.dimensions:
        if dimension.which("dimension") == "constant":
            dims.append(int(dimension.constant.size))
        elif dimension.field("unknown").variadic:
            return None
        else:
            dims.append(-1)
    return tuple(dims)


def shown_type(kind: Message) -> str:
    """Return a type as a string, for error messages."""
    if kind.which("type") != "tensorType":
        return str(kind.which("type") or "of no type").removesuffix("Type")
    return f"{kind.tensorType.dataType.lower()}{list(dims_of(kind.tensorType) or ())}"


class Values:
    """Reads the constants of a model."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def read(self, proto: Message, name: str = "") -> Fixed:
        """Return the contents of a Value message, raising GraphError or UnsupportedError if it cannot be read."""
        if proto.which("value") == "blobFileValue":
            return self._of_blob(proto, name)
        kind = proto.type.which("type")
        immediate = proto.immediateValue
        if kind == "tensorType":
            return self._of_tensor(proto.type.tensorType, immediate.tensor, name)
        if immediate.which("value") in ("list", "tuple"):
            held = immediate.list if immediate.which("value") == "list" else immediate.tuple
            return Fixed([self.read(v).value for v in held.values], "LIST", name)
        if immediate.which("value") == "dictionary":
            pairs = [(self.read(p.key).value, self.read(p.value).value) for p in immediate.dictionary.values]
            return Fixed({str(key): value for key, value in pairs}, "DICTIONARY", name)
        raise GraphError(f"[coreml] value '{name}' has an unknown type")

    def _of_tensor(self, kind: Message, tensor: Message, name: str) -> Fixed:
        dims, element = _known_dims(kind, name), kind.dataType
        held = tensor.which("value")
        if element == "STRING":
            texts = list(tensor.strings.values)
            return Fixed(texts if dims else "".join(texts[:1]), element, name)
        if held == "bytes":
            return Fixed(unpacked(np.frombuffer(tensor.bytes.values, np.uint8), element, dims, name), element, name)
        values = getattr(tensor, held).values if held else np.empty(0)
        storage = _storage(element, name)
        if storage.kind in "iu" and values.size:
            limits = np.iinfo(storage)
            if int(values.min()) < limits.min or int(values.max()) > limits.max:
                raise GraphError(
                    f"[coreml] '{name}' must have values in the range of {element.lower()}, got {int(values.min())} to "
                    f"{int(values.max())}"
                )
        array = np.asarray(values).astype(storage)
        if array.size == 1 and math.prod(dims) > 1:
            array = np.broadcast_to(array, (math.prod(dims),))  # A single element is repeated for the whole shape.
        return Fixed(_shaped(array, dims, name), element, name)

    def _of_blob(self, proto: Message, name: str) -> Fixed:
        kind = proto.type.tensorType
        stored, data = self._blobs.read(proto.blobFileValue.fileName, proto.blobFileValue.offset)
        alike = {"BOOL": "UINT8"}
        if stored not in (kind.dataType, alike.get(kind.dataType)):
            raise GraphError(
                f"[coreml] the blob of '{name}' must have type {kind.dataType.lower()}, got {stored.lower()}"
            )
        return Fixed(unpacked(np.asarray(data), kind.dataType, _known_dims(kind, name), name), kind.dataType, name)


def unpacked(data: np.ndarray, kind: str, dims: tuple[int, ...], name: str) -> np.ndarray:
    """Return an array from little-endian bytes. Sub-byte elements are packed from the lowest bit up."""
    count = math.prod(dims)
    if kind in _BITS and data.size != count:
        return bits_of(data, _BITS[kind], count, name, kind == "INT4").reshape(dims)
    storage = np.dtype(np.int8 if kind == "INT4" else np.uint8) if kind in _BITS else _storage(kind, name)
    if data.size != count * storage.itemsize:
        raise GraphError(
            f"[coreml] '{name}' of shape {dims} and type {kind.lower()} must have {count * storage.itemsize} bytes, "
            f"got {data.size}"
        )
    if data.ctypes.data % storage.itemsize:
        data = data.copy()
    return np.asarray(data).view(storage).reshape(dims)


def bits_of(data: np.ndarray, bits: int, count: int, name: str, signed: bool = False) -> np.ndarray:
    """Unpack `count` integers of `bits` bits each to one byte per integer."""
    if data.size != -(-count * bits // 8):
        raise GraphError(
            f"[coreml] '{name}' with {count} integers of {bits} bits must have {-(-count * bits // 8)} bytes, "
            f"got {data.size}"
        )
    each = np.unpackbits(data, bitorder="little")[: count * bits].reshape(count, bits)
    numbers = np.packbits(each, axis=1, bitorder="little")[:, 0]
    return (numbers.astype(np.int8) ^ 8) - 8 if signed else numbers


def _known_dims(kind: Message, name: str) -> tuple[int, ...]:
    dims = dims_of(kind)
    if dims is None or min(dims, default=0) < 0 or len(dims) > 16 or math.prod(dims) > MOST_ELEMENTS:
        raise GraphError(
            f"[coreml] constant '{name}' must have a known shape with at most 16 dimensions and at most "
            f"{MOST_ELEMENTS} elements, got {dims}"
        )
    return dims


def _storage(kind: str, name: str) -> np.dtype[Any]:
    dtype = str(dtype_of(kind, f"'{name}'"))
    return np.dtype("uint16" if dtype == "bfloat16" else dtype).newbyteorder("<")


def _shaped(array: np.ndarray, dims: tuple[int, ...], name: str) -> np.ndarray:
    if array.size != math.prod(dims):
        raise GraphError(f"[coreml] '{name}' of shape {dims} must have {math.prod(dims)} elements, got {array.size}")
    return array.reshape(dims)
