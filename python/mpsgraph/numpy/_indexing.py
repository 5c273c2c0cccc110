"""Indexing of arrays and tensors with ints, slices, `...`, None, index arrays, and masks."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from .. import _core
from .._core import NDArray, Tensor
from ..errors import ShapeError
from ._creation import asarray, astype
from ._operation import cast_to, graph_of, shape_of
from ._searching import from_zero


def index_array(x: NDArray, key: Any) -> NDArray:
    """Return x[key]: a view for ints, slices, `...` and None, and a copy for index arrays and masks."""
    keys = tuple(_plain(k) for k in key) if isinstance(key, tuple) else (_plain(key),)
    if not builtins.any(k is Ellipsis for k in keys):
        keys += (Ellipsis,)  # With it, numpy returns an array where the result has rank 0.
    return _core.asarray(x.numpy()[keys], x.dtype)


def set_array(x: NDArray, key: Any, value: Any) -> None:
    """Assign to the elements of x that a key selects."""
    keys = tuple(_plain(k) for k in key) if isinstance(key, tuple) else _plain(key)
    given = value if isinstance(value, (NDArray, np.ndarray)) else None
    if given is not None and x.dtype == _core.bfloat16 and given.dtype != x.dtype:
        value = astype(asarray(value), x.dtype)
    x.numpy()[keys] = _plain(value)


def _plain(key: Any) -> Any:
    if isinstance(key, NDArray):
        return key.numpy()
    if isinstance(key, list):
        return [_plain(k) for k in key]
    return key


def index_tensor(x: Tensor, key: tuple[Any, ...]) -> Tensor:
    """Return x[key] for a key with index arrays or a mask, as a gather of the selected elements."""
    g = graph_of(x)
    if len(key) == 1 and _is_mask(key[0]):
        return g.gather_nd(x, g.non_zero_indices(_index(g, key[0])))
    if builtins.any(_is_mask(k) for k in key):
        raise ShapeError("a tensor is indexed by one mask alone: use x[mask], or where(mask, x, 0) to keep the shape")
    keys = list(key)
    if builtins.any(k is Ellipsis for k in keys):
        at = next(i for i, k in enumerate(keys) if k is Ellipsis)
        missing = len(shape_of(x, "indexing")) - sum(k is not None and k is not Ellipsis for k in keys)
        keys[at : at + 1] = [slice(None)] * missing
    advanced = [i for i, k in enumerate(keys) if k is not None and not isinstance(k, slice)]
    if advanced != list(range(advanced[0], advanced[0] + len(advanced))):
        raise ShapeError("index arrays and ints must be next to each other: apply the other indices in a second step")
    arrays = [k for k in keys if _is_array(k)]
    first = advanced[0]
    basic = tuple(slice(None) if _is_array(k) else k for k in keys)
    x = x[basic]
    shape = list(shape_of(x, "indexing"))
    places = [from_zero(_index(g, k), shape[first + n]) for n, k in enumerate(arrays)]
    if len(places) == 1:
        return g.gather(x, places[0], first, out_of_range="error")
    zero = cast_to(places[0], _core.int32) * 0
    for place in places[1:]:
        zero = zero + cast_to(place, _core.int32) * 0
    new = len(shape_of(zero, "indexing"))
    at_all = g.stack([cast_to(p, _core.int32) + zero for p in places], new)
    others = [a for a in range(len(shape)) if not first <= a < first + len(places)]
    found = g.gather_nd(g.transpose(x, [*range(first, first + len(places)), *others]) if first else x, at_all)
    if not first:
        return found
    return g.transpose(found, [*range(new, new + first), *range(new), *range(new + first, new + len(others))])


def _is_array(key: Any) -> builtins.bool:
    return isinstance(key, (Tensor, NDArray, np.ndarray, list))


def _is_mask(key: Any) -> builtins.bool:
    if isinstance(key, (Tensor, NDArray)):
        return key.dtype == _core.bool_
    return isinstance(key, (np.ndarray, list)) and np.asarray(key).dtype == np.bool_


def _index(g: Any, key: Any) -> Tensor:
    if isinstance(key, Tensor):
        return key
    made: Tensor = g.constant(np.asarray(key.numpy() if isinstance(key, NDArray) else key))
    return made
