"""Reading of safetensors files from other programs, single or sharded with an index, and loading them into a model.

A file is memory-mapped, and its header is validated: every tensor must lie within the data and have the length that its
shape and dtype require. mpsgraph's own checkpoints, in `mpsgraph.checkpoint`, are safetensors files with checksums.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..._checks import checked
from ..._core import DType
from ..._display import shown
from ..._dtypes import as_dtype
from ..._limits import file_bytes
from ...errors import CheckpointError, Error, GraphError
from ..module import Module
from ..parts import take_state
from ..state import Float8, IncompatibleKeys, Value
from .names import Names, renamed
from .pytorch import take_torch_state, taken

_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
_FLOAT8 = {
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}  # fmt: skip
_LONGEST_HEADER = 100_000_000  # Maximum header size in bytes, as in the safetensors library.
_WHOLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
PathLike = str | os.PathLike[str]


@checked
def load_safetensors(
    model: Module,
    path: str | os.PathLike[str],
    mapping: Names | None = None,
    *,
    layout: str = "torch",
    strict: bool = True,
    cast: bool = False,
) -> IncompatibleKeys | None:
    """Load the weights in safetensors files of another program into a model.

    Args:
        model: Model to load into. If it has not been called yet, the weights are loaded at the end of its first call.
        path: A file, an index of several files (*.index.json), or a folder with model.safetensors or its index.
        mapping: How to rename the state's names to the model's; see `load_torch`. Defaults to no renaming.
        layout: "torch" (the default) for PyTorch's names and axes, "mpsgraph" for those of state_dict.
        strict: Whether all names must match. Defaults to True.
        cast: Whether to convert floating-point values to the dtype of the variables. Defaults to False. 8-bit floats
            are always converted, because every floating-point dtype represents them exactly.

    Returns:
        The missing and the unexpected names, or None if the model has not been called yet.

    Raises:
        CheckpointError: If a file is missing, truncated, or not a safetensors file.
        GraphError: If strict and names are missing or unexpected, or layout or mapping is invalid.
        ShapeError: If shapes differ; the model is then unchanged.
        DTypeError: If element types differ; the model is then unchanged.

    Source: the format description, github.com/huggingface/safetensors.

    Example:
        >>> import tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> mg.checkpoint.save(path, {"dense.weight": np.float32([[3, 4]]), "dense.bias": np.float32([1])})
        >>> layer = mg.nn.Linear(1)
        >>> y = layer(mg.Graph().constant([[1.0, 1.0]]))
        >>> _ = mg.nn.load_safetensors(layer, path, {"dense": ""})
        >>> y.graph.run({}, y).tolist()
        [[8.0]]
    """
    if layout not in ("torch", "mpsgraph"):
        raise GraphError(f'load_safetensors: layout must be "torch" or "mpsgraph", got {shown(layout)}')
    state = renamed("load_safetensors", read_values(path), mapping)
    take = take_torch_state if layout == "torch" else take_state
    return taken(model, state, partial(take, strict=strict, cast=cast, where="load_safetensors"))


def read_values(path: PathLike) -> dict[str, Value | Float8]:
    """Memory-map the tensors of a file, of an index's files, or of a folder. Return a dict keyed by tensor name."""
    place = Path(path)
    if os.path.isdir(place):  # Path.is_dir raises OSError for names that are too long.
        place = next((place / name for name in (_INDEX, _WHOLE) if os.path.isfile(place / name)), place / _WHOLE)
    return _read_index(place) if place.suffix == ".json" else _read_file(place)


def _read_index(path: Path) -> dict[str, Value | Float8]:
    """Read each tensor listed in an index from its file, which must be in the same folder as the index."""
    try:
        where = json.loads(path.read_bytes())["weight_map"]
        plain = isinstance(where, dict) and all(isinstance(file, str) for file in where.values())
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path} is not a safetensors index: it has no valid weight_map ({error})") from error
    if not plain:
        raise CheckpointError(f"{path} is not a safetensors index: weight_map must map tensor names to file names")
    if outside := [file for file in where.values() if Path(file).name != file or file in ("", ".", "..")]:
        raise CheckpointError(f"{path} refers to {shown(outside[0])}: files must be in the same folder as the index")
    files = {file: _read_file(path.parent / file) for file in sorted(set(where.values()))}
    if missing := [f"'{name}' in {file}" for name, file in where.items() if name not in files[file]]:
        raise CheckpointError(f"{path} lists tensors that are missing from their files: {', '.join(missing[:10])}")
    return {name: files[file][name] for name, file in where.items()}


def _read_file(path: Path) -> dict[str, Value | Float8]:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file_bytes(path, size)
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > size - 8 or length > _LONGEST_HEADER:
                raise CheckpointError(f"{path} is not a safetensors file or is truncated at {size} bytes")
            header = file.read(length)
        data = np.memmap(path, np.uint8, "r", 8 + length) if size > 8 + length else np.zeros(0, np.uint8)
    except (OSError, ValueError) as error:
        if isinstance(error, Error):
            raise
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    try:
        entries = json.loads(header)
        entries.pop("__metadata__", None)
        return {name: _value(f"{path}: '{name}'", entry, data) for name, entry in entries.items()}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, Error):
            raise
        raise CheckpointError(f"{path} is not a safetensors file: its header cannot be read ({error})") from error


def _value(where: str, entry: Mapping[str, Any], data: np.ndarray) -> Value | Float8:
    shape, (start, end) = entry["shape"], entry["data_offsets"]
    narrow = _FLOAT8.get(entry["dtype"])
    if entry["dtype"] not in _DTYPES and narrow is None:
        raise CheckpointError(
            f"{where} has dtype {shown(entry['dtype'])}, which mpsgraph does not support: convert the tensor to "
            "float32, float16, or bfloat16, or to integers of at least 8 bits"
        )
    dtype = as_dtype("uint8" if narrow else _DTYPES[entry["dtype"]])
    if not all(isinstance(n, int) and n >= 0 for n in (*shape, start, end)) or end > data.size:
        raise CheckpointError(f"{where} lies outside the file, which is truncated or corrupt")
    if end - start != math.prod(shape) * dtype.itemsize:
        raise CheckpointError(
            f"{where} has {end - start} bytes, but {narrow or dtype} of shape {tuple(shape)} needs "
            f"{math.prod(shape) * dtype.itemsize}"
        )
    array = data[start:end].view(_in_numpy(dtype)).reshape(shape)
    if narrow:
        return Float8(array, narrow)
    return Value(array if array.flags.aligned else array.copy(), dtype)


def _in_numpy(dtype: DType) -> np.dtype[Any]:
    return np.dtype(np.uint16) if dtype.name == "bfloat16" else dtype.numpy
