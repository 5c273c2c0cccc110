"""Structures: arrays or tensors in nested tuples, lists, and dicts, as models take and return them.

A structure is a leaf, or a tuple, list, or dict of structures. The name of a leaf, used in errors, results, and
placeholders, joins the keys and indices that lead to it by dots; a single leaf has no name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import GraphError


def named_leaves(structure: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Return the leaves in order, with their names. None is not a leaf.

    Example:
        >>> from mpsgraph.training.structure import named_leaves
        >>> named_leaves({"image": 1, "words": (2, 3)})
        [('image', 1), ('words.0', 2), ('words.1', 3)]
    """
    if structure is None:
        return []
    if isinstance(structure, Mapping):
        items = [(str(key), value) for key, value in structure.items()]
    elif isinstance(structure, (tuple, list)):
        items = [(str(place), value) for place, value in enumerate(structure)]
    else:
        return [(prefix, structure)]
    return [leaf for key, value in items for leaf in named_leaves(value, f"{prefix}.{key}" if prefix else key)]


def leaves(structure: Any) -> list[Any]:
    """Return the leaves in order."""
    return [leaf for _, leaf in named_leaves(structure)]


def mapped(function: Callable[..., Any], structure: Any, *others: Any, what: str = "structures") -> Any:
    """Return the structure with each leaf replaced by a function's result for it.

    Args:
        function: Function of a leaf and the corresponding leaves of the other structures.
        structure: The structure.
        others: Further structures of the same form.
        what: Start of the error message.

    Raises:
        GraphError: If another structure has a different form.

    Example:
        >>> from mpsgraph.training.structure import mapped
        >>> mapped(lambda a, b: a + b, (1, {"x": 2}), (10, {"x": 20}))
        (11, {'x': 22})
    """
    if structure is None:
        return None
    if isinstance(structure, Mapping):
        for other in others:
            if not isinstance(other, Mapping) or other.keys() != structure.keys():
                raise GraphError(f"{what}: expected {_words(structure)}, got {_words(other)}")
        return {k: mapped(function, v, *(other[k] for other in others), what=what) for k, v in structure.items()}
    if isinstance(structure, (tuple, list)):
        for other in others:
            if not isinstance(other, (tuple, list)) or len(other) != len(structure):
                raise GraphError(f"{what}: expected {_words(structure)}, got {_words(other)}")
        parts = [mapped(function, *parts, what=what) for parts in zip(structure, *others, strict=True)]
        return type(structure)(parts)
    for other in others:
        if other is None or isinstance(other, (Mapping, tuple, list)):
            raise GraphError(f"{what}: expected a single array, got {_words(other)}")
    return function(structure, *others)


def in_order(structure: Any) -> Any:
    """Return the structure with the keys of dicts sorted, so that equal structures have their leaves in the same order.

    Example:
        >>> from mpsgraph.training.structure import in_order
        >>> in_order(({"words": 1, "image": 2}, 3))
        ({'image': 2, 'words': 1}, 3)
    """
    if isinstance(structure, Mapping):
        return {key: in_order(structure[key]) for key in sorted(structure, key=str)}
    if isinstance(structure, (tuple, list)):
        return type(structure)(in_order(part) for part in structure)
    return structure


def refilled(structure: Any, values: list[Any]) -> Any:
    """Return a copy of the structure with its leaves replaced, in order, by `values`."""
    rest = iter(values)
    return mapped(lambda _: next(rest), structure)


def _words(structure: Any) -> str:
    if isinstance(structure, Mapping):
        return f"a dict with keys {', '.join(map(repr, structure))}" if structure else "an empty dict"
    if isinstance(structure, (tuple, list)):
        return f"a {type(structure).__name__} of length {len(structure)}"
    return "None" if structure is None else "a single array"
