"""Copies of built modules, for pickle and copy.deepcopy: over a graph of their own, with the values of the variables.

What a module keeps is written as it is, but for its graph, of which a new and empty one is made, and its variables,
which are made there with the values that they have now. Parts that share a graph share the new one, and a variable
that is kept in several places stays one variable.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core import Tensor

if TYPE_CHECKING:
    from ..graph import Graph


class NewGraph:
    """Stands for a graph in what is written; what is read there is a new graph."""

    def __init__(self, graph: Graph) -> None:
        self.make, self.seed = type(graph), graph.seed
        self.variables: dict[str, Variable] = {}

    def __reduce__(self) -> Any:
        return self.make, (self.seed,)


class Variable:
    """Stands for a variable; what is read is one of the new graph."""

    def __init__(self, graph: NewGraph, variable: Tensor) -> None:
        self.graph, self.variable = graph, weakref.ref(variable)

    def __reduce__(self) -> Any:
        v = self.variable()
        assert v is not None  # whoever is being written keeps it
        graph: Graph = v.graph  # type: ignore[assignment]
        value = graph.variable_value(v, device=_device_of(graph))
        trainable = any(v is other for other in graph.trainable_variables)
        return variable_of, (self.graph, v.name, np.asarray(value), str(v.dtype), trainable)


_standing_for: weakref.WeakKeyDictionary[Any, NewGraph] = weakref.WeakKeyDictionary()


def written(value: Any) -> Any:
    """A module's state, or a part of it, with what stands for its graph and variables."""
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
    """The one object that stands for a graph, as long as the graph lives."""
    if graph not in _standing_for:
        _standing_for[graph] = NewGraph(graph)
    return _standing_for[graph]


def variable_of(graph: Graph, name: str, value: np.ndarray, dtype: str, trainable: bool) -> Tensor:
    """The variable again, in the new graph."""
    return graph.variable(value, dtype, name, trainable)


def _device_of(graph: Graph) -> Any:
    """Where the values are that are meant: on the default device, unless the graph has run on others only."""
    known = graph._on_devices
    return None if None in known or not known else next(iter(known.values())).device
