"""The transposed convolution with its gradients, and windows as columns of a matrix: im_to_col and col_to_im."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._family import Family, ShapeLike, Tensor, ints
from ._padding import Padding, explicit_padding
from .convolution import window_attributes


def _attributes(
    kind: str,
    strides: int | Sequence[int],
    dilations: int | Sequence[int],
    groups: int,
    padding: Padding,
    data_layout: str,
    weights_layout: str,
) -> dict[str, Any]:
    layouts = {"data_layout": data_layout, "weights_layout": weights_layout}
    return window_attributes(kind, 2, strides, dilations, padding, groups=groups, **layouts)


def _column_attributes(
    kind: str,
    kernel: int | Sequence[int],
    strides: int | Sequence[int],
    dilations: int | Sequence[int],
    padding: Sequence[Sequence[int]],
    data_layout: str,
) -> dict[str, Any]:
    return {
        "kernel": ints(kernel, f"[{kind}] kernel", 2),
        "strides": ints(strides, f"[{kind}] strides", 2),
        "dilations": ints(dilations, f"[{kind}] dilations", 2),
        "padding": explicit_padding(padding, kind),
        "data_layout": data_layout,
    }


class TransposedConvolution(Family):
    """convolution_transpose2d and its two gradients; im_to_col, col_to_im."""

    def convolution_transpose2d(
        self,
        source: Tensor,
        weights: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        padding: Padding = "TF_VALID",
        data_layout: str = "NHWC",
        weights_layout: str = "HWIO",
        name: str | None = None,
    ) -> Tensor:
        """Transposed two-dimensional convolution: a convolution with stride s makes images smaller, this one larger.

        It is convolution2d_data_gradient, and takes the arguments of that convolution, which would make something of
        source's shape from something of output_shape:
        result[n, y * stride_y + i * dilation_y - top, x * stride_x + ..., c] +=
        source[n, y, x, o] * weights[i, j, c, o].

        Args:
            source: (N, H, W, O), or (N, O, H, W) with data_layout="NCHW"; a floating-point dtype.
            weights: (kernel_h, kernel_w, C / groups, O), or (O, C / groups, kernel_h, kernel_w) with
                weights_layout="OIHW": the source's channels stand where those of a convolution's result would.
            output_shape: the shape of the result, ints or an int tensor of rank 1. It is needed because with a stride
                above 1 several sizes are possible: (H - 1) * stride + (kernel - 1) * dilation + 1 - padding, or up to
                stride - 1 more.
            strides, dilations, groups, padding, layouts: of the forward convolution, as for convolution2d.
            name: the operation's name.
        Result: output_shape, (N, out_h, out_w, C) or (N, C, out_h, out_w); source's dtype.
        Errors: ShapeError, also when the convolution of output_shape would not give source's shape; DTypeError.
        Gradient: convolution_transpose2d_data_gradient to source, convolution_transpose2d_weights_gradient to weights.
        Source: MPSGraph convolutionTranspose2DWithSourceTensor:weightsTensor:outputShape:descriptor:name: and
        outputShapeTensor:.

        >>> g = mg.Graph()
        >>> x, w = g.reshape(g.constant([1.0, 2.0]), (1, 1, 2, 1)), g.constant(1.0, (1, 2, 1, 1))
        >>> g.run({}, g.convolution_transpose2d(x, w, (1, 1, 4, 1), strides=(1, 2))).numpy().ravel().tolist()
        [1.0, 1.0, 2.0, 2.0]
        """
        kind = "convolution_transpose2d"
        attributes = _attributes(kind, strides, dilations, groups, padding, data_layout, weights_layout)
        return self._tensor(kind, [source, weights, self._shape_operand(output_shape, kind)], name, **attributes)

    def convolution_transpose2d_data_gradient(
        self,
        incoming: Tensor,
        weights: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        padding: Padding = "TF_VALID",
        data_layout: str = "NHWC",
        weights_layout: str = "HWIO",
        name: str | None = None,
    ) -> Tensor:
        """Gradient of convolution_transpose2d with respect to its source: the forward convolution of what comes in.

        result = convolution2d(incoming, weights).
        Args: incoming, shaped as the transposed convolution's result; weights and the rest as given to
        convolution_transpose2d; output_shape, the source's shape, ints or an int tensor of rank 1. Result:
        output_shape, incoming's dtype. Errors: ShapeError, DTypeError.
        Gradient: convolution2d_data_gradient to incoming, convolution2d_weights_gradient to weights.
        Source: MPSGraph convolutionTranspose2DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:
        forwardConvolutionDescriptor:name: and outputShapeTensor:.

        >>> g = mg.Graph()
        >>> d, w = g.constant(1.0, (1, 1, 4, 1)), g.constant(3.0, (1, 2, 1, 1))
        >>> y = g.convolution_transpose2d_data_gradient(d, w, (1, 1, 2, 1), strides=(1, 2))
        >>> g.run({}, y).numpy().ravel().tolist()
        [6.0, 6.0]
        """
        kind = "convolution_transpose2d_data_gradient"
        attributes = _attributes(kind, strides, dilations, groups, padding, data_layout, weights_layout)
        return self._tensor(kind, [incoming, weights, self._shape_operand(output_shape, kind)], name, **attributes)

    def convolution_transpose2d_weights_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        padding: Padding = "TF_VALID",
        data_layout: str = "NHWC",
        weights_layout: str = "HWIO",
        name: str | None = None,
    ) -> Tensor:
        """Gradient of convolution_transpose2d with respect to its weights.

        result[i, j, c, o] = the sum of incoming * source over all places where weights[i, j, c, o] was used; that is
        convolution2d_weights_gradient with incoming and source exchanged.
        Args: incoming, shaped as the transposed convolution's result; source and the rest as given to
        convolution_transpose2d; output_shape, the weights' shape, ints or an int tensor of rank 1. Result:
        output_shape, incoming's dtype. Errors: ShapeError, DTypeError.
        Gradient: convolution2d_data_gradient to incoming, convolution2d to source.
        Source: MPSGraph convolutionTranspose2DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:
        forwardConvolutionDescriptor:name: and outputShapeTensor:.

        >>> g = mg.Graph()
        >>> d, x = g.constant(1.0, (1, 1, 4, 1)), g.constant(3.0, (1, 1, 2, 1))
        >>> y = g.convolution_transpose2d_weights_gradient(d, x, (1, 2, 1, 1), strides=(1, 2))
        >>> g.run({}, y).numpy().ravel().tolist()
        [6.0, 6.0]
        """
        kind = "convolution_transpose2d_weights_gradient"
        attributes = _attributes(kind, strides, dilations, groups, padding, data_layout, weights_layout)
        return self._tensor(kind, [incoming, source, self._shape_operand(output_shape, kind)], name, **attributes)

    def im_to_col(
        self,
        source: Tensor,
        kernel: int | Sequence[int],
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        padding: Sequence[Sequence[int]] = ((0, 0), (0, 0)),
        data_layout: str = "NHWC",
        name: str | None = None,
    ) -> Tensor:
        """The windows of images as columns of a matrix, so that a convolution is one matrix product.

        result[n, y * out_w + x, (i * kernel_w + j) * C + c] =
        source[n, y * stride_y + i * dilation_y - top, x * stride_x + j * dilation_x - left, c], and 0 in the padding;
        with data_layout="NCHW" result[n, (c * kernel_h + i) * kernel_w + j, y * out_w + x], as torch.nn.Unfold.

        Args: source, (N, H, W, C), or (N, C, H, W) with data_layout="NCHW", numbers of any dtype; kernel, strides,
        dilations, one int, or (y, x), in pixels; padding, ((top, bottom), (left, right)) in pixels of zeros.
        Result: (N, out_h * out_w, kernel_h * kernel_w * C), or (N, C * kernel_h * kernel_w, out_h * out_w). Apple says
        nothing of the order within rows and columns; this is the one that makes the product a convolution without
        moving the weights. Errors: ShapeError, DTypeError. Gradient: col_to_im.
        Source: MPSGraph imToColWithSourceTensor:descriptor:name:.

        >>> g = mg.Graph()
        >>> x = g.reshape(g.constant([1.0, 2.0, 3.0]), (1, 1, 3, 1))
        >>> g.run({}, g.im_to_col(x, (1, 2))).tolist()
        [[[1.0, 2.0], [2.0, 3.0]]]
        """
        attributes = _column_attributes("im_to_col", kernel, strides, dilations, padding, data_layout)
        return self._tensor("im_to_col", [source], name, **attributes)

    def col_to_im(
        self,
        source: Tensor,
        output_shape: ShapeLike,
        kernel: int | Sequence[int],
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        padding: Sequence[Sequence[int]] = ((0, 0), (0, 0)),
        data_layout: str = "NHWC",
        name: str | None = None,
    ) -> Tensor:
        """Columns added back to the pixels that im_to_col takes them from; what comes from padding is dropped.

        result[n, y, x, c] = the sum of all elements of source that im_to_col would fill with the pixel (n, y, x, c).
        Args: source, of rank 3, shaped as the result of im_to_col; output_shape, the images' shape, ints or an int
        tensor of rank 1; the rest as given to im_to_col. Result: output_shape, source's dtype. Errors: ShapeError,
        DTypeError. Gradient: im_to_col. Source: MPSGraph colToImWithSourceTensor:outputShape:descriptor:name:.

        >>> g = mg.Graph()
        >>> columns = g.constant([[[1.0, 2.0], [2.0, 3.0]]])
        >>> g.run({}, g.col_to_im(columns, (1, 1, 3, 1), (1, 2))).numpy().ravel().tolist()
        [1.0, 4.0, 3.0]
        """
        attributes = _column_attributes("col_to_im", kernel, strides, dilations, padding, data_layout)
        return self._tensor("col_to_im", [source, self._shape_operand(output_shape, "col_to_im")], name, **attributes)
