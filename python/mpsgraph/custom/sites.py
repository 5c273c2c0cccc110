"""Arguments and results of the Python functions that infer types, compute gradients, and set thread counts.

The core passes plain lists and dicts. This module converts them to the public classes and checks what the functions
return.
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
    """Type of a tensor: its dtype and shape.

    Args:
        dtype: dtype of the elements.
        shape: Sizes, where -1 marks an unknown size; None if the rank is unknown.

    Example:
        >>> rows = mg.TensorType(mg.float32, (-1, 3))
        >>> rows._replace(shape=(*rows.shape, 2))
        TensorType(dtype=float32, shape=(-1, 3, 2))
    """

    dtype: DType
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class CustomGradient:
    """Argument of a gradient function, which describes the operation to differentiate.

    The function returns a tensor for each operand, or None where the derivative is zero. For an operation with one
    operand, it may return the tensor itself instead of a list.

    Args:
        operation: The operation.
        operands: Operands of the operation.
        results: Results of the operation.
        incoming: Gradient of each result; zeros if no gradient reaches it.
        needs: For each operand, whether its gradient is used.
        attributes: Dict from attribute names to values.

    Example:
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
    incoming: tuple[Tensor, ...]
    needs: tuple[bool, ...]
    attributes: dict[str, Any]


Infer: TypeAlias = Callable[..., Any]
Gradient: TypeAlias = Callable[[CustomGradient], Any]
OWN = ("operation", "key", "effect", "types")
"""Names of the attributes that every custom operation has in addition to those that its author declares."""


def user_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return an operation's user attributes, with lists of ints as tuples."""
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in attributes.items()
        if name not in OWN
    }


def types_from(name: str, given: Any) -> list[TensorType]:
    """Return the result of an inference function as a list of types."""
    one = isinstance(given, tuple) and len(given) == 2 and not _is_type(given[0])
    several = [given] if one else given
    if not isinstance(several, Sequence) or not all(_is_type(item) for item in several):
        raise GraphError(f"[{name}] infer must return a TensorType or a list of TensorTypes, got {shown(given)}")
    return [_type(name, item) for item in several]


def _is_type(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and (value[1] is None or isinstance(value[1], (tuple, list)))


def _type(name: str, given: Any) -> TensorType:
    dtype, shape = given
    try:
        return TensorType(as_dtype(dtype), None if shape is None else tuple(shape))
    except DTypeError:
        raise DTypeError(f"[{name}] infer returned an unknown dtype: {shown(dtype)}") from None


def inference(name: str, infer: Infer) -> Callable[[list[Any], dict[str, Any]], list[TensorType]]:
    """Wrap a user's type inference function so that it accepts and returns the plain lists and dicts of the core."""

    def asked(operands: list[Any], attributes: dict[str, Any]) -> list[TensorType]:
        return types_from(name, infer(*(TensorType(*one) for one in operands), **user_attributes(attributes)))

    return asked


def derivative(name: str, gradient: Gradient) -> Callable[[Operation, list[Tensor], list[bool]], list[Tensor | None]]:
    """Wrap a user's gradient function so that it accepts and returns the plain lists and dicts of the core."""

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
            raise GraphError(f"[{name}] the gradient must return a tensor or None for each operand, got {shown(given)}")
        if len(several) != len(operands):
            raise GraphError(
                f"[{name}] the gradient must return a tensor or None for each of {len(operands)} operands, got "
                f"{len(several)} values"
            )
        if any(one is not None and one.graph is not operation.graph for one in several):
            raise GraphError(f"[{name}] the gradient returned a tensor of another graph")
        return list(several)

    return asked


def thread_count(name: str, threads: Callable[..., Any]) -> Callable[[list[Any], list[Any], dict[str, Any]], list[int]]:
    """Wrap a user's thread-count function so that it accepts and returns the plain lists and dicts of the core."""

    def asked(operands: list[Any], results: list[Any], attributes: dict[str, Any]) -> list[int]:
        given = threads(*(TensorType(*one) for one in operands), **user_attributes(attributes))
        counts = [given] if isinstance(given, int) else list(given)
        if any(not isinstance(count, int) or count < 0 for count in counts):
            raise ShapeError(f"[{name}] threads must return one to three non-negative integers, got {shown(given)}")
        return counts

    return asked
