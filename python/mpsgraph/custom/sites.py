"""What functions in Python are asked about one use of an operation: types for inference, tensors for derivatives.

The core hands plain lists and dicts over; here they become what people read, and what people give is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from .._core import DType, Operation, Tensor
from .._display import shown
from .._dtypes import as_dtype
from ..errors import DTypeError, GraphError, ShapeError


class TensorType(NamedTuple):
    """What is known of a tensor before it has a value: its element type, and its sizes.

    `shape` has -1 for sizes that are not known yet, and is None when not even their number is.

    >>> rows = mg.TensorType(mg.float32, (-1, 3))
    >>> rows._replace(shape=(*rows.shape, 2))
    TensorType(dtype=float32, shape=(-1, 3, 2))
    """

    dtype: DType
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class CustomGradient:
    """What a gradient function sees of one operation whose derivative is wanted.

    It gives a tensor for each operand, or None where the derivative is zero. For an operation of one operand the tensor
    alone will do.

    >>> def gradient(g: mg.custom.CustomGradient) -> mg.Tensor:
    ...     return g.incoming[0] * g.attributes["by"]
    >>> scaled = mg.python_operation(
    ...     "scaled", lambda x, by: x * np.float32(by), attributes={"by": 2.0}, gradient=gradient
    ... )
    >>> g = mg.Graph()
    >>> x = g.constant([1.0, 5.0])
    >>> g.run({}, g.gradients(scaled(x, by=3.0), [x])[x]).tolist()
    [3.0, 3.0]
    """

    operation: Operation
    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    incoming: tuple[Tensor, ...]  # the gradient of each result; zeros where none arrives
    needs: tuple[bool, ...]  # by operand: will anybody use it?
    attributes: dict[str, Any]


Infer: TypeAlias = Callable[..., Any]
Gradient: TypeAlias = Callable[[CustomGradient], Any]
OWN = ("operation", "key", "effect", "types")
"""The attributes that every custom operation has beside the user's."""


def user_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    """The user's attributes of an operation, lists of ints as tuples."""
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in attributes.items()
        if name not in OWN
    }


def types_from(name: str, given: Any) -> list[TensorType]:
    """What an inference function gave, as a list of types."""
    one = isinstance(given, tuple) and len(given) == 2 and not _is_type(given[0])
    several = [given] if one else given
    if not isinstance(several, Sequence) or not all(_is_type(item) for item in several):
        raise GraphError(f"[{name}] infer gives a TensorType, or a list of them, got {shown(given)}")
    return [_type(name, item) for item in several]


def _is_type(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and (value[1] is None or isinstance(value[1], (tuple, list)))


def _type(name: str, given: Any) -> TensorType:
    dtype, shape = given
    try:
        return TensorType(as_dtype(dtype), None if shape is None else tuple(shape))
    except DTypeError:
        raise DTypeError(f"[{name}] infer gives the element type {shown(dtype)}, which is none") from None


def inference(name: str, infer: Infer) -> Callable[[list[Any], dict[str, Any]], list[TensorType]]:
    """The function as the core calls it."""

    def asked(operands: list[Any], attributes: dict[str, Any]) -> list[TensorType]:
        return types_from(name, infer(*(TensorType(*one) for one in operands), **user_attributes(attributes)))

    return asked


def derivative(name: str, gradient: Gradient) -> Callable[[Operation, list[Tensor], list[bool]], list[Tensor | None]]:
    """The function as the core calls it."""

    def asked(operation: Operation, incoming: list[Tensor], needs: list[bool]) -> list[Tensor | None]:
        operands = tuple(operation.inputs)
        seen = CustomGradient(
            operation,
            operands,
            tuple(operation.outputs),
            tuple(incoming),
            tuple(needs),
            user_attributes(operation.attributes),
        )
        given = gradient(seen)
        several = [given] if isinstance(given, Tensor) or (given is None and len(operands) == 1) else given
        if not isinstance(several, Sequence) or not all(one is None or isinstance(one, Tensor) for one in several):
            raise GraphError(f"[{name}] its gradient gives a tensor or None for each operand, got {shown(given)}")
        if len(several) != len(operands):
            raise GraphError(
                f"[{name}] its gradient gives {len(several)} for {len(operands)} operands: "
                "give a tensor, or None where it is zero, for each"
            )
        if any(one is not None and one.graph is not operation.graph for one in several):
            raise GraphError(f"[{name}] its gradient gives a tensor of another graph")
        return list(several)

    return asked


def thread_count(name: str, threads: Callable[..., Any]) -> Callable[[list[Any], list[Any], dict[str, Any]], list[int]]:
    """The function of operands and attributes as the core calls it."""

    def asked(operands: list[Any], results: list[Any], attributes: dict[str, Any]) -> list[int]:
        given = threads(*(TensorType(*one) for one in operands), **user_attributes(attributes))
        counts = [given] if isinstance(given, int) else list(given)
        if any(not isinstance(count, int) or count < 0 for count in counts):
            raise ShapeError(f"[{name}] threads gives one to three numbers, got {shown(given)}")
        return counts

    return asked
