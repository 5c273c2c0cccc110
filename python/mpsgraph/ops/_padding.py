"""Padding of windows, as convolution and pooling take it: a style's name, or explicit pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ._family import ShapeError, ints

Padding: TypeAlias = str | Sequence[Sequence[int]]


def padding_attributes(padding: Padding, kind: str) -> dict[str, Any]:
    """The attributes padding_style and padding = [top, bottom, left, right]."""
    if isinstance(padding, str):
        return {"padding_style": padding, "padding": [0, 0, 0, 0]}
    try:
        (top, bottom), (left, right) = padding
    except (TypeError, ValueError):
        raise ShapeError(
            f"[{kind}] padding must be a style such as 'TF_SAME' or ((top, bottom), (left, right)), got {padding!r}"
        ) from None
    return {"padding_style": "EXPLICIT", "padding": ints([top, bottom, left, right], f"[{kind}] padding")}
