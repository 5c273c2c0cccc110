"""Normalizations with parameters: MPSCNNBatchNormalizationNode, …InstanceNormalizationNode, …GroupNormalizationNode."""

from __future__ import annotations

from typing import Any

from ..._core import ImageNode
from ._node import Node


class _Normalization(Node):
    def __init__(self, source: ImageNode, data_source: Any, *, label: str = "", **attributes: Any) -> None:
        super().__init__([source], attributes, data_source=data_source, label=label)
        self.data_source = data_source


class BatchNormalizationNode(_Normalization):
    """Batch normalization: (x - mean) * gamma / sqrt(variance + epsilon) + beta for each channel.

    Args:
        source: Image node that the filter reads.
        data_source: Source of gamma, beta, mean, variance, and epsilon, such as TrainableNormalization.
        label: Name of the filter in error messages. Empty by default.
        flags: "calculate_statistics_always" to use the mean and variance of the batch, "calculate_statistics_never" to
            use those of the data source, or "default" to use those of the batch if the graph contains the gradient
            filter, otherwise those of the data source. Defaults to "default".

    Raises:
        GraphError: If source is not an ImageNode, data_source lacks a required member, or flags is unknown.
        ShapeError: From encode_batch, if the number of channels of the images differs from that of the data source.

    Source: MPSCNNBatchNormalizationNode.

    Example:
        >>> nn = mg.nngraph
        >>> source = nn.TrainableNormalization(2)
        >>> node = nn.BatchNormalizationNode(nn.ImageNode("x"), source)
        >>> nn.NNGraph(None, node.result_image)(np.ones((1, 2, 2, 2), np.float32)).shape
        (1, 2, 2, 2)
    """

    kind_name = "batch_normalization"


class InstanceNormalizationNode(_Normalization):
    """Instance normalization: (x - mean) * gamma / sqrt(variance + epsilon) + beta.

    Mean and variance are computed for each image and channel.

    Args:
        source: Image node that the filter reads.
        data_source: Source of gamma, beta, and epsilon, such as TrainableNormalization with kind="instance".
        label: Name of the filter in error messages. Empty by default.
        **attributes: Must be empty; this node has no attributes.

    Raises:
        GraphError: If source is not an ImageNode, data_source lacks a required member or is of a different kind,
            or a keyword is passed.
        ShapeError: From encode_batch, if the number of channels of the images differs from that of the data source.

    Source: MPSCNNInstanceNormalizationNode.

    Example:
        >>> nn = mg.nngraph
        >>> source = nn.TrainableNormalization(2, kind="instance")
        >>> node = nn.InstanceNormalizationNode(nn.ImageNode("x"), source)
        >>> nn.NNGraph(None, node.result_image)(np.ones((1, 2, 2, 2), np.float32)).shape
        (1, 2, 2, 2)
    """

    kind_name = "instance_normalization"


class GroupNormalizationNode(_Normalization):
    """Group normalization: (x - mean) * gamma / sqrt(variance + epsilon) + beta.

    Mean and variance are computed for each image and group of channels.

    Args:
        source: Image node that the filter reads.
        data_source: Source of gamma, beta, epsilon, and number_of_groups, such as TrainableNormalization with
            kind="group".
        label: Name of the filter in error messages. Empty by default.
        **attributes: Must be empty; this node has no attributes.

    Raises:
        GraphError: If source is not an ImageNode, data_source lacks a required member or is of a different kind,
            or a keyword is passed.
        ShapeError: From encode_batch, if the number of channels of the images differs from that of the data source, or
            is not divisible by number_of_groups.

    Source: MPSCNNGroupNormalizationNode.

    Example:
        >>> nn = mg.nngraph
        >>> source = nn.TrainableNormalization(4, kind="group", number_of_groups=2)
        >>> node = nn.GroupNormalizationNode(nn.ImageNode("x"), source)
        >>> nn.NNGraph(None, node.result_image)(np.ones((1, 2, 2, 4), np.float32)).shape
        (1, 2, 2, 4)
    """

    kind_name = "group_normalization"
