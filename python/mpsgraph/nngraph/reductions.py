"""Filters that make one number of each row, column, pixel or channel: MPSNNReduction…Node."""

from __future__ import annotations

from .nodes import _Sizes


class ReductionRowMinNode(_Sizes):
    """The smallest of each row: its width becomes 1. Source: MPSNNReductionRowMinNode."""

    kind_name = "reduction_row_min"


class ReductionRowMaxNode(_Sizes):
    """The largest of each row: its width becomes 1. Source: MPSNNReductionRowMaxNode."""

    kind_name = "reduction_row_max"


class ReductionRowMeanNode(_Sizes):
    """The mean of each row: its width becomes 1. Source: MPSNNReductionRowMeanNode."""

    kind_name = "reduction_row_mean"


class ReductionRowSumNode(_Sizes):
    """The sum of each row: its width becomes 1. Keyword: weight (1), which the sum is multiplied by. Source:
    MPSNNReductionRowSumNode."""

    kind_name = "reduction_row_sum"


class ReductionColumnMinNode(_Sizes):
    """The smallest of each column: its height becomes 1. Source: MPSNNReductionColumnMinNode."""

    kind_name = "reduction_column_min"


class ReductionColumnMaxNode(_Sizes):
    """The largest of each column: its height becomes 1. Source: MPSNNReductionColumnMaxNode."""

    kind_name = "reduction_column_max"


class ReductionColumnMeanNode(_Sizes):
    """The mean of each column: its height becomes 1. Source: MPSNNReductionColumnMeanNode."""

    kind_name = "reduction_column_mean"


class ReductionColumnSumNode(_Sizes):
    """The sum of each column: its height becomes 1. Keyword: weight (1), which the sum is multiplied by. Source:
    MPSNNReductionColumnSumNode."""

    kind_name = "reduction_column_sum"


class ReductionFeatureChannelsMinNode(_Sizes):
    """The smallest of each pixel's channels: one is left. Source: MPSNNReductionFeatureChannelsMinNode."""

    kind_name = "reduction_feature_channels_min"


class ReductionFeatureChannelsMaxNode(_Sizes):
    """The largest of each pixel's channels: one is left. Source: MPSNNReductionFeatureChannelsMaxNode."""

    kind_name = "reduction_feature_channels_max"


class ReductionFeatureChannelsMeanNode(_Sizes):
    """The mean of each pixel's channels: one is left. Source: MPSNNReductionFeatureChannelsMeanNode."""

    kind_name = "reduction_feature_channels_mean"


class ReductionFeatureChannelsSumNode(_Sizes):
    """The sum of each pixel's channels: one is left. Keyword: weight (1), which the sum is multiplied by. Source:
    MPSNNReductionFeatureChannelsSumNode."""

    kind_name = "reduction_feature_channels_sum"


class ReductionFeatureChannelsArgumentMinNode(_Sizes):
    """The number of the first channel that is a pixel's smallest.

    Source: MPSNNReductionFeatureChannelsArgumentMinNode."""

    kind_name = "reduction_feature_channels_argument_min"


class ReductionFeatureChannelsArgumentMaxNode(_Sizes):
    """The number of the first channel that is a pixel's largest.

    Source: MPSNNReductionFeatureChannelsArgumentMaxNode."""

    kind_name = "reduction_feature_channels_argument_max"


class ReductionSpatialMeanNode(_Sizes):
    """The mean of each channel: 1 x 1 x channels. Source: MPSNNReductionSpatialMeanNode."""

    kind_name = "reduction_spatial_mean"


__all__ = [
    "ReductionColumnMaxNode",
    "ReductionColumnMeanNode",
    "ReductionColumnMinNode",
    "ReductionColumnSumNode",
    "ReductionFeatureChannelsArgumentMaxNode",
    "ReductionFeatureChannelsArgumentMinNode",
    "ReductionFeatureChannelsMaxNode",
    "ReductionFeatureChannelsMeanNode",
    "ReductionFeatureChannelsMinNode",
    "ReductionFeatureChannelsSumNode",
    "ReductionRowMaxNode",
    "ReductionRowMeanNode",
    "ReductionRowMinNode",
    "ReductionRowSumNode",
    "ReductionSpatialMeanNode",
]
