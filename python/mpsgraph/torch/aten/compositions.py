"""What is said in PyTorch's own language and belongs to no other file: sums of products, repeats, embeddings in bags."""

from __future__ import annotations

import math
from typing import Any

import torch

from ._table import composed


@composed("addbmm")
def addbmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = torch.bmm(a, b).sum(0) * alpha
    return product if beta == 0 else x * beta + product


@composed("_trilinear")
def trilinear(a: Any, b: Any, c: Any, expand1: Any, expand2: Any, expand3: Any, sumdim: Any, unroll_dim: int = 1) -> Any:
    """The product of three tensors with axes of size 1 inserted, summed over some axes."""
    wide = []
    for x, places in zip((a, b, c), (expand1, expand2, expand3), strict=True):
        for place in sorted(places):
            x = x.unsqueeze(place)
        wide.append(x)
    found = wide[0] * wide[1] * wide[2]
    return found.sum(list(sumdim)) if len(sumdim) else found


@composed("linalg__powsum")
def powsum(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    x = x if dtype is None else x.to(dtype)
    return torch.sum(torch.pow(x.abs(), ord), dim if dim is not None else list(range(x.dim())), keepdim)


@composed("_weight_norm_interface_backward")
def weight_norm_backward(incoming: Any, v: Any, scale: Any, norms: Any, dim: int) -> Any:
    axes = [axis for axis in range(v.dim()) if axis != dim % v.dim()]
    norms = norms.reshape(scale.shape)
    along = (incoming * v).sum(axes, keepdim=True).reshape(scale.shape)
    to_v = scale / norms * (incoming - v * along / torch.square(norms))
    return to_v, along / norms


@composed("linalg_pinv")
def pinv(x: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """By singular values; those below the larger tolerance are zero."""
    if not x.numel():
        return torch.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), dtype=x.dtype)
    if rtol is None:
        rtol = 0.0 if atol is not None else max(x.shape[-2:]) * torch.finfo(x.dtype).eps
    atol = 0.0 if atol is None else atol
    u, s, vh = torch.ops.aten._linalg_svd(x, False, True)
    rtol, atol = (t.unsqueeze(-1) if isinstance(t, torch.Tensor) else t for t in (rtol, atol))
    least = torch.maximum(torch.zeros_like(s[..., :1]) + atol, s[..., :1] * rtol)
    inverse = torch.where(s > least, 1 / torch.where(s > least, s, torch.ones_like(s)), torch.zeros_like(s))
    return vh.mT @ (inverse.unsqueeze(-1) * u.mT)


@composed("logit_backward")
def logit_backward(incoming: Any, x: Any, eps: float | None = None) -> Any:
    slope = incoming / (x * (1 - x))
    if eps is None:
        return torch.where((x < 0) | (x > 1), torch.full((), math.nan, dtype=x.dtype), slope)
    return torch.where((x < eps) | (x > 1 - eps), torch.zeros((), dtype=x.dtype), slope)


@composed("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: int = -1,
) -> Any:  # fmt: skip
    """Rows summed (0), averaged (1) or their largest elements (2), of bags that begin at offsets."""
    starts = offsets[:-1] if include_last_offset else offsets
    bags, count = starts.shape[0], indices.shape[0]
    bag = (starts.unsqueeze(0) <= torch.arange(count).unsqueeze(1)).sum(1) - 1
    kept = indices != padding_idx if padding_idx >= 0 else torch.ones_like(indices, dtype=torch.bool)
    rows = weight[indices]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    shares = kept.to(weight.dtype).unsqueeze(1)
    sizes = torch.zeros(bags, dtype=weight.dtype).index_add(0, bag, kept.to(weight.dtype))
    most = torch.zeros((bags, weight.shape[1]) if mode == 2 else (bags,), dtype=indices.dtype)
    if mode == 2:
        where = bag.unsqueeze(1).expand(rows.shape)
        low = torch.where(kept.unsqueeze(1), rows, torch.full((), -math.inf, dtype=weight.dtype))
        found = torch.full((bags, weight.shape[1]), -math.inf, dtype=weight.dtype)
        found = found.scatter_reduce(0, where, low, "amax")
        first = torch.arange(count - 1, -1, -1).unsqueeze(1).expand(rows.shape)
        hit = torch.where(low == found[bag], first, torch.full_like(first, -1)).to(weight.dtype)
        place = torch.full((bags, weight.shape[1]), -1.0, dtype=weight.dtype).scatter_reduce(0, where, hit, "amax")
        most = torch.where(place < 0, torch.zeros_like(place), count - 1 - place).to(indices.dtype)
        most = indices[most]
        found = torch.where(sizes.unsqueeze(1) > 0, found, torch.zeros((), dtype=weight.dtype))
    else:
        found = torch.zeros((bags, weight.shape[1]), dtype=weight.dtype).index_add(0, bag, rows * shares)
        if mode == 1:
            found = found / torch.clamp(sizes, min=1).unsqueeze(1)
    return found, bag.to(indices.dtype), sizes.to(indices.dtype), most
