"""Depthwise convolution over two and three axes: each channel has weights of its own. And its two gradients."""

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
    """depthwise_convolution2d, depthwise_convolution3d, and for each _data_gradient and _weights_gradient."""

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
        """Two-dimensional convolution of each channel by itself.

        result[n, y, x, c * M + m] = sum over i, j of
        source[n, y * stride_y + i * dilation_y - top, x * stride_x + ..., c] * weights[i, j, c, m].

        Args:
            source: (N, H, W, C), or (N, C, H, W) with data_layout="NCHW"; a floating-point dtype.
            weights: (kernel_h, kernel_w, C, M), or (M, C, kernel_h, kernel_w) with weights_layout="OIHW"; source's
                dtype. M, in the place of the output channels, is the channel multiplier.
            strides, dilations, padding, data_layout, weights_layout: as for convolution2d. name: the operation's name.
        Result: (N, out_h, out_w, C * M), or (N, C * M, out_h, out_w).
        Errors: ShapeError for ranks or channels that do not fit; DTypeError.
        Gradient: depthwise_convolution2d_data_gradient to source, depthwise_convolution2d_weights_gradient to weights.
        Source: MPSGraph depthwiseConvolution2DWithSourceTensor:weightsTensor:descriptor:name:.

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
        """Gradient of depthwise_convolution2d with respect to its source.

        result[n, y, x, c] = the sum of incoming * weights over all places where source[n, y, x, c] was used.
        Args: incoming, shaped as the convolution's result; weights and the rest as given to depthwise_convolution2d;
        output_shape, the source's shape, ints or an int tensor of rank 1. Result: output_shape, incoming's dtype.
        Errors: ShapeError, DTypeError.
        Gradient: depthwise_convolution2d to incoming, depthwise_convolution2d_weights_gradient to weights.
        Source: MPSGraph
        depthwiseConvolution2DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:descriptor:name:.

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
        """Gradient of depthwise_convolution2d with respect to its weights.

        result[i, j, c, m] = the sum of incoming * source over all places where weights[i, j, c, m] was used.
        Args: incoming, shaped as the convolution's result; source and the rest as given to depthwise_convolution2d;
        output_shape, the weights' shape, ints or an int tensor of rank 1. Result: output_shape, incoming's dtype.
        Errors: ShapeError, DTypeError.
        Gradient: depthwise_convolution2d to incoming, depthwise_convolution2d_data_gradient to source.
        Source: MPSGraph
        depthwiseConvolution2DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:descriptor:name:.

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
        """Three-dimensional convolution of each channel by itself.

        result[..., c * M + m, z, y, x] = sum over h, i, j of
        source[..., c, z * stride_z + h * dilation_z - front, y * ..., x * ...] * weights[c * M + m, h, i, j].

        Args:
            source: (..., C, D, H, W), of rank 4 or more, or with the channels at another of the last four axes; a
                floating-point dtype.
            weights: (C * M, kernel_d, kernel_h, kernel_w), of rank 4 and with the channels at the same place;
                source's dtype. M is 1 as a rule, and else how many results each channel gives.
            strides, dilations: one int, or (z, y, x), in voxels.
            padding: a style as for convolution2d, or ((front, back), (top, bottom), (left, right)) in voxels.
            channel_dimension_index: where the channels are, from the end: -4 for NCDHW, -1 for NDHWC.
            name: the operation's name.
        Result: source's shape with other sizes at the last four axes. Errors: ShapeError, DTypeError, GraphError.
        Gradient: depthwise_convolution3d_data_gradient to source, depthwise_convolution3d_weights_gradient to weights.
        Source: MPSGraph depthwiseConvolution3DWithSourceTensor:weightsTensor:descriptor:name:, with its default layout.

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
        """Gradient of depthwise_convolution3d with respect to its source.

        result[..., c, z, y, x] = the sum of incoming * weights over all places where source[..., c, z, y, x] was used.
        Args: incoming, shaped as the convolution's result; weights and the rest as given to depthwise_convolution3d;
        output_shape, the source's shape, ints or an int tensor of rank 1. Result: output_shape, incoming's dtype.
        Errors: ShapeError, DTypeError, GraphError.
        Gradient: depthwise_convolution3d to incoming, depthwise_convolution3d_weights_gradient to weights.
        Source: MPSGraph
        depthwiseConvolution3DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:descriptor:name:.

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
        """Gradient of depthwise_convolution3d with respect to its weights.

        result[c, h, i, j] = the sum of incoming * source over all places where weights[c, h, i, j] was used.
        Args: incoming, shaped as the convolution's result; source and the rest as given to depthwise_convolution3d;
        output_shape, the weights' shape, ints or an int tensor of rank 1. Result: output_shape, incoming's dtype.
        Errors: ShapeError, DTypeError, GraphError.
        Gradient: depthwise_convolution3d to incoming, depthwise_convolution3d_data_gradient to source.
        Source: MPSGraph
        depthwiseConvolution3DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:descriptor:name:.

        >>> g = mg.Graph()
        >>> d, x = g.constant(1.0, (1, 2, 2, 2)), g.constant(3.0, (1, 2, 2, 2))
        >>> g.run({}, g.depthwise_convolution3d_weights_gradient(d, x, (1, 1, 1, 1))).item()
        24.0
        """
        kind = "depthwise_convolution3d_weights_gradient"
        attributes = _attributes3d(kind, strides, dilations, padding, channel_dimension_index)
        return self._tensor(kind, [incoming, source, self._shape_operand(output_shape, kind)], name, **attributes)
