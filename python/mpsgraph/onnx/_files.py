"""From files to protocol buffers and numpy: model files, tensors in them, and tensors in files beside them.

Nothing here is believed: sizes are checked before memory is taken, stated shapes against the bytes that are there, and
the place of external data against the model's own directory. What is wrong raises a GraphError that names it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto

from .._core import DType
from ..errors import Error, GraphError, UnsupportedError
from ._elements import Elements, split

ModelLike: TypeAlias = str | os.PathLike[str] | ModelProto
LARGEST_FILE = 2**31 - 1  # what a protocol buffer can hold; larger models keep their weights in files beside it
LARGEST_TENSOR = 2**40  # bytes

# ONNX's number of an element type, its name, ours (None: not here), and the field that holds the elements one by one.
_TYPES: dict[int, tuple[str, str | None, str]] = {
    TensorProto.FLOAT: ("float", "float32", "float_data"),
    TensorProto.UINT8: ("uint8", "uint8", "int32_data"),
    TensorProto.INT8: ("int8", "int8", "int32_data"),
    TensorProto.UINT16: ("uint16", "uint16", "int32_data"),
    TensorProto.INT16: ("int16", "int16", "int32_data"),
    TensorProto.INT32: ("int32", "int32", "int32_data"),
    TensorProto.INT64: ("int64", "int64", "int64_data"),
    TensorProto.BOOL: ("bool", "bool", "int32_data"),
    TensorProto.FLOAT16: ("float16", "float16", "int32_data"),
    TensorProto.BFLOAT16: ("bfloat16", "bfloat16", "int32_data"),
    TensorProto.DOUBLE: ("double", "float64", "double_data"),
    TensorProto.UINT32: ("uint32", "uint32", "uint64_data"),
    TensorProto.UINT64: ("uint64", "uint64", "uint64_data"),
}
_NUMBERS = {ours: number for number, (_, ours, _) in _TYPES.items() if ours is not None}
_STORAGE = {  # our dtype, and what elements are stored as: bfloat16 as its bits
    number: (DType(ours), np.dtype("uint16" if ours == "bfloat16" else ours).newbyteorder("<"))
    for number, (_, ours, _) in _TYPES.items()
    if ours is not None
}
_EXTERNAL = TensorProto.EXTERNAL


def type_name(number: int) -> str:
    """ONNX's own name of an element type, for messages."""
    if number in _TYPES:
        return _TYPES[number][0]
    known = {value: name for name, value in TensorProto.DataType.items()}
    return str(known.get(number, f"element type {number}")).lower()


def dtype_of(number: int, what: str) -> DType:
    """Our dtype for ONNX's number of one. UnsupportedError for strings, 8-bit floats and what else we have not."""
    name = _TYPES[number][1] if number in _TYPES else None
    if name is None:
        raise UnsupportedError(f"[onnx] {what} is {type_name(number)}, an element type that mpsgraph does not have")
    return DType(name)


def input_type(info: ValueInfoProto) -> tuple[DType, tuple[int, ...] | None]:
    """The dtype and shape of a graph's input; dimensions with a name, or with none, are -1."""
    what = f"input '{info.name}'"
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        raise UnsupportedError(f"[onnx] {what} is a {(kind or 'missing type').removesuffix('_type')}, not a tensor")
    tensor = info.type.tensor_type
    dtype = dtype_of(tensor.elem_type, what)
    if not tensor.HasField("shape"):
        return dtype, None
    return dtype, tuple(d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else -1 for d in tensor.shape.dim)


def is_known(number: int) -> bool:
    """Is there a dtype of ours for ONNX's number of one?"""
    return number in _TYPES and _TYPES[number][1] is not None


def read_model(source: ModelLike) -> tuple[ModelProto, Tensors]:
    """The model, and what reads its tensors.

    Errors: GraphError for a file that is missing, no regular file, too large, truncated or no ONNX model.
    """
    if isinstance(source, ModelProto):
        return source, Tensors(None)
    path = Path(source)
    model = ModelProto()
    try:
        contents, elements = split(_regular_file(path, LARGEST_FILE))
        model.ParseFromString(contents)
        if model.producer_name == "mpsgraph":  # such files are compared with what is written in them
            model.ParseFromString(path.read_bytes())
    except OSError as error:
        raise GraphError(f"[onnx] {path} cannot be read: {error}") from error
    except Exception as error:  # protobuf's DecodeError, which protobuf alone knows how to import
        raise GraphError(f"[onnx] {path} is truncated or no ONNX model: {error}") from error
    if not model.HasField("graph") or (model.ir_version >= 3 and not model.opset_import):
        raise GraphError(f"[onnx] {path} is truncated or no ONNX model: it has no graph or names no operator set")
    graph = model.graph
    if not all(isinstance(named.name, str) for named in [*graph.input[:], *graph.output[:], *graph.initializer[:]]):
        raise GraphError(f"[onnx] {path} is damaged: the name of an input, an output or an initialiser is no text")
    return model, Tensors(path.parent, elements)


def type_of(dtype: DType) -> int | None:
    """ONNX's number of an element type; None for those that it has not."""
    return _NUMBERS.get(str(dtype))


NONSENSE = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""What Python raises over contents that no exporter writes."""


def nonsense(place: str, error: BaseException) -> GraphError:
    """The error to raise from one of NONSENSE."""
    return GraphError(f"[onnx] {place} makes no sense: {type(error).__name__}: {error}")


@contextmanager
def sense(place: str) -> Iterator[None]:
    """What Python raises over contents that no exporter writes becomes a GraphError; errors of ours stay."""
    try:
        yield
    except Error:
        raise
    except NONSENSE as error:
        raise nonsense(place, error) from error


def _regular_file(path: Path, limit: int) -> Path:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise GraphError(f"[onnx] {path} is no regular file")
    if status.st_size > limit:
        raise GraphError(
            f"[onnx] {path} has {status.st_size} bytes; at most {limit} can be read: keep the weights as external data"
        )
    return path


class Tensors:
    """Reads tensors; those outside the model file are mapped, each file once.

    Args: directory, below which these files are; elements, what was left out of the model when its file was read.
    """

    def __init__(self, directory: Path | None, elements: Elements | None = None) -> None:
        self._directory, self._elements = directory, elements or Elements()
        self._mapped: dict[str, np.ndarray] = {}

    def keep(self) -> None:
        """Reads what is still in the model's file, for a use before which the file may change."""
        self._elements.keep()

    def read(self, tensor: TensorProto) -> tuple[np.ndarray, DType]:
        """The elements (bfloat16 as uint16 bits) and their dtype. Errors: GraphError, UnsupportedError."""
        what = f"tensor '{tensor.name}'"
        number = tensor.data_type
        dtype, storage = _STORAGE[number] if number in _STORAGE else (dtype_of(number, what), np.dtype(np.uint8))
        shape = tuple(tensor.dims[:])
        count = _element_count(shape, storage.itemsize, what)
        if tensor.data_location == _EXTERNAL:
            flat = self._external(tensor, what, count * storage.itemsize).view(storage)
        elif tensor.HasField("raw_data"):
            raw = self._elements.of(tensor.raw_data)  # a copy each time that it is asked for
            if len(raw) != count * storage.itemsize:
                raise GraphError(f"[onnx] {what} {shape} of {dtype} has {len(raw)} bytes")
            flat = np.frombuffer(raw, storage)
        else:
            flat = _listed(tensor, _TYPES[number][2], storage, what)
            if flat.size != count:
                raise GraphError(f"[onnx] {what} {shape} has {flat.size} elements")
        if storage == np.bool_ and flat.size and flat.view(np.uint8).max() > 1:
            raise GraphError(f"[onnx] {what} of bool has other values than 0 and 1")
        return flat.reshape(shape), dtype

    def _external(self, tensor: TensorProto, what: str, size: int) -> np.ndarray:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        try:
            offset, length = (int(entries.get(key) or default) for key, default in (("offset", 0), ("length", size)))
        except ValueError:
            raise GraphError(f"[onnx] {what}: offset or length of its external data is no number") from None
        file = self._file(location, what)
        if length != size or offset < 0 or offset + size > file.size:
            raise GraphError(
                f"[onnx] {what} needs {size} bytes; its external data is said to have {length} at {offset} "
                f"of '{location}', which has {file.size}"
            )
        part = file[offset : offset + size]
        return part if part.ctypes.data % 8 == 0 else part.copy()

    def _file(self, location: str, what: str) -> np.ndarray:
        """The mapped bytes of a file below the model's directory, of nothing else."""
        if self._directory is None:
            raise GraphError(f"[onnx] {what} has external data: load the model by its path, so that it can be found")
        if location not in self._mapped:
            root = self._directory.resolve()
            path = (root / location).resolve()
            if not location or not path.is_relative_to(root):
                raise GraphError(
                    f"[onnx] {what}: external data must lie below the model's directory, not at {location!r}"
                )
            try:
                empty = _regular_file(path, LARGEST_TENSOR).stat().st_size == 0
                self._mapped[location] = np.empty(0, np.uint8) if empty else np.memmap(path, np.uint8, "r")
            except OSError as error:
                raise GraphError(f"[onnx] {what}: its external data cannot be read: {error}") from error
        return self._mapped[location]


def _element_count(shape: tuple[int, ...], item: int, what: str) -> int:
    count, negative = 1, False
    for size in shape:
        count *= size
        negative = negative or size < 0
    if negative or len(shape) > 16 or count * item > LARGEST_TENSOR:
        raise GraphError(f"[onnx] {what} has the shape {shape}, which no tensor can have")
    return count


def _packed(values: Any, field: str, storage: np.dtype[Any]) -> np.ndarray:
    """Elements of fixed width: a message with these alone has them side by side, behind a tag and a length."""
    if not values:
        return np.empty(0, storage)
    alone = TensorProto()
    getattr(alone, field).MergeFrom(values)
    message = alone.SerializeToString()
    return np.frombuffer(message, storage, offset=len(message) - len(values) * storage.itemsize)


def _listed(tensor: TensorProto, field: str, storage: np.dtype[Any], what: str) -> np.ndarray:
    """Elements that stand one by one; 16-bit floats as their bits."""
    values: Any = getattr(tensor, field)
    if field in ("float_data", "double_data"):
        return _packed(values, field, storage)
    if storage.kind == "f" and storage.itemsize == 2:
        return np.array(values, np.int64).astype(np.uint16).view(storage)
    if storage.kind in "fb":
        return np.array(values, storage)
    wide = np.array(values, np.uint64 if field == "uint64_data" else np.int64)
    if wide.size and (int(wide.max()) > np.iinfo(storage).max or int(wide.min()) < np.iinfo(storage).min):
        raise GraphError(f"[onnx] {what} has values that {storage} cannot hold")
    return wide.astype(storage)
