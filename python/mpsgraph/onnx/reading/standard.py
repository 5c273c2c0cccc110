"""Versions and attributes of the operators in the ONNX standard.

The table is read from standard.txt, which tools/onnx_standard.py generates, rather than from the installed onnx
package, so the meaning of a model does not depend on which version of onnx is installed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

REQUIRED = object()  # The default of an attribute that has no default and must be given.
_VERSION = re.compile(r" (\d+)(\((?:'[^']*'|[^)'])*\))?")
_ATTRIBUTE = re.compile(r"(\w+)(?:=('[^']*'|\[[^]]*\]|[^,)]*))?")


class Operator:
    """The versions of one operator. The attributes of each version are parsed on first use."""

    def __init__(self, text: str) -> None:
        self._stated: dict[int, str] = {}  # Unparsed attributes by version.
        stated = ""
        for number, new in _VERSION.findall(text):
            stated = new or stated
            self._stated[int(number)] = stated
        self._attributes: dict[int, Mapping[str, Any]] = {}

    @property
    def versions(self) -> list[int]:
        """All versions in ascending order."""
        return sorted(self._stated)

    def version(self, opset: int) -> int | None:
        """Return the operator version that an opset uses, or None if the opset is older than the operator."""
        return max((version for version in self._stated if version <= opset), default=None)

    def attributes(self, version: int) -> Mapping[str, Any]:
        """Return the attributes of a version as a dict that maps each name to its default, or to REQUIRED."""
        if version not in self._attributes:
            pairs = _ATTRIBUTE.findall(self._stated[version])
            self._attributes[version] = {name: _default(value) for name, value in pairs}
        return self._attributes[version]


def _default(value: str) -> Any:
    if value.isdecimal():  # Fast path: most defaults are integers, and literal_eval is slow.
        return int(value)
    return ast.literal_eval(value) if value else REQUIRED


@cache
def _table() -> tuple[dict[str, int], str]:
    """Return a dict from domains to their newest opsets, and the text of the table that lists the operators."""
    _, _, text = (Path(__file__).parent / "standard.txt").read_text().partition("\n")
    # The text before the first "/" ends with a part of the first operator's line, which is dropped.
    heads = text[: text.index("/")].splitlines()[:-1]
    domains = {name: int(number) for name, number in map(str.split, heads)}
    return {"" if name == "ai.onnx" else name: number for name, number in domains.items()}, f"\n{text}"


def newest_opset(domain: str) -> int | None:
    """Return the newest opset of a standard domain, or None for any other domain."""
    return _table()[0].get(domain)


def standard_operators() -> list[tuple[str, str]]:
    """Return the domain and name of every operator in the standard."""
    names = [line.partition(" ")[0].split("/") for line in _table()[1].splitlines() if "/" in line.partition(" ")[0]]
    return sorted(("" if domain == "ai.onnx" else domain, name) for domain, name in names)


@cache
def standard_operator(domain: str, name: str) -> Operator | None:
    """Return an operator of the standard, or None if it does not exist."""
    text, head = _table()[1], f"\n{domain or 'ai.onnx'}/{name} "
    begin = text.find(head)
    if begin < 0 or "\n" in head[1:]:
        return None
    begin += len(head) - 1
    return Operator(text[begin : text.find("\n", begin)])
