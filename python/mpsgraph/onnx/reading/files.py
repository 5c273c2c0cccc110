"""Reading of model files and tensors into protocol buffers and NumPy arrays, including external data.

File contents are untrusted: sizes are checked before memory is allocated, stated shapes are checked against the number
of bytes, and external data must be below the model's directory. Violations raise a GraphError.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto

from ..._core import DType
from ..._limits import file_bytes
from ..._narrow import signed, unpacked, widened
from ...errors import Error, GraphError, UnsupportedError
from .elements import Elements, split

ModelLike: TypeAlias = str | os.PathLike[str] | ModelProto
LARGEST_FILE = 2**31 - 1  # Maximum size of a protocol buffer; larger models store their weights as external data.
LARGEST_TENSOR = 2**40  # Maximum size of a tensor in bytes.

# For each ONNX element type: its name in ONNX, its mpsgraph dtype (None if unsupported), and the TensorProto field that
# lists its elements.
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
# Element types that only stored tensors may have. For each ONNX element type: its name in ONNX, the number of bits, and
# the dtype that the elements are converted to exactly.
_NARROW: dict[int, tuple[str, int, str]] = {
    17: ("float8_e4m3fn", 8, "float16"),
    18: ("float8_e4m3fnuz", 8, "float16"),
    19: ("float8_e5m2", 8, "float16"),
    20: ("float8_e5m2fnuz", 8, "float16"),
    21: ("uint4", 4, "uint8"),
    22: ("int4", 4, "int8"),
    23: ("float4_e2m1fn", 4, "float16"),
    24: ("float8_e8m0fnu", 8, "float32"),
    25: ("uint2", 2, "uint8"),
    26: ("int2", 2, "int8"),
}
_NUMBERS = {ours: number for number, (_, ours, _) in _TYPES.items() if ours is not None}
_STORAGE = {  # The mpsgraph dtype and the NumPy storage type, which is uint16 for bfloat16.
    number: (DType(ours), np.dtype("uint16" if ours == "bfloat16" else ours).newbyteorder("<"))
    for number, (_, ours, _) in _TYPES.items()
    if ours is not None
}
_EXTERNAL = TensorProto.EXTERNAL


def type_name(number: int) -> str:
    """Return ONNX's name of an element type, for error messages."""
    if number in _TYPES:
        return _TYPES[number][0]
    known = {value: name for name, value in TensorProto.DataType.items()}
    return str(known.get(number, f"element type {number}")).lower()


def dtype_of(number: int, what: str) -> DType:
    """Return the dtype for an ONNX element type. Raise UnsupportedError for other types, such as strings."""
    name = _TYPES[number][1] if number in _TYPES else None
    if name is None:
        remedy = "; encode strings as integers" if number == TensorProto.STRING else ""
        raise UnsupportedError(
            f"[onnx] {what} has element type {type_name(number)}, which mpsgraph does not support{remedy}"
        )
    return DType(name)


def input_type(info: ValueInfoProto) -> tuple[DType, tuple[int, ...] | None]:
    """Return the dtype and shape of a graph input, with -1 for named or missing dimensions."""
    what = f"input '{info.name}'"
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        raise UnsupportedError(f"[onnx] {what} must be a tensor, got {(kind or 'missing type').removesuffix('_type')}")
    tensor = info.type.tensor_type
    dtype = dtype_of(tensor.elem_type, what)
    if not tensor.HasField("shape"):
        return dtype, None
    return dtype, tuple(d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else -1 for d in tensor.shape.dim)


def is_known(number: int) -> bool:
    """Return whether an ONNX element type has an mpsgraph dtype."""
    return number in _TYPES and _TYPES[number][1] is not None


def is_readable(number: int) -> bool:
    """Return whether stored tensors of an ONNX element type can be read, possibly as a wider dtype."""
    return is_known(number) or number in _NARROW


def limits_of(number: int) -> tuple[int, int] | None:
    """Return the smallest and largest integer of an ONNX element type of 2 or 4 bits, or None for other types."""
    name, bits, _ = _NARROW.get(number, ("", 0, ""))
    if "int" not in name:
        return None
    return (0, 2**bits - 1) if name.startswith("uint") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def is_narrow(number: int) -> bool:
    """Return whether stored tensors of an ONNX element type are converted to a wider dtype."""
    return number in _NARROW


def read_model(source: ModelLike) -> tuple[ModelProto, Tensors]:
    """Parse a model file. Return the model and a reader for its tensors.

    Raises GraphError if the file is missing, not a regular file, too large, truncated, or not an ONNX model.
    """
    if isinstance(source, ModelProto):
        return source, Tensors(None)
    path = Path(source)
    model = ModelProto()
    try:
        contents, elements = split(_regular_file(path, LARGEST_FILE))
        model.ParseFromString(contents)
        # Files exported by mpsgraph are parsed completely, because checking their digest requires the elements of the
        # tensors.
        if model.producer_name == "mpsgraph":
            model.ParseFromString(path.read_bytes())
    except Error:
        raise
    except OSError as error:
        raise GraphError(f"[onnx] cannot read {path}: {error}") from error
    # The exception is protobuf's DecodeError, which cannot be imported without depending on protobuf internals.
    except Exception as error:
        raise GraphError(f"[onnx] {path} is truncated or not an ONNX model: {error}") from error
    if not model.HasField("graph") or (model.ir_version >= 3 and not model.opset_import):
        raise GraphError(f"[onnx] {path} is truncated or not an ONNX model: it has no graph or no opset import")
    graph = model.graph
    if not all(isinstance(named.name, str) for named in [*graph.input[:], *graph.output[:], *graph.initializer[:]]):
        raise GraphError(
            f"[onnx] {path} is damaged: the name of an input, output, or initializer is not a valid UTF-8 string"
        )
    return model, Tensors(path.parent, elements)


def type_of(dtype: DType) -> int | None:
    """Return ONNX's element type for a dtype, or None if ONNX does not have such a type."""
    return _NUMBERS.get(str(dtype))


def _regular_file(path: Path, limit: int) -> Path:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise GraphError(f"[onnx] {path} is not a regular file")
    if status.st_size > limit:
        raise GraphError(
            f"[onnx] {path} has {status.st_size} bytes, but the maximum is {limit}: store the weights as external data"
        )
    file_bytes(path, status.st_size)
    return path


class Tensors:
    """Reads tensors of a model, mapping each external data file once.

    Args:
        directory: Directory that must contain all external data, or None if the model was not loaded from a file.
        elements: Large tensors left in the model file when it was parsed.
    """

    def __init__(self, directory: Path | None, elements: Elements | None = None) -> None:
        self._directory, self._elements = directory, elements or Elements()
        self._mapped: dict[str, np.ndarray] = {}

    def keep(self) -> None:
        """Copy the tensor elements that are mapped from the model file into memory, because the file may change
        later.
        """
        self._elements.keep()

    def read(self, tensor: TensorProto) -> tuple[np.ndarray, DType]:
        """Return the elements of a tensor (bfloat16 as uint16 bits) and its dtype.

        Types of fewer than 8 bits and 8-bit floats are converted exactly to a wider dtype.

        Raises GraphError if the tensor is malformed and UnsupportedError if its element type is not supported.
        """
        what = f"tensor '{tensor.name}'"
        number = tensor.data_type
        if number in _NARROW:
            return self._narrow(tensor, what, *_NARROW[number])
        dtype, storage = _STORAGE[number] if number in _STORAGE else (dtype_of(number, what), np.dtype(np.uint8))
        shape = tuple(tensor.dims[:])
        count = _element_count(shape, storage.itemsize, what)
        if tensor.data_location == _EXTERNAL:
            flat = self._external(tensor, what, count * storage.itemsize).view(storage)
        elif tensor.HasField("raw_data"):
            raw = self._elements.of(tensor.raw_data)  # Each access to raw_data makes a copy.
            if len(raw) != count * storage.itemsize:
                raise GraphError(
                    f"[onnx] {what} of shape {shape} and dtype {dtype} must have {count * storage.itemsize} bytes, "
                    f"got {len(raw)}"
                )
            flat = np.frombuffer(raw, storage)
        else:
            flat = _listed(tensor, _TYPES[number][2], storage, what)
            if flat.size != count:
                raise GraphError(f"[onnx] {what} of shape {shape} must have {count} elements, got {flat.size}")
        if storage == np.bool_ and flat.size and flat.view(np.uint8).max() > 1:
            raise GraphError(f"[onnx] {what} of type bool has elements other than 0 and 1")
        return flat.reshape(shape), dtype

    def _narrow(self, tensor: TensorProto, what: str, kind: str, bits: int, wide: str) -> tuple[np.ndarray, DType]:
        """Return the elements of a tensor of a narrow type, converted to the dtype `wide`."""
        shape = tuple(tensor.dims[:])
        count = _element_count(shape, 1, what)
        size = -(-count * bits // 8)  # Elements are packed into bytes without gaps.
        if tensor.data_location == _EXTERNAL:
            data = self._external(tensor, what, size)
        elif tensor.HasField("raw_data"):
            data = np.frombuffer(self._elements.of(tensor.raw_data), np.uint8)
        else:
            data = _listed(tensor, "int32_data", np.dtype(np.uint8), what)
        if data.size != size:
            raise GraphError(f"[onnx] {what} of shape {shape} and type {kind} must have {size} bytes, got {data.size}")
        codes = unpacked(data, bits, count) if bits < 8 else data
        if "float" in kind:
            numbers = widened(codes, kind)
        else:
            numbers = signed(codes, bits) if wide == "int8" else codes
        return numbers.reshape(shape), DType(wide)

    def _external(self, tensor: TensorProto, what: str, size: int) -> np.ndarray:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        try:
            offset, length = (int(entries.get(key) or default) for key, default in (("offset", 0), ("length", size)))
        except ValueError:
            raise GraphError(
                f"[onnx] {what}: offset and length of its external data must be integers, got {entries!r}"
            ) from None
        file = self._file(location, what)
        if length != size or offset < 0 or offset + size > file.size:
            raise GraphError(
                f"[onnx] {what} needs {size} bytes, but its external data is {length} bytes at offset {offset} "
                f"of '{location}', which has {file.size} bytes"
            )
        part = file[offset : offset + size]
        return part if part.ctypes.data % 8 == 0 else part.copy()

    def _file(self, location: str, what: str) -> np.ndarray:
        """Return the mapped bytes of an external data file, which must be below the model's directory."""
        if self._directory is None:
            raise GraphError(
                f"[onnx] {what} has external data, which is looked up next to the model file: pass the path of the "
                "file instead of a ModelProto"
            )
        if location not in self._mapped:
            root = self._directory.resolve()
            path = (root / location).resolve()
            if not location or not path.is_relative_to(root):
                raise GraphError(
                    f"[onnx] {what}: external data must be below the model's directory, got location {location!r}"
                )
            try:
                status = _regular_file(path, LARGEST_TENSOR).stat()
                # A model could otherwise read a file that its author links into the directory from elsewhere.
                if status.st_nlink > 1:
                    raise GraphError(
                        f"[onnx] {what}: the external data file '{location}' has {status.st_nlink} hard links and may "
                        "belong to another directory: replace it with a copy"
                    )
                empty = status.st_size == 0
                self._mapped[location] = np.empty(0, np.uint8) if empty else np.memmap(path, np.uint8, "r")
            except OSError as error:
                raise GraphError(f"[onnx] {what}: cannot read external data: {error}") from error
        return self._mapped[location]


def _element_count(shape: tuple[int, ...], item: int, what: str) -> int:
    count, negative = 1, False
    for size in shape:
        count *= size
        negative = negative or size < 0
    if negative or len(shape) > 16 or count * item > LARGEST_TENSOR:
        raise GraphError(
            f"[onnx] {what} has invalid shape {shape}: it must have no negative dimensions, at most 16 dimensions, and "
            f"at most {LARGEST_TENSOR} bytes"
        )
    return count


def _packed(values: Any, field: str, storage: np.dtype[Any]) -> np.ndarray:
    """Return the fixed-width elements of a repeated field without iterating over them in Python.

    A message with only this field is serialized as a tag, a length, and the consecutive elements, which can be viewed
    as an array.
    """
    if not values:
        return np.empty(0, storage)
    alone = TensorProto()
    getattr(alone, field).MergeFrom(values)
    message = alone.SerializeToString()
    return np.frombuffer(message, storage, offset=len(message) - len(values) * storage.itemsize)


def _listed(tensor: TensorProto, field: str, storage: np.dtype[Any], what: str) -> np.ndarray:
    """Return the elements of a repeated integer field, in which 16-bit floats are stored as their bit patterns."""
    values: Any = getattr(tensor, field)
    if field in ("float_data", "double_data"):
        return _packed(values, field, storage)
    if storage.kind == "f" and storage.itemsize == 2:
        return np.array(values, np.int64).astype(np.uint16).view(storage)
    if storage.kind in "fb":
        return np.array(values, storage)
    wide = np.array(values, np.uint64 if field == "uint64_data" else np.int64)
    if wide.size and (int(wide.max()) > np.iinfo(storage).max or int(wide.min()) < np.iinfo(storage).min):
        raise GraphError(
            f"[onnx] {what} must have values in the range of {storage}, got {int(wide.min())} to {int(wide.max())}"
        )
    return wide.astype(storage)
