"""The filters: MPSNNGraphNodes.h, name by name in snake_case. A filter's `result_image` is the next one's source.

Each has gradient_filter(source), gradient_filters(source) and training_graph(source_gradient, node_handler); what has
no gradient, and why, stands in docs/nngraph.md. `label` names a filter in errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._core import FilterNode, ImageNode
from .._shown import shown
from ..errors import GraphError
from ..ops._family import user_location


class _Node(FilterNode):
    """A filter of one kind."""

    kind_name = ""

    def __init__(
        self,
        sources: Sequence[Any],
        attributes: dict[str, Any] | None = None,
        *,
        data_source: Any = None,
        label: str = "",
        kind: str | None = None,
        padding_policy: Any = None,
    ) -> None:
        name = kind or self.kind_name
        for source in sources:
            if not isinstance(source, ImageNode):
                hint = "; give its result_image" if isinstance(source, FilterNode) else ""
                raise GraphError(f"[{name}] a source is an ImageNode, got {shown(source)}{hint}")
        super().__init__(name, list(sources), attributes or {}, data_source, label, user_location())
        if padding_policy is not None:
            self.padding_policy = padding_policy


# --- with parameters -------------------------------------------------------------------------------------------------


class _WithWeights(_Node):
    def __init__(
        self,
        source: ImageNode,
        weights: Any,
        *,
        accumulator_precision: str = "float32",
        padding_policy: Any = None,
        label: str = "",
    ) -> None:
        attributes = {"accumulator_precision": accumulator_precision}
        super().__init__([source], attributes, data_source=weights, label=label, padding_policy=padding_policy)
        self.weights = weights


class ConvolutionNode(_WithWeights):
    """Correlation with the weights of a data source, plus biases. Source: MPSCNNConvolutionNode.

    weights: a data source, grouped or depthwise as its descriptor says. accumulator_precision: "float32", or "float16"
    on devices that gain by it; the CPU device always adds in float32. padding_policy: default PaddingPolicy(), which is
    "same" with an odd pixel at the top left.
    """

    kind_name = "convolution"


class ConvolutionTransposeNode(_WithWeights):
    """Zeros between the pixels, then a correlation of stride 1 with the weights (out, height, width, in) as they stand.
    Source: MPSCNNConvolutionTransposeNode."""

    kind_name = "convolution_transpose"


class FullyConnectedNode(_WithWeights):
    """A convolution whose kernel is as large as the image: result 1 x 1 x out. Source: MPSCNNFullyConnectedNode."""

    kind_name = "fully_connected"


class _Normalization(_Node):
    def __init__(self, source: ImageNode, data_source: Any, *, label: str = "", **attributes: Any) -> None:
        super().__init__([source], attributes, data_source=data_source, label=label)
        self.data_source = data_source


class BatchNormalizationNode(_Normalization):
    """(x - mean) * gamma / sqrt(variance + epsilon) + beta for each channel. Source: MPSCNNBatchNormalizationNode.

    In a graph with its gradient filter the mean and variance are the batch's, without it the data source's; flags
    "calculate_statistics_always" or "calculate_statistics_never" decide otherwise.
    """

    kind_name = "batch_normalization"


class InstanceNormalizationNode(_Normalization):
    """The same with statistics of each image and channel. Source: MPSCNNInstanceNormalizationNode."""

    kind_name = "instance_normalization"


class GroupNormalizationNode(_Normalization):
    """The same with statistics of each image and group of channels. Source: MPSCNNGroupNormalizationNode."""

    kind_name = "group_normalization"


# --- windows ---------------------------------------------------------------------------------------------------------


def _two(value: int | Sequence[int]) -> tuple[int, int]:
    """(x, y) of one number or two."""
    return (value, value) if isinstance(value, int) else (value[0], value[1])


class _Pooling(_Node):
    """filter_size and stride: one number, or (x, y); a stride of None is the filter's size."""

    def __init__(
        self,
        source: ImageNode,
        filter_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        *,
        padding_policy: Any = None,
        label: str = "",
        **attributes: Any,
    ) -> None:
        (width, height), (x, y) = _two(filter_size), _two(filter_size if stride is None else stride)
        sizes = {"kernel_width": width, "kernel_height": height, "stride_in_pixels_x": x, "stride_in_pixels_y": y}
        super().__init__([source], {**sizes, **attributes}, label=label, padding_policy=padding_policy)


class PoolingMaxNode(_Pooling):
    """The largest of each window; the gradient goes to the first of them. Source: MPSCNNPoolingMaxNode."""

    kind_name = "pooling_max"


class PoolingAverageNode(_Pooling):
    """The mean of the pixels of each window that lie in the image. Source: MPSCNNPoolingAverageNode."""

    kind_name = "pooling_average"


class PoolingL2NormNode(_Pooling):
    """The root of the sum of squares of each window. Source: MPSCNNPoolingL2NormNode."""

    kind_name = "pooling_l2_norm"


class DilatedPoolingMaxNode(_Pooling):
    """The largest of every dilation_rate-th pixel of each window. Source: MPSCNNDilatedPoolingMaxNode."""

    kind_name = "dilated_pooling_max"

    def __init__(
        self,
        source: ImageNode,
        filter_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        dilation_rate: int | Sequence[int] = 1,
        *,
        padding_policy: Any = None,
        label: str = "",
    ) -> None:
        x, y = _two(dilation_rate)
        super().__init__(
            source,
            filter_size,
            stride,
            padding_policy=padding_policy,
            label=label,
            dilation_rate_x=x,
            dilation_rate_y=y,
        )


class _Sizes(_Node):
    """A filter of one source that is given numbers by name."""

    def __init__(self, source: ImageNode, *, label: str = "", **attributes: Any) -> None:
        super().__init__([source], attributes, label=label)


class SpatialNormalizationNode(_Sizes):
    """x / (delta + alpha * mean of squares)^beta, the mean over kernel_width x kernel_height pixels around each, zeros
    outside. Keywords: kernel_width, kernel_height (5), alpha (1), beta (5), delta (1). Source:
    MPSCNNSpatialNormalizationNode."""

    kind_name = "spatial_normalization"


class CrossChannelNormalizationNode(_Sizes):
    """The same with the mean over kernel_size channels around each. Keywords: kernel_size (5), alpha, beta, delta.
    Source: MPSCNNCrossChannelNormalizationNode."""

    kind_name = "cross_channel_normalization"


class LocalContrastNormalizationNode(_Sizes):
    """pm + ps * (x - p0 * mean) / (delta + alpha * variance)^beta over the pixels around. Keywords: kernel_width,
    kernel_height (5), alpha (1), beta (0.5), delta (2^-10), pm (0), ps (1), p0 (1). Source:
    MPSCNNLocalContrastNormalizationNode."""

    kind_name = "local_contrast_normalization"


# --- element by element ----------------------------------------------------------------------------------------------


class _Neuron(_Node):
    """a, b and c: None for the neuron's default."""

    def __init__(
        self,
        source: ImageNode,
        a: float | None = None,
        b: float | None = None,
        c: float | None = None,
        *,
        label: str = "",
    ) -> None:
        given = {"a": a, "b": b, "c": c}
        super().__init__([source], {k: float(v) for k, v in given.items() if v is not None}, label=label)


class NeuronReLUNode(_Neuron):
    """x where x >= 0, else a * x; a 0. Source: MPSCNNNeuronReLUNode."""

    kind_name = "neuron_relu"


class NeuronLinearNode(_Neuron):
    """a * x + b; 1 and 0. Source: MPSCNNNeuronLinearNode."""

    kind_name = "neuron_linear"


class NeuronSigmoidNode(_Neuron):
    """1 / (1 + e^-x). Source: MPSCNNNeuronSigmoidNode."""

    kind_name = "neuron_sigmoid"


class NeuronHardSigmoidNode(_Neuron):
    """a * x + b between 0 and 1; 0.2 and 0.5. Source: MPSCNNNeuronHardSigmoidNode."""

    kind_name = "neuron_hard_sigmoid"


class NeuronTanHNode(_Neuron):
    """a * tanh(b * x); 1 and 1. Source: MPSCNNNeuronTanHNode."""

    kind_name = "neuron_tanh"


class NeuronAbsoluteNode(_Neuron):
    """The absolute value. Source: MPSCNNNeuronAbsoluteNode."""

    kind_name = "neuron_absolute"


class NeuronSoftPlusNode(_Neuron):
    """a * log(1 + e^(b * x)); 1 and 1. Source: MPSCNNNeuronSoftPlusNode."""

    kind_name = "neuron_softplus"


class NeuronSoftSignNode(_Neuron):
    """x / (1 + |x|). Source: MPSCNNNeuronSoftSignNode."""

    kind_name = "neuron_softsign"


class NeuronELUNode(_Neuron):
    """x where x >= 0, else a * (e^x - 1); 1. Source: MPSCNNNeuronELUNode."""

    kind_name = "neuron_elu"


class NeuronPReLUNode(_Node):
    """x where x >= 0, else the channel's slope times x; slopes: a number for each channel. Source:
    MPSCNNNeuronPReLUNode."""

    kind_name = "neuron_prelu"

    def __init__(self, source: ImageNode, slopes: Any, *, label: str = "") -> None:
        super().__init__([source], {"slopes": np.asarray(slopes, np.float32).ravel()}, label=label)


class NeuronReLUNNode(_Neuron):
    """x where x >= 0, else a * x, and at most b; 1 and 6. Source: MPSCNNNeuronReLUNNode."""

    kind_name = "neuron_relun"


class NeuronPowerNode(_Neuron):
    """(a * x + b)^c; 1, 0, 1. Source: MPSCNNNeuronPowerNode."""

    kind_name = "neuron_power"


class NeuronExponentialNode(_Neuron):
    """c^(a * x + b); 1, 0 and -1, which stands for e. Source: MPSCNNNeuronExponentialNode."""

    kind_name = "neuron_exponential"


class NeuronLogarithmNode(_Neuron):
    """The logarithm to base c of a * x + b; 1, 0 and -1, which stands for e. Source: MPSCNNNeuronLogarithmNode."""

    kind_name = "neuron_logarithm"


class NeuronGeLUNode(_Neuron):
    """x * (1 + erf(x / sqrt(2))) / 2. Source: MPSCNNNeuronGeLUNode."""

    kind_name = "neuron_gelu"


class SoftMaxNode(_Sizes):
    """e^x over the sum of e^x of the pixel's channels. Source: MPSCNNSoftMaxNode."""

    kind_name = "softmax"


class LogSoftMaxNode(_Sizes):
    """Its logarithm. Source: MPSCNNLogSoftMaxNode."""

    kind_name = "log_softmax"


class DropoutNode(_Node):
    """x / keep_probability with that probability, else 0; the gradient has the same mask. Source: MPSCNNDropoutNode.

    seed: another for each dropout; masks differ from batch to batch. mask_stride_in_pixels (x, y, channels): 0 draws
    one number for all of that axis. It drops in every graph that has it: build inference graphs without it.
    """

    kind_name = "dropout"

    def __init__(
        self,
        source: ImageNode,
        keep_probability: float = 0.5,
        seed: int = 0,
        mask_stride_in_pixels: Sequence[int] = (1, 1, 1),
        *,
        label: str = "",
    ) -> None:
        attributes = {
            "keep_probability": float(keep_probability),
            "seed": seed,
            "mask_stride_in_pixels": list(mask_stride_in_pixels),
        }
        super().__init__([source], attributes, label=label)


class _Arithmetic(_Node):
    """clamp((primary_scale * left op secondary_scale * right) + bias, minimum_value, maximum_value).

    Keywords: these names, and primary_stride and secondary_stride (x, y, channels), where 0 repeats the image along
    that axis. The gradient does not know of the clamp, as Apple's does not.
    """

    def __init__(self, left: ImageNode, right: ImageNode, *, label: str = "", **attributes: Any) -> None:
        super().__init__([left, right], {k: _plain(v) for k, v in attributes.items()}, label=label)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (tuple, list)) else float(value)


class AdditionNode(_Arithmetic):
    """left + right, scaled, shifted and clamped as `_Arithmetic` says. Source: MPSNNAdditionNode."""

    kind_name = "addition"


class SubtractionNode(_Arithmetic):
    """left - right, scaled, shifted and clamped as `_Arithmetic` says. Source: MPSNNSubtractionNode."""

    kind_name = "subtraction"


class MultiplicationNode(_Arithmetic):
    """left * right, scaled, shifted and clamped as `_Arithmetic` says. Source: MPSNNMultiplicationNode."""

    kind_name = "multiplication"


class DivisionNode(_Arithmetic):
    """left / right, without a gradient; scaled, shifted, clamped as `_Arithmetic` says. Source: MPSNNDivisionNode."""

    kind_name = "division"


class ComparisonNode(_Node):
    """1 where it holds, else 0. comparison_type: "equal", "not_equal", "less", "less_or_equal", "greater" or
    "greater_or_equal". Source: MPSNNComparisonNode."""

    kind_name = "comparison"

    def __init__(
        self, left: ImageNode, right: ImageNode, comparison_type: str = "equal", *, label: str = "", **strides: Any
    ) -> None:
        attributes = {"comparison_type": comparison_type, **{k: list(v) for k, v in strides.items()}}
        super().__init__([left, right], attributes, label=label)


# --- shapes ----------------------------------------------------------------------------------------------------------


class ConcatenationNode(_Node):
    """Images along their channels, each filled up to a multiple of four channels, here with zeros; what a Mac writes
    there is not said. Source: MPSNNConcatenationNode."""

    kind_name = "concatenation"

    def __init__(self, sources: Sequence[ImageNode], *, label: str = "") -> None:
        super().__init__(list(sources), label=label)


class ReshapeNode(_Sizes):
    """The same numbers, in the order height, width, channels, as another image. Keywords: result_width, result_height,
    result_feature_channels. Source: MPSNNReshapeNode."""

    kind_name = "reshape"


class PadNode(_Node):
    """padding_size_before and padding_size_after: (x, y, channels); edge_mode "zero", "constant" (with fill_value),
    "clamp", "mirror" or "mirror_with_edge". Source: MPSNNPadNode."""

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


class UpsamplingNearestNode(_Sizes):
    """Each pixel repeated. Keywords: integer_scale_factor_x and _y. Source: MPSCNNUpsamplingNearestNode."""

    kind_name = "upsampling_nearest"


class UpsamplingBilinearNode(_Sizes):
    """Pixels between pixels. Keywords: integer_scale_factor_x and _y, align_corners (False). Source:
    MPSCNNUpsamplingBilinearNode."""

    kind_name = "upsampling_bilinear"


class BilinearScaleNode(_Sizes):
    """To width x height. Source: MPSNNBilinearScaleNode."""

    kind_name = "bilinear_scale"


class LanczosScaleNode(_Sizes):
    """To width x height, by Lanczos's kernel of three lobes. Source: MPSNNLanczosScaleNode."""

    kind_name = "lanczos_scale"


class GramMatrixCalculationNode(_Sizes):
    """alpha times the products of all pairs of channels, summed over the pixels: 1 x channels x channels. Source:
    MPSNNGramMatrixCalculationNode."""

    kind_name = "gram_matrix_calculation"


def node_table() -> list[dict[str, str]]:
    """What filters there are: name, family, Apple's class, its gradient's, the first macOS, and why a gradient is
    missing."""
    return list(_core.nn_node_definitions())


__all__ = [
    "AdditionNode",
    "BatchNormalizationNode",
    "BilinearScaleNode",
    "ComparisonNode",
    "ConcatenationNode",
    "ConvolutionNode",
    "ConvolutionTransposeNode",
    "CrossChannelNormalizationNode",
    "DilatedPoolingMaxNode",
    "DivisionNode",
    "DropoutNode",
    "FilterNode",
    "FullyConnectedNode",
    "GramMatrixCalculationNode",
    "GroupNormalizationNode",
    "ImageNode",
    "InstanceNormalizationNode",
    "LanczosScaleNode",
    "LocalContrastNormalizationNode",
    "LogSoftMaxNode",
    "MultiplicationNode",
    "NeuronAbsoluteNode",
    "NeuronELUNode",
    "NeuronExponentialNode",
    "NeuronGeLUNode",
    "NeuronHardSigmoidNode",
    "NeuronLinearNode",
    "NeuronLogarithmNode",
    "NeuronPReLUNode",
    "NeuronPowerNode",
    "NeuronReLUNNode",
    "NeuronReLUNode",
    "NeuronSigmoidNode",
    "NeuronSoftPlusNode",
    "NeuronSoftSignNode",
    "NeuronTanHNode",
    "PadNode",
    "PoolingAverageNode",
    "PoolingL2NormNode",
    "PoolingMaxNode",
    "ReshapeNode",
    "SoftMaxNode",
    "SpatialNormalizationNode",
    "SubtractionNode",
    "UpsamplingBilinearNode",
    "UpsamplingNearestNode",
    "node_table",
]
