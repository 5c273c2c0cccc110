"""Descriptors of pooling windows, which a forward operation and its gradient can share, as in MPSGraph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..errors import GraphError
from ._family import ints
from ._padding import Padding, padding_attributes


@dataclass
class Pooling2DDescriptor:
    """Window of 2-D pooling. Pass it as the argument `kernel` of a pooling operation.

    Args:
        kernel: Height and width of the window in pixels; an int means a square.
        strides: Step between windows in pixels: an int, or (y, x). None, the default, means the size of the kernel.
        padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or ((top, bottom), (left, right)).
        dilations: Spacing between the elements of the window in pixels: an int, or (y, x). Defaults to 1.
        data_layout: "NHWC" (the default) or "NCHW".
        ceil_mode: Whether to round the output size up. Defaults to False.
        include_zero_pad_to_average: Whether averages count the padding. Defaults to False.
        return_indices_mode: What the indices of maxima count. Defaults to "global_flatten_2d".

    Source: MPSGraphPooling2DOpDescriptor.

    Example:
        >>> g = mg.Graph()
        >>> descriptor = mg.Pooling2DDescriptor(3, strides=2, padding="TF_SAME")
        >>> g.max_pooling2d(g.placeholder((1, 6, 6, 4)), descriptor).shape
        (1, 3, 3, 4)
    """

    kernel: int | Sequence[int]
    strides: int | Sequence[int] | None = None
    padding: Padding = "TF_VALID"
    dilations: int | Sequence[int] = 1
    data_layout: str = "NHWC"
    ceil_mode: bool = False
    include_zero_pad_to_average: bool = False
    return_indices_mode: str = "global_flatten_2d"


@dataclass
class Pooling4DDescriptor:
    """Window of pooling over the last four axes. Pass it as the argument `kernel` of a pooling operation.

    Args:
        kernel: Size of the window along the last four axes; an int applies to all of them.
        strides: Step between windows: an int, or four ints. Defaults to 1, as in Apple's descriptor.
        padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or four pairs (before, after).
        dilations: Spacing between the elements of the window: an int, or four ints. Defaults to 1.
        ceil_mode: Whether to round the output size up. Defaults to False.
        include_zero_pad_to_average: Whether averages count the padding. Defaults to False.
        return_indices_mode: What the indices of maxima count. Defaults to "global_flatten_4d".

    Source: MPSGraphPooling4DOpDescriptor.

    Example:
        >>> g = mg.Graph()
        >>> descriptor = mg.Pooling4DDescriptor((1, 1, 3, 3), padding="TF_SAME")
        >>> values, indices = g.max_pooling4d_return_indices(g.placeholder((1, 2, 6, 6)), descriptor)
        >>> g.max_pooling4d_gradient_from_indices(values, indices, (1, 2, 6, 6), descriptor).shape
        (1, 2, 6, 6)
    """

    kernel: int | Sequence[int]
    strides: int | Sequence[int] = 1
    padding: Padding = "TF_VALID"
    dilations: int | Sequence[int] = 1
    ceil_mode: bool = False
    include_zero_pad_to_average: bool = False
    return_indices_mode: str = "global_flatten_4d"


Window: TypeAlias = int | Sequence[int] | Pooling2DDescriptor | Pooling4DDescriptor
"""Size of a pooling window, or a descriptor with all its options."""


def described(kind: str, axes: int, descriptor: Any, given: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a descriptor that an operation takes.

    Args:
        kind: Name of the operation, for messages.
        axes: Number of axes of the operation's windows.
        descriptor: The descriptor.
        given: Dict of the options passed to the operation, keyed by name.
        defaults: Values of these options that mean that the option was not passed.

    Raises:
        GraphError: If the descriptor is for another number of axes, or an option was passed next to it.
    """
    wanted = Pooling2DDescriptor if axes == 2 else Pooling4DDescriptor
    if not isinstance(descriptor, wanted):
        raise GraphError(f"[{kind}] needs a {wanted.__name__}, got a {type(descriptor).__name__}")
    if twice := [name for name, value in given.items() if name in defaults and not _is(value, defaults[name])]:
        raise GraphError(f"[{kind}] {twice[0]} is an option of the descriptor: set it there, not in the call")
    return {name: getattr(descriptor, name) for name in given}


def _is(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


_DEFAULTS = {
    "strides": None,
    "dilations": 1,
    "padding": "TF_VALID",
    "ceil_mode": False,
    "data_layout": "NHWC",
    "include_zero_pad_to_average": False,
}


def pooling_attributes(
    kind: str,
    axes: int,
    kernel: Window,
    strides: int | Sequence[int] | None,
    dilations: int | Sequence[int],
    padding: Padding,
    ceil_mode: bool,
    **others: Any,
) -> dict[str, Any]:
    """Return the attributes that all pooling operations share. Raise an error if a length is not the number of axes.

    The default of strides is the size of the kernel for windows over two axes, and 1 for windows over four axes.
    """
    if isinstance(kernel, (Pooling2DDescriptor, Pooling4DDescriptor)):
        given = {"strides": strides, "dilations": dilations, "padding": padding, "ceil_mode": ceil_mode, **others}
        found = described(kind, axes, kernel, given, _DEFAULTS)
        return pooling_attributes(kind, axes, kernel.kernel, **found)
    if axes == 4 and strides is None:
        strides = 1
    window = ints(kernel, f"[{kind}] kernel", axes)
    return {
        "kernel": window,
        "strides": window if strides is None else ints(strides, f"[{kind}] strides", axes),
        "dilations": ints(dilations, f"[{kind}] dilations", axes),
        "ceil_mode": ceil_mode,
        **padding_attributes(padding, kind, axes),
        **others,
    }
