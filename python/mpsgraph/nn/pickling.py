"""Copies of built modules for pickle and copy.deepcopy, in a new graph and with the current values of the variables.

A module's state is pickled unchanged, except for its graph, which is replaced with a new, empty one, and its variables,
which are created in the new graph with their current values. Copies of modules that shared a graph share the new graph,
and a variable referenced from several modules stays one variable.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from .._core import DeviceGraph, Tensor
from ..graph import Graph, device_with_values, variables_outputs_first


class NewGraph:
    """Placeholder for a graph in pickled state; unpickled as a new graph.

    One placeholder serves all modules that are pickled together. It reads the values of their variables together.
    """

    def __init__(self, graph: Graph) -> None:
        self.make, self.seed = type(graph), graph.seed
        # The placeholders refer to this object, so references in the other direction are weak: memory is freed at once.
        self.variables: weakref.WeakValueDictionary[str, Variable] = weakref.WeakValueDictionary()
        self.wanted: dict[str, weakref.ref[Tensor]] = {}
        self._values: dict[Tensor, np.ndarray] = {}
        self._on: DeviceGraph | None = None
        self._accesses = -1

    def __reduce__(self) -> Any:
        return self.make, (self.seed,)

    def value_of(self, variable: Tensor) -> np.ndarray:
        """Return the current value of a variable; read it with those of all other variables to be pickled."""
        graph: Graph = variable.graph  # type: ignore[assignment]
        on = graph.on(device_with_values(graph))
        # The placeholder outlives the pickling if an exception keeps it, so values are only used while none can change.
        if variable not in self._values or on is not self._on or on.exclusive_accesses != self._accesses:
            wanted = [v for v in (known() for known in self.wanted.values()) if v is not None]
            self._on, self._accesses = on, on.exclusive_accesses + 1
            self._values = dict(zip(wanted, (value.numpy() for value in on.variable_values(wanted)), strict=True))
        return self._values[variable]


class Variable:
    """Placeholder for a variable in pickled state; unpickled as a variable of the new graph."""

    def __init__(self, graph: NewGraph, variable: Tensor) -> None:
        self.graph, self.variable = graph, weakref.ref(variable)

    def __reduce__(self) -> Any:
        v = self.variable()
        assert v is not None  # The module being pickled keeps the variable alive.
        graph: Graph = v.graph  # type: ignore[assignment]
        trainable = any(v is other for other in graph.trainable_variables)
        value = self.graph.value_of(v)
        return variable_of, (self.graph, v.name, value, str(v.dtype), trainable, v in variables_outputs_first(graph))


# The placeholders of graphs whose modules are being pickled: the state of the modules keeps them.
_standing_for: weakref.WeakKeyDictionary[Any, weakref.ref[NewGraph]] = weakref.WeakKeyDictionary()


def written(value: Any) -> Any:
    """Replace the graphs and variables in a module's state, or in a value within it, by placeholders for pickling."""
    if isinstance(value, Tensor) and value.operation.kind == "variable":
        return written_variable(value)
    if type(value) in (list, tuple):
        return type(value)(written(item) for item in value)
    if type(value) is dict:
        return {key: written(item) for key, item in value.items()}
    return value


def written_variable(variable: Tensor) -> Variable:
    """Return the placeholder of a variable, the same object for all modules that are pickled together."""
    graph = written_graph(variable.graph)
    graph.wanted[variable.name] = weakref.ref(variable)
    known = graph.variables.get(variable.name)
    if known is None or known.variable() is not variable:
        known = graph.variables[variable.name] = Variable(graph, variable)
    return known


def written_graph(graph: Any) -> NewGraph:
    """Return the placeholder of a graph, the same object for all modules that are pickled together."""
    known = _standing_for.get(graph)
    placeholder = None if known is None else known()
    if placeholder is None:
        placeholder = NewGraph(graph)
        _standing_for[graph] = weakref.ref(placeholder)
    return placeholder


def variable_of(
    graph: Graph, name: str, value: np.ndarray, dtype: str, trainable: bool, outputs_first: bool = False
) -> Tensor:
    """Create the variable in the new graph."""
    variable = graph.variable(value, dtype, name, trainable)
    if outputs_first:
        variables_outputs_first(graph).add(variable)
    return variable
