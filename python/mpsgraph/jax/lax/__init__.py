"""Our operations in JAX's: a file a family, named as the families everywhere.

Composites are not here: the core expands them before a program is walked (src/compiler/expand.cpp). `_table.py` has the
table that the files enter themselves in, and the walk.
"""

from . import (  # noqa: F401  enter their operations
    activation,
    arithmetic,
    control_flow,
    convolution,
    cumulative,
    fourier_transform,
    gather,
    linear_algebra,
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
