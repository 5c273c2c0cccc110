"""Translations of MIL operations, one file per group. Importing this package registers all of them."""

from . import (  # noqa: F401
    activations,
    compression,
    control_flow,
    convolutions,
    detection,
    elementwise,
    gathering,
    linear,
    normalizations,
    ordering,
    pooling,
    random,
    recurrent,
    reductions,
    resizing,
    shapes,
    slicing,
    states,
)
