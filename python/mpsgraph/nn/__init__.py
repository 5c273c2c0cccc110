"""Layers, initializers, losses, and metrics for graphs.

Calling a module with a tensor, `model(x)`, adds its operations to that tensor's graph. The first call creates the
module's variables, with input sizes inferred from the tensor; later calls share them. Names follow PyTorch; layouts,
padding, and defaults follow MPSGraph and Keras.
"""

from typing import TYPE_CHECKING, NoReturn

from . import eager as _eager  # noqa: F401  # For calls of modules with arrays.
from . import initialisers, losses, metrics
from .activations import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softmin,
    Softplus,
    Softsign,
    Swish,
    Tanh,
    Tanhshrink,
)
from .activations_piecewise import Hardshrink, Hardsigmoid, Hardswish, Hardtanh, ReLU6, Softshrink, Threshold
from .adapters import LoRA
from .attention import MultiheadAttention, PositionalEncoding
from .augmentation import ColorJitter, Cutout, RandomCrop, RandomFlip, RandomRotation, mixup
from .checkpointing import checkpoint
from .convolution import Conv1d, Conv2d, Conv3d, DepthwiseConv2d, Fold, SeparableConv2d, Unfold
from .convolution_transposed import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .embedding import Embedding, Masking
from .generation import Generator, generate, sampled
from .key_value_cache import KeyValueCache
from .layers import Dropout, Flatten, Identity, Linear, SpatialDropout, Unflatten
from .masks import mask_of, set_mask
from .module import Module
from .normalization import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from .pooling import (
    AdaptiveAvgPool2d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    GlobalAveragePooling2d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from .positions import LinearPositions, RelativePositions
from .quantized import QuantizedEmbedding, QuantizedLinear
from .recurrent import GRU, LSTM, RNN
from .resampling import PixelShuffle, PixelUnshuffle, ReflectionPad2d, ReplicationPad2d, Upsample, ZeroPad2d
from .rotary import RotaryPositions
from .sequential import Sequential
from .transformer import TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer
from .weights import load_safetensors, load_torch, to_torch

if not TYPE_CHECKING:  # Type checkers report unknown names.

    def __getattr__(name: str) -> NoReturn:
        """Raise AttributeError, which names the counterpart of a name of PyTorch or Keras."""
        from .._names import no_attribute

        no_attribute(__name__, name)


__all__ = [
    "AdaptiveAvgPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm",
    "CELU",
    "ColorJitter",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Cutout",
    "DepthwiseConv2d",
    "Dropout",
    "ELU",
    "Embedding",
    "Flatten",
    "Fold",
    "GELU",
    "GLU",
    "GRU",
    "Generator",
    "GlobalAveragePooling2d",
    "GroupNorm",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "Identity",
    "InstanceNorm",
    "KeyValueCache",
    "LSTM",
    "LayerNorm",
    "LeakyReLU",
    "LoRA",
    "Linear",
    "LinearPositions",
    "LogSigmoid",
    "LogSoftmax",
    "Masking",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Mish",
    "Module",
    "MultiheadAttention",
    "PReLU",
    "PixelShuffle",
    "PixelUnshuffle",
    "PositionalEncoding",
    "QuantizedEmbedding",
    "QuantizedLinear",
    "RMSNorm",
    "RNN",
    "RandomCrop",
    "RandomFlip",
    "RandomRotation",
    "ReLU",
    "ReLU6",
    "ReflectionPad2d",
    "RelativePositions",
    "ReplicationPad2d",
    "RotaryPositions",
    "SELU",
    "SeparableConv2d",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "SpatialDropout",
    "Swish",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "Unflatten",
    "Unfold",
    "Upsample",
    "ZeroPad2d",
    "checkpoint",
    "generate",
    "initialisers",
    "load_safetensors",
    "load_torch",
    "losses",
    "mask_of",
    "metrics",
    "mixup",
    "sampled",
    "set_mask",
    "to_torch",
]
