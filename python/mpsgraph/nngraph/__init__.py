"""The legacy MPSNNGraph API on every device.

Filters are nodes between image nodes, and an `NNGraph` runs them over batches of images. Parameters come from data
sources and are trained by optimizers. Recurrent layers work on matrices. Names are Apple's names without their MPS
prefixes, with methods and arguments in snake_case. `docs/nngraph.md` introduces the API with the listings of the WWDC18
talk.
"""

from .._core import RNNMatrixTrainingState
from . import nodes
from .conversion import DataLayout, ImageCopyToMatrix, MatrixCopyToImage
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
from .matrix import Matrix, MatrixDescriptor, Vector, VectorDescriptor
from .nodes import *  # noqa: F403
from .optimizers import Adam, RMSProp, StochasticGradientDescent
from .padding import FULL, SAME, TENSORFLOW_SAME, TENSORFLOW_VALID, VALID, PaddingPolicy
from .recurrent import (
    GRUDescriptor,
    LSTMDescriptor,
    RNNBidirectionalCombineMode,
    RNNMatrixId,
    RNNSequenceDirection,
    RNNSingleGateDescriptor,
)
from .recurrent_inference import RNNImageInferenceLayer, RNNMatrixInferenceLayer
from .recurrent_states import RNNRecurrentImageState, RNNRecurrentMatrixState
from .recurrent_training import RNNMatrixTrainingLayer

__all__ = [
    "Adam",
    "ConvolutionDataSource",
    "ConvolutionDescriptor",
    "ConvolutionWeightsAndBiasesState",
    "DataLayout",
    "FULL",
    "GRUDescriptor",
    "Image",
    "ImageBatch",
    "ImageCopyToMatrix",
    "LSTMDescriptor",
    "LossLabels",
    "LossLabelsBatch",
    "Matrix",
    "MatrixCopyToImage",
    "MatrixDescriptor",
    "NNGraph",
    "NeuronDescriptor",
    "NormalizationDataSource",
    "PaddingPolicy",
    "ParameterState",
    "RMSProp",
    "RNNBidirectionalCombineMode",
    "RNNImageInferenceLayer",
    "RNNMatrixId",
    "RNNMatrixInferenceLayer",
    "RNNMatrixTrainingLayer",
    "RNNMatrixTrainingState",
    "RNNRecurrentImageState",
    "RNNRecurrentMatrixState",
    "RNNSequenceDirection",
    "RNNSingleGateDescriptor",
    "SAME",
    "StochasticGradientDescent",
    "StoredWeights",
    "TENSORFLOW_SAME",
    "TENSORFLOW_VALID",
    "TrainableConvolution",
    "TrainableNormalization",
    "VALID",
    "Vector",
    "VectorDescriptor",
]
__all__ += nodes.__all__
