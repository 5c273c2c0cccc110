"""Family reduction: along rows, columns, channels, or all pixels. MPSNNReduction…Node."""

from __future__ import annotations

from ._node import Sizes


class ReductionRowMinNode(Sizes):
    """The smallest of each row: its width becomes 1. Source: MPSNNReductionRowMinNode.

    >>> nn = mg.nngraph
    >>> node = nn.ReductionRowMinNode(nn.ImageNode("x"))
    >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [1. 3.]
    """

    kind_name = "reduction_row_min"


class ReductionRowMaxNode(Sizes):
    """The largest of each row: its width becomes 1. Source: MPSNNReductionRowMaxNode.

    >>> nn = mg.nngraph
    >>> node = nn.ReductionRowMaxNode(nn.ImageNode("x"))
    >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [2. 6.]
    """

    kind_name = "reduction_row_max"


class ReductionRowMeanNode(Sizes):
    """The mean of each row: its width becomes 1. Source: MPSNNReductionRowMeanNode.

    >>> nn = mg.nngraph
    >>> node = nn.ReductionRowMeanNode(nn.ImageNode("x"))
    >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [1.5 4.5]
    """

    kind_name = "reduction_row_mean"


class ReductionRowSumNode(Sizes):
    """The sum of each row: its width becomes 1. Keyword: weight (1), which the sum is multiplied by. Source:
    MPSNNReductionRowSumNode.

    >>> nn = mg.nngraph
    >>> node = nn.ReductionRowSumNode(nn.ImageNode("x"))
    >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [3. 9.]
    """

    kind_name = "reduction_row_sum"


class ReductionColumnMinNode(Sizes):
    """The smallest of each column: its height becomes 1. Source: MPSNNReductionColumnMinNode.

    >>> nn = mg.nngraph
    >>> node = nn.ReductionColumnMinNode(nn.ImageNode("x"))
    >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [1. 2.]
    """

    kind_name = "reduction_column_min"


class ReductionColumnMaxNode(Sizes):
    """The largest of each column: its height becomes 1. Source: MPSNNReductionColumnMaxNode.

    >>> nn = mg.nngraph
    >>> node = nn.ReductionColumnMaxNode(nn.ImageNode("x"))
    >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [3. 6.]
    """

    kind_name = "reduction_column_max"


class ReductionColumnMeanNode(Sizes):
    """The mean of each column: its height becomes 1. Source: MPSNNReductionColumnMeanNode.

    >>> nn = mg.nngraph
    >>> node = nn.ReductionColumnMeanNode(nn.ImageNode("x"))
    >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [2. 4.]
    """

    kind_name = "reduction_column_mean"


class ReductionColumnSumNode(Sizes):
    """The sum of each column: its height becomes 1. Keyword: weight (1), which the sum is multiplied by. Source:
    MPSNNReductionColumnSumNode.

    >>> nn = mg.nngraph
    >>> node = nn.ReductionColumnSumNode(nn.ImageNode("x"))
    >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [4. 8.]
    """

    kind_name = "reduction_column_sum"


class ReductionFeatureChannelsMinNode(Sizes):
    """The smallest of each pixel's channels: one is left. Source: MPSNNReductionFeatureChannelsMinNode.

    >>> nn = mg.nngraph
    >>> node = nn.ReductionFeatureChannelsMinNode(nn.ImageNode("x"))
    >>> x = np.float32([1, 2, 3, 9, 7, 5]).reshape(1, 1, 2, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [1. 5.]
    """

    kind_name = "reduction_feature_channels_min"


class ReductionFeatureChannelsMaxNode(Sizes):
    """The largest of each pixel's channels: one is left. Source: MPSNNReductionFeatureChannelsMaxNode.

    >>> nn = mg.nngraph
    >>> node = nn.ReductionFeatureChannelsMaxNode(nn.ImageNode("x"))
    >>> x = np.float32([1, 2, 3, 9, 7, 5]).reshape(1, 1, 2, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [3. 9.]
    """

    kind_name = "reduction_feature_channels_max"


class ReductionFeatureChannelsMeanNode(Sizes):
    """The mean of each pixel's channels: one is left. Source: MPSNNReductionFeatureChannelsMeanNode.

    >>> nn = mg.nngraph
    >>> node = nn.ReductionFeatureChannelsMeanNode(nn.ImageNode("x"))
    >>> x = np.float32([1, 2, 3, 9, 7, 5]).reshape(1, 1, 2, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [2. 7.]
    """

    kind_name = "reduction_feature_channels_mean"


class ReductionFeatureChannelsSumNode(Sizes):
    """The sum of each pixel's channels: one is left. Keyword: weight (1), which the sum is multiplied by. Source:
    MPSNNReductionFeatureChannelsSumNode.

    >>> nn = mg.nngraph
    >>> node = nn.ReductionFeatureChannelsSumNode(nn.ImageNode("x"))
    >>> x = np.float32([1, 2, 3, 9, 7, 5]).reshape(1, 1, 2, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [ 6. 21.]
    """

    kind_name = "reduction_feature_channels_sum"


class ReductionFeatureChannelsArgumentMinNode(Sizes):
    """The number of the first channel that is a pixel's smallest.

    Source: MPSNNReductionFeatureChannelsArgumentMinNode.

    >>> nn = mg.nngraph
    >>> node = nn.ReductionFeatureChannelsArgumentMinNode(nn.ImageNode("x"))
    >>> x = np.float32([1, 2, 3, 9, 7, 5]).reshape(1, 1, 2, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [0. 2.]
    """

    kind_name = "reduction_feature_channels_argument_min"


class ReductionFeatureChannelsArgumentMaxNode(Sizes):
    """The number of the first channel that is a pixel's largest.

    Source: MPSNNReductionFeatureChannelsArgumentMaxNode.

    >>> nn = mg.nngraph
    >>> node = nn.ReductionFeatureChannelsArgumentMaxNode(nn.ImageNode("x"))
    >>> x = np.float32([1, 2, 3, 9, 7, 5]).reshape(1, 1, 2, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [2. 0.]
    """

    kind_name = "reduction_feature_channels_argument_max"


class ReductionSpatialMeanNode(Sizes):
    """The mean of each channel: 1 x 1 x channels. Source: MPSNNReductionSpatialMeanNode.

    >>> nn = mg.nngraph
    >>> node = nn.ReductionSpatialMeanNode(nn.ImageNode("x"))
    >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [3.]
    """

    kind_name = "reduction_spatial_mean"
