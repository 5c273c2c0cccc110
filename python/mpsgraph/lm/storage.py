"""Reading of JSON files and writing of safetensors files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._core import bfloat16
from ..errors import CheckpointError
from ..nn.state import Value

_DTYPES = {
    "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64", "int32": "I32", "uint8": "U8",
    "uint32": "U32",
}  # fmt: skip


def read_json(path: Path) -> Any:
    """Return the content of a JSON file, or None if there is no such file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def write_safetensors(path: Path, state: Mapping[str, Value]) -> None:
    """Write tensors to a safetensors file, which replaces an existing one at the end."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, value in state.items():
        end = offset + value.array.nbytes
        kind = "BF16" if value.dtype == bfloat16 else _DTYPES[value.dtype.name]
        entries[name] = {"dtype": kind, "shape": list(value.array.shape), "data_offsets": [offset, end]}
        offset = end
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    partial = path.with_name(path.name + ".partial")
    with open(partial, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for value in state.values():
            file.write(np.ascontiguousarray(value.array).data)
    partial.replace(path)
