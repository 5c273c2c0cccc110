"""Copies of built modules for pickle and copy.deepcopy, in a new graph and with the current values of the variables.

A module's state is pickled unchanged, except for its graph, which is replaced with a new, empty one, and its variables,
which are created in the new graph with their current values. Copies of modules that shared a graph share the new graph,
and a variable referenced from several modules stays one variable.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core import Tensor

if TYPE_CHECKING:
    from ..graph import Graph


class NewGraph:
    """Placeholder for a graph in pickled state; unpickled as a new graph."""

    def __init__(self, graph: Graph) -> None:
        self.make, self.seed = type(graph), graph.seed
        self.variables: dict[str, Variable] = {}

    def __reduce__(self) -> Any:
        return self.make, (self.seed,)


class Variable:
    """Placeholder for a variable in pickled state; unpickled as a variable of the new graph."""

    def __init__(self, graph: NewGraph, variable: Tensor) -> None:
        self.graph, self.variable = graph, weakref.ref(variable)

    def __reduce__(self) -> Any:
        v = self.variable()
        assert v is not None  # The module being pickled keeps the variable alive.
        graph: Graph = v.graph  # type: ignore[assignment]
        value = graph.variable_value(v, device=_device_of(graph))
        trainable = any(v is other for other in graph.trainable_variables)
        return variable_of, (self.graph, v.name, np.asarray(value), str(v.dtype), trainable, v in graph._outputs_first)


_standing_for: weakref.WeakKeyDictionary[Any, NewGraph] = weakref.WeakKeyDictionary()


def written(value: Any) -> Any:
    """Replace the graphs and variables in a module's state, or in a value within it, by placeholders for pickling."""
    if isinstance(value, Tensor) and value.operation.kind == "variable":
        graph = written_graph(value.graph)
        known = graph.variables.get(value.name)
        if known is None or known.variable() is not value:
            known = graph.variables[value.name] = Variable(graph, value)
        return known
    if type(value) in (list, tuple):
        return type(value)(written(item) for item in value)
    if type(value) is dict:
        return {key: written(item) for key, item in value.items()}
    return value


def written_graph(graph: Any) -> NewGraph:
    """Return the placeholder of a graph. It is the same object for as long as the graph exists."""
    if graph not in _standing_for:
        _standing_for[graph] = NewGraph(graph)
    return _standing_for[graph]


def variable_of(
    graph: Graph, name: str, value: np.ndarray, dtype: str, trainable: bool, outputs_first: bool = False
) -> Tensor:
    """Create the variable in the new graph."""
    variable = graph.variable(value, dtype, name, trainable)
    if outputs_first:
        graph._outputs_first.add(variable)
    return variable


def _device_of(graph: Graph) -> Any:
    """Return the device with the current values: the default device, unless the graph has run only on others."""
    known = graph._on_devices
    return None if None in known or not known else next(iter(known.values())).device
