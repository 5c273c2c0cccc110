"""Lowerings of graph operations to jax.lax, one file per family of operations.

Composite operations are not included, because the core expands them first (src/compiler/expand.cpp). `_table.py`
contains the registry of lowerings and the traversal of a program.
"""

from . import (  # noqa: F401  enter their operations
    activation,
    arithmetic,
    attention,
    control_flow,
    convolution,
    cumulative,
    fourier_transform,
    gather,
    linear_algebra,
    loss,
    matrix,
    matrix_inverse,
    memory,
    non_maximum_suppression,
    pooling,
    random,
    recurrent,
    reduction,
    resize,
    scatter_nd,
    shape,
    shape_slicing,
    sort,
    sparse,
    stencil,
    top_k,
)
from ._table import Trace, mapped_operations, missing_operations

__all__ = ["Trace", "mapped_operations", "missing_operations"]
