"""Lowerings of operations on sparse matrices, which are represented as dense matrices.

Stored entries at the same position are summed.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ._table import Step, Value, lowers
from .arithmetic import is_half


def _places(step: Step, index0: Value, index1: Value) -> tuple[Value, Value]:
    """Return the row and column of each stored entry of a sparse matrix.

    Entries outside the matrix get positions past its end, so that they are dropped.
    """
    rows, columns = step["shape"]
    index0, index1 = jnp.asarray(index0).astype(np.int32), jnp.asarray(index1).astype(np.int32)
    if step["storage"] == "COO":
        row, column = index1, index0
    else:
        entries = np.arange(index0.shape[0], dtype=np.int32)
        line = jnp.searchsorted(index1, entries, side="right").astype(np.int32) - 1
        lines = rows if step["storage"] == "CSR" else columns
        stored = (entries >= index1[0]) & (entries < index1[-1])
        line = jnp.where(stored, line, np.int32(lines))
        row, column = (line, index0) if step["storage"] == "CSR" else (index0, line)
    inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
    return jnp.where(inside, row, np.int32(rows)), jnp.where(inside, column, np.int32(columns))


@lowers("sparse_tensor")
def sparse_tensor(step: Step, values: Value, index0: Value, index1: Value) -> Value:
    """Build a dense matrix from the stored entries of a sparse matrix. Entries at the same position are summed."""
    row, column = _places(step, index0, index1)
    wide = np.dtype(np.float32) if is_half(step.dtype) else step.dtype
    zeros = jnp.zeros(step.shape, wide)
    return zeros.at[row, column].add(jnp.asarray(values).astype(wide), mode="drop").astype(step.dtype)


@lowers("sparse_tensor_gradient")
def sparse_tensor_gradient(step: Step, incoming: Value, index0: Value, index1: Value) -> Value:
    """Return the gradient with respect to the stored entries: the elements of the dense gradient at their positions."""
    row, column = _places(step, index0, index1)
    if 0 in incoming.shape:
        return jnp.zeros(step.shape, step.dtype)
    return jnp.asarray(incoming).at[row, column].get(mode="fill", fill_value=0)
