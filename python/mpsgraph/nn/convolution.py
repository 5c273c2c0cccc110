"""Convolution layers over one to three axes (plain, depthwise, separable), Unfold, and Fold.

Channels come last by default (layouts NWC, NHWC, NDHWC) or first (NCW, NCHW, NCDHW). The weight layout follows the data
layout, so weights for channels-first data have PyTorch's layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from .._checks import ManySizes, Size, Sizes
from .._core import Tensor
from .._display import shown
from ..errors import GraphError, ShapeError
from ..ops._family import ints
from ..ops._padding import Padding
from .arguments import either, padding_of, require_kernel_size
from .initialisers import GlorotUniform, Initialiser, zeros
from .layers import along_channels, shape_of_sizes, size_in_run, size_of
from .module import Module
from .parts import graph_of

LAYOUTS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


def channels_last(data_layout: str, axes: int, what: str) -> bool:
    """Return whether a layout has its channels last. Raise GraphError if it is unknown for this number of axes."""
    if data_layout not in LAYOUTS[axes]:
        raise GraphError(
            f"{what}: data_layout must be {LAYOUTS[axes][0]} or {LAYOUTS[axes][1]}, got {shown(data_layout)}"
        )
    return data_layout == LAYOUTS[axes][0]


def with_row_axis(x: Tensor, data_layout: str) -> Tensor:
    """Reshape sequences (N, W, C) or (N, C, W) to images of one row, (N, 1, W, C) or (N, C, 1, W)."""
    return graph_of(x).expand_dims(x, 1 if data_layout == "NWC" else 2)


def without_row_axis(y: Tensor, data_layout: str) -> Tensor:
    return graph_of(y).squeeze(y, 1 if data_layout == "NWC" else 2)


def row_padding(padding: Padding | Sequence[int], what: str) -> Padding:
    """Convert the padding of a sequence to the padding of an image with one row."""
    if isinstance(padding, str):
        return padding
    return ((0, 0), tuple(ints(cast("Sequence[int]", padding), f"{what}: padding", 2)))


class _Convolution(Module):
    """Base class of the convolution layers. Subclasses set the number of axes and define `forward`."""

    axes = 2
    weight: Tensor
    bias: Tensor

    _input_size = 0

    def __init__(
        self,
        out_channels: Size,
        kernel_size: Sizes,
        *,
        strides: Sizes = 1,
        padding: int | Padding = "TF_VALID",
        dilations: Sizes = 1,
        groups: Size = 1,
        bias: bool = True,
        in_channels: Size | None = None,
        data_layout: str | None = None,
        weight_initialiser: Initialiser | None = None,
        bias_initialiser: Initialiser = zeros,
        stride: Sizes | None = None,
        dilation: Sizes | None = None,
    ) -> None:
        name = type(self).__name__
        require_kernel_size(self)
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
                f"{name}: {channels} input and {self.out_channels} output channels must both be divisible by groups, "
                f"got groups={self.groups}"
            )
        self._add_weight(x, channels // self.groups, self.out_channels)
        if self.has_bias:
            self._add_bias(x, self.out_channels)

    def _add_weight(self, x: Tensor, inputs: int, outputs: int) -> None:
        """Create the weight.

        The shape is (kernel..., inputs, outputs), or (outputs, inputs, kernel...) if channels come first.
        """
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
    """1-D convolution over sequences or signals.

    Maps an input of shape (N, W, in_channels) to (N, W_out, out_channels); with data_layout "NCW" the channels are on
    axis 1.

    Args:
        out_channels: Number of filters.
        kernel_size: Length of the window.
        strides: Step between windows. Defaults to 1.
        padding: "valid" (the default), "same", an MPSGraph style ("TF_VALID", "TF_SAME", "ONNX_SAME_LOWER"), or
            explicit padding: an int for both ends, or (left, right).
        dilations: Spacing between kernel elements. Defaults to 1.
        groups: Number of groups the channels are split into; the outputs of a group depend only on its inputs. Defaults
            to 1.
        bias: Whether to add a bias to each output channel. Defaults to True.
        in_channels: Expected number of input channels. Inferred from the first input if None, the default.
        data_layout: "NWC" (channels last, the default) or "NCW".
        weight_initialiser: Initializer of the weight. Glorot uniform if None, the default.
        bias_initialiser: Initializer of the bias. Defaults to zeros.
        stride: Alias of strides.
        dilation: Alias of dilations.

    Attributes:
        weight: (kernel_size, in_channels / groups, out_channels), or (out_channels, in_channels / groups, kernel_size)
            for "NCW".
        bias: (out_channels,); absent if bias is False.

    Raises:
        ShapeError: If the input has the wrong rank, its number of channels is dynamic or differs from in_channels, or
            the channels do not divide evenly into groups.
        GraphError: If data_layout or the padding style is unknown, or an argument is passed under both of its names.

    Example:
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
    """2-D convolution over images.

    Maps an input of shape (N, H, W, in_channels) to (N, H_out, W_out, out_channels); with data_layout "NCHW" the
    channels are on axis 1.

    Args:
        out_channels: Number of filters.
        kernel_size: Height and width of the window, in pixels; an int means a square.
        strides: Step between windows, an int or (y, x). Defaults to 1.
        padding: "valid" (the default), "same", an MPSGraph style ("TF_VALID", "TF_SAME", "ONNX_SAME_LOWER"), or
            explicit padding: an int for all sides, (y, x) for both sides of each axis, or ((top, bottom), (left,
            right)).
        dilations: Spacing between kernel elements, an int or (y, x). Defaults to 1.
        groups: Number of groups the channels are split into; the outputs of a group depend only on its inputs. Defaults
            to 1.
        bias: Whether to add a bias to each output channel. Defaults to True.
        in_channels: Expected number of input channels. Inferred from the first input if None, the default.
        data_layout: "NHWC" (channels last, the default) or "NCHW".
        weight_initialiser: Initializer of the weight. Glorot uniform if None, the default.
        bias_initialiser: Initializer of the bias. Defaults to zeros.
        stride: Alias of strides.
        dilation: Alias of dilations.

    Attributes:
        weight: (kernel_h, kernel_w, in_channels / groups, out_channels), or (out_channels, in_channels / groups,
            kernel_h, kernel_w) for "NCHW".
        bias: (out_channels,); absent if bias is False.

    Raises:
        ShapeError: If the input has the wrong rank, its number of channels is dynamic or differs from in_channels, or
            the channels do not divide evenly into groups.
        GraphError: If data_layout or the padding style is unknown, or an argument is passed under both of its names.

    Example:
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
    """3-D convolution over volumes or video.

    Maps an input of shape (N, D, H, W, in_channels) to (N, D_out, H_out, W_out, out_channels); with data_layout "NCDHW"
    the channels are on axis 1.

    Args:
        out_channels: Number of filters.
        kernel_size: Depth, height, and width of the window; an int means a cube.
        strides: Step between windows, an int or (z, y, x). Defaults to 1.
        padding: "valid" (the default), "same", an MPSGraph style ("TF_VALID", "TF_SAME", "ONNX_SAME_LOWER"), or
            explicit padding: an int for all sides, (z, y, x) for both sides of each axis, or three (before, after)
            pairs.
        dilations: Spacing between kernel elements, an int or (z, y, x). Defaults to 1.
        groups: Number of groups the channels are split into; the outputs of a group depend only on its inputs. Defaults
            to 1.
        bias: Whether to add a bias to each output channel. Defaults to True.
        in_channels: Expected number of input channels. Inferred from the first input if None, the default.
        data_layout: "NDHWC" (channels last, the default) or "NCDHW".
        weight_initialiser: Initializer of the weight. Glorot uniform if None, the default.
        bias_initialiser: Initializer of the bias. Defaults to zeros.
        stride: Alias of strides.
        dilation: Alias of dilations.

    Attributes:
        weight: (kernel_d, kernel_h, kernel_w, in_channels / groups, out_channels), or (out_channels, in_channels /
            groups, kernel_d, kernel_h, kernel_w) for "NCDHW".
        bias: (out_channels,); absent if bias is False.

    Raises:
        ShapeError: If the input has the wrong rank, its number of channels is dynamic or differs from in_channels, or
            the channels do not divide evenly into groups.
        GraphError: If data_layout or the padding style is unknown, or an argument is passed under both of its names.

    Example:
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
    """2-D convolution that filters each channel separately.

    Maps an input of shape (N, H, W, C) to (N, H_out, W_out, C * channel_multiplier), with the outputs of one input
    channel next to each other; with data_layout "NCHW" the channels are on axis 1.

    Args:
        kernel_size: Height and width of the window, in pixels; an int means a square.
        channel_multiplier: Number of output channels for each input channel. Defaults to 1.
        strides: Step between windows, an int or (y, x). Defaults to 1.
        padding: "valid" (the default), "same", an MPSGraph style ("TF_VALID", "TF_SAME", "ONNX_SAME_LOWER"), or
            explicit padding: an int for all sides, (y, x) for both sides of each axis, or ((top, bottom), (left,
            right)).
        dilations: Spacing between kernel elements, an int or (y, x). Defaults to 1.
        bias: Whether to add a bias to each output channel. Defaults to True.
        in_channels: Expected number of input channels. Inferred from the first input if None, the default.
        data_layout: "NHWC" (channels last, the default) or "NCHW".
        weight_initialiser: Initializer of the weight. Glorot uniform if None, the default.
        bias_initialiser: Initializer of the bias. Defaults to zeros.
        stride: Alias of strides.
        dilation: Alias of dilations.

    Attributes:
        weight: (kernel_h, kernel_w, C, channel_multiplier), or (channel_multiplier, C, kernel_h, kernel_w) for "NCHW".
        bias: (C * channel_multiplier,); absent if bias is False.

    Raises:
        ShapeError: If the input has the wrong rank, or its number of channels is dynamic or differs from in_channels.
        GraphError: If data_layout or the padding style is unknown, or an argument is passed under both of its names.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.DepthwiseConv2d(3, channel_multiplier=2)(g.placeholder((-1, 28, 28, 8))).shape
        (-1, 26, 26, 16)
    """

    def __init__(
        self,
        kernel_size: Sizes,
        *,
        channel_multiplier: Size = 1,
        strides: Sizes = 1,
        padding: int | Padding = "TF_VALID",
        dilations: Sizes = 1,
        bias: bool = True,
        in_channels: Size | None = None,
        data_layout: str | None = None,
        weight_initialiser: Initialiser | None = None,
        bias_initialiser: Initialiser = zeros,
        stride: Sizes | None = None,
        dilation: Sizes | None = None,
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
    """Depthwise convolution followed by a 1x1 convolution that mixes the channels.

    Equivalent to Conv2d(out_channels, 1)(DepthwiseConv2d(kernel_size, bias=False)(x)). Maps an input of shape (N, H, W,
    in_channels) to (N, H_out, W_out, out_channels); with data_layout "NCHW" the channels are on axis 1.

    Args:
        out_channels: Number of output channels.
        kernel_size: Height and width of the window, in pixels; an int means a square.
        channel_multiplier: Number of intermediate channels for each input channel. Defaults to 1.
        strides: Step between windows, an int or (y, x). Defaults to 1.
        padding: "valid" (the default), "same", an MPSGraph style ("TF_VALID", "TF_SAME", "ONNX_SAME_LOWER"), or
            explicit padding: an int for all sides, (y, x) for both sides of each axis, or ((top, bottom), (left,
            right)).
        dilations: Spacing between kernel elements, an int or (y, x). Defaults to 1.
        bias: Whether to add a bias to each output channel. Defaults to True.
        in_channels: Expected number of input channels. Inferred from the first input if None, the default.
        data_layout: "NHWC" (channels last, the default) or "NCHW".
        weight_initialiser: Initializer of both weights. Glorot uniform if None, the default.
        bias_initialiser: Initializer of the bias. Defaults to zeros.
        stride: Alias of strides.
        dilation: Alias of dilations.

    Attributes:
        depthwise: The DepthwiseConv2d, with parameter depthwise.weight.
        pointwise: The 1x1 Conv2d, with parameters pointwise.weight and pointwise.bias.

    Raises:
        ShapeError: If the input has the wrong rank, or its number of channels is dynamic or differs from in_channels.
        GraphError: If data_layout or the padding style is unknown, or an argument is passed under both of its names.

    Source: Chollet, "Xception", 2017.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.SeparableConv2d(64, 3, padding="TF_SAME")(g.placeholder((-1, 28, 28, 32))).shape
        (-1, 28, 28, 64)
    """

    axes = 2

    _input_size = 0

    def __init__(
        self,
        out_channels: Size,
        kernel_size: Sizes,
        *,
        channel_multiplier: Size = 1,
        strides: Sizes = 1,
        padding: int | Padding = "TF_VALID",
        dilations: Sizes = 1,
        bias: bool = True,
        in_channels: Size | None = None,
        data_layout: str | None = None,
        weight_initialiser: Initialiser | None = None,
        bias_initialiser: Initialiser = zeros,
        stride: Sizes | None = None,
        dilation: Sizes | None = None,
    ) -> None:
        require_kernel_size(self)
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
    """Extract the sliding windows of images as the rows of a matrix.

    Maps an input of shape (N, H, W, C) to (N, H_out * W_out, kernel_h * kernel_w * C). With data_layout "NCHW" the
    windows are columns, as in PyTorch: (N, C * kernel_h * kernel_w, H_out * W_out).

    Args:
        kernel_size: Height and width of the window, in pixels; an int means a square.
        strides: Step between windows, an int or (y, x). Defaults to 1.
        padding: Zeros around the image: an int for all sides, (y, x) for both sides of each axis, or ((top, bottom),
            (left, right)). Defaults to none.
        dilations: Spacing between kernel elements, an int or (y, x). Defaults to 1.
        data_layout: "NHWC" (channels last, the default) or "NCHW".
        stride: Alias of strides.
        dilation: Alias of dilations.

    Raises:
        ShapeError: If the input is not 4-D, or a size or the padding has the wrong form.
        GraphError: If an argument is passed under both of its names.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.Unfold(3)(g.placeholder((-1, 8, 8, 4))).shape
        (-1, 36, 36)
    """

    def __init__(
        self,
        kernel_size: Sizes,
        *,
        strides: Sizes = 1,
        padding: int | Sequence[int] | Sequence[Sequence[int]] = ((0, 0), (0, 0)),
        dilations: Sizes = 1,
        data_layout: str = "NHWC",
        stride: Sizes | None = None,
        dilation: Sizes | None = None,
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
    """Build images of a given size by adding up windows such as those that Unfold extracts.

    Each element is added to the pixel it was taken from, so overlapping windows accumulate. Maps an input of shape (N,
    H_out * W_out, kernel_h * kernel_w * C) to (N, output_h, output_w, C), or (N, C * kernel_h * kernel_w, H_out *
    W_out) to (N, C, output_h, output_w) with data_layout "NCHW".

    Args:
        output_size: Height and width of the resulting images.
        kernel_size: Height and width of the window, in pixels; an int means a square.
        strides: Step between windows, an int or (y, x). Defaults to 1.
        padding: Padding that Unfold added: an int for all sides, (y, x) for both sides of each axis, or ((top, bottom),
            (left, right)). Defaults to none.
        dilations: Spacing between kernel elements, an int or (y, x). Defaults to 1.
        data_layout: "NHWC" (channels last, the default) or "NCHW".
        stride: Alias of strides.
        dilation: Alias of dilations.

    Raises:
        ShapeError: If the size of the feature axis is not a multiple of the window's, or another size is wrong.
        GraphError: If data_layout is unknown, or an argument is passed under both of its names.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.Fold((8, 8), 3)(g.placeholder((-1, 36, 36))).shape
        (-1, 8, 8, 4)
    """

    def __init__(
        self,
        output_size: ManySizes,
        kernel_size: Sizes,
        *,
        strides: Sizes = 1,
        padding: int | Sequence[int] | Sequence[Sequence[int]] = ((0, 0), (0, 0)),
        dilations: Sizes = 1,
        data_layout: str = "NHWC",
        stride: Sizes | None = None,
        dilation: Sizes | None = None,
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
            raise ShapeError(
                "Fold: the size of the feature axis must be divisible by the number of elements in a window of "
                f"kernel_size {tuple(self.kernel_size)}, got input shape {x.shape}"
            )
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
