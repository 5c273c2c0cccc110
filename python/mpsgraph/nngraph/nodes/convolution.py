"""Family convolution: filters with weights. MPSCNNConvolutionNode, …TransposeNode, …FullyConnectedNode."""

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
    """Correlation with the weights of a data source, plus biases. Source: MPSCNNConvolutionNode.

    weights: a data source, grouped or depthwise as its descriptor says. accumulator_precision: "float32", or "float16"
    on devices that gain by it; the CPU device always adds in float32. padding_policy: default PaddingPolicy(), which is
    "same" with an odd pixel at the top left.

    >>> nn = mg.nngraph
    >>> source = nn.TrainableConvolution(nn.ConvolutionDescriptor(3, 3, 1, 4))
    >>> node = nn.ConvolutionNode(nn.ImageNode("x"), source)
    >>> nn.NNGraph(None, node.result_image)(np.ones((2, 8, 8, 1), np.float32)).shape
    (2, 8, 8, 4)
    """

    kind_name = "convolution"


class ConvolutionTransposeNode(_WithWeights):
    """Zeros between the pixels, then a correlation of stride 1 with the weights (out, height, width, in) as they stand.

    convolution_gradient_state: the result_state of the ConvolutionNode that it undoes; then its result is as large as
    what that one read, and its padding policy does not matter. Errors: GraphError for another state. Source:
    MPSCNNConvolutionTransposeNode initWithSource:convolutionGradientState:weights:.

    >>> nn = mg.nngraph
    >>> source = nn.TrainableConvolution(nn.ConvolutionDescriptor(
    ...     2, 2, 1, 4, stride_in_pixels_x=2, stride_in_pixels_y=2))
    >>> node = nn.ConvolutionTransposeNode(nn.ImageNode("x"), source)
    >>> nn.NNGraph(None, node.result_image)(np.ones((2, 4, 4, 1), np.float32)).shape
    (2, 7, 7, 4)
    """

    kind_name = "convolution_transpose"

    def __init__(
        self, source: ImageNode, weights: Any, *, convolution_gradient_state: StateNode | None = None, **options: Any
    ) -> None:
        super().__init__(source, weights, **options)
        if convolution_gradient_state is not None:
            self.source_state = convolution_gradient_state


class FullyConnectedNode(_WithWeights):
    """A convolution whose kernel is as large as the image: result 1 x 1 x out. Source: MPSCNNFullyConnectedNode.

    >>> nn = mg.nngraph
    >>> source = nn.TrainableConvolution(nn.ConvolutionDescriptor(7, 7, 2, 10))
    >>> node = nn.FullyConnectedNode(nn.ImageNode("x"), source)
    >>> nn.NNGraph(None, node.result_image)(np.ones((3, 7, 7, 2), np.float32)).shape
    (3, 1, 1, 10)
    """

    kind_name = "fully_connected"
