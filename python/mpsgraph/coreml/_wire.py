"""A reader for Core ML's protocol buffers that decodes fields on first access.

`messages.txt`, which tools/coreml_messages.py generates, has one line per field of a message: number, name, type,
`repeated`, and `=name` for members of a oneof group. File contents are untrusted: malformed data raises a GraphError
that names the message and the field.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import GraphError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_PACKED = {"float": "<f4", "double": "<f8"}
_EMPTY = {"int": 0, "sint": 0, "bool": False, "float": 0.0, "double": 0.0, "string": "", "bytes": memoryview(b"")}


@dataclass(frozen=True)
class Field:
    """A field of a message, from one line of messages.txt."""

    number: int
    name: str
    kind: str  # A key of _EMPTY, "enum", or the name of a message.
    repeated: bool
    oneof: str
    names: dict[int, str]  # Maps the numbers of an enumeration's values to their names.


@cache
def messages() -> dict[str, dict[str, Field]]:
    """Return the fields of all messages, in dicts keyed by message name and then by field name."""
    found: dict[str, dict[str, Field]] = {}
    for line in Path(__file__).with_name("messages.txt").read_text().splitlines():
        words = line.split()
        if words[0] == "message":
            fields = found[words[1]] = {}
            continue
        number, name, kind, *more = words
        oneof = next((word[1:] for word in more if word[0] == "="), "")
        kind, _, listed = kind.partition(":")
        names = {int(n): text for n, text in (pair.split("=") for pair in listed.split(",") if pair)}
        fields[name] = Field(int(number), name, kind, "repeated" in more, oneof, names)
    return found


class Message:
    """A message of a given type, whose fields are attributes.

    A missing field has the default value of its type. Repeated numeric fields are NumPy arrays, and other repeated
    fields are lists. The value of an enumeration field is the name of the enumeration's value.
    """

    def __init__(self, kind: str, data: memoryview) -> None:
        self._kind, self._fields = kind, messages()[kind]
        self._raw: dict[int, list[tuple[int, Any]]] = {}
        self._known: dict[str, Any] = {}
        try:
            for number, wire, value in _parsed(data):
                self._raw.setdefault(number, []).append((wire, value))
        except (IndexError, struct.error, ValueError) as error:
            raise GraphError(f"[coreml] a {kind} message is truncated or damaged: {error}") from None

    def has(self, name: str) -> bool:
        """Return whether a field is present."""
        return self._fields[name].number in self._raw

    def which(self, oneof: str) -> str | None:
        """Return the name of the member of a oneof group that is present, or None if no known member is present."""
        found = [f.name for f in self._fields.values() if f.oneof == oneof and f.number in self._raw]
        return found[-1] if found else None

    def held(self, oneof: str) -> Message:
        """Return the member of a oneof group that is present, or this message if no known member is present."""
        name = self.which(oneof)
        return self.field(name) if name else self

    def unknown(self) -> list[int]:
        """Return the numbers of fields that are present but missing in messages.txt."""
        return sorted(set(self._raw) - {field.number for field in self._fields.values()})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"message {self._kind} has no field {name}")
        return self.field(name)

    def field(self, name: str) -> Any:
        """Return a field by name. Unlike attribute access, this works even if a method has the same name."""
        if name not in self._fields:
            raise AttributeError(f"message {self._kind} has no field {name}")
        if name not in self._known:
            field = self._fields[name]
            try:
                self._known[name] = self._read(field, self._raw.get(field.number, []))
            except (IndexError, struct.error, ValueError) as error:
                raise GraphError(f"[coreml] field {name} of message {self._kind} is damaged: {error}") from None
        return self._known[name]

    def entries(self, name: str) -> dict[str, Any]:
        """Return the entries of a map field as a dictionary."""
        return {entry.key: entry.value for entry in getattr(self, name)}

    def _read(self, field: Field, values: list[tuple[int, Any]]) -> Any:
        if not field.repeated:
            # Protocol buffers allow a message to be split into several parts, which are merged here.
            if values and field.kind in messages():
                return Message(field.kind, memoryview(b"".join(self._bytes(field, v) for v in values)))
            return self._value(field, *values[-1]) if values else _empty(field)
        if field.kind in ("float", "double", "int", "sint", "bool"):
            parts = [self._numbers(field, wire, value) for wire, value in values]
            return np.concatenate(parts) if len(parts) != 1 and parts else (parts[0] if parts else _none_of(field))
        return [self._value(field, wire, value) for wire, value in values]

    def _bytes(self, field: Field, value: tuple[int, Any]) -> memoryview:
        if value[0] != _BYTES:
            raise ValueError(f"expected wire type {_BYTES}, got {value[0]}")
        return value[1]  # type: ignore[no-any-return]

    def _value(self, field: Field, wire: int, value: Any) -> Any:
        if field.kind in messages():
            return Message(field.kind, self._bytes(field, (wire, value)))
        if field.kind in ("string", "bytes"):
            data = self._bytes(field, (wire, value))
            return str(data, "utf-8") if field.kind == "string" else data
        if field.kind in ("float", "double"):
            if wire != (_FIXED32 if field.kind == "float" else _FIXED64):
                raise ValueError(f"expected wire type {_FIXED32 if field.kind == 'float' else _FIXED64}, got {wire}")
            return struct.unpack("<f" if field.kind == "float" else "<d", value)[0]
        if wire != _VARINT:
            raise ValueError(f"expected wire type {_VARINT}, got {wire}")
        if field.kind == "enum":
            return field.names.get(value, f"{field.name} {value}")
        if field.kind == "bool":
            return bool(value)
        return _signed(field.kind, value)

    def _numbers(self, field: Field, wire: int, value: Any) -> np.ndarray:
        if wire != _BYTES:
            return np.array([self._value(field, wire, value)], _PACKED.get(field.kind, np.int64))
        if field.kind in _PACKED:
            return np.frombuffer(value, _PACKED[field.kind])
        read = bool if field.kind == "bool" else lambda v: _signed(field.kind, v)
        return np.array([read(v) for v in _varints(value)], bool if field.kind == "bool" else np.int64)


def _empty(field: Field) -> Any:
    if field.kind in messages():
        return Message(field.kind, memoryview(b""))
    return field.names.get(0, "") if field.kind == "enum" else _EMPTY[field.kind]


def _none_of(field: Field) -> np.ndarray:
    return np.empty(0, _PACKED.get(field.kind, bool if field.kind == "bool" else np.int64))


def _signed(kind: str, value: int) -> int:
    if kind == "sint":
        return (value >> 1) ^ -(value & 1)
    return value - (1 << 64) if value >= 1 << 63 else value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Decode the varint at an offset. Return its value and the offset after it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value & ((1 << 64) - 1), at
        if shift > 63:
            raise ValueError("a varint has more than ten bytes")


def _varints(data: memoryview) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _parsed(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yield the number, wire type, and contents of each field."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        value: Any
        if wire == _VARINT:
            value, at = _varint(data, at)
        else:
            if wire == _BYTES:
                size, at = _varint(data, at)
            elif wire in (_FIXED32, _FIXED64):
                size = 4 if wire == _FIXED32 else 8
            else:
                raise ValueError(f"field {number} must have wire type 0, 1, 2, or 5, got {wire}")
            if number == 0 or size > len(data) - at:
                raise ValueError(f"field {number} needs {size} bytes, but only {len(data) - at} are left")
            value, at = data[at : at + size], at + size
        yield number, wire, value
