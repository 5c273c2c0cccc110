"""Memory-mapping of large tensors in a model file, so that only the rest of the file is parsed as a protocol buffer.

Parsing copies the elements of a tensor three times: out of the file, out of the message, and out of the field. For
large models these copies dominate loading. Before parsing, we therefore scan the wire format for fields with many
elements (model, graph, initializer or node, attribute, tensor) and replace each field with a short token. The scan does
not validate the file: if it meets unexpected data, the whole file is parsed, and the parser reports the error.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from onnx import TensorProto

LARGE = 1 << 14  # Minimum field size in bytes for mapping to be cheaper than copying.
_DEEPEST = 64  # Maximum nesting depth of messages.
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5  # Wire types of protocol buffers.
_TYPE, _FLOATS, _STRINGS, _RAW = 2, 4, 6, 9  # Field numbers of TensorProto.
# For each message, the numbers of the fields that can contain tensors, and the message types of these fields.
_INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph"},
    "graph": {1: "node", 5: "tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph"},
}
Places: TypeAlias = dict[bytes, tuple[int, int]]


class Elements:
    """The elements of large tensors, which stay in the memory-mapped file and are looked up by token."""

    def __init__(self, contents: memoryview | None = None, places: Places | None = None) -> None:
        self._contents, self._places = memoryview(b"") if contents is None else contents, places or {}

    def of(self, raw: bytes) -> memoryview | bytes:
        """Return the bytes of a tensor that was replaced with a token, given its raw_data.

        If raw_data is not a token, it is returned itself.
        """
        place = self._places.get(raw) if len(raw) == 16 else None
        return raw if place is None else self._contents[place[0] : place[1]]

    def keep(self) -> None:
        """Copy the mapped elements into memory, so that the model can use them after the file has changed."""
        if self._places:
            self._contents = memoryview(bytes(self._contents))


def split(path: Path) -> tuple[bytes, Elements]:
    """Read a model file. Return its contents with tokens for large tensors, and the elements behind the tokens."""
    with open(path, "rb") as file:
        try:
            small = os.fstat(file.fileno()).st_size < 16 * LARGE
            contents = memoryview(b"" if small else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            places: Places = {}
            prefix = os.urandom(12)  # Random bytes, so that a token cannot be mistaken for tensor data.
            rest = b"".join(_pieces(contents, 0, len(contents), "model", prefix, places))
        except (OSError, ValueError):  # The file cannot be mapped or is not a valid message.
            return file.read(), Elements()
        return (rest, Elements(contents, places)) if places else (file.read(), Elements())


def _pieces(
    contents: memoryview, at: int, end: int, kind: str, prefix: bytes, places: Places, depth: int = 0
) -> Iterator[bytes | memoryview]:
    """Yield, in pieces, the message between two offsets, with large tensors replaced by tokens.

    Raises ValueError if the bytes are not a valid message.
    """
    if depth > _DEEPEST:
        raise ValueError
    inside, taken = _INSIDE[kind], at
    # The fields are usually in ascending order. Past the largest relevant field number, all remaining fields can be
    # skipped.
    last = max(inside)
    for tag, start, begin, stop in _fields(contents, at, end):
        if tag >> 3 > last:
            break
        within = inside.get(tag >> 3)
        if stop - begin < LARGE or within is None or tag & 7 != _BYTES:
            continue
        if within == "tensor":
            message = _with_token(contents, begin, stop, prefix, places)
        else:
            message = b"".join(_pieces(contents, begin, stop, within, prefix, places, depth + 1))
        if message is not None:
            yield contents[taken:start]
            yield _written(tag) + _written(len(message)) + message
            taken = stop
    yield contents[taken:end]


def _with_token(contents: memoryview, at: int, end: int, prefix: bytes, places: Places) -> bytes | None:
    """Return a tensor's message with a token in place of its elements.

    Returns None unless the elements are in one large bytes field.
    """
    held, of_floats = [], False
    for tag, start, begin, stop in _fields(contents, at, end):
        if tag == _TYPE << 3 | _VARINT:
            of_floats = contents[begin] == TensorProto.FLOAT
        elif tag >> 3 in (_FLOATS, _RAW):
            held.append((tag, start, begin, stop))
        if len(held) > 1 or tag >> 3 == _STRINGS:
            return None
    if not held:
        return None
    tag, start, begin, stop = held[0]
    if stop - begin < LARGE or tag & 7 != _BYTES or (tag >> 3 == _FLOATS and not of_floats):
        return None
    token = prefix + len(places).to_bytes(4, "little")
    places[token] = begin, stop
    stated = _written(_RAW << 3 | _BYTES) + _written(len(token))
    return b"".join((contents[at:start], stated, token, contents[stop:end]))


def _fields(contents: memoryview, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the tag, start offset, payload offset, and end offset of each field in a message."""
    while at < end:
        start = at
        tag, at = _read(contents, at, end)
        begin, wire = at, tag & 7
        if wire == _VARINT:
            _, at = _read(contents, at, end)
        elif wire == _BYTES:
            size, begin = _read(contents, at, end)
            at = begin + size
        elif wire in (_EIGHT, _FOUR):
            at += 8 if wire == _EIGHT else 4
        else:
            raise ValueError
        if at > end:
            raise ValueError
        yield tag, start, begin, at


def _read(contents: memoryview, at: int, end: int) -> tuple[int, int]:
    """Decode the varint at an offset. Return its value and the offset after it."""
    value = shift = 0
    while at < end and shift < 64:
        byte = contents[at]
        at += 1
        if byte < 128:
            return value | byte << shift, at
        value |= (byte & 127) << shift
        shift += 7
    raise ValueError


def _written(value: int) -> bytes:
    """Encode an integer as a varint."""
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    result.append(value)
    return bytes(result)
