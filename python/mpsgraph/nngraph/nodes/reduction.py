"""Family reduction: along rows, columns, channels, or all pixels. MPSNNReduction…Node."""

from __future__ import annotations

from ._node import Sizes


class ReductionRowMinNode(Sizes):
    """The smallest of each row: its width becomes 1. Source: MPSNNReductionRowMinNode."""

    kind_name = "reduction_row_min"


class ReductionRowMaxNode(Sizes):
    """The largest of each row: its width becomes 1. Source: MPSNNReductionRowMaxNode."""

    kind_name = "reduction_row_max"


class ReductionRowMeanNode(Sizes):
    """The mean of each row: its width becomes 1. Source: MPSNNReductionRowMeanNode."""

    kind_name = "reduction_row_mean"


class ReductionRowSumNode(Sizes):
    """The sum of each row: its width becomes 1. Keyword: weight (1), which the sum is multiplied by. Source:
    MPSNNReductionRowSumNode."""

    kind_name = "reduction_row_sum"


class ReductionColumnMinNode(Sizes):
    """The smallest of each column: its height becomes 1. Source: MPSNNReductionColumnMinNode."""

    kind_name = "reduction_column_min"


class ReductionColumnMaxNode(Sizes):
    """The largest of each column: its height becomes 1. Source: MPSNNReductionColumnMaxNode."""

    kind_name = "reduction_column_max"


class ReductionColumnMeanNode(Sizes):
    """The mean of each column: its height becomes 1. Source: MPSNNReductionColumnMeanNode."""

    kind_name = "reduction_column_mean"


class ReductionColumnSumNode(Sizes):
    """The sum of each column: its height becomes 1. Keyword: weight (1), which the sum is multiplied by. Source:
    MPSNNReductionColumnSumNode."""

    kind_name = "reduction_column_sum"


class ReductionFeatureChannelsMinNode(Sizes):
    """The smallest of each pixel's channels: one is left. Source: MPSNNReductionFeatureChannelsMinNode."""

    kind_name = "reduction_feature_channels_min"


class ReductionFeatureChannelsMaxNode(Sizes):
    """The largest of each pixel's channels: one is left. Source: MPSNNReductionFeatureChannelsMaxNode."""

    kind_name = "reduction_feature_channels_max"


class ReductionFeatureChannelsMeanNode(Sizes):
    """The mean of each pixel's channels: one is left. Source: MPSNNReductionFeatureChannelsMeanNode."""

    kind_name = "reduction_feature_channels_mean"


class ReductionFeatureChannelsSumNode(Sizes):
    """The sum of each pixel's channels: one is left. Keyword: weight (1), which the sum is multiplied by. Source:
    MPSNNReductionFeatureChannelsSumNode."""

    kind_name = "reduction_feature_channels_sum"


class ReductionFeatureChannelsArgumentMinNode(Sizes):
    """The number of the first channel that is a pixel's smallest.

    Source: MPSNNReductionFeatureChannelsArgumentMinNode."""

    kind_name = "reduction_feature_channels_argument_min"


class ReductionFeatureChannelsArgumentMaxNode(Sizes):
    """The number of the first channel that is a pixel's largest.

    Source: MPSNNReductionFeatureChannelsArgumentMaxNode."""

    kind_name = "reduction_feature_channels_argument_max"


class ReductionSpatialMeanNode(Sizes):
    """The mean of each channel: 1 x 1 x channels. Source: MPSNNReductionSpatialMeanNode."""

    kind_name = "reduction_spatial_mean"
