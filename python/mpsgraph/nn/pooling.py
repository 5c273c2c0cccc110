"""Pooling layers over one to three axes, and averages over whole images.

Strides default to the window, as in Keras and PyTorch. Layouts are those of the convolutional layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core import Tensor
from ..ops._family import ints
from ..ops._padding import Padding, explicit_padding
from .arguments import either, padding_of
from .convolution import LAYOUTS, channels_last, row_padding, with_row_axis, without_row_axis
from .layers import size_of
from .module import Module, graph_of


class _Pool(Module):
    """What poolings share; the subclass says over how many axes, and `_pool2d` and `_pool4d` by what."""

    axes = 2

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        *,
        padding: int | Padding = "TF_VALID",
        ceil_mode: bool = False,
        data_layout: str | None = None,
        stride: int | Sequence[int] | None = None,
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
    """The same by averages."""

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        *,
        padding: int | Padding = "TF_VALID",
        ceil_mode: bool = False,
        include_zero_pad_to_average: bool = False,
        data_layout: str | None = None,
        stride: int | Sequence[int] | None = None,
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
    """Largest element of each window of a sequence.

    Args: kernel_size, strides, ints, strides None: the window; padding, a style, (left, right), or an int for
    both; ceil_mode, whether a
    window may reach beyond the end; data_layout, "NWC" (the default) or "NCW". Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> mg.nn.MaxPool1d(2)(g.placeholder((-1, 100, 32))).shape
    (-1, 50, 32)
    """

    axes = 1


class MaxPool2d(_Pool):
    """Largest element of each window.

    Args: kernel_size, strides, one int or (y, x), in pixels, strides None: the window; padding and data_layout as in
    Conv2d; ceil_mode, whether a window may reach beyond the padding. Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> mg.nn.MaxPool2d(2)(g.placeholder((-1, 28, 28, 32))).shape
    (-1, 14, 14, 32)
    """


class MaxPool3d(_Pool):
    """Largest element of each window of a volume.

    Args: kernel_size, strides, one int or (z, y, x), strides None: the window; padding and data_layout as in Conv3d;
    ceil_mode, whether a window may reach beyond the padding. Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> mg.nn.MaxPool3d((1, 2, 2))(g.placeholder((-1, 16, 32, 32, 8))).shape
    (-1, 16, 16, 16, 8)
    """

    axes = 3


class AvgPool1d(_AvgPool):
    """Mean of each window of a sequence.

    Args: as MaxPool1d; include_zero_pad_to_average, whether padding counts, as zeros. Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> mg.nn.AvgPool1d(4, 2)(g.placeholder((-1, 100, 32))).shape
    (-1, 49, 32)
    """

    axes = 1


class AvgPool2d(_AvgPool):
    """Mean of each window.

    Args: as MaxPool2d; include_zero_pad_to_average, whether padding counts, as zeros. Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> mg.nn.AvgPool2d(2)(g.placeholder((-1, 28, 28, 32))).shape
    (-1, 14, 14, 32)
    """


class AvgPool3d(_AvgPool):
    """Mean of each window of a volume.

    Args: as MaxPool3d; include_zero_pad_to_average, whether padding counts, as zeros. Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> mg.nn.AvgPool3d(2)(g.placeholder((-1, 16, 32, 32, 8))).shape
    (-1, 8, 16, 16, 8)
    """

    axes = 3


class GlobalAveragePooling2d(Module):
    """The mean of each channel over the whole image: (N, H, W, C) to (N, C).

    Args: data_layout, "NHWC" or "NCHW"; keep_axes, whether the axes stay, with size 1. Errors: ShapeError, GraphError.

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
    """Means over windows that are chosen so that the result has a given size, whatever the image's.

    result[y] = mean of the rows from floor(y * H / out_h) up to, not including, ceil((y + 1) * H / out_h); columns
    likewise. Args: output_size, one int or (h, w); data_layout, "NHWC" or "NCHW". The image's size must be known.
    Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> mg.nn.AdaptiveAvgPool2d((2, 3))(g.placeholder((-1, 7, 9, 512))).shape
    (-1, 2, 3, 512)
    """

    def __init__(self, output_size: int | Sequence[int], *, data_layout: str = "NHWC") -> None:
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
    """The matrix that takes the means of one axis."""
    matrix = np.zeros((out, size))
    for i in range(out):
        first, last = i * size // out, -(-(i + 1) * size // out)
        matrix[i, first:last] = 1 / (last - first)
    return matrix
