"""Family dropout: MPSCNNDropoutNode."""

from __future__ import annotations

from collections.abc import Sequence

from ..._core import ImageNode, StateNode
from ..._display import shown
from ...errors import GraphError
from ._node import Node


class DropoutNode(Node):
    """x / keep_probability with that probability, else 0; the gradient has the same mask. Source: MPSCNNDropoutNode.

    seed: another for each dropout; masks differ from batch to batch. mask_stride_in_pixels (x, y, channels): 0 draws
    one number for all of that axis. It drops in every graph that has it: build inference graphs without it.
    result_state, exported, gives the mask out: for a DropoutGradientNode.

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
    """The gradient of a dropout in another graph, by the mask that it left there. Source: MPSCNNDropoutGradientNode.

    source_gradient: of the dropout's result; source_image: what the dropout read; gradient_state: a StateNode, for
    which encodes take what the other graph's destination_states have of this batch; the others as of that dropout. In
    one graph DropoutNode.gradient_filter makes it.

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
            raise GraphError(f"DropoutGradientNode: gradient_state is a StateNode, got {shown(gradient_state)}")
        self.source_state = gradient_state
