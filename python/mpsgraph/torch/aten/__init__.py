"""Translations of ATen operations into graph operations: one file per family, all registered in one table."""

from . import (  # noqa: F401
    attention,
    complex_numbers,
    compositions,
    convolutions,
    distances,
    elementwise,
    fourier,
    gathering,
    gradients,
    grouped,
    linear,
    linear_algebra,
    losses,
    normalizations,
    pooling,
    primitives,
    random,
    recurrent,
    reductions,
    resizing,
    sampling,
    shapes,
    sorting,
    special,
)
from ._table import Call, dtype_of, function_of, known_operations

__all__ = ["Call", "dtype_of", "function_of", "known_operations"]
