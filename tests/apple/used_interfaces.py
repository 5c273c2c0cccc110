"""Names of Apple's frameworks that the compiled Metal backend uses, with the macOS version that introduced each.

Selectors and classes are read from the object files (selector names and undefined symbols), so nothing that the
compiler saw is missed. Constants leave no names in object files and are read from the sources.
"""

import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import declarations


def sections(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each section of a 64-bit Mach-O object file, and its symbol names as "symbols"."""
    (commands,) = struct.unpack_from("<I", data, 16)
    at = 32
    for _ in range(commands):
        kind, size = struct.unpack_from("<2I", data, at)
        if kind == 0x19:  # LC_SEGMENT_64
            (count,) = struct.unpack_from("<I", data, at + 64)
            for entry in range(at + 72, at + 72 + 80 * count, 80):
                name = data[entry : entry + 16].rstrip(b"\0").decode()
                length, offset = struct.unpack_from("<QI", data, entry + 40)
                yield name, data[offset : offset + length]
        elif kind == 2:  # LC_SYMTAB
            _, _, offset, length = struct.unpack_from("<4I", data, at + 8)
            yield "symbols", data[offset : offset + length]
        at += size


def names(objects: Iterable[Path]) -> tuple[set[str], set[str]]:
    """Return the selectors that the objects send and the classes they refer to, including those of Foundation."""
    selectors: set[str] = set()
    classes: set[str] = set()
    for path in objects:
        for name, content in sections(path.read_bytes()):
            words = {word.decode() for word in content.split(b"\0") if word} if "_methname" in name else set()
            selectors |= words
            if name == "symbols":
                symbols = {word.decode() for word in content.split(b"\0") if word}
                classes |= {s.removeprefix("_OBJC_CLASS_$_") for s in symbols if s.startswith("_OBJC_CLASS_$_")}
                selectors |= {s.split("$", 1)[1] for s in symbols if s.startswith("_objc_msgSend$")}
    return selectors, classes


def accessors(fact: declarations.Fact) -> list[str]:
    """Return the selectors of a method or property, without the leading sign."""
    if fact.kind == "method":
        return [fact.name[1:]]
    getter = re.search(r"getter=(\w+)", fact.text)
    found = [getter[1] if getter else fact.name]
    if "readonly" not in fact.text:
        found.append(f"set{fact.name[0].upper()}{fact.name[1:]}:")
    return found


def report(objects: Iterable[Path], sources: Iterable[Path]) -> list[str]:
    """Return one line per name: the version, the kind, the name, and for selectors the classes that have it."""
    selectors, classes = names(objects)
    words = set(re.findall(r"\b(?:MTL|MPS)\w+", "\n".join(path.read_text() for path in sources)))
    lines: set[tuple[tuple[int, ...], str]] = set()
    owners: dict[str, list[tuple[tuple[int, ...], str]]] = {}

    def add(first: tuple[int, ...], text: str) -> None:
        lines.add((first, f"{'.'.join(map(str, first))} {text}"))

    for fact in (fact for facts in declarations.read().values() for fact in facts):
        if fact.kind != "category" and fact.name in (classes if fact.kind == "class" else words):
            add(fact.version, f"{fact.kind} {fact.name}")
        for member in fact.members:
            if member.kind == "value" and member.name in words:
                add(member.version, f"constant {member.name}")
            elif member.kind != "value":
                for selector in set(accessors(member)) & selectors:
                    owners.setdefault(selector, []).append((member.version, fact.name))
    for selector, having in owners.items():
        add(min(having)[0], f"selector {selector} of {', '.join(sorted({owner for _, owner in having}))}")
    return [line for _, line in sorted(lines)]
