"""Annotations of checked functions as help and inspect.signature show them: plain types, without bounds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_ALIASES = {
    **dict.fromkeys(("Size", "Count"), "int"),
    "Sizes": "int | Sequence[int]",
    "ManySizes": "Sequence[int]",
    **dict.fromkeys(("Finite", "Positive", "NotNegative", "Share", "BelowOne", "TopP"), "float"),
}
_ALIAS = re.compile(rf"\b({'|'.join(_ALIASES)})\b")


def show_plain_types(function: Callable[..., Any]) -> None:
    """Replace aliases and Annotated in the annotations that `help` and `inspect.signature` show by the plain types.

    The contract is built from the original annotations, which `annotations_of` returns. Operations have no aliases.
    """
    if function.__module__.startswith("mpsgraph.ops."):
        return
    given = function.__annotations__
    plain = {name: _plain(text) if isinstance(text, str) else text for name, text in given.items()}
    if plain == given:
        return
    inner: Callable[..., Any] | None = function
    while inner is not None:  # inspect.signature shows the annotations of the innermost function.
        vars(inner).setdefault("_contract", inner.__annotations__)
        inner.__annotations__ = plain
        inner = getattr(inner, "__wrapped__", None)


def _plain(text: str) -> str:
    text = _ALIAS.sub(lambda found: _ALIASES[found[1]], text)
    while (start := text.find("Annotated[")) >= 0:
        first = start + len("Annotated[")
        depth, comma, end = 1, 0, first
        while depth:
            depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(text[end], 0)
            comma = comma or (end if depth == 1 and text[end] == "," else 0)
            end += 1
        text = text[:start] + text[first:comma] + text[end:]
    return text


def annotations_of(function: Any) -> dict[str, Any]:
    """Return the annotations that the contract of a function is built from."""
    known: dict[str, Any] = vars(function).get("_contract") or function.__annotations__
    return known
