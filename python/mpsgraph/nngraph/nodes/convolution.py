"""Filters with weights: MPSCNNConvolutionNode, MPSCNNConvolutionTransposeNode, and MPSCNNFullyConnectedNode."""

from __future__ import annotations

from typing import Any

from ..._core import ImageNode, StateNode
from ._node import Node


class _WithWeights(Node):
    def __init__(
        self,
        source: ImageNode,
        weights: Any,
        *,
        accumulator_precision: str = "float32",
        padding_policy: Any = None,
        label: str = "",
    ) -> None:
        attributes = {"accumulator_precision": accumulator_precision}
        super().__init__([source], attributes, data_source=weights, label=label, padding_policy=padding_policy)
        self.weights = weights


class ConvolutionNode(_WithWeights):
    """Correlation with the weights of a data source, plus biases.

    Groups, depthwise convolution, strides, and dilation are set in the data source's descriptor.

    Args:
        source: Image node that the filter reads.
        weights: Data source, such as TrainableConvolution or any object with the members of ConvolutionDataSource.
        accumulator_precision: "float32" (the default), or "float16" on devices where it is faster. The CPU device
            always accumulates in float32.
        padding_policy: PaddingPolicy, or "same", "valid" or "full". None (the default) means PaddingPolicy(), which is
            "same" with an odd pixel of padding at the top left.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode, weights lacks a required member, or accumulator_precision is unknown.
        ShapeError: From encode_batch, if the number of channels of the images differs from the descriptor's, or no
            window fits into the images.

    Source: MPSCNNConvolutionNode.

    Example:
        >>> nn = mg.nngraph
        >>> source = nn.TrainableConvolution(nn.ConvolutionDescriptor(3, 3, 1, 4))
        >>> node = nn.ConvolutionNode(nn.ImageNode("x"), source)
        >>> nn.NNGraph(None, node.result_image)(np.ones((2, 8, 8, 1), np.float32)).shape
        (2, 8, 8, 4)
    """

    kind_name = "convolution"


class ConvolutionTransposeNode(_WithWeights):
    """Transposed convolution with the weights of a data source, plus biases.

    Zeros are inserted between the pixels, followed by a correlation of stride 1 with the weights (out, height, width,
    in), which are not flipped. Groups and dilation are not supported.

    Args:
        source: Image node that the filter reads.
        weights: Data source, such as TrainableConvolution or any object with the members of ConvolutionDataSource.
        convolution_gradient_state: result_state of the ConvolutionNode that this filter inverts. The result then has
            the size of that node's source, and padding_policy has no effect. None (the default) determines the size
            from padding_policy.
        accumulator_precision: "float32" (the default), or "float16" on devices where it is faster. The CPU device
            always accumulates in float32.
        padding_policy: PaddingPolicy, or "same", "valid" or "full". None (the default) means PaddingPolicy(), which is
            "same" with an odd pixel of padding at the top left.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode, weights lacks a required member, accumulator_precision is unknown, or
            convolution_gradient_state is not the state of a ConvolutionNode.
        ShapeError: From encode_batch, if the number of channels of the images differs from the descriptor's, or the
            size of the images does not match the inverted convolution.

    Source: MPSCNNConvolutionTransposeNode initWithSource:convolutionGradientState:weights:.

    Example:
        >>> nn = mg.nngraph
        >>> source = nn.TrainableConvolution(nn.ConvolutionDescriptor(
        ...     2, 2, 1, 4, stride_in_pixels_x=2, stride_in_pixels_y=2))
        >>> node = nn.ConvolutionTransposeNode(nn.ImageNode("x"), source)
        >>> nn.NNGraph(None, node.result_image)(np.ones((2, 4, 4, 1), np.float32)).shape
        (2, 7, 7, 4)
    """

    kind_name = "convolution_transpose"

    def __init__(
        self,
        source: ImageNode,
        weights: Any,
        *,
        convolution_gradient_state: StateNode | None = None,
        accumulator_precision: str = "float32",
        padding_policy: Any = None,
        label: str = "",
    ) -> None:
        super().__init__(
            source, weights, accumulator_precision=accumulator_precision, padding_policy=padding_policy, label=label
        )
        if convolution_gradient_state is not None:
            self.source_state = convolution_gradient_state


class FullyConnectedNode(_WithWeights):
    """Convolution whose kernel covers the whole image, so the result is 1 x 1 x out.

    Args:
        source: Image node that the filter reads.
        weights: Data source, such as TrainableConvolution or any object with the members of ConvolutionDataSource.
        accumulator_precision: "float32" (the default), or "float16" on devices where it is faster. The CPU device
            always accumulates in float32.
        padding_policy: Has no effect, because there is only one window.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode, weights lacks a required member, or accumulator_precision is unknown.
        ShapeError: From encode_batch, if the kernel size differs from the image size, or the number of channels from
            the descriptor's.

    Source: MPSCNNFullyConnectedNode.

    Example:
        >>> nn = mg.nngraph
        >>> source = nn.TrainableConvolution(nn.ConvolutionDescriptor(7, 7, 2, 10))
        >>> node = nn.FullyConnectedNode(nn.ImageNode("x"), source)
        >>> nn.NNGraph(None, node.result_image)(np.ones((3, 7, 7, 2), np.float32)).shape
        (3, 1, 1, 10)
    """

    kind_name = "fully_connected"
