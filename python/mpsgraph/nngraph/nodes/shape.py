"""Family shape: MPSNNConcatenationNode, MPSNNReshapeNode, MPSNNPadNode."""

from __future__ import annotations

from collections.abc import Sequence

from ..._core import ImageNode
from ._node import Node, Sizes


class ConcatenationNode(Node):
    """Images along their channels, each filled up to a multiple of four channels, here with zeros; what a Mac writes
    there is not said. Source: MPSNNConcatenationNode.

    >>> nn = mg.nngraph
    >>> node = nn.ConcatenationNode([nn.ImageNode("left"), nn.ImageNode("right")])
    >>> x = np.float32([[[[1, 2]]]])
    >>> nn.NNGraph(None, node.result_image)(x, 10 * x).numpy().ravel().tolist()
    [1.0, 2.0, 0.0, 0.0, 10.0, 20.0, 0.0, 0.0]
    """

    kind_name = "concatenation"

    def __init__(self, sources: Sequence[ImageNode], *, label: str = "") -> None:
        super().__init__(list(sources), label=label)


class ReshapeNode(Sizes):
    """The same numbers, in the order height, width, channels, as another image. Keywords: result_width, result_height,
    result_feature_channels. Source: MPSNNReshapeNode.

    >>> nn = mg.nngraph
    >>> node = nn.ReshapeNode(nn.ImageNode("x"), result_width=1, result_height=1, result_feature_channels=4)
    >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().shape)
    (1, 1, 1, 4)
    """

    kind_name = "reshape"


class PadNode(Node):
    """padding_size_before and padding_size_after: (x, y, channels); edge_mode "zero", "constant" (with fill_value),
    "clamp", "mirror" or "mirror_with_edge", which repeats the edge. Source: MPSNNPadNode.

    >>> nn = mg.nngraph
    >>> node = nn.PadNode(nn.ImageNode("x"), (1, 0, 0), (1, 0, 0), edge_mode="clamp")
    >>> x = np.float32([1, 3]).reshape(1, 1, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [1. 1. 3. 3.]
    """

    kind_name = "pad"

    def __init__(
        self,
        source: ImageNode,
        padding_size_before: Sequence[int],
        padding_size_after: Sequence[int],
        edge_mode: str = "zero",
        fill_value: float = 0.0,
        *,
        label: str = "",
    ) -> None:
        attributes = {
            "before": list(padding_size_before),
            "after": list(padding_size_after),
            "edge_mode": edge_mode,
            "fill_value": float(fill_value),
        }
        super().__init__([source], attributes, label=label)
