"""Convolution over two and three axes, and its two gradients. Depthwise and transposed convolutions have separate
files.

Layouts and padding styles keep MPSGraph's spelling (NHWC, HWIO, TF_SAME). A layout only describes how the caller's
operand is laid out; the compiler may store activations and weights in whatever layout the kernels prefer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._family import Family, ShapeLike, Tensor, ints
from ._padding import Padding, padding_attributes


def window_attributes(
    kind: str,
    axes: int,
    strides: int | Sequence[int],
    dilations: int | Sequence[int],
    padding: Padding,
    **others: Any,
) -> dict[str, Any]:
    """Return the attributes that all convolutions share. Raise an error if a length differs from the number of axes."""
    return {
        "strides": ints(strides, f"[{kind}] strides", axes),
        "dilations": ints(dilations, f"[{kind}] dilations", axes),
        **padding_attributes(padding, kind, axes),
        **others,
    }


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
    return window_attributes(kind, 3 if "3d" in kind else 2, strides, dilations, padding, groups=groups, **layouts)


class Convolution(Family):
    """Graph methods for convolution2d, convolution3d, and their gradients with respect to data and weights."""

    def convolution2d(
        self,
        source: Tensor,
        weights: Tensor,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        padding: Padding = "TF_VALID",
        data_layout: str = "NHWC",
        weights_layout: str = "HWIO",
        name: str | None = None,
    ) -> Tensor:
        """Compute a two-dimensional convolution (a cross-correlation, as usual in machine learning).

        result[n, y, x, o] = sum over i, j, c of
        source[n, y * stride_y + i * dilation_y - top, x * stride_x + j * dilation_x - left, c] * weights[i, j, c, o].

        Args:
            source: Floating-point images of shape (N, H, W, C), or (N, C, H, W) with data_layout="NCHW".
            weights: Kernel of shape (kernel_h, kernel_w, C / groups, O), or (O, C / groups, kernel_h, kernel_w) with
                weights_layout="OIHW"; the dtype of source.
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
            A tensor of shape (N, out_h, out_w, O), or (N, O, out_h, out_w) with data_layout="NCHW".

        Raises:
            ShapeError: If ranks, channels, or groups do not match, or the padding is malformed.
            DTypeError: If the operands are not floating-point or their dtypes differ.
            GraphError: If a layout or padding style is not supported.

        Gradient: computed by convolution2d_data_gradient for source, and by convolution2d_weights_gradient for weights.

        Source: MPSGraph convolution2DWithSourceTensor:weightsTensor:descriptor:name:.

        Example:
            >>> g = mg.Graph()
            >>> x, w = g.constant(1.0, (1, 3, 3, 1)), g.constant(1.0, (3, 3, 1, 1))
            >>> g.run({}, g.convolution2d(x, w)).tolist()
            [[[[9.0]]]]
            >>> g.convolution2d(x, w, padding="TF_SAME").shape
            (1, 3, 3, 1)
        """
        attributes = _attributes("convolution2d", strides, dilations, groups, padding, data_layout, weights_layout)
        return self._tensor("convolution2d", [source, weights], name, **attributes)

    def convolution2d_data_gradient(
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
        """Compute the gradient of convolution2d with respect to its source.

        result[n, y, x, c] = sum of incoming * weights over all uses of source[n, y, x, c] in the convolution.

        Args:
            incoming: Gradient with respect to the result of convolution2d, with the shape of that result.
            weights: The weights given to convolution2d.
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

        Gradient: computed by convolution2d for incoming, and by convolution2d_weights_gradient for weights.

        Source: MPSGraph convolution2DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:
        forwardConvolutionDescriptor:name:.

        Example:
            >>> g = mg.Graph()
            >>> d, w = g.constant(1.0, (1, 1, 1, 1)), g.constant(2.0, (1, 2, 1, 1))
            >>> g.run({}, g.convolution2d_data_gradient(d, w, (1, 1, 2, 1))).tolist()
            [[[[2.0], [2.0]]]]
        """
        kind = "convolution2d_data_gradient"
        attributes = _attributes(kind, strides, dilations, groups, padding, data_layout, weights_layout)
        return self._tensor(kind, [incoming, weights, self._shape_operand(output_shape, kind)], name, **attributes)

    def convolution2d_weights_gradient(
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
        """Compute the gradient of convolution2d with respect to its weights.

        result[i, j, c, o] = sum of incoming * source over all uses of weights[i, j, c, o] in the convolution.

        Args:
            incoming: Gradient with respect to the result of convolution2d, with the shape of that result.
            source: The source given to convolution2d.
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

        Gradient: computed by convolution2d for incoming, and by convolution2d_data_gradient for source.

        Source: MPSGraph convolution2DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:
        forwardConvolutionDescriptor:name:.

        Example:
            >>> g = mg.Graph()
            >>> d, x = g.constant(1.0, (1, 2, 2, 1)), g.constant(3.0, (1, 2, 2, 1))
            >>> g.run({}, g.convolution2d_weights_gradient(d, x, (1, 1, 1, 1))).tolist()
            [[[[12.0]]]]
        """
        kind = "convolution2d_weights_gradient"
        attributes = _attributes(kind, strides, dilations, groups, padding, data_layout, weights_layout)
        return self._tensor(kind, [incoming, source, self._shape_operand(output_shape, kind)], name, **attributes)

    def convolution3d(
        self,
        source: Tensor,
        weights: Tensor,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        padding: Padding = "TF_VALID",
        data_layout: str = "NDHWC",
        weights_layout: str = "DHWIO",
        name: str | None = None,
    ) -> Tensor:
        """Compute a three-dimensional convolution (a cross-correlation): convolution2d with an additional depth axis.

        result[n, z, y, x, o] = sum over h, i, j, c of
        source[n, z * stride_z + h * dilation_z - front, y * stride_y + ..., x * ..., c] * weights[h, i, j, c, o].

        Args:
            source: Floating-point volumes of shape (N, D, H, W, C), or (N, C, D, H, W) with data_layout="NCDHW".
            weights: Kernel of shape (kernel_d, kernel_h, kernel_w, C / groups, O), or (O, C / groups, kernel_d,
                kernel_h, kernel_w) with weights_layout="OIDHW"; the dtype of source.
            strides: Step between windows in voxels: an int, or (z, y, x). Defaults to 1.
            dilations: Spacing between the elements of the kernel in voxels: an int, or (z, y, x). Defaults to 1.
            groups: Number of groups that the channels are split into; each group has its own weights. Defaults to 1.
            padding: "TF_VALID" (no padding, the default); "TF_SAME" (output size = ceil(input size / stride), where an
                odd voxel of padding goes to the end of the axis); "ONNX_SAME_LOWER" (the same, with the odd voxel at
                the start); or ((front, back), (top, bottom), (left, right)) in voxels.
            data_layout: "NDHWC" (the default) or "NCDHW".
            weights_layout: "DHWIO" (the default) or "OIDHW".
            name: Name of the operation.

        Returns:
            A tensor of shape (N, out_d, out_h, out_w, O), or (N, O, out_d, out_h, out_w) with data_layout="NCDHW".

        Raises:
            ShapeError: If ranks, channels, or groups do not match, or the padding is malformed.
            DTypeError: If the operands are not floating-point or their dtypes differ.
            GraphError: If a layout or padding style is not supported.

        Gradient: computed by convolution3d_data_gradient for source, and by convolution3d_weights_gradient for weights.

        Source: MPSGraph convolution3DWithSourceTensor:weightsTensor:descriptor:name:.

        Example:
            >>> g = mg.Graph()
            >>> x, w = g.constant(1.0, (1, 2, 3, 3, 1)), g.constant(1.0, (2, 3, 3, 1, 1))
            >>> g.run({}, g.convolution3d(x, w)).item()
            18.0
            >>> g.convolution3d(x, w, padding="TF_SAME").shape
            (1, 2, 3, 3, 1)
        """
        attributes = _attributes("convolution3d", strides, dilations, groups, padding, data_layout, weights_layout)
        return self._tensor("convolution3d", [source, weights], name, **attributes)

    def convolution3d_data_gradient(
        self,
        incoming: Tensor,
        weights: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        padding: Padding = "TF_VALID",
        data_layout: str = "NDHWC",
        weights_layout: str = "DHWIO",
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of convolution3d with respect to its source.

        This operation also serves as the transposed convolution over three axes.

        result[n, z, y, x, c] = sum of incoming * weights over all uses of source[n, z, y, x, c] in the convolution.

        Args:
            incoming: Gradient with respect to the result of convolution3d, with the shape of that result.
            weights: The weights given to convolution3d.
            output_shape: Shape of source, as ints or as an integer tensor of rank 1.
            strides: Step between windows in voxels: an int, or (z, y, x). Defaults to 1.
            dilations: Spacing between the elements of the kernel in voxels: an int, or (z, y, x). Defaults to 1.
            groups: Number of groups that the channels are split into; each group has its own weights. Defaults to 1.
            padding: "TF_VALID" (no padding, the default); "TF_SAME" (output size = ceil(input size / stride), where an
                odd voxel of padding goes to the end of the axis); "ONNX_SAME_LOWER" (the same, with the odd voxel at
                the start); or ((front, back), (top, bottom), (left, right)) in voxels.
            data_layout: "NDHWC" (the default) or "NCDHW".
            weights_layout: "DHWIO" (the default) or "OIDHW".
            name: Name of the operation.

        Returns:
            A tensor of shape output_shape, with the dtype of incoming.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or the padding is malformed.
            DTypeError: If the operands are not floating-point or their dtypes differ.
            GraphError: If a layout or padding style is not supported.

        Gradient: computed by convolution3d for incoming, and by convolution3d_weights_gradient for weights.

        Source: MPSGraph convolution3DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:
        forwardConvolutionDescriptor:name: and its variant with outputShapeTensor:.

        Example:
            >>> g = mg.Graph()
            >>> d, w = g.constant(1.0, (1, 1, 1, 1, 1)), g.constant(2.0, (1, 1, 2, 1, 1))
            >>> g.run({}, g.convolution3d_data_gradient(d, w, (1, 1, 1, 2, 1))).numpy().ravel().tolist()
            [2.0, 2.0]
        """
        kind = "convolution3d_data_gradient"
        attributes = _attributes(kind, strides, dilations, groups, padding, data_layout, weights_layout)
        return self._tensor(kind, [incoming, weights, self._shape_operand(output_shape, kind)], name, **attributes)

    def convolution3d_weights_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        padding: Padding = "TF_VALID",
        data_layout: str = "NDHWC",
        weights_layout: str = "DHWIO",
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of convolution3d with respect to its weights.

        result[h, i, j, c, o] = sum of incoming * source over all uses of weights[h, i, j, c, o] in the convolution.

        Args:
            incoming: Gradient with respect to the result of convolution3d, with the shape of that result.
            source: The source given to convolution3d.
            output_shape: Shape of the weights, as ints or as an integer tensor of rank 1.
            strides: Step between windows in voxels: an int, or (z, y, x). Defaults to 1.
            dilations: Spacing between the elements of the kernel in voxels: an int, or (z, y, x). Defaults to 1.
            groups: Number of groups that the channels are split into; each group has its own weights. Defaults to 1.
            padding: "TF_VALID" (no padding, the default); "TF_SAME" (output size = ceil(input size / stride), where an
                odd voxel of padding goes to the end of the axis); "ONNX_SAME_LOWER" (the same, with the odd voxel at
                the start); or ((front, back), (top, bottom), (left, right)) in voxels.
            data_layout: "NDHWC" (the default) or "NCDHW".
            weights_layout: "DHWIO" (the default) or "OIDHW".
            name: Name of the operation.

        Returns:
            A tensor of shape output_shape, with the dtype of incoming.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or the padding is malformed.
            DTypeError: If the operands are not floating-point or their dtypes differ.
            GraphError: If a layout or padding style is not supported.

        Gradient: computed by convolution3d for incoming, and by convolution3d_data_gradient for source.

        Source: MPSGraph convolution3DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:
        forwardConvolutionDescriptor:name: and its variant with outputShapeTensor:.

        Example:
            >>> g = mg.Graph()
            >>> d, x = g.constant(1.0, (1, 2, 2, 2, 1)), g.constant(3.0, (1, 2, 2, 2, 1))
            >>> g.run({}, g.convolution3d_weights_gradient(d, x, (1, 1, 1, 1, 1))).item()
            24.0
        """
        kind = "convolution3d_weights_gradient"
        attributes = _attributes(kind, strides, dilations, groups, padding, data_layout, weights_layout)
        return self._tensor(kind, [incoming, source, self._shape_operand(output_shape, kind)], name, **attributes)
