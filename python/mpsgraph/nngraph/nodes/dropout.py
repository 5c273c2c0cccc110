"""Dropout and its gradient for use in another graph: MPSCNNDropoutNode, MPSCNNDropoutGradientNode."""

from __future__ import annotations

from collections.abc import Sequence

from ..._core import ImageNode, StateNode
from ..._display import shown
from ...errors import GraphError
from ._node import Node


class DropoutNode(Node):
    """Dropout: with probability keep_probability, a value is kept and divided by it; otherwise, the value becomes 0.

    The gradient filter uses the same mask. Every batch gets a new mask. Dropout is active in every graph that contains
    the node, so build inference graphs without it. To compute the gradient in another graph, export the node's
    result_state, which contains the mask, and use a DropoutGradientNode.

    Args:
        source: Image node that the filter reads.
        keep_probability: Probability of keeping a value, between 0 and 1. Defaults to 0.5.
        seed: Seed of the masks. Use a different seed for each dropout node. Defaults to 0.
        mask_stride_in_pixels: (x, y, channels), each 0 or 1; 0 uses one random number for all elements along that axis.
            Defaults to (1, 1, 1).
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode, keep_probability is not between 0 and 1, or a stride is not 0 or 1.

    Source: MPSCNNDropoutNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.DropoutNode(nn.ImageNode("x"), keep_probability=0.5, seed=1)
        >>> x = np.float32([1, 1, 1, 1]).reshape(1, 1, 1, 4)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().shape)
        (1, 1, 1, 4)
    """

    kind_name = "dropout"

    def __init__(
        self,
        source: ImageNode,
        keep_probability: float = 0.5,
        seed: int = 0,
        mask_stride_in_pixels: Sequence[int] = (1, 1, 1),
        *,
        label: str = "",
    ) -> None:
        attributes = {
            "keep_probability": float(keep_probability),
            "seed": seed,
            "mask_stride_in_pixels": list(mask_stride_in_pixels),
        }
        super().__init__([source], attributes, label=label)


class DropoutGradientNode(Node):
    """Gradient of a dropout in another graph, computed from the mask that the dropout exported.

    Within one graph, use DropoutNode.gradient_filter instead.

    Args:
        source_gradient: Image node of the gradient of the dropout's result.
        source_image: Image node of the image that the dropout read.
        gradient_state: StateNode for the mask. In encode_batch, pass the state that the other graph appended to
            destination_states for the same batch.
        keep_probability: The keep_probability of the dropout. Defaults to 0.5.
        seed: The seed of the dropout. Defaults to 0.
        mask_stride_in_pixels: The mask_stride_in_pixels of the dropout. Defaults to (1, 1, 1).
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If a source is not an ImageNode, gradient_state is not a StateNode, keep_probability is not between
            0 and 1, or a stride is not 0 or 1.
        ShapeError: From encode_batch, if the images differ in shape, or the mask belongs to another batch or dropout.
        UnsupportedError: On the Metal device, when the NNGraph is created.

    Source: MPSCNNDropoutGradientNode.

    Example:
        >>> nn = mg.nngraph
        >>> gradient, x, mask = nn.ImageNode("gradient"), nn.ImageNode("x"), nn.StateNode("mask")
        >>> node = nn.DropoutGradientNode(gradient, x, mask, keep_probability=0.5)
        >>> node.kind, node.source_state is mask
        ('dropout_gradient', True)
    """

    kind_name = "dropout_gradient"

    def __init__(
        self,
        source_gradient: ImageNode,
        source_image: ImageNode,
        gradient_state: StateNode,
        keep_probability: float = 0.5,
        seed: int = 0,
        mask_stride_in_pixels: Sequence[int] = (1, 1, 1),
        *,
        label: str = "",
    ) -> None:
        attributes = {
            "keep_probability": float(keep_probability),
            "seed": seed,
            "mask_stride_in_pixels": list(mask_stride_in_pixels),
        }
        super().__init__([source_gradient, source_image], attributes, label=label)
        if not isinstance(gradient_state, StateNode):
            raise GraphError(f"DropoutGradientNode: gradient_state must be a StateNode, got {shown(gradient_state)}")
        self.source_state = gradient_state
