"""States from elsewhere held against the variables that they are for: names, shapes and element types, all at once.

A module's own `load_state_dict` and the loaders in `weights/` compare by this, and only then give values. What comes
may be an array of numpy's or ours, or a tensor of PyTorch's; nothing here knows layers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._core import DType, NDArray, Tensor, bfloat16, float32
from .._display import shown
from .._dtypes import as_dtype, constant_data
from ..errors import DTypeError, GraphError, ShapeError

_MANY = 100
"""How many names a message holds before it counts the others."""


class IncompatibleKeys(NamedTuple):
    """What a state lacked and what it had too much, by name: PyTorch's."""

    missing_keys: list[str]
    unexpected_keys: list[str]


@dataclass(frozen=True)
class Slot:
    """What a value must be to fit: its shape and element type."""

    shape: tuple[int, ...]
    dtype: DType


def slot_of(variable: Tensor) -> Slot:
    return Slot(tuple(variable.shape or ()), variable.dtype)


@dataclass(frozen=True)
class Value:
    """An array and what its elements are: bfloat16, which numpy does not have, is bits in uint16."""

    array: np.ndarray
    dtype: DType


def value_of(given: Any) -> Value:
    """A value as an array, without a copy where that can be. Errors: DTypeError."""
    if isinstance(given, Value):
        return given
    if isinstance(given, NDArray):
        given = given.numpy()
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(given, torch.Tensor):
        return _of_torch(given, torch)
    array = np.asarray(given)
    if array.dtype.kind not in "biufcV":
        raise DTypeError(f"a state has arrays of numbers, got {shown(given)}")
    dtype = as_dtype(array.dtype)
    return Value(array.view(np.uint16) if dtype == bfloat16 else array, dtype)


def _of_torch(given: Any, torch: Any) -> Value:
    try:
        tensor = given.detach().cpu().contiguous()
        if tensor.dtype == torch.bfloat16:
            return Value(tensor.view(torch.int16).numpy().view(np.uint16), bfloat16)
        array = tensor.numpy()
    except (TypeError, RuntimeError) as error:  # quantized, sparse, without data, of a type that numpy does not have
        kind = f"{given.dtype} {tuple(given.shape)} on {given.device}"
        raise DTypeError(f"a state has arrays of numbers, got a tensor of {kind}: {error}".splitlines()[0]) from error
    return Value(array, as_dtype(array.dtype))


def copied(state: Mapping[str, Any]) -> dict[str, Value]:
    """Copies of the values, for a state that is taken later."""
    values = {name: value_of(given) for name, given in state.items()}
    return {name: Value(value.array.copy(), value.dtype) for name, value in values.items()}


def fitting(
    where: str,
    wanted: Mapping[str, Slot],
    state: Mapping[str, Any],
    *,
    strict: bool,
    cast: bool = False,
    optional: Iterable[str] = (),
) -> tuple[dict[str, np.ndarray], IncompatibleKeys]:
    """The arrays of a state that are wanted, each of its slot's shape and type, and what names did not match.

    Args: where, who asks, for messages; wanted, slots by name; state, values by name; strict, whether names must match;
    cast, whether floating-point values become the slot's type; optional, wanted names that may be missing. Errors:
    GraphError names all that is missing and unexpected, ShapeError all shapes and DTypeError all types that differ.
    """
    left = set(optional)
    keys = IncompatibleKeys(
        [name for name in wanted if name not in state and name not in left],
        [name for name in state if name not in wanted],
    )
    if strict and (keys.missing_keys or keys.unexpected_keys):
        raise GraphError(f"{where}: the state does not fit: {_said(keys)}")
    values = {name: value_of(state[name]) for name in wanted if name in state}
    shapes = [
        f"'{name}' has shape {wanted[name].shape}, the state has {value.array.shape}"
        for name, value in values.items()
        if value.array.shape != wanted[name].shape
    ]
    if shapes:
        raise ShapeError(f"{where}: {_listed(shapes)}")
    types = [
        f"'{name}' is {wanted[name].dtype}, the state has {value.dtype}"
        for name, value in values.items()
        if not _may_be(value.dtype, wanted[name].dtype, cast)
    ]
    if types:
        raise DTypeError(f"{where}: {_listed(types)}: convert it first")
    return {name: _as(value, wanted[name].dtype) for name, value in values.items()}, keys


def _may_be(dtype: DType, wanted: DType, cast: bool) -> bool:
    bits = wanted == bfloat16 and dtype == as_dtype("uint16")  # as checkpoints give them
    return dtype == wanted or bits or (cast and dtype.is_float and wanted.is_float)


def _as(value: Value, dtype: DType) -> np.ndarray:
    """The value's elements in a type that they may have, bfloat16 as bits."""
    if value.dtype == dtype or not value.dtype.is_float:
        return value.array
    if value.dtype == bfloat16:
        wide = wide_of(value.array)
        return wide if dtype == float32 else wide.astype(dtype.numpy)
    return bits_of(value.array) if dtype == bfloat16 else value.array.astype(dtype.numpy)


def wide_of(bits: np.ndarray) -> np.ndarray:
    """float32 of bfloat16's bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def bits_of(values: np.ndarray) -> np.ndarray:
    """bfloat16's bits of numbers, rounded to the nearest even."""
    wide = np.asarray(values, np.float32)
    return np.asarray(constant_data(wide, None, "bfloat16").numpy()).view(np.uint16)


def _said(keys: IncompatibleKeys) -> str:
    parts = [f"missing {_listed(keys.missing_keys)}"] if keys.missing_keys else []
    return "; ".join(parts + ([f"unexpected {_listed(keys.unexpected_keys)}"] if keys.unexpected_keys else []))


def _listed(words: list[str]) -> str:
    more = f", and {len(words) - _MANY} more" if len(words) > _MANY else ""
    return ", ".join(words[:_MANY]) + more
