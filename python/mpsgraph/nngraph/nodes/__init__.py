"""Filter nodes: the classes of MPSNNGraphNodes.h under their names in snake_case, one file per family.

The `result_image` of a filter is the source of the next one. Each filter has the methods gradient_filter(source),
gradient_filters(source), and training_graph(source_gradient, node_handler). docs/nngraph.md lists the filters without a
gradient and the reasons. `label` names a filter in error messages. The families are those of src/nngraph/nodes.
"""

from __future__ import annotations

from ... import _core
from ..._core import FilterNode, ImageNode, StateNode
from .arithmetic import (
    AdditionNode,
    ComparisonNode,
    DivisionNode,
    MultiplicationNode,
    SubtractionNode,
)
from .convolution import (
    ConvolutionNode,
    ConvolutionTransposeNode,
    FullyConnectedNode,
)
from .dropout import (
    DropoutGradientNode,
    DropoutNode,
)
from .gram_matrix import (
    GramMatrixCalculationNode,
)
from .local_normalization import (
    CrossChannelNormalizationNode,
    LocalContrastNormalizationNode,
    SpatialNormalizationNode,
)
from .loss import (
    ForwardLossNode,
    InitialGradientNode,
    LossDescriptor,
    LossNode,
)
from .neuron import (
    NeuronAbsoluteNode,
    NeuronELUNode,
    NeuronExponentialNode,
    NeuronGeLUNode,
    NeuronHardSigmoidNode,
    NeuronLinearNode,
    NeuronLogarithmNode,
    NeuronPowerNode,
    NeuronPReLUNode,
    NeuronReLUNNode,
    NeuronReLUNode,
    NeuronSigmoidNode,
    NeuronSoftPlusNode,
    NeuronSoftSignNode,
    NeuronTanHNode,
)
from .normalization import (
    BatchNormalizationNode,
    GroupNormalizationNode,
    InstanceNormalizationNode,
)
from .pooling import (
    DilatedPoolingMaxNode,
    PoolingAverageNode,
    PoolingL2NormNode,
    PoolingMaxNode,
)
from .reduction import (
    ReductionColumnMaxNode,
    ReductionColumnMeanNode,
    ReductionColumnMinNode,
    ReductionColumnSumNode,
    ReductionFeatureChannelsArgumentMaxNode,
    ReductionFeatureChannelsArgumentMinNode,
    ReductionFeatureChannelsMaxNode,
    ReductionFeatureChannelsMeanNode,
    ReductionFeatureChannelsMinNode,
    ReductionFeatureChannelsSumNode,
    ReductionRowMaxNode,
    ReductionRowMeanNode,
    ReductionRowMinNode,
    ReductionRowSumNode,
    ReductionSpatialMeanNode,
)
from .resize import (
    BilinearScaleNode,
    LanczosScaleNode,
    UpsamplingBilinearNode,
    UpsamplingNearestNode,
)
from .shape import (
    ConcatenationNode,
    PadNode,
    ReshapeNode,
)
from .softmax import (
    LogSoftMaxNode,
    SoftMaxNode,
)
from .yolo_loss import (
    YOLOLossDescriptor,
    YOLOLossNode,
)


def node_table() -> list[dict[str, str]]:
    """Return a table of all filters.

    Returns:
        One dict per filter with the keys "name", "family", "apple" (Apple's class), "apple_gradient" (Apple's gradient
        class, or ""), "first_macos", and "without" (the reason for a missing gradient, or "").

    Example:
        >>> table = mg.nngraph.nodes.node_table()
        >>> len(table) > 50
        True
    """
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
    "DropoutGradientNode",
    "DropoutNode",
    "FilterNode",
    "ForwardLossNode",
    "FullyConnectedNode",
    "GramMatrixCalculationNode",
    "GroupNormalizationNode",
    "ImageNode",
    "InitialGradientNode",
    "InstanceNormalizationNode",
    "LanczosScaleNode",
    "LocalContrastNormalizationNode",
    "LogSoftMaxNode",
    "LossDescriptor",
    "LossNode",
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
    "ReshapeNode",
    "SoftMaxNode",
    "SpatialNormalizationNode",
    "StateNode",
    "SubtractionNode",
    "UpsamplingBilinearNode",
    "UpsamplingNearestNode",
    "YOLOLossDescriptor",
    "YOLOLossNode",
    "node_table",
]
