"""Names of a state made the model's: by a dictionary of names and parts, by patterns, or by a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ..._display import shown
from ...errors import GraphError

Names: TypeAlias = Mapping[str, str | None] | Sequence[tuple[str, str]] | Callable[[str], str | None]
"""How names are changed: whole names or the parts before a dot; regular expressions and what they become; a function.

None, in a dictionary or of a function, leaves a value out.
"""


def renamed(where: str, state: Mapping[str, Any], mapping: Names | None) -> dict[str, Any]:
    """The values by their new names, in their order.

    Errors: GraphError for a pattern that is none, a result that is no name, or two values of one name.
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
            raise GraphError(f"{where}: mapping makes {shown(new)} of {shown(name)}: a name or None was expected")
        if new in found:
            raise GraphError(f"{where}: mapping makes '{new}' both of '{origin[new]}' and of '{name}'")
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
        raise GraphError(f"{where}: mapping must be pairs of a pattern and what it becomes: {error}") from error

    def substituted(name: str) -> str:
        for pattern, new in patterns:
            try:
                name = pattern.sub(new, name)
            except (re.error, IndexError) as error:
                raise GraphError(f"{where}: mapping cannot make {shown(new)} of '{name}': {error}") from error
        return name

    return substituted


def _by_parts(name: str, mapping: Mapping[str, str | None]) -> str | None:
    """The longest entry that is the name or stands before a dot in it decides; "" stands before every name."""
    part = name
    while True:
        if part in mapping:
            new, rest = mapping[part], name[len(part) :].lstrip(".")
            return None if new is None else ".".join(filter(None, (new, rest)))
        if not part:
            return name
        part = part.rpartition(".")[0]
