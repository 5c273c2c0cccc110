"""Layers, initialisers, losses and metrics over a graph.

A module is called with a tensor and works in that tensor's graph: `model(x)`. Its variables come into being at the
first call, so input sizes need not be written down; further calls share them. Layouts, paddings and defaults are
MPSGraph's and Keras's; names are PyTorch's.
"""

from . import initialisers, losses, metrics
from .activations import ELU, GELU, LeakyReLU, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Softplus, Tanh
from .convolution import Conv1d, Conv2d, Conv3d, ConvTranspose2d, DepthwiseConv2d, Fold, SeparableConv2d, Unfold
from .embedding import Embedding
from .layers import BatchNorm, Dropout, Flatten, Linear
from .module import Module, Sequential
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
from .resampling import PixelShuffle, PixelUnshuffle, ReflectionPad2d, ReplicationPad2d, Upsample, ZeroPad2d

__all__ = [
    "AdaptiveAvgPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose2d",
    "DepthwiseConv2d",
    "Dropout",
    "ELU",
    "Embedding",
    "Flatten",
    "Fold",
    "GELU",
    "GlobalAveragePooling2d",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Module",
    "PixelShuffle",
    "PixelUnshuffle",
    "ReLU",
    "ReflectionPad2d",
    "ReplicationPad2d",
    "SeparableConv2d",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "Unfold",
    "Upsample",
    "ZeroPad2d",
    "initialisers",
    "losses",
    "metrics",
]
