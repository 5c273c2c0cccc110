"""Reading of `.mlmodel` files, `.mlpackage` directories, and the weight blobs in `weight.bin`.

File contents are untrusted: offsets must be inside their files, and files must be inside the package directory.
Violations raise a GraphError.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import numpy as np

from .._display import shown
from .._limits import file_bytes
from ..errors import Error, GraphError, UnsupportedError
from ._wire import Message

LARGEST_FILE = 2**31 - 1  # Maximum size of a protocol buffer in bytes.
_SENTINEL, _HEADER, _METADATA = 0xDEADBEEF, 64, 64

# MIL's names of the numeric element types in blob metadata.
BLOB_TYPES = {
    1: "FLOAT16", 2: "FLOAT32", 3: "UINT8", 4: "INT8", 5: "BFLOAT16", 6: "INT16", 7: "UINT16", 8: "INT4", 9: "UINT1",
    10: "UINT2", 11: "UINT4", 12: "UINT3", 13: "UINT6", 14: "INT32", 15: "UINT32",
}  # fmt: skip


def read_model(path: str | os.PathLike[str]) -> tuple[Message, Path]:
    """Return the parsed model and the directory that contains its blobs.

    Raises GraphError if the file is missing, truncated, or not a Core ML model, and UnsupportedError if it is compiled.
    """
    where = Path(path)
    if where.suffix == ".mlmodelc":
        raise UnsupportedError(
            f"[coreml] {where} is a compiled model: load the .mlpackage or .mlmodel it was compiled from"
        )
    file = _model_of_package(where) if os.path.isdir(where) else where
    try:
        data = _regular_file(file).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: the path contains a null character
        raise GraphError(f"[coreml] cannot read {file}: {error}") from error
    model = Message("Model", memoryview(data))
    if model.specificationVersion < 1 or not (model.which("Type") or model.unknown()):
        raise GraphError(f"[coreml] {file} is truncated or not a Core ML model: its version or model type is missing")
    return model, file.parent


def _model_of_package(folder: Path) -> Path:
    """Return the path of the model file named in a package's manifest."""
    manifest = folder / "Manifest.json"
    try:
        contents = json.loads(_regular_file(manifest).read_text())
        root = contents["itemInfoEntries"][contents["rootModelIdentifier"]]["path"]
        return _inside(folder / "Data" / root, folder)
    except Error:
        raise
    except OSError as error:
        raise GraphError(f"[coreml] {folder} is not a Core ML package: {error}") from error
    # A path is not valid if it contains a null character or a lone surrogate.
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise GraphError(f"[coreml] {manifest} is malformed: {type(error).__name__}: {error}") from error


def _inside(file: Path, folder: Path) -> Path:
    if not file.resolve().is_relative_to(folder.resolve()):
        raise GraphError(f"[coreml] the package refers to {file}, which is outside {folder}")
    return file


def _regular_file(path: Path) -> Path:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
        raise GraphError(f"[coreml] {path} must be a regular file of at most {LARGEST_FILE} bytes")
    file_bytes(path, status.st_size)
    return path


class Blobs:
    """Reader for Core ML weight files.

    A weight file contains a header and, for each blob, 64 bytes of metadata with its type, size, and position.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mapped: dict[str, np.ndarray] = {}

    def read(self, name: str, offset: int) -> tuple[str, np.ndarray]:
        """Return the MIL name of a blob's element type, and the blob's bytes.

        `name` is the path of the weight file as the model refers to it, such as "@model_path/weights/weight.bin".
        `offset` is the position of the blob's metadata.
        """
        file = self._file(name)
        what = f"[coreml] the blob at offset {offset} of {name}"
        if offset < _HEADER or offset + _METADATA > file.size:
            raise GraphError(f"{what} is outside the file, which has {file.size} bytes")
        entry = file[offset : offset + _METADATA].tobytes()
        sentinel, number = (int(v) for v in np.frombuffer(entry, "<u4", 2))
        size, start = (int(v) for v in np.frombuffer(entry, "<u8", 2, 8))
        if sentinel != _SENTINEL or start + size > file.size:
            raise GraphError(
                f"{what} is malformed: it has {size} bytes at position {start} of a file of {file.size} bytes"
            )
        if number not in BLOB_TYPES:
            raise UnsupportedError(f"{what} has element type number {number}, which mpsgraph does not support")
        return BLOB_TYPES[number], file[start : start + size]

    def _file(self, name: str) -> np.ndarray:
        if name not in self._mapped:
            path = self._folder / name.removeprefix("@model_path/")
            try:
                status = os.stat(_inside(path, self._folder))
                if not stat.S_ISREG(status.st_mode):
                    raise GraphError(f"[coreml] {path} is not a regular file")
                if status.st_nlink > 1:
                    raise GraphError(
                        f"[coreml] the weight file {path} has {status.st_nlink} hard links and may belong to another "
                        "directory: replace it with a copy"
                    )
                file_bytes(path, status.st_size)
                empty = status.st_size == 0
                self._mapped[name] = np.empty(0, np.uint8) if empty else np.memmap(path, np.uint8, "r")
            except Error:
                raise
            except (OSError, ValueError) as error:  # ValueError: the name contains a null character
                raise GraphError(f"[coreml] cannot read the weights in {shown(name)}: {error}") from error
            version = np.frombuffer(self._mapped[name][:8].tobytes(), "<u4")
            if version.size != 2 or version[1] != 2:
                raise GraphError(
                    f"[coreml] {path} must be a weight file of version 2, got header values {version.tolist()}"
                )
        return self._mapped[name]
