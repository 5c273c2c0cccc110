"""Values of callbacks and metrics as a checkpoint keeps them: numbers and words in JSON, arrays beside the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._display import shown
from ..errors import CheckpointError

_ARRAY = "array of the checkpoint"


def packed(value: Any, arrays: dict[str, np.ndarray], name: str) -> Any:
    """The value as JSON can hold it; its arrays are added to `arrays` under names that begin with `name`.

    Errors: CheckpointError for what is no number, string, array, None, or list, tuple or dict by strings of such.
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
    raise CheckpointError(f"a checkpoint cannot keep {name}, which is {shown(value)}: give numbers, strings and arrays")


def unpacked(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """What `packed` was given; tuples are lists. CheckpointError where an array is not there."""
    if isinstance(value, list):
        return [unpacked(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if _ARRAY in value:
        if value[_ARRAY] not in arrays:
            raise CheckpointError(f"the checkpoint has no array {shown(value[_ARRAY])}, which it names")
        return arrays[value[_ARRAY]]
    return {key: unpacked(item, arrays) for key, item in value.items()}


def names_in(value: Any) -> set[str]:
    """The names of the arrays that a packed value has beside it."""
    if isinstance(value, list):
        return {name for item in value for name in names_in(item)}
    if not isinstance(value, dict):
        return set()
    return {value[_ARRAY]} if _ARRAY in value else {name for item in value.values() for name in names_in(item)}
