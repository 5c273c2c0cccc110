"""The question that ends an import: what a graph is depends on what it will be fed with; and which weights train."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from ..errors import UnsupportedError

Trainable: TypeAlias = bool | Iterable[str] | Callable[[str], bool]


class DataDependent(Exception):
    """Building needs the values or the shapes of inputs that are not known before the model is run."""

    def __init__(self, values: Iterable[str] = (), shapes: Iterable[str] = ()) -> None:
        self.values, self.shapes = frozenset(values), frozenset(shapes)
        super().__init__(f"values of {sorted(self.values)}, shapes of {sorted(self.shapes)}")


class ValueOfLoop(UnsupportedError):
    """Building needs a value that changes from one iteration to the next."""


def chooser(trainable: Trainable) -> Callable[[str], bool]:
    """Whether a weight of a name becomes a variable: all, none, those named, or as a function says."""
    if callable(trainable):
        return trainable
    if isinstance(trainable, bool):
        return lambda name: trainable
    names = frozenset(trainable)
    return lambda name: name in names
