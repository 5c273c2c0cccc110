"""The operations that a trainer builds for batches of one form: placeholders, the training step, and the evaluation.

The form of a batch is its structure, dtypes, ranks, and which axes have a fixed size. If a later batch has a different
size on such an axis, the form is widened and the operations are built again with the same variables. After that,
batches of other sizes only need another executable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._core import ConstantData, NDArray, Operation, Tensor
from .._dtypes import dtype_of
from ..distributed.weighing import Weighing
from ..errors import DTypeError, GraphError, ShapeError
from ..graph import Graph
from ..optim import Optimizer
from .objective import Part, Term
from .structure import leaves, mapped, named_leaves


@dataclass
class Minimized:
    """One optimizer's share of a step: the placeholder of its learning rates, and the operations that update or
    accumulate.
    """

    optimizer: Optimizer
    rate: Tensor
    updates: list[Operation]
    accumulating: list[Operation] = field(default_factory=list)
    scale: Tensor | None = None
    """Factor that the loss is multiplied by, if loss scaling is used."""


@dataclass
class Built:
    """Operations built for batches with one structure, dtypes, and ranks."""

    inputs: Any
    labels: Any
    weights: Any
    targets: list[Tensor] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    """Model outputs that accumulated metrics need, fetched after the targets."""
    parts: list[Part] = field(default_factory=list)
    minimized: list[Minimized] = field(default_factory=list)
    evaluation: list[Term] = field(default_factory=list)
    evaluated: list[Part] = field(default_factory=list)
    counted: Tensor | None = None
    """Number of labels in a batch that the loss does not ignore; None if it ignores none."""
    results: dict[str, Tensor] = field(default_factory=dict)
    """Loss and metrics, keyed by name."""
    weighings: list[Weighing] = field(default_factory=list)
    averages_frozen: bool = False
    """Whether the moving averages of frozen parameters are updated."""
    described: dict[str, Any] = field(default_factory=dict)
    """Forms of the batches, as JSON types."""
    others: list[tuple[Any, list[Term]]] = field(default_factory=list)
    """Losses and other metrics that evaluations asked for, with the key of these metrics."""

    @property
    def placeholders(self) -> list[Tensor]:
        """Placeholders in the order in which the arrays of a batch are fed."""
        return leaves((self.inputs, self.labels, self.weights))

    def operations(self, applying: bool) -> list[Operation]:
        """Return the target operations of a step that applies gradients, or only accumulates them."""
        kinds = [m.updates if applying else m.accumulating for m in self.minimized]
        kinds += [w.always + (w.gives if applying else []) for w in self.weighings]
        return [operation for kind in kinds for operation in kind]


class Form:
    """Structure, dtypes, and shapes of the inputs, the labels, or the sample weights of batches."""

    def __init__(self, what: str, structure: Any) -> None:
        self.what = what
        self.dtypes = [dtype_of(array) for array in leaves(structure)]
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

    A trainer that loads a checkpoint infers the structure and types of its batches from them. Axes without a fixed size
    have size 1.
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


def accumulated(
    g: Graph, gradients: dict[Tensor, Tensor], steps: int, sums: dict[Tensor, Tensor]
) -> tuple[dict[Tensor, Tensor], list[Operation], list[Operation]]:
    """Average gradients over several steps.

    Return the means, the operations that add to the sums, and the operations that reset the sums.
    """
    means, adding, emptying = {}, [], []
    for variable, gradient in gradients.items():
        if variable not in sums:
            zeros = ConstantData.splat(0.0, variable.shape or (), gradient.dtype)
            sums[variable] = g.variable(zeros, None, f"{variable.name}/gradient_sum", trainable=False)
        total = g.read(sums[variable]) + gradient
        means[variable] = total * (1.0 / steps)
        adding.append(g.assign(sums[variable], total))
        emptying.append(g.assign(sums[variable], g.constant(0.0, variable.shape or (), gradient.dtype)))
    return means, adding, emptying


def require_trainable(found: list[Any]) -> None:
    """Raise GraphError if nothing can be trained."""
    if not found:
        raise GraphError("there is nothing to train: the model has no parameters, or all of them are frozen")
