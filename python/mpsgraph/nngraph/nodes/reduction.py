"""Reductions along rows, columns, channels, or all pixels: MPSNNReduction…Node."""

from __future__ import annotations

from ._node import Sizes


class ReductionRowMinNode(Sizes):
    """Minimum of each row, which reduces the width to 1.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Must be empty; this node has no attributes.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is passed.

    Source: MPSNNReductionRowMinNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.ReductionRowMinNode(nn.ImageNode("x"))
        >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [1. 3.]
    """

    kind_name = "reduction_row_min"


class ReductionRowMaxNode(Sizes):
    """Maximum of each row, which reduces the width to 1.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Must be empty; this node has no attributes.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is passed.

    Source: MPSNNReductionRowMaxNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.ReductionRowMaxNode(nn.ImageNode("x"))
        >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [2. 6.]
    """

    kind_name = "reduction_row_max"


class ReductionRowMeanNode(Sizes):
    """Mean of each row, which reduces the width to 1.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Must be empty; this node has no attributes.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is passed.

    Source: MPSNNReductionRowMeanNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.ReductionRowMeanNode(nn.ImageNode("x"))
        >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [1.5 4.5]
    """

    kind_name = "reduction_row_mean"


class ReductionRowSumNode(Sizes):
    """Sum of each row, which reduces the width to 1.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        weight: Factor of the sum. Defaults to 1.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is unknown.

    Source: MPSNNReductionRowSumNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.ReductionRowSumNode(nn.ImageNode("x"))
        >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [3. 9.]
    """

    kind_name = "reduction_row_sum"


class ReductionColumnMinNode(Sizes):
    """Minimum of each column, which reduces the height to 1.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Must be empty; this node has no attributes.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is passed.

    Source: MPSNNReductionColumnMinNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.ReductionColumnMinNode(nn.ImageNode("x"))
        >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [1. 2.]
    """

    kind_name = "reduction_column_min"


class ReductionColumnMaxNode(Sizes):
    """Maximum of each column, which reduces the height to 1.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Must be empty; this node has no attributes.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is passed.

    Source: MPSNNReductionColumnMaxNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.ReductionColumnMaxNode(nn.ImageNode("x"))
        >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [3. 6.]
    """

    kind_name = "reduction_column_max"


class ReductionColumnMeanNode(Sizes):
    """Mean of each column, which reduces the height to 1.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Must be empty; this node has no attributes.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is passed.

    Source: MPSNNReductionColumnMeanNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.ReductionColumnMeanNode(nn.ImageNode("x"))
        >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [2. 4.]
    """

    kind_name = "reduction_column_mean"


class ReductionColumnSumNode(Sizes):
    """Sum of each column, which reduces the height to 1.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        weight: Factor of the sum. Defaults to 1.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is unknown.

    Source: MPSNNReductionColumnSumNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.ReductionColumnSumNode(nn.ImageNode("x"))
        >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [4. 8.]
    """

    kind_name = "reduction_column_sum"


class ReductionFeatureChannelsMinNode(Sizes):
    """Minimum over the channels of each pixel, which leaves one channel.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Must be empty; this node has no attributes.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is passed.

    Source: MPSNNReductionFeatureChannelsMinNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.ReductionFeatureChannelsMinNode(nn.ImageNode("x"))
        >>> x = np.float32([1, 2, 3, 9, 7, 5]).reshape(1, 1, 2, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [1. 5.]
    """

    kind_name = "reduction_feature_channels_min"


class ReductionFeatureChannelsMaxNode(Sizes):
    """Maximum over the channels of each pixel, which leaves one channel.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Must be empty; this node has no attributes.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is passed.

    Source: MPSNNReductionFeatureChannelsMaxNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.ReductionFeatureChannelsMaxNode(nn.ImageNode("x"))
        >>> x = np.float32([1, 2, 3, 9, 7, 5]).reshape(1, 1, 2, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [3. 9.]
    """

    kind_name = "reduction_feature_channels_max"


class ReductionFeatureChannelsMeanNode(Sizes):
    """Mean over the channels of each pixel, which leaves one channel.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Must be empty; this node has no attributes.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is passed.

    Source: MPSNNReductionFeatureChannelsMeanNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.ReductionFeatureChannelsMeanNode(nn.ImageNode("x"))
        >>> x = np.float32([1, 2, 3, 9, 7, 5]).reshape(1, 1, 2, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [2. 7.]
    """

    kind_name = "reduction_feature_channels_mean"


class ReductionFeatureChannelsSumNode(Sizes):
    """Sum over the channels of each pixel, which leaves one channel.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        weight: Factor of the sum. Defaults to 1.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is unknown.

    Source: MPSNNReductionFeatureChannelsSumNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.ReductionFeatureChannelsSumNode(nn.ImageNode("x"))
        >>> x = np.float32([1, 2, 3, 9, 7, 5]).reshape(1, 1, 2, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [ 6. 21.]
    """

    kind_name = "reduction_feature_channels_sum"


class ReductionFeatureChannelsArgumentMinNode(Sizes):
    """Index of the smallest channel of each pixel; the first one if several are equal.

    The result has one channel of floating-point indices.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Must be empty; this node has no attributes.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is passed.

    Source: MPSNNReductionFeatureChannelsArgumentMinNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.ReductionFeatureChannelsArgumentMinNode(nn.ImageNode("x"))
        >>> x = np.float32([1, 2, 3, 9, 7, 5]).reshape(1, 1, 2, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [0. 2.]
    """

    kind_name = "reduction_feature_channels_argument_min"


class ReductionFeatureChannelsArgumentMaxNode(Sizes):
    """Index of the largest channel of each pixel; the first one if several are equal.

    The result has one channel of floating-point indices.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Must be empty; this node has no attributes.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is passed.

    Source: MPSNNReductionFeatureChannelsArgumentMaxNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.ReductionFeatureChannelsArgumentMaxNode(nn.ImageNode("x"))
        >>> x = np.float32([1, 2, 3, 9, 7, 5]).reshape(1, 1, 2, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [2. 0.]
    """

    kind_name = "reduction_feature_channels_argument_max"


class ReductionSpatialMeanNode(Sizes):
    """Mean of each channel over all pixels; the result is 1 x 1 x channels.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Must be empty; this node has no attributes.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is passed.

    Source: MPSNNReductionSpatialMeanNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.ReductionSpatialMeanNode(nn.ImageNode("x"))
        >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [3.]
    """

    kind_name = "reduction_spatial_mean"
