"""Convolutional layers over one to three axes: plain, depthwise, separable; and windows as columns.

Data has its channels last as a rule (layouts NWC, NHWC, NDHWC), or in front (NCW, NCHW, NCDHW). Weights lie as the
layout asks, so that those of the latter are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from .._core import Tensor
from .._display import shown
from ..errors import GraphError, ShapeError
from ..ops._family import ints
from ..ops._padding import Padding
from .arguments import either, padding_of
from .initialisers import GlorotUniform, Initialiser, zeros
from .layers import along_channels, shape_of_sizes, size_in_run, size_of
from .module import Module, graph_of

LAYOUTS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


def channels_last(data_layout: str, axes: int, what: str) -> bool:
    """Is the layout, which must be one of the two for this number of axes, the one with the channels last?"""
    if data_layout not in LAYOUTS[axes]:
        raise GraphError(
            f"{what}: data_layout must be {LAYOUTS[axes][0]} or {LAYOUTS[axes][1]}, got {shown(data_layout)}"
        )
    return data_layout == LAYOUTS[axes][0]


def with_row_axis(x: Tensor, data_layout: str) -> Tensor:
    """(N, W, C) as images of one row, (N, 1, W, C); or (N, C, 1, W)."""
    return graph_of(x).expand_dims(x, 1 if data_layout == "NWC" else 2)


def without_row_axis(y: Tensor, data_layout: str) -> Tensor:
    return graph_of(y).squeeze(y, 1 if data_layout == "NWC" else 2)


def row_padding(padding: Padding | Sequence[int], what: str) -> Padding:
    """A style, or (left, right), as padding of images of one row."""
    if isinstance(padding, str):
        return padding
    return ((0, 0), tuple(ints(cast("Sequence[int]", padding), f"{what}: padding", 2)))


class _Convolution(Module):
    """What convolutions share; the subclass says over how many axes, and what is computed."""

    axes = 2
    weight: Tensor
    bias: Tensor

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        *,
        strides: int | Sequence[int] = 1,
        padding: int | Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        in_channels: int | None = None,
        data_layout: str | None = None,
        weight_initialiser: Initialiser | None = None,
        bias_initialiser: Initialiser = zeros,
        stride: int | Sequence[int] | None = None,
        dilation: int | Sequence[int] | None = None,
    ) -> None:
        name = type(self).__name__
        strides = either(name, "strides", strides, 1, "stride", stride)
        dilations = either(name, "dilations", dilations, 1, "dilation", dilation)
        self.out_channels, self.in_channels, self.has_bias = out_channels, in_channels, bias
        self.kernel_size = ints(kernel_size, f"{name}: kernel_size", self.axes)
        self.strides = ints(strides, f"{name}: strides", self.axes)
        self.dilations = ints(dilations, f"{name}: dilations", self.axes)
        self.groups, self.padding = groups, padding_of(padding, self.axes)
        self.data_layout = data_layout or LAYOUTS[self.axes][0]
        self.last = channels_last(self.data_layout, self.axes, name)
        self.weight_initialiser = weight_initialiser or GlorotUniform()
        self.bias_initialiser = bias_initialiser

    def build(self, x: Tensor) -> None:
        name = type(self).__name__
        channels = size_of(x, -1 if self.last else -1 - self.axes, self.in_channels, name)
        if channels % self.groups or self.out_channels % self.groups:
            raise ShapeError(
                f"{name}: {channels} and {self.out_channels} channels do not split into {self.groups} groups"
            )
        self._add_weight(x, channels // self.groups, self.out_channels)
        if self.has_bias:
            self._add_bias(x, self.out_channels)

    def _add_weight(self, x: Tensor, inputs: int, outputs: int) -> None:
        """(kernel..., inputs, outputs), or (outputs, inputs, kernel...)."""
        window = 1
        for size in self.kernel_size:
            window *= size
        shape = (*self.kernel_size, inputs, outputs) if self.last else (outputs, inputs, *self.kernel_size)
        fans = (float(window * inputs), float(window * outputs))
        self.weight = self.add_parameter("weight", x, shape, self.weight_initialiser, fans)

    def _add_bias(self, x: Tensor, channels: int) -> None:
        self.bias = self.add_parameter("bias", x, (channels,), self.bias_initialiser)

    @property
    def _weights_layout(self) -> str:
        names = {2: ("HWIO", "OIHW"), 3: ("DHWIO", "OIDHW")}[self.axes]
        return names[0] if self.last else names[1]

    def _biased(self, y: Tensor) -> Tensor:
        return y + along_channels(self.bias, y, self.axes + 1 if self.last else 1) if self.has_bias else y


class Conv1d(_Convolution):
    """One-dimensional convolution with bias, as of a sequence or a signal.

    Args: as Conv2d, with kernel_size, strides and dilations as ints, padding a style or (left, right), and data_layout
    "NWC" (the default) or "NCW". Weight (w, in / groups, out) for NWC, (out, in / groups, w) for NCW. Input (N, W, C),
    or (N, C, W). Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> mg.nn.Conv1d(32, 5, padding="TF_SAME")(g.placeholder((-1, 100, 8))).shape
    (-1, 100, 32)
    """

    axes = 1

    def forward(self, x: Tensor) -> Tensor:
        g = graph_of(x)
        y = g.convolution2d(
            with_row_axis(x, self.data_layout),
            g.expand_dims(self.weight, 0 if self.last else 2),
            strides=(1, *self.strides),
            dilations=(1, *self.dilations),
            groups=self.groups,
            padding=row_padding(self.padding, "Conv1d"),
            data_layout="NHWC" if self.last else "NCHW",
            weights_layout="HWIO" if self.last else "OIHW",
        )
        return self._biased(without_row_axis(y, self.data_layout))


class Conv2d(_Convolution):
    """Two-dimensional convolution with bias.

    Args: out_channels; kernel_size, strides, dilations, one int or (y, x), in pixels; padding, a style
    ("TF_VALID", "TF_SAME", "ONNX_SAME_LOWER"; "valid" and "same" are the first two) or ((top, bottom), (left, right)),
    or one int or (y, x) for both sides; groups; bias, whether there is one; in_channels,
    inferred when None; data_layout, "NHWC" (the default) or "NCHW"; initialisers; stride and dilation, other names of
    strides and dilations. Weight (h, w, in / groups, out) for NHWC, (out, in / groups, h, w) for NCHW; bias (out,).
    Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> mg.nn.Conv2d(32, 5, padding="TF_SAME")(g.placeholder((-1, 28, 28, 1))).shape
    (-1, 28, 28, 32)
    """

    def forward(self, x: Tensor) -> Tensor:
        y = graph_of(x).convolution2d(
            x,
            self.weight,
            strides=self.strides,
            dilations=self.dilations,
            groups=self.groups,
            padding=self.padding,
            data_layout=self.data_layout,
            weights_layout=self._weights_layout,
        )
        return self._biased(y)


class Conv3d(_Convolution):
    """Three-dimensional convolution with bias, as of volumes or of video.

    Args: as Conv2d, with kernel_size, strides and dilations as one int or (z, y, x), padding a style or three pairs,
    and data_layout "NDHWC" (the default) or "NCDHW". Weight (d, h, w, in / groups, out), or (out, in / groups, d, h,
    w). Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> mg.nn.Conv3d(8, 3, strides=(1, 2, 2), padding="TF_SAME")(g.placeholder((-1, 16, 32, 32, 3))).shape
    (-1, 16, 16, 16, 8)
    """

    axes = 3

    def forward(self, x: Tensor) -> Tensor:
        y = graph_of(x).convolution3d(
            x,
            self.weight,
            strides=self.strides,
            dilations=self.dilations,
            groups=self.groups,
            padding=self.padding,
            data_layout=self.data_layout,
            weights_layout=self._weights_layout,
        )
        return self._biased(y)


class DepthwiseConv2d(_Convolution):
    """Two-dimensional convolution of each channel by itself, with bias.

    Args: as Conv2d, without out_channels and groups; channel_multiplier, how many results each channel gives, one after
    the other. Weight (h, w, C, multiplier) for NHWC, (multiplier, C, h, w) for NCHW. Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> mg.nn.DepthwiseConv2d(3, channel_multiplier=2)(g.placeholder((-1, 28, 28, 8))).shape
    (-1, 26, 26, 16)
    """

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        *,
        channel_multiplier: int = 1,
        strides: int | Sequence[int] = 1,
        padding: int | Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        bias: bool = True,
        in_channels: int | None = None,
        data_layout: str | None = None,
        weight_initialiser: Initialiser | None = None,
        bias_initialiser: Initialiser = zeros,
        stride: int | Sequence[int] | None = None,
        dilation: int | Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            channel_multiplier, kernel_size, strides=strides, padding=padding, dilations=dilations, bias=bias,
            in_channels=in_channels, data_layout=data_layout, weight_initialiser=weight_initialiser,
            bias_initialiser=bias_initialiser, stride=stride, dilation=dilation,
        )  # fmt: skip

    def build(self, x: Tensor) -> None:
        channels = size_of(x, -1 if self.last else -3, self.in_channels, "DepthwiseConv2d")
        self._add_weight(x, channels, self.out_channels)
        if self.has_bias:
            self._add_bias(x, channels * self.out_channels)

    def forward(self, x: Tensor) -> Tensor:
        y = graph_of(x).depthwise_convolution2d(
            x,
            self.weight,
            strides=self.strides,
            dilations=self.dilations,
            padding=self.padding,
            data_layout=self.data_layout,
            weights_layout=self._weights_layout,
        )
        return self._biased(y)


class SeparableConv2d(Module):
    """A convolution in two steps: each channel by itself in space, then all channels at each pixel (Chollet, 2017).

    result = Conv2d(out_channels, 1)(DepthwiseConv2d(kernel_size, bias=False)(x)). Args: as Conv2d, without groups; and
    channel_multiplier, how many results each channel gives in between. Parameters: depthwise.weight, pointwise.weight,
    pointwise.bias. Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> mg.nn.SeparableConv2d(64, 3, padding="TF_SAME")(g.placeholder((-1, 28, 28, 32))).shape
    (-1, 28, 28, 64)
    """

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        *,
        channel_multiplier: int = 1,
        strides: int | Sequence[int] = 1,
        padding: int | Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        bias: bool = True,
        in_channels: int | None = None,
        data_layout: str | None = None,
        weight_initialiser: Initialiser | None = None,
        bias_initialiser: Initialiser = zeros,
        stride: int | Sequence[int] | None = None,
        dilation: int | Sequence[int] | None = None,
    ) -> None:
        self.depthwise = DepthwiseConv2d(
            kernel_size, channel_multiplier=channel_multiplier, strides=strides, padding=padding, dilations=dilations,
            bias=False, in_channels=in_channels, data_layout=data_layout, weight_initialiser=weight_initialiser,
            stride=stride, dilation=dilation,
        )  # fmt: skip
        self.pointwise = Conv2d(
            out_channels, 1, bias=bias, data_layout=data_layout, weight_initialiser=weight_initialiser,
            bias_initialiser=bias_initialiser,
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.pointwise(self.depthwise(x))


class Unfold(Module):
    """The windows of images as rows of a matrix, (N, out_h * out_w, h * w * C); with "NCHW" as columns, as in PyTorch.

    Args: kernel_size, strides, dilations, one int or (y, x); padding of zeros, ((top, bottom), (left, right)), or one
    int or (y, x) for both sides; stride and dilation, other names of strides and dilations;
    data_layout, "NHWC" or "NCHW", whose result is (N, C * h * w, out_h * out_w). Errors: ShapeError.

    >>> g = mg.Graph()
    >>> mg.nn.Unfold(3)(g.placeholder((-1, 8, 8, 4))).shape
    (-1, 36, 36)
    """

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        *,
        strides: int | Sequence[int] = 1,
        padding: int | Sequence[int] | Sequence[Sequence[int]] = ((0, 0), (0, 0)),
        dilations: int | Sequence[int] = 1,
        data_layout: str = "NHWC",
        stride: int | Sequence[int] | None = None,
        dilation: int | Sequence[int] | None = None,
    ) -> None:
        name = type(self).__name__
        self.kernel_size = ints(kernel_size, f"{name}: kernel_size", 2)
        self.strides = either(name, "strides", strides, 1, "stride", stride)
        self.dilations = either(name, "dilations", dilations, 1, "dilation", dilation)
        self.padding, self.data_layout = cast("Sequence[Sequence[int]]", padding_of(padding, 2)), data_layout

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).im_to_col(
            x,
            self.kernel_size,
            strides=self.strides,
            dilations=self.dilations,
            padding=self.padding,
            data_layout=self.data_layout,
        )


class Fold(Unfold):
    """What Unfold makes added back to images of a size: each element to the pixel that it came from.

    Args: output_size, (h, w) of the images; the rest as Unfold. Input as Unfold's result. Errors: ShapeError.

    >>> g = mg.Graph()
    >>> mg.nn.Fold((8, 8), 3)(g.placeholder((-1, 36, 36))).shape
    (-1, 8, 8, 4)
    """

    def __init__(
        self,
        output_size: Sequence[int],
        kernel_size: int | Sequence[int],
        *,
        strides: int | Sequence[int] = 1,
        padding: int | Sequence[int] | Sequence[Sequence[int]] = ((0, 0), (0, 0)),
        dilations: int | Sequence[int] = 1,
        data_layout: str = "NHWC",
        stride: int | Sequence[int] | None = None,
        dilation: int | Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            kernel_size, strides=strides, padding=padding, dilations=dilations, data_layout=data_layout,
            stride=stride, dilation=dilation,
        )  # fmt: skip
        self.output_size = ints(output_size, "Fold: output_size", 2)

    def forward(self, x: Tensor) -> Tensor:
        g, last = graph_of(x), channels_last(self.data_layout, 2, "Fold")
        channels, rest = divmod(size_of(x, 2 if last else 1, None, "Fold"), self.kernel_size[0] * self.kernel_size[1])
        if rest:
            raise ShapeError(f"Fold: {x.shape} does not hold whole windows of {tuple(self.kernel_size)}")
        sizes = [*self.output_size, channels] if last else [channels, *self.output_size]
        return g.col_to_im(
            x,
            shape_of_sizes(x, [size_in_run(x, 0), *sizes]),
            self.kernel_size,
            strides=self.strides,
            dilations=self.dilations,
            padding=self.padding,
            data_layout=self.data_layout,
        )
