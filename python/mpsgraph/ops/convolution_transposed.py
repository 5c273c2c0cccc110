"""Transposed convolution with its gradients, and image windows as matrix columns: im_to_col and col_to_im."""

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
    """Graph methods for convolution_transpose2d and its two gradients, im_to_col, and col_to_im."""

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
        """Compute a transposed two-dimensional convolution.

        With a stride above 1, a transposed convolution enlarges an image, and a convolution with that stride shrinks
        it.

        This is convolution2d_data_gradient: its arguments describe the forward convolution, from output_shape to the
        shape of source. It computes

            result[n, y * stride_y + i * dilation_y - top, x * stride_x + ..., c] +=
                source[n, y, x, o] * weights[i, j, c, o]

        Args:
            source: Floating-point images of shape (N, H, W, O), or (N, O, H, W) with data_layout="NCHW".
            weights: Kernel of shape (kernel_h, kernel_w, C / groups, O), or (O, C / groups, kernel_h, kernel_w) with
                weights_layout="OIHW"; the dtype of source. The channels of source are on the axis of the forward
                convolution's output channels.
            output_shape: Shape of the result, as ints or as an integer tensor of rank 1. It is required because with a
                stride above 1 several sizes are possible: (H - 1) * stride + (kernel - 1) * dilation + 1 - padding, or
                up to stride - 1 more.
            strides: Strides of the forward convolution in pixels: an int, or (y, x). Defaults to 1.
            dilations: Dilations of the forward convolution in pixels: an int, or (y, x). Defaults to 1.
            groups: Number of groups that the channels are split into; each group has its own weights. Defaults to 1.
            padding: Padding of the forward convolution: "TF_VALID" (no padding, the default), "TF_SAME",
                "ONNX_SAME_LOWER", or ((top, bottom), (left, right)) in pixels.
            data_layout: "NHWC" (the default) or "NCHW".
            weights_layout: "HWIO" (the default) or "OIHW".
            name: Name of the operation.

        Returns:
            A tensor of shape output_shape, (N, out_h, out_w, C) or (N, C, out_h, out_w), with the dtype of source.

        Raises:
            ShapeError: If shapes do not match, for example because the forward convolution of output_shape does not
                have the shape of source, or the padding is malformed.
            DTypeError: If the operands are not floating-point or their dtypes differ.
            GraphError: If a layout or padding style is not supported.

        Gradient: computed by convolution_transpose2d_data_gradient for source, and by
        convolution_transpose2d_weights_gradient for weights.

        Source: MPSGraph convolutionTranspose2DWithSourceTensor:weightsTensor:outputShape:descriptor:name: and its
        variant with outputShapeTensor:.

        Example:
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
        """Compute the gradient of convolution_transpose2d with respect to its source, which is a forward convolution.

        result = convolution2d(incoming, weights).

        Args:
            incoming: Gradient with respect to the result of convolution_transpose2d, with the shape of that result.
            weights: The weights given to convolution_transpose2d.
            output_shape: Shape of source, as ints or as an integer tensor of rank 1.
            strides: Step between windows in pixels: an int, or (y, x). Defaults to 1.
            dilations: Spacing between the elements of the kernel in pixels: an int, or (y, x). Defaults to 1.
            groups: Number of groups that the channels are split into; each group has its own weights. Defaults to 1.
            padding: "TF_VALID" (no padding, the default); "TF_SAME" (output size = ceil(input size / stride), where an
                odd pixel of padding goes to the bottom and right); "ONNX_SAME_LOWER" (the same, with the odd pixel at
                the top and left); or ((top, bottom), (left, right)) in pixels.
            data_layout: "NHWC" (the default) or "NCHW".
            weights_layout: "HWIO" (the default) or "OIHW".
            name: Name of the operation.

        Returns:
            A tensor of shape output_shape, with the dtype of incoming.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or the padding is malformed.
            DTypeError: If the operands are not floating-point or their dtypes differ.
            GraphError: If a layout or padding style is not supported.

        Gradient: computed by convolution2d_data_gradient for incoming, and by convolution2d_weights_gradient for
        weights.

        Source: MPSGraph convolutionTranspose2DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:
        forwardConvolutionDescriptor:name: and its variant with outputShapeTensor:.

        Example:
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
        """Compute the gradient of convolution_transpose2d with respect to its weights.

        result[i, j, c, o] = sum of incoming * source over all uses of weights[i, j, c, o]. This is
        convolution2d_weights_gradient with incoming and source exchanged.

        Args:
            incoming: Gradient with respect to the result of convolution_transpose2d, with the shape of that result.
            source: The source given to convolution_transpose2d.
            output_shape: Shape of the weights, as ints or as an integer tensor of rank 1.
            strides: Step between windows in pixels: an int, or (y, x). Defaults to 1.
            dilations: Spacing between the elements of the kernel in pixels: an int, or (y, x). Defaults to 1.
            groups: Number of groups that the channels are split into; each group has its own weights. Defaults to 1.
            padding: "TF_VALID" (no padding, the default); "TF_SAME" (output size = ceil(input size / stride), where an
                odd pixel of padding goes to the bottom and right); "ONNX_SAME_LOWER" (the same, with the odd pixel at
                the top and left); or ((top, bottom), (left, right)) in pixels.
            data_layout: "NHWC" (the default) or "NCHW".
            weights_layout: "HWIO" (the default) or "OIHW".
            name: Name of the operation.

        Returns:
            A tensor of shape output_shape, with the dtype of incoming.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or the padding is malformed.
            DTypeError: If the operands are not floating-point or their dtypes differ.
            GraphError: If a layout or padding style is not supported.

        Gradient: computed by convolution2d_data_gradient for incoming, and by convolution2d for source.

        Source: MPSGraph convolutionTranspose2DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:
        forwardConvolutionDescriptor:name: and its variant with outputShapeTensor:.

        Example:
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
        """Copy the windows of images into the rows of a matrix, so that a convolution becomes one matmul.

        result[n, y * out_w + x, (i * kernel_w + j) * C + c] =
        source[n, y * stride_y + i * dilation_y - top, x * stride_x + j * dilation_x - left, c], and 0 in the padding.
        With data_layout="NCHW", windows become columns, as in torch.nn.Unfold:
        result[n, (c * kernel_h + i) * kernel_w + j, y * out_w + x].

        Args:
            source: Numeric images of shape (N, H, W, C), or (N, C, H, W) with data_layout="NCHW".
            kernel: Height and width of the window in pixels; an int means a square.
            strides: Step between windows in pixels: an int, or (y, x). Defaults to 1.
            dilations: Spacing between the elements of the kernel in pixels: an int, or (y, x). Defaults to 1.
            padding: ((top, bottom), (left, right)) in pixels of zeros. Defaults to none.
            data_layout: "NHWC" (the default) or "NCHW".
            name: Name of the operation.

        Returns:
            A tensor of shape (N, out_h * out_w, kernel_h * kernel_w * C), or (N, C * kernel_h * kernel_w, out_h *
            out_w) with data_layout="NCHW". Apple does not document the order within rows and columns; this order turns
            the convolution into a matmul without rearranging the weights.

        Raises:
            ShapeError: If source does not have rank 4, the window does not fit, or the padding is malformed.
            DTypeError: If source is bool.
            GraphError: If data_layout is not supported.

        Gradient: computed by col_to_im.

        Source: MPSGraph imToColWithSourceTensor:descriptor:name:.

        Example:
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
        """Add columns back to the image pixels that im_to_col copied them from, omitting elements of the padding.

        result[n, y, x, c] = sum of all elements of source that im_to_col would copy from the pixel (n, y, x, c).

        Args:
            source: Tensor of rank 3 with the shape of the result of im_to_col.
            output_shape: Shape of the images, as ints or as an integer tensor of rank 1.
            kernel: Height and width of the window in pixels; an int means a square.
            strides: Step between windows in pixels: an int, or (y, x). Defaults to 1.
            dilations: Spacing between the elements of the kernel in pixels: an int, or (y, x). Defaults to 1.
            padding: ((top, bottom), (left, right)) in pixels of zeros. Defaults to none.
            data_layout: "NHWC" (the default) or "NCHW".
            name: Name of the operation.

        Returns:
            A tensor of shape output_shape, with the dtype of source.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or the padding is malformed.
            DTypeError: If source is bool.
            GraphError: If data_layout is not supported.

        Gradient: computed by im_to_col.

        Source: MPSGraph colToImWithSourceTensor:outputShape:descriptor:name:.

        Example:
            >>> g = mg.Graph()
            >>> columns = g.constant([[[1.0, 2.0], [2.0, 3.0]]])
            >>> g.run({}, g.col_to_im(columns, (1, 1, 3, 1), (1, 2))).numpy().ravel().tolist()
            [1.0, 4.0, 3.0]
        """
        attributes = _column_attributes("col_to_im", kernel, strides, dilations, padding, data_layout)
        return self._tensor("col_to_im", [source, self._shape_operand(output_shape, "col_to_im")], name, **attributes)
