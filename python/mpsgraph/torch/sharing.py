"""Sharing of memory between results that are views of one another, as in eager PyTorch.

An executable returns each result in memory of its own. If several results of a graph are views of one tensor, the graph
is changed to return that tensor instead, and the views are made by PyTorch after each run. AOTAutograd does the same
for results that are views of inputs, and for results that require gradients.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

Boxed = Callable[[list[Any]], Any]
"""A compiled function that takes its arguments as one list and empties the list.

The list holds the only references to saved tensors, so each can be freed as soon as it has been read.
"""

OUTPUTS = "mpsgraph_outputs"
"""Key in the metadata of a forward graph: the number of results that are not saved for the backward graph."""

_RESHAPED = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)


def with_shared_views(module: torch.fx.GraphModule, compiled: Callable[[torch.fx.GraphModule], Boxed]) -> Boxed:
    """Compile a graph so that its results share memory where they are views of one another."""
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    results = output.args[0]
    if not isinstance(results, (tuple, list)):
        return compiled(module)
    returned = list(results)[: module.meta.get(OUTPUTS)]
    sources = {node: _source(node) for node in returned if isinstance(node, torch.fx.Node)}
    sharing = Counter(sources.values())
    views = {
        node: source
        for node, source in sources.items()
        if sharing[source] > 1 and source.op != "placeholder" and node is not source
    }
    if not views:
        return compiled(module)
    unique = list(dict.fromkeys(views.get(node, node) for node in results if isinstance(node, torch.fx.Node)))
    recipes = {
        node: _recipe(node, views.get(node, node), unique) for node in results if isinstance(node, torch.fx.Node)
    }
    output.args = (tuple(unique),)
    module.graph.eliminate_dead_code()
    module.recompile()
    function = compiled(module)

    def with_views(given: list[Any]) -> list[Any]:
        found = function(given)
        made = {node: recipe(found) for node, recipe in recipes.items()}
        return [made.get(node) if isinstance(node, torch.fx.Node) else node for node in results]

    return with_views


def _is_view(node: torch.fx.Node) -> bool:
    """Return whether a node's result is a view of its first argument, which must be its only tensor or size."""
    if node.target is operator.getitem:
        return isinstance(node.args[0], torch.fx.Node) and _is_view(node.args[0])
    is_view = node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload) and node.target.is_view
    return is_view and node.all_input_nodes == [node.args[0]]


def _source(node: torch.fx.Node) -> torch.fx.Node:
    """Return the node whose memory a node's result shares."""
    while _is_view(node):
        node = node.args[0]  # type: ignore[assignment]
    return node


def _recipe(node: torch.fx.Node, source: torch.fx.Node, unique: list[torch.fx.Node]) -> Callable[[Any], Any]:
    """Return a function that makes a result of the original graph from the results of the changed graph."""
    place, calls = unique.index(source), []
    while node is not source:
        target = torch.reshape if node.target in _RESHAPED else node.target
        calls.append((target, node.args[1:], dict(node.kwargs)))
        node = node.args[0]  # type: ignore[assignment]
    calls.reverse()

    def made(found: Any) -> Any:
        result = found[place]
        for target, arguments, named in calls:
            result = target(result, *arguments, **named)
        return result

    return made
