"""Family softmax: MPSCNNSoftMaxNode, MPSCNNLogSoftMaxNode."""

from __future__ import annotations

from ._node import Sizes


class SoftMaxNode(Sizes):
    """e^x over the sum of e^x of the pixel's channels. Source: MPSCNNSoftMaxNode.

    >>> nn = mg.nngraph
    >>> node = nn.SoftMaxNode(nn.ImageNode("x"))
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [0.042 0.114 0.844]
    """

    kind_name = "softmax"


class LogSoftMaxNode(Sizes):
    """Its logarithm. Source: MPSCNNLogSoftMaxNode.

    >>> nn = mg.nngraph
    >>> node = nn.LogSoftMaxNode(nn.ImageNode("x"))
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [-3.17 -2.17 -0.17]
    """

    kind_name = "log_softmax"
