"""The form of batches: their structure, dtypes, ranks, and which axes have a fixed size.

If a later batch has a different size on such an axis, the form is widened and the operations are built again with the
same variables. After that, batches of other sizes only need another executable.
"""

from __future__ import annotations

from typing import Any

from .._core import NDArray
from .._dtypes import dtype_of
from ..errors import DTypeError, ShapeError
from ..graph import Graph
from .structure import leaves, mapped, named_leaves

Description = dict[str, Any]
"""The form of the inputs, the labels, or the sample weights as JSON types, as checkpoints store it."""


class Form:
    """Structure, dtypes, and shapes of the inputs, the labels, or the sample weights of batches."""

    def __init__(self, what: str, structure: Any) -> None:
        self.what = what
        self.dtypes = [dtype_of(array) for array in leaves(structure)]
        self.first = leaves(structure)[0].dtype if self.dtypes else None
        """dtype of the first array, in the type that arrays have: numpy's or this package's."""
        self.shapes: list[tuple[int, ...]] = [(-1, *array.shape[1:]) for array in leaves(structure)]
        self.structure = mapped(lambda _: 0, structure)

    def widen(self, structure: Any) -> bool:
        """Extend this description so that it includes another batch; return whether an axis lost its fixed size.

        Raises:
            GraphError: If the structure differs.
            DTypeError: If a dtype differs.
            ShapeError: If a rank differs.
        """
        mapped(
            lambda _, array: array,
            self.structure,
            structure,
            what=f"Trainer: {self.what} must have the structure of earlier batches",
        )
        shapes = list(self.shapes)
        for i, (path, array) in enumerate(named_leaves(structure)):
            what = f"{self.what} '{path}'" if path else self.what
            if dtype_of(array) != self.dtypes[i]:
                raise DTypeError(
                    f"Trainer: {what} are {dtype_of(array)}, but were {self.dtypes[i]} in earlier batches: convert "
                    f"them with array.astype('{self.dtypes[i]}')"
                )
            shape, known = tuple(array.shape), shapes[i]
            if len(shape) != len(known):
                raise ShapeError(
                    f"Trainer: {what} must have {len(known)} axes as in earlier batches, whose shape was {known}, got "
                    f"shape {shape}"
                )
            shapes[i] = tuple(k if k == n else -1 for k, n in zip(known, shape, strict=True))
        widened = shapes != self.shapes
        self.shapes = shapes
        return widened

    def placeholders(self, g: Graph) -> Any:
        """Create placeholders with the structure, dtypes, and shapes of the batches."""
        names = [f"{self.what}.{path}" if path else self.what for path, _ in named_leaves(self.structure)]
        made = iter([g.placeholder(s, d, n) for s, d, n in zip(self.shapes, self.dtypes, names, strict=True)])
        return mapped(lambda _: next(made), self.structure)

    def described(self) -> dict[str, Any]:
        """Return the structure, dtypes, and shapes as JSON types, for checkpoints."""
        return {
            "structure": as_json(self.structure),
            "dtypes": [str(dtype) for dtype in self.dtypes],
            "shapes": [list(shape) for shape in self.shapes],
        }


def example_of(described: dict[str, Any] | None) -> Any:
    """Return arrays without samples that have the dtypes and shapes stored by `described`.

    A trainer that loads a checkpoint infers the structure and dtypes of its batches from these arrays. Axes without a
    fixed size have size 1.
    """
    if described is None:
        return None
    types = zip(described["dtypes"], described["shapes"], strict=True)
    made = iter([NDArray((0, *(max(size, 1) for size in shape[1:])), dtype) for dtype, shape in types])
    return mapped(lambda _: next(made), from_json(described["structure"]))


def as_json(structure: Any) -> Any:
    """Convert a structure to JSON types, distinguishing tuples and lists."""
    if isinstance(structure, dict):
        return {"dict": {key: as_json(value) for key, value in structure.items()}}
    if isinstance(structure, (tuple, list)):
        return {type(structure).__name__: [as_json(value) for value in structure]}
    return structure


def from_json(described: Any) -> Any:
    """Restore a structure converted by `as_json`."""
    if not isinstance(described, dict):
        return described
    kind, inside = next(iter(described.items()))
    if kind == "dict":
        return {key: from_json(value) for key, value in inside.items()}
    return (tuple if kind == "tuple" else list)(from_json(value) for value in inside)


def require_dtype(inputs: Any, dtype: Any) -> None:
    """Raise DTypeError if floating-point inputs do not have the trainer's dtype.

    Integer inputs may have any dtype.
    """
    for path, array in named_leaves(inputs):
        found = dtype_of(array)
        if found == dtype or (not found.is_float and dtype.is_float and (path or found.is_integer)):
            continue
        what = f"inputs '{path}'" if path else "inputs"
        other = f", or create the trainer with dtype='{found}'" if found.is_float else ""
        raise DTypeError(
            f"{what} must have the trainer's dtype, {dtype}, got {found}: convert them with x.astype('{dtype}'){other}"
        )
