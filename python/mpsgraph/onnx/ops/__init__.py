"""The operators, one file a group. Importing this package enters them all in the registry's table."""

from . import (  # noqa: F401
    activations,
    control_flow,
    convolutions,
    detection,
    elementwise,
    gathering,
    linear,
    losses,
    normalizations,
    pooling,
    quantization,
    random,
    recurrent,
    reductions,
    resizing,
    sampling,
    shapes,
    signal,
    training,
    values,
)
