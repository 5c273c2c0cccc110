"""From paths to messages: `.mlmodel` files, `.mlpackage` folders, and the blobs of weights in their `weight.bin`.

Nothing here is believed: places in files are checked against the files, and files against the package's folder. What
is wrong raises a GraphError that names it.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import numpy as np

from ..errors import GraphError, UnsupportedError
from ._wire import Message

LARGEST_FILE = 2**31 - 1  # what a protocol buffer can hold
_SENTINEL, _HEADER, _METADATA = 0xDEADBEEF, 64, 64

# The numbers of element types in a blob's metadata, as MIL names the types.
BLOB_TYPES = {
    1: "FLOAT16", 2: "FLOAT32", 3: "UINT8", 4: "INT8", 5: "BFLOAT16", 6: "INT16", 7: "UINT16", 8: "INT4", 9: "UINT1",
    10: "UINT2", 11: "UINT4", 12: "UINT3", 13: "UINT6", 14: "INT32", 15: "UINT32",
}  # fmt: skip


def read_model(path: str | os.PathLike[str]) -> tuple[Message, Path]:
    """The model's message, and the folder that its blobs are in.

    Errors: GraphError for what is missing, truncated or no Core ML model; UnsupportedError for compiled models.
    """
    where = Path(path)
    if where.suffix == ".mlmodelc":
        raise UnsupportedError(f"[coreml] {where} is compiled for one system: load the .mlpackage or .mlmodel it is of")
    file = _model_of_package(where) if where.is_dir() else where
    try:
        data = _regular_file(file).read_bytes()
    except OSError as error:
        raise GraphError(f"[coreml] {file} cannot be read: {error}") from error
    model = Message("Model", memoryview(data))
    if model.specificationVersion < 1 or not (model.which("Type") or model.unknown()):
        raise GraphError(
            f"[coreml] {file} is truncated or no Core ML model: it has no version, or no model of any kind"
        )
    return model, file.parent


def _model_of_package(folder: Path) -> Path:
    """The model's file, which the package's manifest names."""
    manifest = folder / "Manifest.json"
    try:
        contents = json.loads(manifest.read_text())
        root = contents["itemInfoEntries"][contents["rootModelIdentifier"]]["path"]
        file = folder / "Data" / root
    except OSError as error:
        raise GraphError(f"[coreml] {folder} is no Core ML package: {error}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise GraphError(f"[coreml] {manifest} makes no sense: {type(error).__name__}: {error}") from error
    return _inside(file, folder)


def _inside(file: Path, folder: Path) -> Path:
    if not file.resolve().is_relative_to(folder.resolve()):
        raise GraphError(f"[coreml] {file} must lie in {folder}")
    return file


def _regular_file(path: Path) -> Path:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
        raise GraphError(f"[coreml] {path} is no regular file of at most {LARGEST_FILE} bytes")
    return path


class Blobs:
    """Files of weights: a header, and for each blob 64 bytes that say its type, its length and where it stands."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mapped: dict[str, np.ndarray] = {}

    def read(self, name: str, offset: int) -> tuple[str, np.ndarray]:
        """A blob's element type as MIL names it, and its bytes.

        Args: name, as files have it, "@model_path/weights/weight.bin"; offset of its metadata.
        """
        file = self._file(name)
        what = f"[coreml] the blob at {offset} of {name}"
        if offset < _HEADER or offset + _METADATA > file.size:
            raise GraphError(f"{what} lies outside of the file, which has {file.size} bytes")
        entry = file[offset : offset + _METADATA].tobytes()
        sentinel, number = (int(v) for v in np.frombuffer(entry, "<u4", 2))
        size, start = (int(v) for v in np.frombuffer(entry, "<u8", 2, 8))
        if sentinel != _SENTINEL or start + size > file.size:
            raise GraphError(f"{what} makes no sense: {size} bytes from {start} on, of {file.size}")
        if number not in BLOB_TYPES:
            raise UnsupportedError(f"{what} has elements of type {number}, which is not known here")
        return BLOB_TYPES[number], file[start : start + size]

    def _file(self, name: str) -> np.ndarray:
        if name not in self._mapped:
            path = self._folder / name.removeprefix("@model_path/")
            try:
                status = os.stat(_inside(path, self._folder))
                if not stat.S_ISREG(status.st_mode):
                    raise GraphError(f"[coreml] {path} is no regular file")
                empty = status.st_size == 0
                self._mapped[name] = np.empty(0, np.uint8) if empty else np.memmap(path, np.uint8, "r")
            except OSError as error:
                raise GraphError(f"[coreml] the weights in {name} cannot be read: {error}") from error
            version = np.frombuffer(self._mapped[name][:8].tobytes(), "<u4")
            if version.size != 2 or version[1] != 2:
                raise GraphError(f"[coreml] {path} is no file of weights of version 2")
        return self._mapped[name]
