"""The older training path: MPSNNGraph's vocabulary on every device.

Filters are nodes between image nodes; an NNGraph runs them over batches of images; parameters come from data sources,
which train by optimizers. Names are Apple's in snake_case without the prefix. `docs/nngraph.md` teaches it, beside the
WWDC18 talk's listings.
"""

from .data_sources import (
    ConvolutionDataSource,
    ConvolutionDescriptor,
    ConvolutionWeightsAndBiasesState,
    NeuronDescriptor,
    NormalizationDataSource,
    ParameterState,
    StoredWeights,
    TrainableConvolution,
    TrainableNormalization,
)
from .graph import NNGraph
from .images import Image, ImageBatch, LossLabels, LossLabelsBatch
from .nodes import *  # noqa: F403
from .nodes import __all__ as _nodes
from .optimizers import Adam, RMSProp, StochasticGradientDescent
from .padding import FULL, SAME, TENSORFLOW_SAME, TENSORFLOW_VALID, VALID, PaddingPolicy

__all__ = [
    "FULL",
    "SAME",
    "TENSORFLOW_SAME",
    "TENSORFLOW_VALID",
    "VALID",
    "Adam",
    "ConvolutionDataSource",
    "ConvolutionDescriptor",
    "ConvolutionWeightsAndBiasesState",
    "Image",
    "ImageBatch",
    "LossLabels",
    "LossLabelsBatch",
    "NNGraph",
    "NeuronDescriptor",
    "NormalizationDataSource",
    "PaddingPolicy",
    "ParameterState",
    "RMSProp",
    "StochasticGradientDescent",
    "StoredWeights",
    "TrainableConvolution",
    "TrainableNormalization",
    *_nodes,
]
