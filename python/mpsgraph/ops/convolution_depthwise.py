"""Depthwise convolution over two and three axes, where each channel has its own weights, and its two gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._family import Family, ShapeLike, Tensor
from ._padding import Padding
from .convolution import window_attributes


def _attributes2d(
    kind: str,
    strides: int | Sequence[int],
    dilations: int | Sequence[int],
    padding: Padding,
    data_layout: str,
    weights_layout: str,
) -> dict[str, Any]:
    layouts = {"data_layout": data_layout, "weights_layout": weights_layout}
    return window_attributes(kind, 2, strides, dilations, padding, **layouts)


def _attributes3d(
    kind: str,
    strides: int | Sequence[int],
    dilations: int | Sequence[int],
    padding: Padding,
    channel_dimension_index: int,
) -> dict[str, Any]:
    return window_attributes(kind, 3, strides, dilations, padding, channel_dimension_index=channel_dimension_index)


class DepthwiseConvolution(Family):
    """Graph methods for depthwise_convolution2d, depthwise_convolution3d, and their gradients."""

    def depthwise_convolution2d(
        self,
        source: Tensor,
        weights: Tensor,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        padding: Padding = "TF_VALID",
        data_layout: str = "NHWC",
        weights_layout: str = "HWIO",
        name: str | None = None,
    ) -> Tensor:
        """Convolve each channel of an image separately.

        result[n, y, x, c * M + m] = sum over i, j of
        source[n, y * stride_y + i * dilation_y - top, x * stride_x + ..., c] * weights[i, j, c, m].

        Args:
            source: Floating-point images of shape (N, H, W, C), or (N, C, H, W) with data_layout="NCHW".
            weights: Kernel of shape (kernel_h, kernel_w, C, M), or (M, C, kernel_h, kernel_w) with
                weights_layout="OIHW"; the dtype of source. M, on the axis of output channels, is the channel
                multiplier.
            strides: Step between windows in pixels: an int, or (y, x). Defaults to 1.
            dilations: Spacing between the elements of the kernel in pixels: an int, or (y, x). Defaults to 1.
            padding: "TF_VALID" (no padding, the default); "TF_SAME" (output size = ceil(input size / stride), where an
                odd pixel of padding goes to the bottom and right); "ONNX_SAME_LOWER" (the same, with the odd pixel at
                the top and left); or ((top, bottom), (left, right)) in pixels.
            data_layout: "NHWC" (the default) or "NCHW".
            weights_layout: "HWIO" (the default) or "OIHW".
            name: Name of the operation.

        Returns:
            A tensor of shape (N, out_h, out_w, C * M), or (N, C * M, out_h, out_w) with data_layout="NCHW".

        Raises:
            ShapeError: If ranks or channels do not match, or the padding is malformed.
            DTypeError: If the operands are not floating-point or their dtypes differ.
            GraphError: If a layout or padding style is not supported.

        Gradient: computed by depthwise_convolution2d_data_gradient for source, and by
        depthwise_convolution2d_weights_gradient for weights.

        Source: MPSGraph depthwiseConvolution2DWithSourceTensor:weightsTensor:descriptor:name:.

        Example:
            >>> g = mg.Graph()
            >>> x = g.reshape(g.constant([1.0, 10.0, 2.0, 20.0]), (1, 1, 2, 2))
            >>> g.run({}, g.depthwise_convolution2d(x, g.constant(1.0, (1, 2, 2, 1)))).tolist()
            [[[[3.0, 30.0]]]]
        """
        kind = "depthwise_convolution2d"
        attributes = _attributes2d(kind, strides, dilations, padding, data_layout, weights_layout)
        return self._tensor(kind, [source, weights], name, **attributes)

    def depthwise_convolution2d_data_gradient(
        self,
        incoming: Tensor,
        weights: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        padding: Padding = "TF_VALID",
        data_layout: str = "NHWC",
        weights_layout: str = "HWIO",
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of depthwise_convolution2d with respect to its source.

        result[n, y, x, c] = sum of incoming * weights over all uses of source[n, y, x, c] in the convolution.

        Args:
            incoming: Gradient with respect to the result of depthwise_convolution2d, with the shape of that result.
            weights: The weights given to depthwise_convolution2d.
            output_shape: Shape of source, as ints or as an integer tensor of rank 1.
            strides: Step between windows in pixels: an int, or (y, x). Defaults to 1.
            dilations: Spacing between the elements of the kernel in pixels: an int, or (y, x). Defaults to 1.
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

        Gradient: computed by depthwise_convolution2d for incoming, and by depthwise_convolution2d_weights_gradient for
        weights.

        Source: MPSGraph
        depthwiseConvolution2DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:descriptor:name:.

        Example:
            >>> g = mg.Graph()
            >>> d, w = g.constant(1.0, (1, 1, 1, 2)), g.reshape(g.constant([2.0, 3.0]), (1, 1, 2, 1))
            >>> g.run({}, g.depthwise_convolution2d_data_gradient(d, w, (1, 1, 1, 2))).tolist()
            [[[[2.0, 3.0]]]]
        """
        kind = "depthwise_convolution2d_data_gradient"
        attributes = _attributes2d(kind, strides, dilations, padding, data_layout, weights_layout)
        return self._tensor(kind, [incoming, weights, self._shape_operand(output_shape, kind)], name, **attributes)

    def depthwise_convolution2d_weights_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        padding: Padding = "TF_VALID",
        data_layout: str = "NHWC",
        weights_layout: str = "HWIO",
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of depthwise_convolution2d with respect to its weights.

        result[i, j, c, m] = sum of incoming * source over all uses of weights[i, j, c, m] in the convolution.

        Args:
            incoming: Gradient with respect to the result of depthwise_convolution2d, with the shape of that result.
            source: The source given to depthwise_convolution2d.
            output_shape: Shape of the weights, as ints or as an integer tensor of rank 1.
            strides: Step between windows in pixels: an int, or (y, x). Defaults to 1.
            dilations: Spacing between the elements of the kernel in pixels: an int, or (y, x). Defaults to 1.
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

        Gradient: computed by depthwise_convolution2d for incoming, and by depthwise_convolution2d_data_gradient for
        source.

        Source: MPSGraph
        depthwiseConvolution2DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:descriptor:name:.

        Example:
            >>> g = mg.Graph()
            >>> d, x = g.constant(1.0, (1, 2, 2, 1)), g.constant(3.0, (1, 2, 2, 1))
            >>> g.run({}, g.depthwise_convolution2d_weights_gradient(d, x, (1, 1, 1, 1))).tolist()
            [[[[12.0]]]]
        """
        kind = "depthwise_convolution2d_weights_gradient"
        attributes = _attributes2d(kind, strides, dilations, padding, data_layout, weights_layout)
        return self._tensor(kind, [incoming, source, self._shape_operand(output_shape, kind)], name, **attributes)

    def depthwise_convolution3d(
        self,
        source: Tensor,
        weights: Tensor,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        padding: Padding = "TF_VALID",
        channel_dimension_index: int = -4,
        name: str | None = None,
    ) -> Tensor:
        """Convolve each channel of a volume separately.

        result[..., c * M + m, z, y, x] = sum over h, i, j of
        source[..., c, z * stride_z + h * dilation_z - front, y * ..., x * ...] * weights[c * M + m, h, i, j].

        Args:
            source: Floating-point volumes of shape (..., C, D, H, W), of rank 4 or higher; the channels may be on any
                of the last four axes.
            weights: Kernel of shape (C * M, kernel_d, kernel_h, kernel_w), whose channels are on the axis that
                channel_dimension_index selects among its four axes; the dtype of source. M is the number of results for
                each channel, usually 1.
            strides: Step between windows in voxels: an int, or (z, y, x). Defaults to 1.
            dilations: Spacing between the elements of the kernel in voxels: an int, or (z, y, x). Defaults to 1.
            padding: "TF_VALID" (no padding, the default); "TF_SAME" (output size = ceil(input size / stride), where an
                odd voxel of padding goes to the end of the axis); "ONNX_SAME_LOWER" (the same, with the odd voxel at
                the start); or ((front, back), (top, bottom), (left, right)) in voxels.
            channel_dimension_index: Axis of the channels, counted from the end: -4 for NCDHW (the default), -1 for
                NDHWC.
            name: Name of the operation.

        Returns:
            A tensor with the shape of source except for the sizes of the last four axes.

        Raises:
            ShapeError: If ranks or channels do not match, or the padding is malformed.
            DTypeError: If the operands are not floating-point or their dtypes differ.
            GraphError: If a padding style or channel_dimension_index is not supported.

        Gradient: computed by depthwise_convolution3d_data_gradient for source, and by
        depthwise_convolution3d_weights_gradient for weights.

        Source: MPSGraph depthwiseConvolution3DWithSourceTensor:weightsTensor:descriptor:name:, with its default layout.

        Example:
            >>> g = mg.Graph()
            >>> x = g.reshape(g.constant([1.0, 2.0, 10.0, 20.0]), (1, 2, 1, 1, 2))
            >>> g.run({}, g.depthwise_convolution3d(x, g.constant(1.0, (2, 1, 1, 2)))).numpy().ravel().tolist()
            [3.0, 30.0]
        """
        kind = "depthwise_convolution3d"
        attributes = _attributes3d(kind, strides, dilations, padding, channel_dimension_index)
        return self._tensor(kind, [source, weights], name, **attributes)

    def depthwise_convolution3d_data_gradient(
        self,
        incoming: Tensor,
        weights: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        padding: Padding = "TF_VALID",
        channel_dimension_index: int = -4,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of depthwise_convolution3d with respect to its source.

        result[..., c, z, y, x] = sum of incoming * weights over all uses of source[..., c, z, y, x] in the convolution.

        Args:
            incoming: Gradient with respect to the result of depthwise_convolution3d, with the shape of that result.
            weights: The weights given to depthwise_convolution3d.
            output_shape: Shape of source, as ints or as an integer tensor of rank 1.
            strides: Step between windows in voxels: an int, or (z, y, x). Defaults to 1.
            dilations: Spacing between the elements of the kernel in voxels: an int, or (z, y, x). Defaults to 1.
            padding: "TF_VALID" (no padding, the default); "TF_SAME" (output size = ceil(input size / stride), where an
                odd voxel of padding goes to the end of the axis); "ONNX_SAME_LOWER" (the same, with the odd voxel at
                the start); or ((front, back), (top, bottom), (left, right)) in voxels.
            channel_dimension_index: Axis of the channels, counted from the end: -4 for NCDHW (the default), -1 for
                NDHWC.
            name: Name of the operation.

        Returns:
            A tensor of shape output_shape, with the dtype of incoming.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or the padding is malformed.
            DTypeError: If the operands are not floating-point or their dtypes differ.
            GraphError: If a padding style or channel_dimension_index is not supported.

        Gradient: computed by depthwise_convolution3d for incoming, and by depthwise_convolution3d_weights_gradient for
        weights.

        Source: MPSGraph
        depthwiseConvolution3DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:descriptor:name:.

        Example:
            >>> g = mg.Graph()
            >>> d, w = g.constant(1.0, (2, 1, 1, 1)), g.reshape(g.constant([2.0, 3.0]), (2, 1, 1, 1))
            >>> g.run({}, g.depthwise_convolution3d_data_gradient(d, w, (2, 1, 1, 1))).numpy().ravel().tolist()
            [2.0, 3.0]
        """
        kind = "depthwise_convolution3d_data_gradient"
        attributes = _attributes3d(kind, strides, dilations, padding, channel_dimension_index)
        return self._tensor(kind, [incoming, weights, self._shape_operand(output_shape, kind)], name, **attributes)

    def depthwise_convolution3d_weights_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        padding: Padding = "TF_VALID",
        channel_dimension_index: int = -4,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of depthwise_convolution3d with respect to its weights.

        result[c, h, i, j] = sum of incoming * source over all uses of weights[c, h, i, j] in the convolution.

        Args:
            incoming: Gradient with respect to the result of depthwise_convolution3d, with the shape of that result.
            source: The source given to depthwise_convolution3d.
            output_shape: Shape of the weights, as ints or as an integer tensor of rank 1.
            strides: Step between windows in voxels: an int, or (z, y, x). Defaults to 1.
            dilations: Spacing between the elements of the kernel in voxels: an int, or (z, y, x). Defaults to 1.
            padding: "TF_VALID" (no padding, the default); "TF_SAME" (output size = ceil(input size / stride), where an
                odd voxel of padding goes to the end of the axis); "ONNX_SAME_LOWER" (the same, with the odd voxel at
                the start); or ((front, back), (top, bottom), (left, right)) in voxels.
            channel_dimension_index: Axis of the channels, counted from the end: -4 for NCDHW (the default), -1 for
                NDHWC.
            name: Name of the operation.

        Returns:
            A tensor of shape output_shape, with the dtype of incoming.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or the padding is malformed.
            DTypeError: If the operands are not floating-point or their dtypes differ.
            GraphError: If a padding style or channel_dimension_index is not supported.

        Gradient: computed by depthwise_convolution3d for incoming, and by depthwise_convolution3d_data_gradient for
        source.

        Source: MPSGraph
        depthwiseConvolution3DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:descriptor:name:.

        Example:
            >>> g = mg.Graph()
            >>> d, x = g.constant(1.0, (1, 2, 2, 2)), g.constant(3.0, (1, 2, 2, 2))
            >>> g.run({}, g.depthwise_convolution3d_weights_gradient(d, x, (1, 1, 1, 1))).item()
            24.0
        """
        kind = "depthwise_convolution3d_weights_gradient"
        attributes = _attributes3d(kind, strides, dilations, padding, channel_dimension_index)
        return self._tensor(kind, [incoming, source, self._shape_operand(output_shape, kind)], name, **attributes)
