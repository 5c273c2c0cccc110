"""The hash encoding of neural graphics primitives as an operation of one's own. Müller et al., arXiv:2201.05989.

Its kernels are hash_encoding.cpp, which says what it computes, and hash_encoding.metal; each file has that of the
gradient, too. Tables learn, places do not: they have no gradient.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mpsgraph as mg
import numpy as np
from mpsgraph import nn

HERE = Path(__file__)
CODE: dict[str, Any] = {"cpu": HERE.with_suffix(".cpp"), "metal": HERE.with_suffix(".metal")}
CODE["attributes"] = {"resolutions": tuple}  # cells along an edge of the cube, level by level


def encoded_type(places: mg.TensorType, tables: mg.TensorType, resolutions: tuple[int, ...]) -> mg.TensorType:
    """What hash_encoding gives; it refuses what its kernels would read beside."""
    if places.shape is None or len(places.shape) != 2 or places.shape[1] != 3:
        raise mg.ShapeError(f"hash_encoding: places must be (n, 3), their shape is {places.shape}")
    levels, rows, features = tables.shape if tables.shape and len(tables.shape) == 3 else (0, 0, 0)
    if levels != len(resolutions) or rows < 1 or rows & (rows - 1) or features != 2:
        raise mg.ShapeError(
            f"hash_encoding: tables must be (levels, rows, 2), with as many levels as there are resolutions, "
            f"{len(resolutions)}, and a power of two of rows; their shape is {tables.shape}"
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
    """Places (n, 3) in the unit cube as what trained tables say of them, (n, 2 * levels).

    Args: levels, from `coarsest` to `finest` cells along an edge, each by the same factor finer; rows of each table, a
    power of two.
    """

    def __init__(self, levels: int, rows: int, coarsest: int, finest: int) -> None:
        self.rows = rows
        self.resolutions = tuple(round(cells) for cells in np.geomspace(coarsest, finest, levels))

    def build(self, x: mg.Tensor) -> None:
        shape, first = (len(self.resolutions), self.rows, 2), nn.initialisers.Uniform(-1e-4, 1e-4)
        self.tables = self.add_parameter("tables", x, shape, first)

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        return hash_encoding(x, self.tables, resolutions=self.resolutions)
