"""Move the variables of modules from one graph to another.

A trainer's model may consist of parts that were trained before. If all of them are in one graph, the trainer uses that
graph, so that old and new model share the variables. Parts from other graphs move there: their variables are created
again with the same values, and the modules refer to the new ones.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from .._core import Tensor
from .._tracking import touch
from ..errors import GraphError
from ..graph import Graph, device_with_values, guest_of, variables_outputs_first
from .parts import Part, built_graph
from .pickling import variable_of

_DEEPEST = 8  # A container may contain itself.


def graph_of_parts(module: Part) -> Graph | None:
    """Return the graph of a module, or of its first part that is built, or None if no part is built."""
    graphs = (built_graph(part) for _, part in module.named_modules())
    return next((graph for graph in graphs if graph is not None), None)


def move(module: Part, graph: Graph) -> None:
    """Move the variables of a module and its descendants to a graph; see Module.move_to.

    Raises:
        GraphError: If a moved variable has no value because its graph is closed.
    """
    parts = {id(part): part for _, part in module.named_modules()}.values()
    found: dict[Tensor, None] = {}
    for part in parts:
        for value in vars(part).values():
            _collect(value, graph, found)
    made: dict[Tensor, Tensor] = {}
    by_graph: dict[Any, list[Tensor]] = {}
    for variable in found:
        by_graph.setdefault(variable.graph, []).append(variable)
    for old, variables in by_graph.items():
        if (guest := guest_of(old)) is not None:
            guest.give_back()
        trainable = set(old.trainable_variables)
        values = old.variable_values(variables, device=device_with_values(old))
        for variable, value in zip(variables, values, strict=True):
            made[variable] = variable_of(
                graph,
                variable.name,
                value,
                str(variable.dtype),
                variable in trainable,
                variable in variables_outputs_first(old),
            )
    changed = False
    for part in parts:
        own = vars(part)
        for name, value in list(own.items()):
            if name == "_graph":
                if value is not graph:
                    own[name] = graph
                    changed = True
            elif made:
                own[name] = _replaced(value, made)
    if changed or made:
        touch()


def follow_parts(module: Part, graph: Graph, known: WeakSet[Part]) -> None:
    """Move new parts of a model to its graph. Raise GraphError if a part that it had there has moved to another graph.

    Args:
        module: The model.
        graph: Its graph.
        known: The parts that were in the graph when this was last called. Parts that are there now are added.
    """
    for path, part in module.named_modules():
        if part in known and built_graph(part) is not graph:
            where = f"its part '{path}'" if path else "the model"
            raise GraphError(
                f"{where} has moved to another graph, because another model uses it: create a new Trainer for this "
                "model, or put copy.deepcopy(part) into the other model"
            )
    move(module, graph)
    known.update(part for _, part in module.named_modules() if built_graph(part) is graph)


def _collect(value: Any, graph: Graph, found: dict[Tensor, None], depth: int = 0) -> None:
    if isinstance(value, Tensor):
        if value.operation.kind == "variable" and value.graph is not graph:
            found[value] = None
    elif type(value) in (list, tuple, dict) and depth < _DEEPEST:
        for item in value.values() if type(value) is dict else value:
            _collect(item, graph, found, depth + 1)


def _replaced(value: Any, made: dict[Tensor, Tensor], depth: int = 0) -> Any:
    """Return a value with the moved variables in place of the old ones. Lists and dicts change in place."""
    if isinstance(value, Tensor):
        return made.get(value, value)
    if depth == _DEEPEST:
        return value
    if type(value) is list:
        value[:] = [_replaced(item, made, depth + 1) for item in value]
    elif type(value) is dict:
        for key, item in value.items():
            value[key] = _replaced(item, made, depth + 1)
    elif type(value) is tuple:
        return tuple(_replaced(item, made, depth + 1) for item in value)
    return value
