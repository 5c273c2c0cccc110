"""Operators that a user's functions translate, for the `operators` argument of the importers.

A function receives tensors and returns tensors of the graph being built. Errors of mpsgraph raised by the function are
reported like those of built-in operators, with the name of the node. All other exceptions reach the caller unchanged,
so that a bug in the function is not mistaken for a malformed file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeAlias

import numpy as np

from .._core import Tensor, bfloat16
from ..errors import Error, GraphError
from ..graph import Graph
from .data_dependent import DataDependent, ValueOfLoop

Operators: TypeAlias = Mapping[str, Callable[..., Any]]
"""Functions keyed by the name of the operator that they translate."""


class Importer(Protocol):
    """The members of an importer that `value_of` needs."""

    graph: Graph

    def value_of(self, tensor: Tensor) -> np.ndarray:
        """Return the elements of a tensor, or raise DataDependent if they depend on inputs."""


class RaisedByUser(Exception):
    """Wraps an exception that a user's function raised, so that it is not reported as a malformed file."""

    def __init__(self, error: Exception) -> None:
        self.error = error


_IMPORTERS: ContextVar[tuple[Importer, ...]] = ContextVar("importers", default=())


@contextmanager
def errors_of_users() -> Iterator[None]:
    """Raise the exceptions of a user's functions themselves instead of their wrappers."""
    try:
        yield
    except RaisedByUser as raised:
        raise raised.error from raised.error.__cause__


def called(
    importer: Importer,
    operator: str,
    function: Callable[..., Any],
    operands: Sequence[Any],
    named: Mapping[str, Any],
    used: Sequence[bool],
) -> list[Tensor | None]:
    """Call a user's function and return its results. `used` states which results of the node have a name.

    Raises:
        GraphError: If the function does not return a tensor of the importer's graph for each used result.
    """
    token = _IMPORTERS.set((*_IMPORTERS.get(), importer))
    try:
        made = function(*operands, **named)
    except (Error, DataDependent, ValueOfLoop, RaisedByUser):
        raise
    except Exception as error:
        raise RaisedByUser(error) from error
    finally:
        _IMPORTERS.reset(token)
    results = list(made) if isinstance(made, (tuple, list)) else [made]
    wrong = [x for x, needed in zip(results, used, strict=False) if needed and not _is_of(x, importer.graph)]
    if wrong or len(results) < len(used):
        wanted = "a tensor" if len(used) == 1 else f"a sequence of {len(used)} tensors"
        got = f"{len(results)} results" if not wrong else type(wrong[0]).__name__
        if wrong and isinstance(wrong[0], Tensor):
            got = "a tensor of another graph"
        raise GraphError(
            f"the function for operator {operator} must return {wanted} of the graph that its operands belong to, "
            f"got {got}"
        )
    return results[: len(used)]


def _is_of(value: object, graph: Graph) -> bool:
    return isinstance(value, Tensor) and value.graph is graph


def value_of(tensor: Tensor) -> np.ndarray:
    """Return the elements of a tensor while a function in the `operators` argument of an importer runs.

    If the elements depend on the model's inputs, the import is aborted and the graph is built on the first run, for the
    values of these inputs (see `DeferredModel`).

    Args:
        tensor: A tensor of the graph that is being built.

    Returns:
        The elements as an array, which is float32 for bfloat16.

    Raises:
        GraphError: If no import is in progress for the tensor's graph.

    Example:
        >>> from onnx import TensorProto, helper
        >>> x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
        >>> times = helper.make_tensor("times", TensorProto.INT64, [], [3])
        >>> node = helper.make_node("Repeat", ["x", "times"], ["y"], domain="com.example")
        >>> graph = helper.make_graph([node], "net", [x], [y], [times])
        >>> opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
        >>> def repeat(x, times):
        ...     return x.graph.tile(x, [int(mg.onnx.value_of(times))])
        >>> model = mg.onnx.load(helper.make_model(graph, opset_imports=opsets), operators={"Repeat": repeat})
        >>> model(np.float32([1, 2])).tolist()
        [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]
    """
    for importer in reversed(_IMPORTERS.get()):
        if importer.graph is tensor.graph:
            elements = importer.value_of(tensor)
            if tensor.dtype == bfloat16 and elements.dtype == np.uint16:  # These are bit patterns.
                return (elements.astype(np.uint32) << 16).view(np.float32)
            return elements
    raise GraphError(
        "value_of must be called by a function in the operators= argument of load, while the model is being loaded"
    )
