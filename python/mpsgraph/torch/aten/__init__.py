"""ATen's operations in the graph's: a file a family, entered in one table."""

from . import (  # noqa: F401
    attention,
    convolutions,
    elementwise,
    gathering,
    gradients,
    linear,
    losses,
    normalizations,
    pooling,
    random,
    recurrent,
    reductions,
    shapes,
)
from ._table import Call, dtype_of, function_of, known_operations

__all__ = ["Call", "dtype_of", "function_of", "known_operations"]
