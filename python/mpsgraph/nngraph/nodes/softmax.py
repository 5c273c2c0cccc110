"""Family softmax: MPSCNNSoftMaxNode, MPSCNNLogSoftMaxNode."""

from __future__ import annotations

from ._node import Sizes


class SoftMaxNode(Sizes):
    """e^x over the sum of e^x of the pixel's channels. Source: MPSCNNSoftMaxNode."""

    kind_name = "softmax"


class LogSoftMaxNode(Sizes):
    """Its logarithm. Source: MPSCNNLogSoftMaxNode."""

    kind_name = "log_softmax"
