"""Convert the padding arguments of convolution and pooling: the name of a padding style, or explicit amounts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from .._display import shown
from ._family import GraphError, ShapeError, ints

STYLES = ("TF_SAME", "TF_VALID", "ONNX_SAME_LOWER", "EXPLICIT")
MEANT = {"same": "TF_SAME", "valid": "TF_VALID"}
Padding: TypeAlias = str | Sequence[Sequence[int]] | Sequence[int]


def padding_attributes(padding: Padding, kind: str, axes: int = 2) -> dict[str, Any]:
    """Return a dict with the attributes `padding_style` and `padding`.

    `padding` is a flat list of [before, after] for each axis in turn.
    """
    if isinstance(padding, str):
        if padding not in STYLES:
            meant = MEANT.get(padding.lower())
            raise GraphError(
                f"[{kind}] padding must be explicit amounts or one of {', '.join(STYLES)}, got {shown(padding)}"
                + (f": use {meant!r}" if meant else "")
            )
        return {"padding_style": padding, "padding": [0] * (2 * axes)}
    return {"padding_style": "EXPLICIT", "padding": explicit_padding(padding, kind, axes)}


def explicit_padding(padding: Sequence[Sequence[int]] | Sequence[int], kind: str, axes: int = 2) -> list[int]:
    """Return explicit padding as a flat list, [before, after] for each axis in turn."""
    pairs = "(top, bottom), (left, right)" if axes == 2 else ", ".join(["(before, after)"] * axes)
    try:
        sides = [(before, after) for before, after in padding]  # type: ignore[misc]
        if isinstance(padding, str) or len(sides) != axes:
            raise ValueError
    except (TypeError, ValueError):
        raise ShapeError(
            f"[{kind}] padding must be a style such as 'TF_SAME' or explicit amounts ({pairs}), got {shown(padding)}"
        ) from None
    return ints([side for pair in sides for side in pair], f"[{kind}] padding")
