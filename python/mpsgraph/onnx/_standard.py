"""What the standard says of its operators: which versions there are, and which attributes each has.

Read from standard.txt, which tools/onnx_standard.py writes, and never from the installed onnx package, so that a model
means the same whichever onnx is there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

REQUIRED = object()  # stands where an attribute has no default
_VERSION = re.compile(r" (\d+)(\((?:'[^']*'|[^)'])*\))?")
_ATTRIBUTE = re.compile(r"(\w+)(?:=('[^']*'|\[[^]]*\]|[^,)]*))?")


class Operator:
    """One operator: its versions in order, and the attributes of each with their defaults, read when asked for."""

    def __init__(self, text: str) -> None:
        self._stated: dict[int, str] = {}  # by version: the attributes as the table has them
        stated = ""
        for number, new in _VERSION.findall(text):
            stated = new or stated
            self._stated[int(number)] = stated
        self._attributes: dict[int, Mapping[str, Any]] = {}

    @property
    def versions(self) -> list[int]:
        """All, the oldest first."""
        return sorted(self._stated)

    def version(self, opset: int) -> int | None:
        """The newest version in an operator set; None before there was one."""
        return max((version for version in self._stated if version <= opset), default=None)

    def attributes(self, version: int) -> Mapping[str, Any]:
        """The attributes of a version by name: their defaults, or REQUIRED where there is none."""
        if version not in self._attributes:
            pairs = _ATTRIBUTE.findall(self._stated[version])
            self._attributes[version] = {name: _default(value) for name, value in pairs}
        return self._attributes[version]


def _default(value: str) -> Any:
    if value.isdecimal():  # nearly all, and reading them as Python takes longer than all the rest
        return int(value)
    return ast.literal_eval(value) if value else REQUIRED


@cache
def _table() -> tuple[dict[str, int], str]:
    """The newest operator set of each domain, and the text in which the line of an operator is found."""
    _, _, text = (Path(__file__).parent / "standard.txt").read_text().partition("\n")
    heads = text[: text.index("/")].splitlines()[:-1]  # the last is the begin of an operator's
    domains = {name: int(number) for name, number in map(str.split, heads)}
    return {"" if name == "ai.onnx" else name: number for name, number in domains.items()}, f"\n{text}"


def newest_opset(domain: str) -> int | None:
    """The newest operator set of a domain of the standard; None for a domain that is not the standard's."""
    return _table()[0].get(domain)


def standard_operators() -> list[tuple[str, str]]:
    """Domain and name of all."""
    names = [line.partition(" ")[0].split("/") for line in _table()[1].splitlines() if "/" in line.partition(" ")[0]]
    return sorted(("" if domain == "ai.onnx" else domain, name) for domain, name in names)


@cache
def standard_operator(domain: str, name: str) -> Operator | None:
    """An operator of the standard, or None when it has no such."""
    text, head = _table()[1], f"\n{domain or 'ai.onnx'}/{name} "
    begin = text.find(head)
    if begin < 0 or "\n" in head[1:]:
        return None
    begin += len(head) - 1
    return Operator(text[begin : text.find("\n", begin)])
