"""The hash encoding of neural graphics primitives as a custom operation (Müller et al., arXiv:2201.05989).

hash_encoding.cpp describes the computation; it and hash_encoding.metal contain the kernels of the operation and its
gradient. Only the tables have a gradient; positions do not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mpsgraph as mg
import numpy as np
from mpsgraph import nn

HERE = Path(__file__)
CODE: dict[str, Any] = {"cpu": HERE.with_suffix(".cpp"), "metal": HERE.with_suffix(".metal")}
CODE["attributes"] = {"resolutions": tuple}  # Cells along an edge of the cube, for each level.


def encoded_type(places: mg.TensorType, tables: mg.TensorType, resolutions: tuple[int, ...]) -> mg.TensorType:
    """Infer the result type, and reject operands for which the kernels would read out of bounds."""
    if places.shape is None or len(places.shape) != 2 or places.shape[1] != 3:
        raise mg.ShapeError(f"hash_encoding: places must have shape (n, 3), got {places.shape}")
    levels, rows, features = tables.shape if tables.shape and len(tables.shape) == 3 else (0, 0, 0)
    if levels != len(resolutions) or rows < 1 or rows & (rows - 1) or features != 2:
        raise mg.ShapeError(
            f"hash_encoding: tables must have shape (levels, rows, 2) with {len(resolutions)} levels, as many as "
            f"resolutions, and a number of rows that is a power of two, got {tables.shape}"
        )
    if not all(1 <= cells < 2**16 for cells in resolutions):
        raise mg.GraphError(f"hash_encoding: resolutions must be from 1 to 65535 cells, got {resolutions}")
    return mg.TensorType(places.dtype, (places.shape[0], 2 * levels))


hash_encoding_gradient = mg.custom_operation(
    "hash_encoding_gradient",
    **CODE,
    infer=lambda incoming, places, tables, resolutions: tables,
    threads=lambda incoming, places, tables, resolutions: (1024, len(resolutions)),
)
hash_encoding = mg.custom_operation(
    "hash_encoding",
    **CODE,
    infer=encoded_type,
    threads=lambda places, tables, resolutions: (places.shape[0], len(resolutions)),
    gradient=lambda g: (None, hash_encoding_gradient(*g.incoming, *g.operands, **g.attributes)),
)


class HashEncoding(nn.Module):
    """Encodes positions (n, 3) in the unit cube with trained tables, as (n, 2 * levels).

    Args:
        levels: Number of levels, whose numbers of cells form a geometric sequence.
        rows: Rows of each table, a power of two.
        coarsest: Cells along an edge in the first level.
        finest: Cells along an edge in the last level.
    """

    def __init__(self, levels: int, rows: int, coarsest: int, finest: int) -> None:
        self.rows = rows
        self.resolutions = tuple(round(cells) for cells in np.geomspace(coarsest, finest, levels))

    def build(self, x: mg.Tensor) -> None:
        shape, first = (len(self.resolutions), self.rows, 2), nn.initialisers.Uniform(-1e-4, 1e-4)
        self.tables = self.add_parameter("tables", x, shape, first)

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        return hash_encoding(x, self.tables, resolutions=self.resolutions)
