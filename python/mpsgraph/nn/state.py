"""Comparison of a state with the variables it is to be loaded into: names, shapes, and element types, all at once.

`Module.load_state_dict` and the loaders in `weights/` use this before they set any value. Values may be numpy arrays,
NDArrays, or PyTorch tensors. Nothing here depends on layers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._core import DType, NDArray, Tensor, bfloat16, float16, float32
from .._display import shown
from .._dtypes import as_dtype, constant_data
from .._narrow import FLOATS, widened
from ..errors import DTypeError, GraphError, ShapeError

_MANY = 100
"""Maximum number of names that an error message lists; further names are only counted."""


class IncompatibleKeys(NamedTuple):
    """Names by which a state and a model differ, as PyTorch's load_state_dict returns them.

    Attributes:
        missing_keys: Names of variables that the state lacks.
        unexpected_keys: Names in the state that match no variable.
    """

    missing_keys: list[str]
    unexpected_keys: list[str]


@dataclass(frozen=True)
class Slot:
    """Shape and element type that a value must have."""

    shape: tuple[int, ...]
    dtype: DType


def slot_of(variable: Tensor) -> Slot:
    return Slot(tuple(variable.shape or ()), variable.dtype)


@dataclass(frozen=True)
class Value:
    """An array and its element type; bfloat16, which numpy lacks, is stored as bits in uint16."""

    array: np.ndarray
    dtype: DType
    exact: bool = False  # Whether every floating-point dtype can represent the elements, so that no cast is needed.


@dataclass(frozen=True)
class Float8:
    """An array of 8-bit floating-point numbers, stored as bits in uint8, and the name of their type."""

    bits: np.ndarray
    kind: str


def value_of(given: Any) -> Value:
    """Convert a value to an array, without a copy where possible. Raise DTypeError if it is not numeric."""
    if isinstance(given, Value):
        return given
    if isinstance(given, Float8):
        return Value(widened(given.bits, given.kind), float16, exact=True)
    if isinstance(given, NDArray):
        given = given.numpy()
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(given, torch.Tensor):
        return _of_torch(given, torch)
    array = np.asarray(given)
    if array.dtype.name in FLOATS and array.dtype.itemsize == 1:
        return value_of(Float8(array.view(np.uint8), array.dtype.name))
    if array.dtype.kind not in "biufcV":
        raise DTypeError(f"values of a state must be numeric arrays, got {shown(given)}")
    dtype = as_dtype(array.dtype)
    return Value(array.view(np.uint16) if dtype == bfloat16 else array, dtype)


def _of_torch(given: Any, torch: Any) -> Value:
    try:
        tensor = given.detach().cpu().contiguous()
        if tensor.dtype == torch.bfloat16:
            return Value(tensor.view(torch.int16).numpy().view(np.uint16), bfloat16)
        kind = str(tensor.dtype).removeprefix("torch.")
        if kind in FLOATS:
            return value_of(Float8(tensor.view(torch.uint8).numpy(), kind))
        array = tensor.numpy()
    # The tensor may be quantized, sparse, without data, or of a dtype that numpy lacks.
    except (TypeError, RuntimeError) as error:
        kind = f"{given.dtype} {tuple(given.shape)} on {given.device}"
        raise DTypeError(
            f"values of a state must be numeric arrays, got a tensor of {kind}: {error}".splitlines()[0]
        ) from error
    return Value(array, as_dtype(array.dtype))


def copied(state: Mapping[str, Any]) -> dict[str, Value]:
    """Copy the values of a state that will be loaded later."""
    values = {name: value_of(given) for name, given in state.items()}
    return {name: Value(value.array.copy(), value.dtype, value.exact) for name, value in values.items()}


def fitting(
    where: str,
    wanted: Mapping[str, Slot],
    state: Mapping[str, Any],
    *,
    strict: bool,
    cast: bool = False,
    optional: Iterable[str] = (),
) -> tuple[dict[str, np.ndarray], IncompatibleKeys]:
    """Select the values of a state that match the variables, checking names, shapes, and element types.

    Args:
        where: Name of the caller, for error messages.
        wanted: Dict of slots, keyed by name.
        state: Dict of values, keyed by name.
        strict: Whether names must match exactly.
        cast: Whether to convert floating-point values to the dtype of the slot.
        optional: Names of slots that may be missing from the state.

    Returns:
        A dict of arrays, keyed by name, each with the shape and dtype of its slot, and the names that did not match.

    Raises:
        GraphError: If strict and names are missing or unexpected; the message lists them.
        ShapeError: If shapes differ; the message lists all of them.
        DTypeError: If element types differ; the message lists all of them.
    """
    left = set(optional)
    keys = IncompatibleKeys(
        [name for name in wanted if name not in state and name not in left],
        [name for name in state if name not in wanted],
    )
    if strict and (keys.missing_keys or keys.unexpected_keys):
        raise GraphError(
            f"{where}: the names in the state do not match the model's: {_said(keys)}; pass strict=False to load only "
            "matching names"
        )
    values = {name: value_of(state[name]) for name in wanted if name in state}
    shapes = [
        f"'{name}' must have shape {wanted[name].shape}, got {value.array.shape}"
        for name, value in values.items()
        if value.array.shape != wanted[name].shape
    ]
    if shapes:
        raise ShapeError(f"{where}: shapes in the state do not match the model's: {_listed(shapes, '; ')}")
    types = [
        f"'{name}' must be {wanted[name].dtype}, got {value.dtype}"
        for name, value in values.items()
        if not _may_be(value.dtype, wanted[name].dtype, cast or value.exact)
    ]
    if types:
        raise DTypeError(
            f"{where}: element types in the state do not match the model's, convert them first: {_listed(types, '; ')}"
        )
    return {name: _as(value, wanted[name].dtype) for name, value in values.items()}, keys


def _may_be(dtype: DType, wanted: DType, cast: bool) -> bool:
    bits = wanted == bfloat16 and dtype == as_dtype("uint16")  # Some checkpoints provide bfloat16 as uint16 bits.
    return dtype == wanted or bits or (cast and dtype.is_float and wanted.is_float)


def _as(value: Value, dtype: DType) -> np.ndarray:
    """Convert a value to an accepted element type; bfloat16 is returned as bits."""
    if value.dtype == dtype or not value.dtype.is_float:
        return value.array
    if value.dtype == bfloat16:
        wide = wide_of(value.array)
        return wide if dtype == float32 else wide.astype(dtype.numpy)
    return bits_of(value.array) if dtype == bfloat16 else value.array.astype(dtype.numpy)


def wide_of(bits: np.ndarray) -> np.ndarray:
    """Convert bfloat16 bits to float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def bits_of(values: np.ndarray) -> np.ndarray:
    """Round numbers to bfloat16, to nearest even, and return the bits."""
    wide = np.asarray(values, np.float32)
    return np.asarray(constant_data(wide, None, "bfloat16").numpy()).view(np.uint16)


def _said(keys: IncompatibleKeys) -> str:
    parts = [f"missing {_listed(keys.missing_keys)}"] if keys.missing_keys else []
    return "; ".join(parts + ([f"unexpected {_listed(keys.unexpected_keys)}"] if keys.unexpected_keys else []))


def _listed(words: list[str], separator: str = ", ") -> str:
    more = f"{separator}and {len(words) - _MANY} more" if len(words) > _MANY else ""
    return separator.join(words[:_MANY]) + more
