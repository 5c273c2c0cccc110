"""How checkpoints store values of callbacks and metrics: numbers and strings as JSON, arrays as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._display import shown
from ..errors import CheckpointError

_ARRAY = "array of the checkpoint"


def packed(value: Any, arrays: dict[str, np.ndarray], name: str) -> Any:
    """Convert a value to JSON types, adding its arrays to `arrays` under names that start with `name`.

    Raises:
        CheckpointError: If the value contains anything other than numbers, strings, arrays, None, and lists, tuples,
            and dicts of these.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray) and (value.dtype.kind in "biuf" or value.dtype.name == "bfloat16"):
        arrays[name] = value
        return {_ARRAY: name}
    if isinstance(value, (list, tuple)):
        return [packed(item, arrays, f"{name}/{i}") for i, item in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(key, str) and key != _ARRAY for key in value):
        return {key: packed(item, arrays, f"{name}/{key}") for key, item in value.items()}
    raise CheckpointError(
        f"a checkpoint cannot store {name}, got {shown(value)}: use numbers, strings, arrays, and lists and dicts of "
        "them"
    )


def unpacked(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Restore a value converted by `packed`; tuples become lists. Raise CheckpointError if an array is missing."""
    if isinstance(value, list):
        return [unpacked(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if _ARRAY in value:
        if value[_ARRAY] not in arrays:
            raise CheckpointError(
                f"the checkpoint refers to the array {shown(value[_ARRAY])}, which it does not contain"
            )
        return arrays[value[_ARRAY]]
    return {key: unpacked(item, arrays) for key, item in value.items()}


def names_in(value: Any) -> set[str]:
    """Return the names of the arrays that a converted value refers to."""
    if isinstance(value, list):
        return {name for item in value for name in names_in(item)}
    if not isinstance(value, dict):
        return set()
    return {value[_ARRAY]} if _ARRAY in value else {name for item in value.values() for name in names_in(item)}
