"""The older training path: matrices, vectors, their converters and recurrent layers, by Apple's names.

Names are those of MetalPerformanceShaders in snake_case without the prefix: MPSRNNMatrixTrainingLayer is
RNNMatrixTrainingLayer. Work is encoded into command buffers and runs when these are committed.
"""

from .conversion import DataLayout, ImageCopyToMatrix, MatrixCopyToImage
from .matrix import Matrix, MatrixDescriptor, Vector, VectorDescriptor
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
from .recurrent_training import RNNMatrixTrainingLayer, RNNMatrixTrainingState

__all__ = [
    "DataLayout",
    "GRUDescriptor",
    "ImageCopyToMatrix",
    "LSTMDescriptor",
    "Matrix",
    "MatrixCopyToImage",
    "MatrixDescriptor",
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
    "Vector",
    "VectorDescriptor",
]
