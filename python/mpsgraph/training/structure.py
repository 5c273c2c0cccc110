"""Structures: arrays and tensors in nested tuples, lists and dictionaries, as models take and give them.

A structure is one leaf, or a tuple, a list or a dictionary of structures. Leaves have names by which errors, results
and placeholders speak of them: the keys and places on the way, joined by dots; a leaf that stands alone has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import GraphError


def named_leaves(structure: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """The leaves in order, with their names. None is no leaf.

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
    """The leaves in order."""
    return [leaf for _, leaf in named_leaves(structure)]


def mapped(function: Callable[..., Any], structure: Any, *others: Any, what: str = "structures") -> Any:
    """The structure with a function's result for each leaf; `others` have the same structure, and give more arguments.

    Errors: GraphError where they have another one.

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
            raise GraphError(f"{what}: expected one, got {_words(other)}")
    return function(structure, *others)


def in_order(structure: Any) -> Any:
    """The structure with the keys of its dictionaries in order, so that equal ones have their leaves in one order.

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
    """The structure with other leaves, given in order."""
    rest = iter(values)
    return mapped(lambda _: next(rest), structure)


def _words(structure: Any) -> str:
    if isinstance(structure, Mapping):
        return f"a dict of {', '.join(map(repr, structure)) or 'nothing'}"
    if isinstance(structure, (tuple, list)):
        return f"a {type(structure).__name__} of {len(structure)}"
    return "nothing" if structure is None else "one"
