"""Exceptions for imports that depend on input values or shapes, and the choice of trainable weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from ..errors import UnsupportedError

Trainable: TypeAlias = bool | Iterable[str] | Callable[[str], bool]


class DataDependent(Exception):
    """Raised when building the graph needs input values or shapes that are known only at run time.

    Attributes:
        values: Names of the inputs whose values are needed.
        shapes: Names of the inputs whose shapes are needed.
    """

    def __init__(self, values: Iterable[str] = (), shapes: Iterable[str] = ()) -> None:
        self.values, self.shapes = frozenset(values), frozenset(shapes)
        super().__init__(f"needs the values of {sorted(self.values)} and the shapes of {sorted(self.shapes)}")


class ValueOfLoop(UnsupportedError):
    """Raised when building the graph needs a value that changes between loop iterations."""


def chooser(trainable: Trainable) -> Callable[[str], bool]:
    """Return a predicate that tells whether the weight with a given name becomes a variable.

    `trainable` is True for all weights, False for none, a collection of names, or a predicate that is returned
    unchanged.
    """
    if callable(trainable):
        return trainable
    if isinstance(trainable, bool):
        return lambda name: trainable
    names = frozenset(trainable)
    return lambda name: name in names
