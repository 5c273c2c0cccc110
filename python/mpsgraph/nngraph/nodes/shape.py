"""Filters that change the shape of images: MPSNNConcatenationNode, MPSNNReshapeNode, and MPSNNPadNode."""

from __future__ import annotations

from collections.abc import Sequence

from ..._core import ImageNode
from ._node import Node, Sizes


class ConcatenationNode(Node):
    """Concatenation of images along their channels, each padded with zeros to a multiple of four channels.

    Apple does not document the values in the added channels.

    Args:
        sources: Image nodes of equal height and width.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If a source is not an ImageNode, or there are no sources.
        ShapeError: From encode_batch, if the images differ in height or width.

    Source: MPSNNConcatenationNode.

    Example:
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
    """Image with the same elements, in the order height, width, channels, but a different shape.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        result_width: Width of the result; required.
        result_height: Height of the result; required.
        result_feature_channels: Number of channels of the result; required.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is unknown or missing.
        ShapeError: From encode_batch, if the number of elements differs.

    Source: MPSNNReshapeNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.ReshapeNode(nn.ImageNode("x"), result_width=1, result_height=1, result_feature_channels=4)
        >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().shape)
        (1, 1, 1, 4)
    """

    kind_name = "reshape"


class PadNode(Node):
    """Padding of an image on all sides and along the channels.

    Args:
        source: Image node that the filter reads.
        padding_size_before: Elements added before the image: (x, y, channels).
        padding_size_after: Elements added after the image: (x, y, channels).
        edge_mode: Values of the added elements: "zero" (the default), "constant" (fill_value), "clamp" (the nearest
            element), "mirror", or "mirror_with_edge", which mirrors the edge pixels as well.
        fill_value: Value for edge_mode="constant". Defaults to 0.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode, a padding size is not three non-negative numbers, or edge_mode is
            unknown.

    Source: MPSNNPadNode.

    Example:
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
