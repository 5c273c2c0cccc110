"""Sharded checkpoints: a folder to which each process writes the parts of variables that its devices hold.

Each process writes one safetensors file (`checkpoint.py`). When all files are complete, the first process replaces
`checkpoint.json`, which lists them with their checksums and holds the metadata. A crash before that leaves the previous
checkpoint, whose files are deleted only afterwards. Tensors are stored by position, so any number of devices can load
them. All processes must see the same folder.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._display import shown
from ..errors import CheckpointError
from . import checkpoint
from .checkpoint_files import header_of, write_atomically

INDEX = "checkpoint.json"
_FORMAT, _VERSION = "mpsgraph shards", "1"
_PATIENCE, _PAUSE = 600.0, 0.05  # Seconds to wait for the files of other processes, and between two looks.


_OF_A_CHECKPOINT = re.compile(r"\.?checkpoint-[0-9a-f]{8}-\d{5}-of-\d{5}\.safetensors")
"""Names of complete and unfinished files, as `_file` and `write_atomically` make them."""


class Part(NamedTuple):
    """A block of a tensor.

    Attributes:
        name: Name of the tensor.
        shape: Shape of the whole tensor.
        start: Index of the block's first element along each axis.
        value: The elements.
    """

    name: str
    shape: tuple[int, ...]
    start: tuple[int, ...]
    value: np.ndarray


def write_parts(
    folder: Path, token: str, process: int, processes: int, parts: Iterable[Part], dtypes: Mapping[str, str]
) -> None:
    """Write the file of one process.

    Args:
        folder: Folder of the checkpoint, which is created if it does not exist.
        token: Name of this checkpoint, the same in all processes and different from those of earlier ones.
        process: Index of this process.
        processes: Number of processes.
        parts: Blocks of tensors, which together with those of the other processes cover each tensor once.
        dtypes: Dict of dtypes, keyed by the name of a tensor; see checkpoint.save.

    Raises:
        CheckpointError: If the file cannot be written.
    """
    arrays, described, stored = {}, {}, {}
    for part in parts:
        key = part.name if part.value.shape == part.shape else f"{part.name}@{','.join(map(str, part.start))}"
        arrays[key], described[key] = part.value, [part.name, part.shape, part.start]
        if part.name in dtypes:
            stored[key] = dtypes[part.name]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be written: {error}") from error
    checkpoint.save(folder / _file(token, process, processes), arrays, {"parts": json.dumps(described)}, stored)


def write_index(folder: Path, token: str, processes: int, metadata: Mapping[str, str]) -> None:
    """Wait for the files of all processes, make them the folder's checkpoint, and delete those of other checkpoints.

    Args:
        folder: Folder of the checkpoint.
        token: Name of this checkpoint.
        processes: Number of processes.
        metadata: Dict of strings, keyed by name.

    Raises:
        CheckpointError: If a file is missing after ten minutes, or the index cannot be written.
    """
    files = [_file(token, process, processes) for process in range(processes)]
    end = time.monotonic() + _PATIENCE
    for process, name in enumerate(files):
        while not (folder / name).is_file():
            if time.monotonic() > end:
                raise CheckpointError(
                    f"{folder} has no file of process {process} after {_PATIENCE:.0f} seconds: write to a "
                    "folder that all machines share"
                )
            time.sleep(_PAUSE)
    contents: dict[str, Any] = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "files": {name: _stated_checksum(folder / name) for name in files},
        "metadata": dict(metadata),
    }
    whole = {"sha256": _digest(contents), **contents}
    write_atomically(folder / INDEX, [json.dumps(whole, indent=1).encode()])
    for path in folder.iterdir():
        if path.name not in files and _OF_A_CHECKPOINT.match(path.name):
            with suppress(OSError):
                path.unlink()


def exists(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a checkpoint file, or a folder that holds a complete checkpoint."""
    return Path(path).is_file() or (Path(path) / INDEX).is_file()


def load(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read a sharded checkpoint and verify all checksums.

    Args:
        folder: Folder of the checkpoint.

    Returns:
        Two dicts: the whole arrays, keyed by name, and the strings of the metadata.

    Raises:
        CheckpointError: If the folder holds no complete checkpoint, or one that is altered or of a newer format.
    """
    contents = _read_index(folder)
    values: dict[str, np.ndarray] = {}
    covered: dict[str, int] = {}
    for name, checksum in contents["files"].items():
        arrays, metadata = checkpoint.load(folder / name)
        if _stated_checksum(folder / name) != checksum:
            raise CheckpointError(f"{folder / name} belongs to another checkpoint than {folder / INDEX}")
        _place(folder / name, arrays, json.loads(metadata.get("parts", "{}")), values, covered)
    for name, value in values.items():
        if covered[name] != value.size:
            raise CheckpointError(
                f"{folder} is incomplete: it has {covered[name]} of {value.size} elements of '{name}'"
            )
    return values, contents["metadata"]


def _place(
    path: Path,
    arrays: Mapping[str, np.ndarray],
    described: Mapping[str, Any],
    values: dict[str, np.ndarray],
    covered: dict[str, int],
) -> None:
    """Copy the parts in a file to their positions in whole arrays."""
    for key, array in arrays.items():
        try:
            name, shape, start = described[key]
            slices = tuple(slice(a, a + size) for a, size in zip(start, array.shape, strict=True))
            is_inside = all(0 <= s.start and s.stop <= n for s, n in zip(slices, shape, strict=True))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} is damaged: it does not describe the part {shown(key)}") from error
        known = values.get(name)
        if not is_inside or (known is not None and (known.shape != tuple(shape) or known.dtype != array.dtype)):
            raise CheckpointError(f"{path} is damaged: the part {shown(key)} is outside of its tensor")
        if tuple(shape) == array.shape:
            values[name] = array
        else:
            values.setdefault(name, np.empty(shape, array.dtype))[slices] = array
        covered[name] = covered.get(name, 0) + math.prod(array.shape)


def _read_index(folder: Path) -> dict[str, Any]:
    try:
        text = (folder / INDEX).read_text()
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{folder} holds no complete checkpoint, because {INDEX} cannot be read: {error}"
        ) from error
    try:
        contents = json.loads(text)
        stated = contents.pop("sha256")
        is_intact = contents["format"] == _FORMAT and _digest(contents) == stated
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(f"{folder / INDEX} is not the index of a checkpoint: {error!r}") from error
    if not is_intact:
        raise CheckpointError(f"{folder / INDEX} is truncated or altered: its checksum does not match")
    if contents["format_version"] != _VERSION:
        raise CheckpointError(
            f"{folder} has format version {shown(contents['format_version'])}, but this version of mpsgraph reads "
            f"version {_VERSION}: update mpsgraph"
        )
    return contents  # type: ignore[no-any-return]


def _file(token: str, process: int, processes: int) -> str:
    return f"checkpoint-{token}-{process + 1:05}-of-{processes:05}.safetensors"


def _digest(contents: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


def _stated_checksum(path: Path) -> str:
    """Return the checksum in the header of a file."""
    return str(header_of(path)["__metadata__"]["sha256"])


def parts_of(values: Mapping[str, np.ndarray]) -> Sequence[Part]:
    """Return whole arrays as parts."""
    return [Part(name, value.shape, (0,) * value.ndim, value) for name, value in values.items()]
