"""Files of checkpoints, written so that a crash leaves the old file or the new one."""

from __future__ import annotations

import json
import os
import secrets
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

from .._limits import file_bytes
from ..errors import CheckpointError


def header_of(path: Path) -> dict[str, Any]:
    """Return the header of a safetensors file. Raise CheckpointError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            length = struct.unpack("<Q", file.read(8))[0]
            file_bytes(path, length)
            return dict(json.loads(file.read(length)))
    except (OSError, ValueError, TypeError, struct.error) as error:
        raise CheckpointError(f"{path} is not a checkpoint: its header cannot be read ({error})") from error


def write_atomically(path: Path, parts: list[Any]) -> None:
    """Write a file under a temporary name, flush it to disk, and rename it.

    Args:
        path: Path of the file.
        parts: Contents, as objects with the buffer protocol.

    Raises:
        CheckpointError: If the file cannot be written. An existing file is then unchanged.
    """
    if not path.name:
        raise CheckpointError(f"'{path}' cannot be written: it has no file name")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _flush_directory(path.parent)
    except (OSError, ValueError) as error:  # A path with a null character raises ValueError.
        raise CheckpointError(f"{path} cannot be written: {error}") from error
    finally:
        with suppress(OSError, ValueError):
            temporary.unlink(missing_ok=True)


def _flush_directory(directory: Path) -> None:
    """Flush a directory to disk, so that a rename in it survives a crash. Does nothing except on POSIX systems."""
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
