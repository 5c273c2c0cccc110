"""Translations of the layers of Core ML's older neural networks, one file per group.

Layers are expressed in terms of MIL operations where possible.
"""

from . import elementwise, lookups, planes, recurrent, reductions, shapes  # noqa: F401  enters the layers
from ._layer import Layer, known_layers, layer

__all__ = ["Layer", "known_layers", "layer"]
