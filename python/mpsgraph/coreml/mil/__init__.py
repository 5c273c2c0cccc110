"""MIL's operations, one file a group. Each file enters its functions into the table by being imported."""

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
