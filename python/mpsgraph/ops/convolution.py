"""Convolution over two and three axes, and its two gradients; what is depthwise or transposed has files of its own.

Layouts and padding styles keep MPSGraph's spelling (NHWC, HWIO, TF_SAME). A layout says only how the operand is laid
out for the user; the compiler keeps activations and weights as the kernels prefer.
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
    """What all convolutions share, by windowed axis."""
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
    """convolution2d, convolution3d, and for each _data_gradient and _weights_gradient."""

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
        """Two-dimensional convolution (cross-correlation, as everywhere in machine learning).

        result[n, y, x, o] = sum over i, j, c of
        source[n, y * stride_y + i * dilation_y - top, x * stride_x + j * dilation_x - left, c] * weights[i, j, c, o].

        Args:
            source: (N, H, W, C), or (N, C, H, W) with data_layout="NCHW"; a floating-point dtype.
            weights: (kernel_h, kernel_w, C / groups, O), or (O, C / groups, kernel_h, kernel_w) with
                weights_layout="OIHW"; source's dtype.
            strides, dilations: one int, or (y, x), in pixels.
            groups: channels are split into that many groups, which see only their own weights.
            padding: "TF_VALID" (none), "TF_SAME" (output = ceil(input / stride), an odd pixel at bottom and right),
                "ONNX_SAME_LOWER" (it is at top and left), or ((top, bottom), (left, right)) in pixels.
            data_layout: "NHWC" or "NCHW". weights_layout: "HWIO" or "OIHW". name: the operation's name.
        Result: (N, out_h, out_w, O), or (N, O, out_h, out_w).
        Errors: ShapeError for ranks, channels or groups that do not fit; DTypeError.
        Gradient: convolution2d_data_gradient to source, convolution2d_weights_gradient to weights.
        Source: MPSGraph convolution2DWithSourceTensor:weightsTensor:descriptor:name:.

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
        """Gradient of convolution2d with respect to its source.

        result[n, y, x, c] = the sum of incoming * weights over all places where source[n, y, x, c] was used.
        Args: incoming, shaped as the convolution's result; weights and the rest as given to convolution2d;
        output_shape, the source's shape, ints or an int tensor of rank 1. Result: output_shape, incoming's dtype.
        Errors: ShapeError, DTypeError. Gradient: convolution2d to incoming, convolution2d_weights_gradient to weights.
        Source: MPSGraph
        convolution2DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:forwardConvolutionDescriptor:name:.

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
        """Gradient of convolution2d with respect to its weights.

        result[i, j, c, o] = the sum of incoming * source over all places where weights[i, j, c, o] was used.
        Args: incoming, shaped as the convolution's result; source and the rest as given to convolution2d;
        output_shape, the weights' shape, ints or an int tensor of rank 1. Result: output_shape, incoming's dtype.
        Errors: ShapeError, DTypeError. Gradient: convolution2d to incoming, convolution2d_data_gradient to source.
        Source: MPSGraph
        convolution2DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:forwardConvolutionDescriptor:name:.

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
        """Three-dimensional convolution (cross-correlation): convolution2d with an axis more, the depth.

        result[n, z, y, x, o] = sum over h, i, j, c of
        source[n, z * stride_z + h * dilation_z - front, y * stride_y + ..., x * ..., c] * weights[h, i, j, c, o].

        Args:
            source: (N, D, H, W, C), or (N, C, D, H, W) with data_layout="NCDHW"; a floating-point dtype.
            weights: (kernel_d, kernel_h, kernel_w, C / groups, O), or (O, C / groups, kernel_d, kernel_h, kernel_w)
                with weights_layout="OIDHW"; source's dtype.
            strides, dilations: one int, or (z, y, x), in voxels.
            groups: channels are split into that many groups, which see only their own weights.
            padding: a style as for convolution2d, or ((front, back), (top, bottom), (left, right)) in voxels.
            data_layout: "NDHWC" or "NCDHW". weights_layout: "DHWIO" or "OIDHW". name: the operation's name.
        Result: (N, out_d, out_h, out_w, O), or (N, O, out_d, out_h, out_w).
        Errors: ShapeError for ranks, channels or groups that do not fit; DTypeError.
        Gradient: convolution3d_data_gradient to source, convolution3d_weights_gradient to weights.
        Source: MPSGraph convolution3DWithSourceTensor:weightsTensor:descriptor:name:.

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
        """Gradient of convolution3d with respect to its source; also the transposed convolution of three axes.

        result[n, z, y, x, c] = the sum of incoming * weights over all places where source[n, z, y, x, c] was used.
        Args: incoming, shaped as the convolution's result; weights and the rest as given to convolution3d;
        output_shape, the source's shape, ints or an int tensor of rank 1. Result: output_shape, incoming's dtype.
        Errors: ShapeError, DTypeError. Gradient: convolution3d to incoming, convolution3d_weights_gradient to weights.
        Source: MPSGraph
        convolution3DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:forwardConvolutionDescriptor:name:
        and outputShapeTensor:.

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
        """Gradient of convolution3d with respect to its weights.

        result[h, i, j, c, o] = the sum of incoming * source over all places where weights[h, i, j, c, o] was used.
        Args: incoming, shaped as the convolution's result; source and the rest as given to convolution3d;
        output_shape, the weights' shape, ints or an int tensor of rank 1. Result: output_shape, incoming's dtype.
        Errors: ShapeError, DTypeError. Gradient: convolution3d to incoming, convolution3d_data_gradient to source.
        Source: MPSGraph
        convolution3DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:forwardConvolutionDescriptor:name:
        and outputShapeTensor:.

        >>> g = mg.Graph()
        >>> d, x = g.constant(1.0, (1, 2, 2, 2, 1)), g.constant(3.0, (1, 2, 2, 2, 1))
        >>> g.run({}, g.convolution3d_weights_gradient(d, x, (1, 1, 1, 1, 1))).item()
        24.0
        """
        kind = "convolution3d_weights_gradient"
        attributes = _attributes(kind, strides, dilations, groups, padding, data_layout, weights_layout)
        return self._tensor(kind, [incoming, source, self._shape_operand(output_shape, kind)], name, **attributes)
