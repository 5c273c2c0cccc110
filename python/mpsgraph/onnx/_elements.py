"""Large tensors of a model file, left where they lie: the file is mapped, and only the rest becomes a protocol buffer.

Parsing would copy the elements of a tensor three times, out of the file, out of the message and out of the field,
which takes longer than all else that is read. So the fields of the wire format that hold many elements are found first
(model, graph, initialiser or node, attribute, tensor), and in what is parsed a short token stands for each. Nothing is
judged here: what does not look as expected is parsed whole, and what is wrong with it is said there.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from onnx import TensorProto

LARGE = 1 << 14  # bytes of a field from which on leaving it costs less than copying it
_DEEPEST = 64  # messages within messages
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5  # wire types
_TYPE, _FLOATS, _STRINGS, _RAW = 2, 4, 6, 9  # fields of a tensor
_INSIDE: dict[str, dict[int, str]] = {  # the fields of a message that lead to tensors
    "model": {7: "graph"},
    "graph": {1: "node", 5: "tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph"},
}
Places: TypeAlias = dict[bytes, tuple[int, int]]


class Elements:
    """The elements that were left in a file, by the tokens that stand for them."""

    def __init__(self, contents: memoryview | None = None, places: Places | None = None) -> None:
        self._contents, self._places = memoryview(b"") if contents is None else contents, places or {}

    def of(self, raw: bytes) -> memoryview | bytes:
        """What a tensor's raw data is: itself, or what it stands for."""
        place = self._places.get(raw) if len(raw) == 16 else None
        return raw if place is None else self._contents[place[0] : place[1]]

    def keep(self) -> None:
        """Reads what is still in the file, for a use before which the file may change."""
        if self._places:
            self._contents = memoryview(bytes(self._contents))


def split(path: Path) -> tuple[bytes, Elements]:
    """The contents of a model file with tokens for what is large, and what they stand for. Errors: OSError."""
    with open(path, "rb") as file:
        try:
            small = os.fstat(file.fileno()).st_size < 16 * LARGE
            contents = memoryview(b"" if small else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            places: Places = {}
            prefix = os.urandom(12)  # such bytes are in no file but by chance
            rest = b"".join(_pieces(contents, 0, len(contents), "model", prefix, places))
        except (OSError, ValueError):  # no file that can be mapped, no message
            return file.read(), Elements()
        return (rest, Elements(contents, places)) if places else (file.read(), Elements())


def _pieces(
    contents: memoryview, at: int, end: int, kind: str, prefix: bytes, places: Places, depth: int = 0
) -> Iterator[bytes | memoryview]:
    """A message between two places, in pieces, with tokens for what is large. ValueError: it is none."""
    if depth > _DEEPEST:
        raise ValueError
    inside, taken = _INSIDE[kind], at
    last = max(inside)  # fields stand in order as a rule, and there may be any number of others behind these
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
    """A tensor's message with a token for its elements; None where they are not in one large field of bytes."""
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
    """The fields of a message: tags, where they begin, where what they hold begins, and ends."""
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
    """The number at a place, seven bits a byte, and the place behind it."""
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
    """A number as it stands in a file."""
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    result.append(value)
    return bytes(result)
