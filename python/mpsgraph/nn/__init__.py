"""Layers, initialisers, losses and metrics over a graph.

A module is called with a tensor and works in that tensor's graph: `model(x)`. Its variables come into being at the
first call, so input sizes need not be written down; further calls share them. Layouts, paddings and defaults are
MPSGraph's and Keras's; names are PyTorch's.
"""

from . import initialisers, losses, metrics
from .activations import ELU, GELU, LeakyReLU, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Softplus, Tanh
from .layers import AvgPool2d, BatchNorm, Conv2d, Dropout, Flatten, Linear, MaxPool2d
from .module import Module, Sequential

__all__ = [
    "ELU",
    "GELU",
    "AvgPool2d",
    "BatchNorm",
    "Conv2d",
    "Dropout",
    "Flatten",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "MaxPool2d",
    "Module",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "initialisers",
    "losses",
    "metrics",
]
