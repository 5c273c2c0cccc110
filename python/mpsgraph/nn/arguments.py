"""Arguments of layers by the names and in the forms of PyTorch and Keras, where these can mean one thing only.

`stride` is `strides`, `dilation` is `dilations`, `eps` is `epsilon`; "same" and "valid" are styles of padding, and a
number of pixels is padding on both sides of each axis. What the two libraries understand differently, as `momentum`,
is not here.
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
    """An argument that has two names. Errors: GraphError where both are given."""
    if other is None:
        return value
    given: Any = value
    if given is not default and given != default:
        raise GraphError(f"{what}: {alias} is another name of {name}: give one of them, got {shown((value, other))}")
    return other


def padding_of(padding: int | Padding, axes: int) -> Padding:
    """Padding as the graph takes it: a style of its own, or (before, after) of each axis; of one axis without a list.

    What is no padding stays as it is, for the operation to refuse.
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
