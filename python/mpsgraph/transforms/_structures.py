"""Nested structures of arguments and results: tuples, named tuples, lists, dicts, and dataclasses."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._core import NDArray, Tensor

_NUMBERS = (int, float, complex)
_CONTAINERS = (tuple, list, dict)


def is_array(value: Any) -> bool:
    """Return whether a value becomes a tensor: a tensor, an array of any library, or a number that is not a bool."""
    if isinstance(value, bool):
        return False
    if isinstance(value, (Tensor, NDArray, np.ndarray, np.generic, *_NUMBERS)):
        return True
    return hasattr(type(value), "__dlpack__") or hasattr(type(value), "__array__")


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def flattened(value: Any, leaves: list[Any]) -> Any:
    """Append the leaves of a structure to a list. Return the form of the structure, which can be hashed.

    Values that do not become tensors, such as strings, bools, and functions, are part of the form.
    """
    kind = type(value)
    if kind is NDArray or kind is np.ndarray or kind is Tensor:
        leaves.append(value)
        return None
    if isinstance(value, dict):
        return kind, tuple((key, flattened(item, leaves)) for key, item in value.items())
    if isinstance(value, (tuple, list)):
        return kind, tuple([flattened(item, leaves) for item in value])
    if is_array(value):
        leaves.append(value)
        return None
    if _is_dataclass(value):
        fields = [f.name for f in dataclasses.fields(value)]
        return kind, tuple((name, flattened(getattr(value, name), leaves)) for name in fields)
    return "static", value


def rebuilt(form: Any, leaves: Iterator[Any], like: Any) -> Any:
    """Return a structure from its form and leaves. `like` is a structure of this form, whose classes are used."""
    if form is None:
        return next(leaves)
    kind, parts = form
    if kind == "static":
        return parts
    if issubclass(kind, dict):
        made = {} if kind is dict else copy.copy(like)
        for key, part in parts:
            made[key] = rebuilt(part, leaves, like[key])
        return made
    if issubclass(kind, (tuple, list)):
        items = [rebuilt(part, leaves, old) for part, old in zip(parts, like, strict=True)]
        return kind(*items) if hasattr(kind, "_fields") else kind(items)
    made = copy.copy(like)
    for name, part in parts:
        object.__setattr__(made, name, rebuilt(part, leaves, getattr(like, name)))
    return made


def mapped(function: Callable[[Any], Any], structure: Any) -> Any:
    """Return a structure with each leaf replaced by a function's result for it."""
    leaves: list[Any] = []
    form = flattened(structure, leaves)
    return rebuilt(form, iter([function(leaf) for leaf in leaves]), structure)
