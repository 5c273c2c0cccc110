"""Translations of grid sampling and its gradients. Grid sampling reads images at positions given by a tensor."""

from __future__ import annotations

from typing import Any

import torch

from ..._core import Tensor
from ._table import Call, aten, composed


@aten("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def grid_sampler_backward(
    call: Call, incoming: Tensor, x: Tensor, grid: Tensor, mode: int, padding: int, align: bool, wanted: Any
) -> list[Tensor]:
    three = "3d" in call.name
    operation = _sampled if three else torch.ops.aten.grid_sampler_2d.default

    def forward(x: Tensor, grid: Tensor) -> Tensor:
        found = call.traced(operation, x, grid, mode, padding, align)
        return found[0] if isinstance(found, list) else found  # type: ignore[no-any-return]

    return call.derived(forward, incoming, x, grid)


@composed("grid_sampler_3d")
def grid_sampler_3d(x: Any, grid: Any, mode: int, padding: int, align: bool) -> Any:
    return _sampled(x, grid, mode, padding, align)


def _sampled(x: Any, grid: Any, mode: int, padding: int, align: bool) -> Any:
    """Sample volumes (N, C, D, H, W) at positions (N, d, h, w, 3), whose first coordinate is x.

    Mode 0 interpolates linearly, and mode 1 selects the nearest element.
    """
    sizes = x.shape[2:]
    places = []
    for axis, size in enumerate(sizes):
        at = grid[..., 2 - axis]
        at = (at + 1) / 2 * (size - 1) if align else ((at + 1) * size - 1) / 2
        if padding == 2:  # Padding mode 2 reflects positions at the borders.
            low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
            if span:
                away = (at - low).abs()
                turns = torch.floor(away / span)
                rest = away - turns * span
                at = torch.where(torch.floor(turns / 2) * 2 == turns, rest + low, span - rest + low)
            else:
                at = at * 0
        if padding:
            at = torch.clamp(at, 0, size - 1)
        places.append(at)
    batch = torch.arange(x.shape[0]).reshape(-1, 1, 1, 1)

    def picked(*index: Any) -> Any:
        inside = torch.ones((), dtype=torch.bool)
        for i, size in zip(index, sizes, strict=True):
            inside = inside & (i >= 0) & (i <= size - 1)
        whole = [torch.clamp(i, 0, size - 1).to(torch.int64) for i, size in zip(index, sizes, strict=True)]
        found = x.movedim(1, -1)[batch, whole[0], whole[1], whole[2]]
        return torch.where(inside.unsqueeze(-1), found, torch.zeros((), dtype=x.dtype))

    if mode == 1:
        return picked(*(torch.round(at) for at in places)).movedim(-1, 1)
    lows = [torch.floor(at) for at in places]
    total: Any = 0
    for corner in range(8):
        offsets = [corner >> axis & 1 for axis in range(3)]
        weight: Any = 1
        for at, low, offset in zip(places, lows, offsets, strict=True):
            share = at - low
            weight = weight * (share if offset else 1 - share)
        total = total + picked(*(low + o for low, o in zip(lows, offsets, strict=True))) * weight.unsqueeze(-1)
    return total.movedim(-1, 1)
