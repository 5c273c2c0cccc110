"""Reading of GGUF files: metadata, tensors, and the tokenizer that they contain.

A file is memory-mapped and checked. Its metadata become the entries of a config.json, and its tensors get the names of
Hugging Face's libraries, so that everything else is shared with other checkpoints. Matrices of the types Q4_0, Q8_0,
and Q4_K become packed weights; other quantized tensors are converted to float32 (gguf_blocks.py).
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._limits import count_input, file_bytes
from ..errors import CheckpointError, UnsupportedError
from ..nn.state import Value
from .gguf_blocks import BLOCKS, PACKED, dequantized, packed
from .gguf_tokenizer import tokenizer_of
from .tokenizer import Tokenizer

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MOST_AXES = 4


@dataclass(frozen=True)
class GGUF:
    """The content of a GGUF file.

    Attributes:
        metadata: Entries of the file, keyed by name.
        tensors: Kind, shape, and bytes of each tensor, keyed by name.
    """

    metadata: dict[str, Any]
    tensors: dict[str, tuple[int, tuple[int, ...], np.ndarray]]


class _Reader:
    """Reads the header of a file, checking that nothing exceeds the data."""

    def __init__(self, path: Path, data: np.ndarray) -> None:
        self.path, self.data, self.at = path, data, 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise CheckpointError(f"{self.path} is truncated or not a GGUF file")
        self.at += size
        return self.data[self.at - size : self.at].tobytes()

    def number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0]

    def text(self) -> str:
        try:
            return self.take(self.number("Q")).decode()
        except UnicodeDecodeError as error:
            raise CheckpointError(f"{self.path} contains a string that is not UTF-8: {error}") from error

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY or depth > 2:
            raise CheckpointError(f"{self.path} has metadata of an unknown type, {kind}")
        inner, count = self.number("I"), self.number("Q")
        if inner in _SCALARS:
            form = f"<{count}{_SCALARS[inner]}"
            if count > len(self.data):
                raise CheckpointError(f"{self.path} is truncated or not a GGUF file")
            return list(struct.unpack(form, self.take(struct.calcsize(form))))
        count_input(nodes=count, what=str(self.path))
        return [self.value(inner, depth + 1) for _ in range(count)]


def read_file(path: Path) -> GGUF:
    """Memory-map a file and return its content.

    Raises:
        CheckpointError: If the file is missing, truncated, or not a GGUF file.
        UnsupportedError: If a tensor has a type that is not supported.
    """
    try:
        size = os.stat(path).st_size
        file_bytes(path, size)
        data = np.memmap(path, np.uint8, "r") if size else np.zeros(0, np.uint8)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    reader = _Reader(path, data)
    if reader.take(4) != b"GGUF" or (version := reader.number("I")) not in (2, 3):
        raise CheckpointError(f"{path} is not a GGUF file of version 2 or 3 in little-endian order")
    assert version
    tensors, entries = reader.number("Q"), reader.number("Q")
    count_input(nodes=tensors + entries, what=str(path))
    metadata = {}
    for _ in range(entries):
        key = reader.text()
        metadata[key] = reader.value(reader.number("I"))
    stated = []
    for _ in range(tensors):
        name, axes = reader.text(), reader.number("I")
        if axes > _MOST_AXES:
            raise CheckpointError(f"{path}: '{name}' has {axes} axes; GGUF tensors have at most {_MOST_AXES}")
        shape = tuple(reversed([reader.number("Q") for _ in range(axes)]))
        stated.append((name, shape, reader.number("I"), reader.number("Q")))
    alignment = int(metadata.get("general.alignment", 32))
    if alignment < 1:
        raise CheckpointError(f"{path}: general.alignment must be at least 1, got {alignment}")
    start = -(-reader.at // alignment) * alignment
    found = {name: (kind, *_bytes(path, data, start + at, name, shape, kind)) for name, shape, kind, at in stated}
    return GGUF(metadata, found)


def _bytes(
    path: Path, data: np.ndarray, start: int, name: str, shape: tuple[int, ...], kind: int
) -> tuple[tuple[int, ...], np.ndarray]:
    if kind not in BLOCKS:
        known = ", ".join(block.name for block in BLOCKS.values())
        raise UnsupportedError(
            f"{path}: '{name}' has the GGML type {kind}, which is not supported; supported are {known}"
        )
    block = BLOCKS[kind]
    count = math.prod(shape)
    if not shape or shape[-1] % block.elements:
        raise CheckpointError(f"{path}: the rows of '{name}' must consist of blocks of {block.elements}, got {shape}")
    size = count // block.elements * block.bytes
    if start + size > len(data):
        raise CheckpointError(f"{path}: '{name}' lies outside the file, which is truncated or corrupt")
    return shape, data[start : start + size]


def read_gguf(path: Path) -> tuple[dict[str, Any], dict[str, Value], Tokenizer | None]:
    """Read a language model.

    Args:
        path: Path of the file.

    Returns:
        The entries of a config.json, the tensors under the names of Hugging Face's libraries, and the tokenizer.

    Raises:
        CheckpointError: If the file is damaged.
        UnsupportedError: If its architecture, or a part of it, is not supported.
    """
    from .gguf_names import entries_of, tensors_of

    content = read_file(path)
    values: dict[str, Callable[[], np.ndarray]] = {
        name: (lambda kind=kind, shape=shape, data=data: dequantized(kind, shape, data))  # type: ignore[misc]
        for name, (kind, shape, data) in content.tensors.items()
    }
    entries = entries_of(content.metadata, values, str(path))
    packs = {
        name: (PACKED[kind][0], lambda kind=kind, shape=shape, data=data: packed(kind, shape, data))
        for name, (kind, shape, data) in content.tensors.items()
        if kind in PACKED and len(shape) == 2
    }
    state = tensors_of(entries, values, packs, str(path))
    return entries, state, tokenizer_of(content.metadata, str(path))
