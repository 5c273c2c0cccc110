"""Padding of windows, as convolution and pooling take it: a style's name, or explicit pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from .._display import shown
from ._family import ShapeError, ints

Padding: TypeAlias = str | Sequence[Sequence[int]] | Sequence[int]


def padding_attributes(padding: Padding, kind: str, axes: int = 2) -> dict[str, Any]:
    """The attributes padding_style and padding, which lists before and after of each axis."""
    if isinstance(padding, str):
        return {"padding_style": padding, "padding": [0] * (2 * axes)}
    return {"padding_style": "EXPLICIT", "padding": explicit_padding(padding, kind, axes)}


def explicit_padding(padding: Sequence[Sequence[int]] | Sequence[int], kind: str, axes: int = 2) -> list[int]:
    """(before, after) of each axis, one after the other."""
    pairs = "(top, bottom), (left, right)" if axes == 2 else ", ".join(["(before, after)"] * axes)
    try:
        sides = [(before, after) for before, after in padding]  # type: ignore[misc]
        if isinstance(padding, str) or len(sides) != axes:
            raise ValueError
    except (TypeError, ValueError):
        raise ShapeError(
            f"[{kind}] padding must be a style such as 'TF_SAME' or ({pairs}), got {shown(padding)}"
        ) from None
    return ints([side for pair in sides for side in pair], f"[{kind}] padding")
