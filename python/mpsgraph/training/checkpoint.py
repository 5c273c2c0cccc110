"""Checkpoints: safetensors files of tensors and strings; reading one that is incomplete or altered raises an error.

A file is written under a temporary name in the same folder, flushed to disk, and renamed, so a crash leaves the old
file intact. The metadata contains a SHA-256 checksum of header and data, which is verified before any content is used.
The safetensors library can read these files too. numpy lacks bfloat16: such tensors are arrays of uint16 bits in
memory, and have dtype BF16 in the file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._checks import checked
from .._display import shown
from .._limits import file_bytes
from ..errors import CheckpointError, LimitError
from .checkpoint_files import write_atomically

FORMAT_VERSION = "1"
_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}
_DTYPES = {name: np.dtype("uint16" if dtype == "bfloat16" else dtype) for dtype, name in _NAMES.items()}
_BLANK = "0" * 64
_MAX_RANK = 32  # that every supported version of numpy has


@checked
def save(
    path: str | os.PathLike[str],
    tensors: Mapping[str, np.ndarray],
    metadata: Mapping[str, str] | None = None,
    dtypes: Mapping[str, str] | None = None,
) -> None:
    """Write a checkpoint atomically: if writing fails, an existing file stays unchanged.

    Args:
        path: Path of the file, by convention ending in .safetensors.
        tensors: Dict of arrays, keyed by name.
        metadata: Dict of strings, keyed by name. Defaults to none.
        dtypes: Dict of dtypes, keyed by name, for tensors whose dtype differs from that of their array: "bfloat16" for
            arrays of uint16 bits. Defaults to none.

    Raises:
        CheckpointError: If the file cannot be written, or a name, the metadata, or a dtype is not supported.

    Example:
        >>> import tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> mg.checkpoint.save(path, {"w": np.ones(2, np.float32)}, {"note": "first"})
        >>> tensors, metadata = mg.checkpoint.load(path)
        >>> tensors["w"].tolist(), metadata["note"]
        ([1.0, 1.0], 'first')
    """
    if "__metadata__" in tensors:
        raise CheckpointError("a tensor cannot be named '__metadata__', which the safetensors format reserves")
    for key, text in (metadata or {}).items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise CheckpointError(f"metadata must map strings to strings, got {shown(key)}: {shown(text)}")
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    # Sort by element size so that every tensor is aligned.
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    arrays = {name: arrays[name] for name in order}
    entries: dict[str, Any] = {}
    offset = 0
    for name, array in arrays.items():
        dtype = (dtypes or {}).get(name, str(array.dtype))
        if dtype not in _NAMES:
            raise CheckpointError(f"tensor '{name}' has dtype {dtype}, which checkpoints do not support")
        entries[name] = _entry(_NAMES[dtype], array.shape, offset, array.nbytes)
        offset += array.nbytes
    buffers = [array.reshape(-1).view(np.uint8).data for array in arrays.values()]
    own = {"format": "mpsgraph", "format_version": FORMAT_VERSION, "sha256": _BLANK}
    # The checksum comes first because only its first occurrence is replaced.
    described = {"sha256": _BLANK, **(metadata or {}), **own}
    header = json.dumps({"__metadata__": described, **entries}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    header = header.replace(_BLANK.encode(), _checksum(header, buffers).encode(), 1)
    write_atomically(Path(path), [struct.pack("<Q", len(header)), header, *buffers])


@checked
def load(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read a checkpoint and verify its checksum.

    Args:
        path: Path of the file.

    Returns:
        Two dicts: the arrays, keyed by name, and the strings of the metadata.

    Raises:
        CheckpointError: If the file is missing, truncated, altered, of a newer format, or not a checkpoint of mpsgraph.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
        >>> mg.checkpoint.save(path, {"w": np.float32([1, 2])}, {"note": "two numbers"})
        >>> tensors, about = mg.checkpoint.load(path)
        >>> tensors["w"].tolist(), about["note"]
        ([1.0, 2.0], 'two numbers')
    """
    try:
        file_bytes(path, Path(path).stat().st_size)
        data = Path(path).read_bytes()
    except LimitError:
        raise
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if len(data) < 8:
        raise CheckpointError(f"{path} is truncated: a checkpoint has at least 8 bytes, got {len(data)}")
    length = struct.unpack("<Q", data[:8])[0]
    if length > len(data) - 8:
        raise CheckpointError(
            f"{path} is truncated or not a checkpoint: its header should have {length} bytes, but the whole file has "
            f"{len(data)} bytes"
        )
    header, body = data[8 : 8 + length], memoryview(data)[8 + length :]
    try:
        entries = json.loads(header)
        metadata = entries.pop("__metadata__", {})
        stated = metadata.pop("sha256", "") if metadata.get("format") == "mpsgraph" else ""
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path} is not a checkpoint: its header cannot be read ({error})") from error
    if not isinstance(stated, str) or not all(isinstance(value, str) for value in metadata.values()):
        raise CheckpointError(f"{path} is not a checkpoint: its metadata must map strings to strings")
    if not stated:
        raise CheckpointError(
            f"{path} was not written by mpsgraph: it has no checksum; load weights of other programs with "
            "mg.nn.load_safetensors"
        )
    if _checksum(header.replace(stated.encode(errors="replace"), _BLANK.encode(), 1), [body]) != stated:
        raise CheckpointError(f"{path} is truncated or altered: its checksum does not match")
    version = metadata.get("format_version", "unknown")
    if version != FORMAT_VERSION:
        raise CheckpointError(
            f"{path} has format version {version[:20]}, but this version of mpsgraph reads version {FORMAT_VERSION}: "
            "update mpsgraph"
        )
    tensors = {name: _array(entry, body, f"{path}: tensor {shown(name)}") for name, entry in entries.items()}
    return tensors, metadata


def _entry(dtype: str, shape: tuple[int, ...], offset: int, size: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}


def _array(entry: Any, body: memoryview, what: str) -> np.ndarray:
    """Return the array that an entry of the header describes. Even a file with a valid checksum may be malformed."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise CheckpointError(f"{what} must be described by dtype, shape, and data_offsets, got {shown(entry)}")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise CheckpointError(f"{what} must have one of the dtypes {', '.join(_DTYPES)}, got dtype {shown(dtype)}")
    if not _are_sizes(shape) or len(shape) > _MAX_RANK or math.prod(max(size, 1) for size in shape) >= 1 << 60:
        raise CheckpointError(f"{what} must have a list of at most {_MAX_RANK} sizes as its shape, got {shown(shape)}")
    size = math.prod(shape) * _DTYPES[dtype].itemsize
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[1] > len(body) or offsets[1] - offsets[0] != size:
        raise CheckpointError(
            f"{what} must have data_offsets that cover {size} bytes within the {len(body)} bytes of data, got "
            f"{shown(offsets)}"
        )
    data = body[offsets[0] : offsets[1]]
    if dtype == "BOOL" and np.frombuffer(data, np.uint8).max(initial=0) > 1:
        raise CheckpointError(f"{what} must contain only the bytes 0 and 1, because it is BOOL")
    return np.frombuffer(data, _DTYPES[dtype]).reshape(shape)


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 1 << 63 for value in values)


def _checksum(header: bytes, buffers: list[memoryview]) -> str:
    """Return the checksum of a file's header and data, in which zeros replace the stored checksum."""
    digest = hashlib.sha256(header)
    for buffer in buffers:
        digest.update(buffer)
    return digest.hexdigest()
