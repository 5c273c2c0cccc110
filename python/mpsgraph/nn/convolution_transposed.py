"""Transposed convolution layers over one to three axes, which enlarge their input by the strides.

A transposed convolution is the gradient of a convolution with respect to its input and takes the same arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._checks import Size, Sizes
from .._core import Tensor
from ..errors import ShapeError
from ..ops._family import ints
from ..ops._padding import Padding, explicit_padding
from .convolution import _Convolution, row_padding, with_row_axis, without_row_axis
from .initialisers import Initialiser, zeros
from .layers import shape_of_sizes, size_in_run
from .parts import graph_of


class ConvTranspose2d(_Convolution):
    """Transposed 2-D convolution, which enlarges images by its strides.

    Maps an input of shape (N, H, W, in_channels) to (N, H_out, W_out, out_channels); with data_layout "NCHW" the
    channels are on axis 1. H_out is H * stride with padding "same"; otherwise it is (H - 1) * stride + (kernel - 1) *
    dilation + 1 - padding + output_padding. W_out follows in the same way.

    Args:
        out_channels: Number of output channels.
        kernel_size: Height and width of the window, in pixels; an int means a square.
        strides: Strides of the corresponding forward convolution, an int or (y, x). Defaults to 1.
        padding: Padding of the corresponding forward convolution: "valid" (the default), "same", an MPSGraph style
            ("TF_VALID", "TF_SAME", "ONNX_SAME_LOWER"), an int for all sides, (y, x) for both sides of each axis, or
            ((top, bottom), (left, right)).
        output_padding: Rows and columns to add to the output, an int or (y, x), less than the strides. Defaults to 0.
        dilations: Dilations of the corresponding forward convolution, an int or (y, x). Defaults to 1.
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
        weight: (kernel_h, kernel_w, out_channels / groups, in_channels) as in Keras, or (in_channels, out_channels /
            groups, kernel_h, kernel_w) for "NCHW", as in PyTorch.
        bias: (out_channels,); absent if bias is False.

    Raises:
        ShapeError: If the input has the wrong rank, its number of channels is dynamic or differs from in_channels, or
            the channels do not divide evenly into groups.
        GraphError: If data_layout or the padding style is unknown, or an argument is passed under both of its names.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.ConvTranspose2d(16, 3, strides=2, padding="TF_SAME")(g.placeholder((-1, 7, 7, 32))).shape
        (-1, 14, 14, 16)
        >>> mg.nn.ConvTranspose2d(16, 4, strides=2, padding=((1, 1), (1, 1)))(g.placeholder((-1, 7, 7, 32))).shape
        (-1, 14, 14, 16)
    """

    def __init__(
        self,
        out_channels: Size,
        kernel_size: Sizes,
        *,
        strides: Sizes = 1,
        padding: int | Padding = "TF_VALID",
        output_padding: int | Sequence[int] = 0,
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
        super().__init__(
            out_channels, kernel_size, strides=strides, padding=padding, dilations=dilations, groups=groups, bias=bias,
            in_channels=in_channels, data_layout=data_layout, weight_initialiser=weight_initialiser,
            bias_initialiser=bias_initialiser, stride=stride, dilation=dilation,
        )  # fmt: skip
        self.output_padding = ints(output_padding, f"{type(self).__name__}: output_padding", self.axes)

    def _add_weight(self, x: Tensor, inputs: int, outputs: int) -> None:
        super()._add_weight(x, outputs // self.groups, inputs * self.groups)

    def _pads(self) -> list[int]:
        """Return the padding before and after each axis, as a flat list; zeros for a style such as "same"."""
        if isinstance(self.padding, str):
            return [0] * (2 * self.axes)
        return explicit_padding(self.padding, type(self).__name__, self.axes)

    def _sizes(self, x: Tensor) -> list[int | Tensor]:
        """Return the sizes of the output, in the axis order of x. Raise ShapeError if x has the wrong rank."""
        if x.shape is None or len(x.shape) != self.axes + 2:
            raise ShapeError(f"{type(self).__name__} needs a {self.axes + 2}-D input, got shape {x.shape}")
        first = 1 if self.last else 2
        sizes: list[int | Tensor] = [size_in_run(x, axis) for axis in range(self.axes + 2)]
        sizes[-1 if self.last else 1] = self.out_channels
        same, pads = isinstance(self.padding, str) and "SAME" in self.padding, self._pads()
        for i in range(self.axes):
            stride, reach = self.strides[i], (self.kernel_size[i] - 1) * self.dilations[i] + 1
            more = 0 if same else reach - stride - pads[2 * i] - pads[2 * i + 1] + self.output_padding[i]
            sizes[first + i] = sizes[first + i] * stride + more
        return sizes

    def forward(self, x: Tensor) -> Tensor:
        y = graph_of(x).convolution_transpose2d(
            x,
            self.weight,
            shape_of_sizes(x, self._sizes(x)),
            strides=self.strides,
            dilations=self.dilations,
            groups=self.groups,
            padding=self.padding,
            data_layout=self.data_layout,
            weights_layout=self._weights_layout,
        )
        return self._biased(y)


class ConvTranspose1d(ConvTranspose2d):
    """Transposed 1-D convolution, which lengthens sequences by its stride.

    Maps an input of shape (N, W, in_channels) to (N, W_out, out_channels); with data_layout "NCW" the channels are on
    axis 1. W_out is W * stride with padding "same"; otherwise it is (W - 1) * stride + (kernel - 1) * dilation + 1 -
    padding + output_padding.

    Args:
        out_channels: Number of output channels.
        kernel_size: Length of the window.
        strides: Stride of the corresponding forward convolution. Defaults to 1.
        padding: Padding of the corresponding forward convolution: "valid" (the default), "same", an MPSGraph style
            ("TF_VALID", "TF_SAME", "ONNX_SAME_LOWER"), an int for both ends, or (left, right).
        output_padding: Number of steps to add to the output, less than the stride. Defaults to 0.
        dilations: Dilation of the corresponding forward convolution. Defaults to 1.
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
        weight: (kernel_size, out_channels / groups, in_channels), or (in_channels, out_channels / groups, kernel_size)
            for "NCW".
        bias: (out_channels,); absent if bias is False.

    Raises:
        ShapeError: If the input has the wrong rank, its number of channels is dynamic or differs from in_channels, or
            the channels do not divide evenly into groups.
        GraphError: If data_layout or the padding style is unknown, or an argument is passed under both of its names.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.ConvTranspose1d(16, 4, strides=2, padding=(1, 1))(g.placeholder((-1, 50, 8))).shape
        (-1, 100, 16)
    """

    axes = 1

    def _pads(self) -> list[int]:
        padding = row_padding(self.padding, "ConvTranspose1d")
        return [0, 0] if isinstance(padding, str) else explicit_padding(padding, "ConvTranspose1d")[2:]

    def forward(self, x: Tensor) -> Tensor:
        g, sizes = graph_of(x), self._sizes(x)
        sizes.insert(1 if self.last else 2, 1)
        y = g.convolution_transpose2d(
            with_row_axis(x, self.data_layout),
            g.expand_dims(self.weight, 0 if self.last else 2),
            shape_of_sizes(x, sizes),
            strides=(1, *self.strides),
            dilations=(1, *self.dilations),
            groups=self.groups,
            padding=row_padding(self.padding, "ConvTranspose1d"),
            data_layout="NHWC" if self.last else "NCHW",
            weights_layout="HWIO" if self.last else "OIHW",
        )
        return self._biased(without_row_axis(y, self.data_layout))


class ConvTranspose3d(ConvTranspose2d):
    """Transposed 3-D convolution, which enlarges volumes by its strides.

    Maps an input of shape (N, D, H, W, in_channels) to (N, D_out, H_out, W_out, out_channels); with data_layout "NCDHW"
    the channels are on axis 1. D_out is D * stride with padding "same"; otherwise it is (D - 1) * stride + (kernel - 1)
    * dilation + 1 - padding + output_padding. H_out and W_out follow in the same way.

    Args:
        out_channels: Number of output channels.
        kernel_size: Depth, height, and width of the window; an int means a cube.
        strides: Strides of the corresponding forward convolution, an int or (z, y, x). Defaults to 1.
        padding: Padding of the corresponding forward convolution: "valid" (the default), "same", an MPSGraph style
            ("TF_VALID", "TF_SAME", "ONNX_SAME_LOWER"), an int for all sides, (z, y, x) for both sides of each axis, or
            three (before, after) pairs.
        output_padding: Slices, rows, and columns to add to the output, an int or (z, y, x), less than the strides.
            Defaults to 0.
        dilations: Dilations of the corresponding forward convolution, an int or (z, y, x). Defaults to 1.
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
        weight: (kernel_d, kernel_h, kernel_w, out_channels / groups, in_channels), or (in_channels, out_channels /
            groups, kernel_d, kernel_h, kernel_w) for "NCDHW".
        bias: (out_channels,); absent if bias is False.

    Raises:
        ShapeError: If the input has the wrong rank, its number of channels is dynamic or differs from in_channels, or
            the channels do not divide evenly into groups.
        GraphError: If data_layout or the padding style is unknown, or an argument is passed under both of its names.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.ConvTranspose3d(4, 3, strides=2, padding="TF_SAME")(g.placeholder((-1, 7, 7, 7, 8))).shape
        (-1, 14, 14, 14, 4)
    """

    axes = 3

    def forward(self, x: Tensor) -> Tensor:
        y = graph_of(x).convolution3d_data_gradient(
            x,
            self.weight,
            shape_of_sizes(x, self._sizes(x)),
            strides=self.strides,
            dilations=self.dilations,
            groups=self.groups,
            padding=self.padding,
            data_layout=self.data_layout,
            weights_layout=self._weights_layout,
        )
        return self._biased(y)
