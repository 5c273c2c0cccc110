"""Family normalization: MPSCNNBatchNormalizationNode, …InstanceNormalizationNode, …GroupNormalizationNode."""

from __future__ import annotations

from typing import Any

from ..._core import ImageNode
from ._node import Node


class _Normalization(Node):
    def __init__(self, source: ImageNode, data_source: Any, *, label: str = "", **attributes: Any) -> None:
        super().__init__([source], attributes, data_source=data_source, label=label)
        self.data_source = data_source


class BatchNormalizationNode(_Normalization):
    """(x - mean) * gamma / sqrt(variance + epsilon) + beta for each channel. Source: MPSCNNBatchNormalizationNode.

    In a graph with its gradient filter the mean and variance are the batch's, without it the data source's; flags
    "calculate_statistics_always" or "calculate_statistics_never" decide otherwise.

    >>> nn = mg.nngraph
    >>> source = nn.TrainableNormalization(2)
    >>> node = nn.BatchNormalizationNode(nn.ImageNode("x"), source)
    >>> nn.NNGraph(None, node.result_image)(np.ones((1, 2, 2, 2), np.float32)).shape
    (1, 2, 2, 2)
    """

    kind_name = "batch_normalization"


class InstanceNormalizationNode(_Normalization):
    """The same with statistics of each image and channel. Source: MPSCNNInstanceNormalizationNode.

    >>> nn = mg.nngraph
    >>> source = nn.TrainableNormalization(2, kind="instance")
    >>> node = nn.InstanceNormalizationNode(nn.ImageNode("x"), source)
    >>> nn.NNGraph(None, node.result_image)(np.ones((1, 2, 2, 2), np.float32)).shape
    (1, 2, 2, 2)
    """

    kind_name = "instance_normalization"


class GroupNormalizationNode(_Normalization):
    """The same with statistics of each image and group of channels. Source: MPSCNNGroupNormalizationNode.

    >>> nn = mg.nngraph
    >>> source = nn.TrainableNormalization(4, kind="group", number_of_groups=2)
    >>> node = nn.GroupNormalizationNode(nn.ImageNode("x"), source)
    >>> nn.NNGraph(None, node.result_image)(np.ones((1, 2, 2, 4), np.float32)).shape
    (1, 2, 2, 4)
    """

    kind_name = "group_normalization"
