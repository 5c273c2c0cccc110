"""Translations of pairwise distances between rows, in the p-norm of their differences."""

from __future__ import annotations

import math
from typing import Any

import torch

from ._table import composed


def _norm(apart: Any, p: float) -> Any:
    size = apart.abs()
    if p == 0:
        return (size != 0).to(apart.dtype).sum(-1)
    if p == 1:
        return size.sum(-1)
    if p == 2:
        return torch.sqrt(torch.square(size).sum(-1))
    return size.amax(-1) if math.isinf(p) else torch.pow(torch.pow(size, p).sum(-1), 1 / p)


def _slope(incoming: Any, apart: Any, distance: Any, p: float) -> Any:
    """Return the gradient of distances with respect to the differences of rows, given the incoming gradient.

    The gradient is 0 where the distance is 0.
    """
    incoming, distance = incoming.unsqueeze(-1), distance.unsqueeze(-1)
    if p == 0:
        return torch.zeros_like(apart)
    if p == 1:
        return incoming * torch.sign(apart)
    none = distance == 0
    safe = torch.where(none, torch.ones_like(distance), distance)
    size = apart.abs()
    if math.isinf(p):
        found = incoming * torch.sign(apart) * (size == distance).to(apart.dtype)
    elif p == 2:
        found = incoming * apart / safe
    else:
        zero = size == 0
        found = torch.sign(apart) * torch.pow(torch.where(zero, torch.ones_like(size), size), p - 1)
        found = torch.where(zero, torch.zeros_like(size), found) * incoming / torch.pow(safe, p - 1)
    return torch.where(none, torch.zeros_like(found), found)


@composed("_cdist_forward")
def cdist_forward(x: Any, y: Any, p: float, mode: int | None) -> Any:
    if not x.shape[-1]:
        return torch.zeros((*torch.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-2]))
    return _norm(x.unsqueeze(-2) - y.unsqueeze(-3), p)


@composed("_cdist_backward")
def cdist_backward(incoming: Any, x: Any, y: Any, p: float, distance: Any) -> Any:
    if not incoming.numel():
        return torch.zeros_like(x)
    return _slope(incoming, x.unsqueeze(-2) - y.unsqueeze(-3), distance, p).sum(-2)


def _pairs(count: int) -> tuple[Any, Any]:
    """Return the first and second indices of all pairs (i, j) with i < j, in lexicographic order."""
    rows = torch.arange(count)
    total = count * (count - 1) // 2
    number = torch.arange(total)
    begins = rows * (2 * count - rows - 1) // 2
    first = (begins.unsqueeze(0) <= number.unsqueeze(1)).sum(1) - 1
    return first, number - begins[first] + first + 1


@composed("_pdist_forward", "pdist")
def pdist_forward(x: Any, p: float = 2.0) -> Any:
    if x.shape[0] < 2:
        return torch.zeros(0, dtype=x.dtype)
    if not x.shape[1]:
        return torch.zeros(x.shape[0] * (x.shape[0] - 1) // 2, dtype=x.dtype)
    first, second = _pairs(x.shape[0])
    return _norm(x[first] - x[second], p)


@composed("_pdist_backward")
def pdist_backward(incoming: Any, x: Any, p: float, distance: Any) -> Any:
    if not incoming.numel() or not x.numel():
        return torch.zeros_like(x)
    first, second = _pairs(x.shape[0])
    found = _slope(incoming, x[first] - x[second], distance, p)
    start = torch.zeros_like(x)
    return start.index_add(0, first, found) - torch.zeros_like(x).index_add(0, second, found)
