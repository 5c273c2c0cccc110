"""Layers of the older neural networks, one file a group, said in MIL's operations wherever those can say them."""

from . import elementwise, lookups, planes, recurrent, reductions, shapes  # noqa: F401  enters the layers
from ._layer import Layer, known_layers, layer_function

__all__ = ["Layer", "known_layers", "layer_function"]
