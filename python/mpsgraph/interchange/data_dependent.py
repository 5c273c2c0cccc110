"""Exceptions for imports that depend on input values or shapes, and a function that chooses trainable weights."""

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
        super().__init__(
            f"building the graph needs the values of inputs {sorted(self.values)} "
            f"and the shapes of inputs {sorted(self.shapes)}"
        )


class ValueOfLoop(UnsupportedError):
    """Raised when building the graph needs a value that changes between loop iterations.

    Such a value cannot be fixed by specifying the model's inputs.
    """


def chooser(trainable: Trainable) -> Callable[[str], bool]:
    """Return a predicate on the name of a weight that is true if the weight becomes a variable.

    `trainable` is True for all weights, False for none, a collection of names, or a predicate. A predicate is returned
    unchanged.
    """
    if callable(trainable):
        return trainable
    if isinstance(trainable, bool):
        return lambda name: trainable
    names = frozenset(trainable)
    return lambda name: name in names
