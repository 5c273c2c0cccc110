"""The operations that a trainer builds for batches of one form: placeholders, the training step, and the evaluation.

The form of a batch is its structure, dtypes, ranks, and which axes have a fixed size. If a later batch has a different
size on such an axis, the form is widened and the operations are built again with the same variables. After that,
batches of other sizes only need another executable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core import ConstantData, NDArray, Operation, Tensor, float32
from .._dtypes import dtype_of
from ..distributed.weighing import Weighing
from ..errors import DTypeError, GraphError, ShapeError
from ..graph import Graph
from ..optim import Optimizer
from .objective import Part, Term
from .step_result import StepResult
from .structure import leaves, mapped, named_leaves


@dataclass
class Minimized:
    """One optimizer's part of a step: the placeholder of its learning rates, and its updates and accumulations."""

    optimizer: Optimizer
    rate: Tensor
    updates: list[Operation]
    accumulating: list[Operation] = field(default_factory=list)
    scale: Tensor | None = None
    """Factor by which the loss is multiplied if loss scaling is used."""


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
    terms: list[Term] = field(default_factory=list)
    """The loss and metrics of the step, unless it is custom and does not use them."""
    counted: Tensor | None = None
    """Number of items over which the loss of a batch is averaged, if these are not the samples; see Term.counted."""
    results: dict[str, Tensor] = field(default_factory=dict)
    """Loss and metrics, keyed by name."""
    counts: dict[str, Tensor] = field(default_factory=dict)
    """For each result that is not a mean over samples, the number of items that it is averaged over, keyed by name."""
    shares: dict[str, float] = field(default_factory=dict)
    """Factors of the losses in the total loss, keyed by name, if the losses count different labels."""
    weighings: list[Weighing] = field(default_factory=list)
    averages_frozen: bool = False
    """Whether the moving averages of frozen parameters are updated."""
    described: dict[str, Any] = field(default_factory=dict)
    """Forms of the batches, as JSON types."""
    others: list[tuple[Any, list[Term]]] = field(default_factory=list)
    """Losses and other metrics that evaluations have requested, with the key of these metrics."""

    @property
    def fetched(self) -> list[Tensor]:
        """The tensors whose values a step returns, in order."""
        return [*self.targets, *self.outputs, *dict.fromkeys(self.counts.values())]

    def counts_in(self, result: StepResult) -> dict[str, float]:
        """Return the number of items that each result averages, keyed by name, except for means over samples."""
        if not self.counts:
            return {}
        found = dict(zip(dict.fromkeys(self.counts.values()), result.outputs[len(self.outputs) :], strict=True))
        return {name: float(found[count]) for name, count in self.counts.items()}

    @property
    def placeholders(self) -> list[Tensor]:
        """Placeholders in the order in which the arrays of a batch are fed."""
        return leaves((self.inputs, self.labels, self.weights))

    def operations(self, applying: bool) -> list[Operation]:
        """Return the target operations of a step that applies gradients, or accumulates them if `applying` is False."""
        kinds = [m.updates if applying else m.accumulating for m in self.minimized]
        kinds += [w.always + (w.gives if applying else []) for w in self.weighings]
        return [operation for kind in kinds for operation in kind]


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


SUM = "/gradient_sum"  # End of the names of gradient sums.


class GradientSums:
    """Sums of one optimizer's gradients over several batches, with a weight for each batch.

    The sums of float16 and bfloat16 gradients are float32: in 16 bits, adding a gradient to a sum that is a few hundred
    times as large would not change the sum.
    """

    def __init__(self) -> None:
        self.sums: dict[Tensor, Tensor] = {}
        self.weight: Tensor | None = None

    def add(
        self, g: Graph, gradients: dict[Tensor, Tensor], weight: Tensor, factor: Tensor | float
    ) -> tuple[dict[Tensor, Tensor], Tensor, list[Operation], list[Operation]]:
        """Add the gradients of a batch, multiplied by a factor.

        Return the sums, their total weight, the operations that store both, and the operations that reset both.
        """
        if self.weight is None:
            self.weight = g.variable(0.0, weight.dtype, "gradient_sum/weight", trainable=False)
        whole = g.read(self.weight) + weight
        totals: dict[Tensor, Tensor] = {}
        storing = [g.assign(self.weight, whole)]
        emptying = [g.assign(self.weight, g.constant(0.0, dtype=weight.dtype))]
        for variable, gradient in gradients.items():
            dtype = float32 if gradient.dtype.itemsize == 2 else gradient.dtype
            if variable not in self.sums:
                zeros = ConstantData.splat(0.0, variable.shape or (), dtype)
                self.sums[variable] = g.variable(zeros, None, variable.name + SUM, trainable=False)
            wide = gradient if gradient.dtype == dtype else g.cast(gradient, dtype)
            share = g.cast(factor, dtype) if isinstance(factor, Tensor) and factor.dtype != dtype else factor
            totals[variable] = g.read(self.sums[variable]) + wide * share
            storing.append(g.assign(self.sums[variable], totals[variable]))
        return totals, whole, storing, emptying + self.emptying(g, gradients)

    def emptying(self, g: Graph, variables: Iterable[Tensor]) -> list[Operation]:
        """Return the operations that reset the gradient sums of the given variables."""
        sums = [(self.sums[v], v.shape or ()) for v in variables]
        return [g.assign(total, g.constant(0.0, shape, total.dtype)) for total, shape in sums]


def unset_average(dtype: Any) -> float:
    """Return the number that marks a moving average of a numpy dtype as not yet begun: the lowest finite number.

    NaN would serve the same purpose, but `check_finite` would report it.
    """
    return float(np.finfo(dtype).min)


def averaged(own: np.ndarray, average: np.ndarray) -> np.ndarray:
    """Return a weight's moving average in the weight's dtype, or the weight itself where the average has not begun."""
    return np.where(average == unset_average(average.dtype), own, average.astype(own.dtype))


def require_trainable(found: list[Any]) -> None:
    """Raise GraphError if nothing can be trained."""
    if not found:
        raise GraphError("there is nothing to train: the model has no parameters, or all of them are frozen")
