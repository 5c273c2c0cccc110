"""Translations of grouped matmuls, in which each group of rows has its own matrix, as in a mixture of experts.

The sizes of the groups are data, but the graph needs fixed shapes. The rows are therefore copied to tiles of a fixed
number of rows, so that each tile belongs to one group: with s rows and e groups, tiles of ceil(s / e) rows need at most
twice as much memory and arithmetic as the rows themselves. All tiles are then multiplied in one batched matmul.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..._core import Tensor, int32
from ._table import Call, aten, shape_of


@dataclass
class _Tiles:
    """The positions of each group's rows in the tiles. All tensors hold int32 indices, except `used`."""

    group: Tensor
    """The group of each tile."""
    row: Tensor
    """The row of each slot of each tile, of shape (tiles, rows per tile), clipped to the rows that exist."""
    used: Tensor
    """Whether each slot holds a row, of shape (tiles, rows per tile, 1)."""
    slot: Tensor
    """The slot of each row in the flattened tiles."""
    inside: Tensor
    """Whether each row belongs to a group, of shape (rows, 1). The offsets may end before the last row."""


def _tiles(call: Call, offsets: Tensor, rows: int) -> _Tiles:
    """Divide rows into tiles, given the end of each group."""
    g, groups = call.g, shape_of(offsets)[0]
    each = 1 if rows <= groups else -(-rows // groups)
    count = rows if each == 1 else rows // each + groups
    ends = g.maximum(g.cast(offsets, int32), 0)
    starts = g.concat([g.constant(0, (1,), int32), g.slice(ends, [0], [groups - 1])], 0)
    tiles_of_each = (ends - starts + (each - 1)) // each
    tile_ends = g.cumulative_sum(tiles_of_each, 0)
    tile_starts = tile_ends - tiles_of_each

    def group_of(places: Tensor, limits: Tensor) -> Tensor:
        """Return the number of groups that end at or before each index."""
        past = g.greater_than_or_equal_to(g.expand_dims(places, 1), g.expand_dims(limits, 0))
        return g.minimum(g.reshape(g.reduction_sum(g.cast(past, int32), 1), [-1]), groups - 1)

    tile, row = (g.coordinate_along_axis(0, (n,)) for n in (count, rows))
    group = group_of(tile, tile_ends)
    first = g.gather(starts, group, 0) + (tile - g.gather(tile_starts, group, 0)) * each
    wanted = g.expand_dims(first, 1) + g.expand_dims(g.coordinate_along_axis(0, (each,)), 0)
    used = g.less_than(wanted, g.expand_dims(g.gather(ends, group, 0), 1))
    used = g.logical_and(used, g.expand_dims(g.less_than(tile, g.slice(tile_ends, [groups - 1], [groups])), 1))
    of_row = group_of(row, ends)
    past_start = row - g.gather(starts, of_row, 0)
    slot = g.gather(tile_starts, of_row, 0) * each + past_start
    inside = g.less_than(row, g.slice(ends, [groups - 1], [groups]))
    return _Tiles(
        group,
        g.clamp(wanted, 0, max(rows - 1, 0)),
        g.expand_dims(used, 2),
        g.clamp(slot, 0, max(count * each - 1, 0)),
        g.expand_dims(inside, 1),
    )


def _in_tiles(call: Call, x: Tensor, tiles: _Tiles) -> Tensor:
    """Return the rows of x in tiles, with zeros in unused slots."""
    return call.g.select(tiles.used, call.g.gather(x, tiles.row, 0), call.cast(0.0, x.dtype))


def _by_group(call: Call, x: Tensor, weights: Tensor, tiles: _Tiles) -> Tensor:
    """Multiply each row of x, of shape (rows, in), by its group's matrix in weights, of shape (groups, in, out)."""
    g, out = call.g, shape_of(weights)[2]
    products = g.matrix_multiplication(_in_tiles(call, x, tiles), g.gather(weights, tiles.group, 0))
    flat = g.reshape(products, [-1, out])
    return g.select(tiles.inside, g.gather(flat, tiles.slot, 0), call.cast(0.0, flat.dtype))


def _of_each_group(call: Call, x: Tensor, y: Tensor, groups: int, tiles: _Tiles) -> Tensor:
    """Return the transposed rows of x times the rows of y for each group, of shape (groups, in, out)."""
    g = call.g
    left = g.swap_axes(_in_tiles(call, x, tiles), 1, 2)
    products = g.matrix_multiplication(left, _in_tiles(call, y, tiles))
    sizes = (groups, shape_of(x)[1], shape_of(y)[1])
    return g.scatter(products, tiles.group, 0, "add", shape=sizes)


@aten("_grouped_mm")
def grouped_matmul(
    call: Call, a: Tensor, b: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: object = None
) -> Tensor:
    g = call.g
    if bias is not None:
        call.refuse("a bias is not supported: add it to the result")
    flat = len(shape_of(a)) == 2, len(shape_of(b)) == 2
    if offs is None or flat == (False, False):
        return g.matrix_multiplication(a, b)
    if flat == (True, False):
        return _by_group(call, a, b, _tiles(call, offs, shape_of(a)[0]))
    if flat == (False, True):  # The groups are columns of b.
        turned, columns = g.swap_axes(b, 0, 1), g.swap_axes(a, 1, 2)
        return g.swap_axes(_by_group(call, turned, columns, _tiles(call, offs, shape_of(turned)[0])), 0, 1)
    rows = g.swap_axes(a, 0, 1)
    return _of_each_group(call, rows, b, shape_of(offs)[0], _tiles(call, offs, shape_of(rows)[0]))


@aten("grouped_mm_fallback", domain="transformers")
def transformers_grouped_matmul(call: Call, x: Tensor, weights: Tensor, offsets: Tensor) -> Tensor:
    return _by_group(call, x, weights, _tiles(call, offsets, shape_of(x)[0]))


@aten("grouped_mm_fallback_backward", domain="transformers")
def transformers_grouped_matmul_gradients(
    call: Call, x: Tensor, weights: Tensor, offsets: Tensor, incoming: Tensor
) -> list[Tensor]:
    tiles = _tiles(call, offsets, shape_of(x)[0])
    to_x = _by_group(call, incoming, call.g.swap_axes(weights, 1, 2), tiles)
    return [to_x, _of_each_group(call, x, incoming, shape_of(weights)[0], tiles)]
