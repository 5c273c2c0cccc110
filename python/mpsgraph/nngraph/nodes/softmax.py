"""Softmax over channels: MPSCNNSoftMaxNode and MPSCNNLogSoftMaxNode."""

from __future__ import annotations

from ._node import Sizes


class SoftMaxNode(Sizes):
    """Softmax over the channels of each pixel.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Must be empty; this node has no attributes.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is passed.

    Source: MPSCNNSoftMaxNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.SoftMaxNode(nn.ImageNode("x"))
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [0.042 0.114 0.844]
    """

    kind_name = "softmax"


class LogSoftMaxNode(Sizes):
    """Logarithm of the softmax over the channels of each pixel.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Must be empty; this node has no attributes.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is passed.

    Source: MPSCNNLogSoftMaxNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.LogSoftMaxNode(nn.ImageNode("x"))
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [-3.17 -2.17 -0.17]
    """

    kind_name = "log_softmax"
