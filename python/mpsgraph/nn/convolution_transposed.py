"""Transposed convolutions over one to three axes, which make data larger by their strides.

They are the gradients of convolutions with respect to their sources, and take the arguments of those.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Tensor
from ..errors import ShapeError
from ..ops._family import ints
from ..ops._padding import Padding, explicit_padding
from .convolution import _Convolution, row_padding, with_row_axis, without_row_axis
from .initialisers import Initialiser, zeros
from .layers import shape_of_sizes, size_in_run
from .module import graph_of


class ConvTranspose2d(_Convolution):
    """Transposed two-dimensional convolution with bias: it makes images larger by its strides.

    Args: as Conv2d, where strides, dilations and padding are those of the convolution that goes the other way; and
    output_padding, one int or (y, x), rows and columns that the result has more, below the strides. The result has
    input * stride rows with "TF_SAME", and else (input - 1) * stride + (kernel - 1) * dilation + 1 - padding +
    output_padding. Weight (h, w, out / groups, in) for NHWC, as in Keras, (in, out / groups, h, w) for NCHW, as in
    PyTorch. Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> mg.nn.ConvTranspose2d(16, 3, strides=2, padding="TF_SAME")(g.placeholder((-1, 7, 7, 32))).shape
    (-1, 14, 14, 16)
    >>> mg.nn.ConvTranspose2d(16, 4, strides=2, padding=((1, 1), (1, 1)))(g.placeholder((-1, 7, 7, 32))).shape
    (-1, 14, 14, 16)
    """

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        *,
        strides: int | Sequence[int] = 1,
        padding: int | Padding = "TF_VALID",
        output_padding: int | Sequence[int] = 0,
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
        super().__init__(
            out_channels, kernel_size, strides=strides, padding=padding, dilations=dilations, groups=groups, bias=bias,
            in_channels=in_channels, data_layout=data_layout, weight_initialiser=weight_initialiser,
            bias_initialiser=bias_initialiser, stride=stride, dilation=dilation,
        )  # fmt: skip
        self.output_padding = ints(output_padding, f"{type(self).__name__}: output_padding", self.axes)

    def _add_weight(self, x: Tensor, inputs: int, outputs: int) -> None:
        super()._add_weight(x, outputs // self.groups, inputs * self.groups)

    def _pads(self) -> list[int]:
        """Before and after each axis; nothing for styles, which do not ask for it."""
        if isinstance(self.padding, str):
            return [0] * (2 * self.axes)
        return explicit_padding(self.padding, type(self).__name__, self.axes)

    def _sizes(self, x: Tensor) -> list[int | Tensor]:
        """The result's sizes, in x's order. ShapeError for another number of axes."""
        if x.shape is None or len(x.shape) != self.axes + 2:
            raise ShapeError(f"{type(self).__name__} needs an input of {self.axes + 2} axes, its shape is {x.shape}")
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
    """Transposed one-dimensional convolution with bias: it makes sequences longer by its stride.

    Args and length of the result: as ConvTranspose2d, with kernel_size, strides, dilations and output_padding as ints,
    padding a style or (left, right), and data_layout "NWC" (the default) or "NCW". Weight (w, out / groups, in), or
    (in, out / groups, w). Errors: ShapeError, GraphError.

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
    """Transposed three-dimensional convolution with bias: it makes volumes larger by its strides.

    Args and sizes of the result: as ConvTranspose2d, with one int or (z, y, x), padding a style or three pairs, and
    data_layout "NDHWC" (the default) or "NCDHW". Weight (d, h, w, out / groups, in), or (in, out / groups, d, h, w).
    Errors: ShapeError, GraphError.

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
