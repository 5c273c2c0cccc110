"""PyTorch and Keras spellings of layer arguments, where their meaning is unambiguous.

`stride` means `strides`, `dilation` means `dilations`, and `eps` means `epsilon`; "same" and "valid" are padding
styles; a number of pixels pads both sides of each axis. Arguments that the two libraries define differently, such as
`momentum`, have no alias.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from .._checks import is_int
from .._display import given_to, shown
from ..errors import ArgumentError, GraphError
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


_KERNELS = (1, 2, 3, 4, 5, 7, 9, 11)
"""Sizes of windows that are not mistaken for numbers of channels."""
_CHANNELS = 4
"""Largest number of filters of a 1-D convolution whose wide window is taken for a mistake; signals have wide ones."""


def require_kernel_size(module: Any) -> None:
    """Raise ArgumentError if a convolution's positional sizes look like PyTorch's (in_channels, out_channels).

    `Conv2d(3, 16)` would otherwise be 3 filters of 16 x 16 pixels.
    """
    given = given_to(module).positional
    if len(given) != 2 or not all(is_int(size) for size in given):
        return
    filters, kernel = given
    if kernel > filters and kernel not in _KERNELS and (module.axes > 1 or filters <= _CHANNELS):
        name = type(module).__name__
        raise ArgumentError(
            f"{name}({filters}, {kernel}) would have {filters} filters with a window of {kernel}: the number of input "
            f"channels is inferred from the first call, so for {kernel} filters write {name}({kernel}, "
            f"kernel_size=...), and for such a window {name}({filters}, kernel_size={kernel})"
        )
