"""PyTorch and Keras spellings of layer arguments, where their meaning is unambiguous.

`stride` means `strides`, `dilation` means `dilations`, and `eps` means `epsilon`; "same" and "valid" are padding
styles; a number of pixels pads both sides of each axis. Arguments that the two libraries define differently, such as
`momentum`, have no alias.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from .._checks import is_int
from .._display import shown
from ..errors import GraphError
from ..ops._padding import Padding

T = TypeVar("T")
_STYLES = {"same": "TF_SAME", "valid": "TF_VALID"}


def either(what: str, name: str, value: T, default: T, alias: str, other: T | None) -> T:
    """Return the value of an argument that has two names. Raise GraphError if both were passed."""
    if other is None:
        return value
    given: Any = value
    if given is not default and given != default:
        raise GraphError(f"{what}: {alias} is an alias of {name}: pass only one of them, got {shown((value, other))}")
    return other


def padding_of(padding: int | Padding, axes: int) -> Padding:
    """Return padding as the graph's operations expect it: the name of a padding style, or (before, after) for each
    axis.

    With one axis, the result is a single pair instead of a list of pairs. Invalid values are returned unchanged,
    because the operation rejects them.
    """
    if isinstance(padding, str):
        return _STYLES.get(padding.lower(), padding)
    if is_int(padding):
        pair = (cast("int", padding),) * 2
        return pair if axes == 1 else (pair,) * axes
    numbers = cast("Sequence[Any]", padding)
    if len(numbers) == axes and all(is_int(number) for number in numbers):
        pairs = tuple((number, number) for number in numbers)
        return pairs[0] if axes == 1 else pairs
    return cast("Padding", padding)
