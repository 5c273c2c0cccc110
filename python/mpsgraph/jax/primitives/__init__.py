"""Translations of JAX primitives to graph operations, one file per family."""

from . import (  # noqa: F401
    calls,
    control_flow,
    convolutions,
    cumulative,
    decompositions,
    elementwise,
    fourier,
    gathering,
    integers,
    linear,
    random,
    reductions,
    shapes,
    sorting,
    special,
    windows,
)
from ._table import Equation, dtype_of, is_key, known_primitives, shape_of
from ._walk import Builder, unmapped

__all__ = ["Builder", "Equation", "dtype_of", "is_key", "known_primitives", "shape_of", "unmapped"]
