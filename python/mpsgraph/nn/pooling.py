"""Pooling layers over one to three axes, and averages over whole images.

Strides default to the window size, as in Keras and PyTorch. Layouts are those of the convolution layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._checks import Sizes
from .._core import Tensor
from ..ops._family import ints
from ..ops._padding import Padding, explicit_padding
from .arguments import either, padding_of
from .convolution import LAYOUTS, channels_last, row_padding, with_row_axis, without_row_axis
from .layers import size_of
from .module import Module
from .parts import graph_of


class _Pool(Module):
    """Base class of the pooling layers.

    Subclasses set the number of axes and define the reduction in `_pool2d` and `_pool4d`.
    """

    axes = 2

    _computed = frozenset(("last",))

    def __init__(
        self,
        kernel_size: Sizes,
        strides: Sizes | None = None,
        *,
        padding: int | Padding = "TF_VALID",
        ceil_mode: bool = False,
        data_layout: str | None = None,
        stride: Sizes | None = None,
    ) -> None:
        name = type(self).__name__
        self.kernel_size = ints(kernel_size, f"{name}: kernel_size", self.axes)
        strides = either(name, "strides", strides, None, "stride", stride)
        self.strides = self.kernel_size if strides is None else ints(strides, f"{name}: strides", self.axes)
        self.padding, self.ceil_mode = padding_of(padding, self.axes), ceil_mode
        self.data_layout = data_layout or LAYOUTS[self.axes][0]
        self.last = channels_last(self.data_layout, self.axes, name)

    def _pool2d(self, x: Tensor, kernel: Sequence[int], strides: Sequence[int], **how: Any) -> Tensor:
        return graph_of(x).max_pooling2d(x, kernel, strides, ceil_mode=self.ceil_mode, **how)

    def _pool4d(self, x: Tensor, kernel: Sequence[int], strides: Sequence[int], **how: Any) -> Tensor:
        return graph_of(x).max_pooling4d(x, kernel, strides, ceil_mode=self.ceil_mode, **how)

    def forward(self, x: Tensor) -> Tensor:
        if self.axes == 2:
            return self._pool2d(x, self.kernel_size, self.strides, padding=self.padding, data_layout=self.data_layout)
        if self.axes == 1:
            y = self._pool2d(
                with_row_axis(x, self.data_layout), (1, *self.kernel_size), (1, *self.strides),
                padding=row_padding(self.padding, type(self).__name__), data_layout="NHWC" if self.last else "NCHW",
            )  # fmt: skip
            return without_row_axis(y, self.data_layout)
        padding = self.padding
        if not isinstance(padding, str):
            pads = explicit_padding(padding, type(self).__name__, 3)
            pairs = [pads[i : i + 2] for i in (0, 2, 4)]
            padding = (*pairs, (0, 0)) if self.last else ((0, 0), *pairs)

        def whole(sizes: Sequence[int]) -> Sequence[int]:
            return (*sizes, 1) if self.last else (1, *sizes)

        return self._pool4d(x, whole(self.kernel_size), whole(self.strides), padding=padding)


class _AvgPool(_Pool):
    """Base class of the average pooling layers."""

    def __init__(
        self,
        kernel_size: Sizes,
        strides: Sizes | None = None,
        *,
        padding: int | Padding = "TF_VALID",
        ceil_mode: bool = False,
        include_zero_pad_to_average: bool = False,
        data_layout: str | None = None,
        stride: Sizes | None = None,
    ) -> None:
        super().__init__(
            kernel_size, strides, padding=padding, ceil_mode=ceil_mode, data_layout=data_layout, stride=stride
        )
        self.include_zero_pad_to_average = include_zero_pad_to_average

    def _pool2d(self, x: Tensor, kernel: Sequence[int], strides: Sequence[int], **how: Any) -> Tensor:
        include = self.include_zero_pad_to_average
        return graph_of(x).avg_pooling2d(
            x, kernel, strides, ceil_mode=self.ceil_mode, include_zero_pad_to_average=include, **how
        )

    def _pool4d(self, x: Tensor, kernel: Sequence[int], strides: Sequence[int], **how: Any) -> Tensor:
        include = self.include_zero_pad_to_average
        return graph_of(x).avg_pooling4d(
            x, kernel, strides, ceil_mode=self.ceil_mode, include_zero_pad_to_average=include, **how
        )


class MaxPool1d(_Pool):
    """Max pooling over sequences.

    Maps an input of shape (N, W, C) to (N, W_out, C); with data_layout "NCW" the channels are on axis 1.

    Args:
        kernel_size: Length of the window.
        strides: Step between windows. None, the default, means kernel_size.
        padding: "valid" (the default), "same", an MPSGraph style ("TF_VALID", "TF_SAME", "ONNX_SAME_LOWER"), or
            explicit padding: an int for both ends, or (left, right).
        ceil_mode: Whether a last window may extend past the padded input. Defaults to False.
        data_layout: "NWC" (channels last, the default) or "NCW".
        stride: Alias of strides.

    Raises:
        ShapeError: If the input has the wrong rank or the explicit padding has the wrong form.
        GraphError: If data_layout or the padding style is unknown, or an argument is passed under both of its names.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.MaxPool1d(2)(g.placeholder((-1, 100, 32))).shape
        (-1, 50, 32)
    """

    axes = 1


class MaxPool2d(_Pool):
    """Max pooling over images.

    Maps an input of shape (N, H, W, C) to (N, H_out, W_out, C); with data_layout "NCHW" the channels are on axis 1.

    Args:
        kernel_size: Height and width of the window, in pixels; an int means a square.
        strides: Step between windows, an int or (y, x). None, the default, means kernel_size.
        padding: "valid" (the default), "same", an MPSGraph style ("TF_VALID", "TF_SAME", "ONNX_SAME_LOWER"), or
            explicit padding: an int for all sides, (y, x) for both sides of each axis, or ((top, bottom), (left,
            right)).
        ceil_mode: Whether a last window may extend past the padded input. Defaults to False.
        data_layout: "NHWC" (channels last, the default) or "NCHW".
        stride: Alias of strides.

    Raises:
        ShapeError: If the input has the wrong rank or the explicit padding has the wrong form.
        GraphError: If data_layout or the padding style is unknown, or an argument is passed under both of its names.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.MaxPool2d(2)(g.placeholder((-1, 28, 28, 32))).shape
        (-1, 14, 14, 32)
    """


class MaxPool3d(_Pool):
    """Max pooling over volumes.

    Maps an input of shape (N, D, H, W, C) to (N, D_out, H_out, W_out, C); with data_layout "NCDHW" the channels are on
    axis 1.

    Args:
        kernel_size: Depth, height, and width of the window; an int means a cube.
        strides: Step between windows, an int or (z, y, x). None, the default, means kernel_size.
        padding: "valid" (the default), "same", an MPSGraph style ("TF_VALID", "TF_SAME", "ONNX_SAME_LOWER"), or
            explicit padding: an int for all sides, (z, y, x) for both sides of each axis, or three (before, after)
            pairs.
        ceil_mode: Whether a last window may extend past the padded input. Defaults to False.
        data_layout: "NDHWC" (channels last, the default) or "NCDHW".
        stride: Alias of strides.

    Raises:
        ShapeError: If the input has the wrong rank or the explicit padding has the wrong form.
        GraphError: If data_layout or the padding style is unknown, or an argument is passed under both of its names.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.MaxPool3d((1, 2, 2))(g.placeholder((-1, 16, 32, 32, 8))).shape
        (-1, 16, 16, 16, 8)
    """

    axes = 3


class AvgPool1d(_AvgPool):
    """Average pooling over sequences.

    Maps an input of shape (N, W, C) to (N, W_out, C); with data_layout "NCW" the channels are on axis 1.

    Args:
        kernel_size: Length of the window.
        strides: Step between windows. None, the default, means kernel_size.
        padding: "valid" (the default), "same", an MPSGraph style ("TF_VALID", "TF_SAME", "ONNX_SAME_LOWER"), or
            explicit padding: an int for both ends, or (left, right).
        ceil_mode: Whether a last window may extend past the padded input. Defaults to False.
        include_zero_pad_to_average: Whether padding counts as zeros in the mean. Defaults to False, which averages over
            input elements only.
        data_layout: "NWC" (channels last, the default) or "NCW".
        stride: Alias of strides.

    Raises:
        ShapeError: If the input has the wrong rank or the explicit padding has the wrong form.
        GraphError: If data_layout or the padding style is unknown, or an argument is passed under both of its names.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.AvgPool1d(4, 2)(g.placeholder((-1, 100, 32))).shape
        (-1, 49, 32)
    """

    axes = 1


class AvgPool2d(_AvgPool):
    """Average pooling over images.

    Maps an input of shape (N, H, W, C) to (N, H_out, W_out, C); with data_layout "NCHW" the channels are on axis 1.

    Args:
        kernel_size: Height and width of the window, in pixels; an int means a square.
        strides: Step between windows, an int or (y, x). None, the default, means kernel_size.
        padding: "valid" (the default), "same", an MPSGraph style ("TF_VALID", "TF_SAME", "ONNX_SAME_LOWER"), or
            explicit padding: an int for all sides, (y, x) for both sides of each axis, or ((top, bottom), (left,
            right)).
        ceil_mode: Whether a last window may extend past the padded input. Defaults to False.
        include_zero_pad_to_average: Whether padding counts as zeros in the mean. Defaults to False, which averages over
            input elements only.
        data_layout: "NHWC" (channels last, the default) or "NCHW".
        stride: Alias of strides.

    Raises:
        ShapeError: If the input has the wrong rank or the explicit padding has the wrong form.
        GraphError: If data_layout or the padding style is unknown, or an argument is passed under both of its names.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.AvgPool2d(2)(g.placeholder((-1, 28, 28, 32))).shape
        (-1, 14, 14, 32)
    """


class AvgPool3d(_AvgPool):
    """Average pooling over volumes.

    Maps an input of shape (N, D, H, W, C) to (N, D_out, H_out, W_out, C); with data_layout "NCDHW" the channels are on
    axis 1.

    Args:
        kernel_size: Depth, height, and width of the window; an int means a cube.
        strides: Step between windows, an int or (z, y, x). None, the default, means kernel_size.
        padding: "valid" (the default), "same", an MPSGraph style ("TF_VALID", "TF_SAME", "ONNX_SAME_LOWER"), or
            explicit padding: an int for all sides, (z, y, x) for both sides of each axis, or three (before, after)
            pairs.
        ceil_mode: Whether a last window may extend past the padded input. Defaults to False.
        include_zero_pad_to_average: Whether padding counts as zeros in the mean. Defaults to False, which averages over
            input elements only.
        data_layout: "NDHWC" (channels last, the default) or "NCDHW".
        stride: Alias of strides.

    Raises:
        ShapeError: If the input has the wrong rank or the explicit padding has the wrong form.
        GraphError: If data_layout or the padding style is unknown, or an argument is passed under both of its names.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.AvgPool3d(2)(g.placeholder((-1, 16, 32, 32, 8))).shape
        (-1, 8, 16, 16, 8)
    """

    axes = 3


class GlobalAveragePooling2d(Module):
    """Mean of each channel over the whole image.

    Maps an input of shape (N, H, W, C) to (N, C), or to (N, 1, 1, C) with keep_axes; with data_layout "NCHW" the
    channels are on axis 1.

    Args:
        data_layout: "NHWC" (channels last, the default) or "NCHW".
        keep_axes: Whether to keep the averaged axes, with size 1. Defaults to False.

    Raises:
        ShapeError: If the input has too few axes.
        GraphError: If data_layout is unknown.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.GlobalAveragePooling2d()(g.placeholder((-1, 7, 7, 512))).shape
        (-1, 512)
    """

    def __init__(self, *, data_layout: str = "NHWC", keep_axes: bool = False) -> None:
        self.data_layout, self.keep_axes = data_layout, keep_axes
        self.axes = [1, 2] if channels_last(data_layout, 2, "GlobalAveragePooling2d") else [2, 3]

    def forward(self, x: Tensor) -> Tensor:
        g = graph_of(x)
        mean = g.mean(x, self.axes)
        return mean if self.keep_axes else g.squeeze(mean, self.axes)


class AdaptiveAvgPool2d(Module):
    """Average pooling to a given output size, with windows chosen to fit the image.

    Row y of the output is the mean of input rows floor(y * H / out_h) up to, but not including, ceil((y + 1) * H /
    out_h), and likewise for columns. Maps an input of shape (N, H, W, C) to (N, out_h, out_w, C); with data_layout
    "NCHW" the channels are on axis 1.

    Args:
        output_size: Height and width of the output; an int means a square.
        data_layout: "NHWC" (channels last, the default) or "NCHW".

    Raises:
        ShapeError: If the height or width of the input is dynamic.
        GraphError: If data_layout is unknown.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.AdaptiveAvgPool2d((2, 3))(g.placeholder((-1, 7, 9, 512))).shape
        (-1, 2, 3, 512)
    """

    def __init__(self, output_size: Sizes, *, data_layout: str = "NHWC") -> None:
        self.output_size = ints(output_size, "AdaptiveAvgPool2d: output_size", 2)
        self.data_layout = data_layout
        self.rows = 1 if channels_last(data_layout, 2, "AdaptiveAvgPool2d") else 2

    def forward(self, x: Tensor) -> Tensor:
        g = graph_of(x)
        sizes = [size_of(x, self.rows + i, None, "AdaptiveAvgPool2d") for i in (0, 1)]
        if all(n % out == 0 for n, out in zip(sizes, self.output_size, strict=True)):
            window = [n // out for n, out in zip(sizes, self.output_size, strict=True)]
            return g.avg_pooling2d(x, window, data_layout=self.data_layout)
        by_rows, by_columns = (
            g.constant(_means(n, out), dtype=x.dtype) for n, out in zip(sizes, self.output_size, strict=True)
        )
        if self.rows == 2:
            return by_rows @ x @ g.transpose(by_columns, (1, 0))
        planes = by_rows @ g.transpose(x, (0, 3, 1, 2)) @ g.transpose(by_columns, (1, 0))
        return g.transpose(planes, (0, 2, 3, 1))


def _means(size: int, out: int) -> np.ndarray:
    """Return the matrix (out, size) that computes the mean of each window along an axis."""
    matrix = np.zeros((out, size))
    for i in range(out):
        first, last = i * size // out, -(-(i + 1) * size // out)
        matrix[i, first:last] = 1 / (last - first)
    return matrix
