"""Conversion of a state's names to the model's, by a dict of names and prefixes, by patterns, or by a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ..._display import shown
from ...errors import GraphError

Names: TypeAlias = Mapping[str, str | None] | Sequence[tuple[str, str]] | Callable[[str], str | None]
"""How names change: a dictionary of names or dotted prefixes, (pattern, replacement) pairs, or a function.

A new name of None drops the value.
"""


def renamed(where: str, state: Mapping[str, Any], mapping: Names | None) -> dict[str, Any]:
    """Return the values under their new names, in the original order.

    Raises:
        GraphError: If a pattern is not a valid regular expression, a new name is not a string, or two values get the
            same name.
    """
    if mapping is None:
        return dict(state)
    rename = _function_of(where, mapping)
    found: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for name, value in state.items():
        new = rename(name)
        if new is None:
            continue
        if not isinstance(new, str):
            raise GraphError(f"{where}: mapping must return a name or None, got {shown(new)} for {shown(name)}")
        if new in found:
            raise GraphError(
                f"{where}: mapping must give each value a different name, but renames both '{origin[new]}' and "
                f"'{name}' to '{new}'"
            )
        found[new], origin[new] = value, name
    return found


def _function_of(where: str, mapping: Names) -> Callable[[str], str | None]:
    if callable(mapping):
        return mapping
    if isinstance(mapping, Mapping):
        return lambda name: _by_parts(name, mapping)
    try:
        patterns = [(re.compile(pattern), new) for pattern, new in mapping]
    except (re.error, TypeError, ValueError) as error:
        raise GraphError(
            f"{where}: mapping must consist of (regular expression, replacement) pairs: {error}"
        ) from error

    def substituted(name: str) -> str:
        for pattern, new in patterns:
            try:
                name = pattern.sub(new, name)
            except (re.error, IndexError) as error:
                raise GraphError(
                    f"{where}: mapping cannot use {shown(new)} as the replacement in '{name}': {error}"
                ) from error
        return name

    return substituted


def _by_parts(name: str, mapping: Mapping[str, str | None]) -> str | None:
    """Rename by the longest entry that is the name or a dotted prefix of it; "" is a prefix of every name."""
    part = name
    while True:
        if part in mapping:
            new, rest = mapping[part], name[len(part) :].lstrip(".")
            return None if new is None else ".".join(filter(None, (new, rest)))
        if not part:
            return name
        part = part.rpartition(".")[0]
