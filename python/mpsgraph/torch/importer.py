"""Import of a PyTorch graph into an mpsgraph Graph, with the translations in aten/.

Graphs come from torch.export or AOTAutograd in functional form, which has no in-place writes. Views, reshapes and
copies become separate values.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from .._core import Tensor
from ..errors import Error, UnsupportedError
from ..graph import Graph
from .aten import Call, dtype_of, function_of

# Operations that only check a condition and have no result.
_CHECKS = ("_assert_tensor_metadata", "_assert_scalar", "sym_constrain_range_for_size")


def unmapped(graph: torch.fx.Graph) -> list[str]:
    """Return the sorted names of the operations in a graph that have no translation."""
    missing = {
        str(node.target)
        for node in graph.nodes
        if node.op == "call_function" and node.target is not operator.getitem and not _is_check(node.target)
        if function_of(node.target) is None
    }
    return sorted(missing)


def build(
    g: Graph, graph: torch.fx.Graph, given: Mapping[str, Any], *, differentiated: bool
) -> tuple[list[Any], dict[str, Any]]:
    """Add the operations of a PyTorch graph to an mpsgraph Graph.

    `given` maps the names of PyTorch's placeholders and attributes to tensors of the Graph. Returns the outputs, and a
    dict of all values, keyed by the name of the PyTorch node. Raises UnsupportedError with the name of an operation
    that is not supported.
    """
    values: dict[str, Any] = {}

    def value_of(argument: Any) -> Any:
        return torch.fx.node.map_arg(argument, lambda node: values[node.name])

    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            values[node.name] = given[node.name]
        elif node.op == "output":
            return list(value_of(node.args[0])), values
        elif node.target is operator.getitem:
            source, index = node.args
            values[node.name] = values[source.name][index]
        elif isinstance(node.meta.get("val"), (bool, int, float)):  # The node is a size that is already known.
            values[node.name] = node.meta["val"]
        elif not _is_check(node.target):
            values[node.name] = called(g, node, value_of, differentiated)
    raise UnsupportedError("the PyTorch graph has no output node")


def read_by(targets: list[Any]) -> set[Any]:
    """Return all tensors that the targets depend on, including the targets themselves."""
    seen: set[Any] = set()
    waiting = list(targets)
    while waiting:
        tensor = waiting.pop()
        if tensor not in seen:
            seen.add(tensor)
            waiting += tensor.operation.inputs
            waiting += [x for check in tensor.operation.control_dependencies for x in check.inputs]
            for block in tensor.operation.blocks:  # Operations in a block may read tensors from outside the block.
                waiting += block.results
                waiting += [x for operation in block.operations for x in operation.inputs]
    return seen


def _is_check(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and target._schema.name.removeprefix("aten::") in _CHECKS


def called(g: Graph, node: torch.fx.Node, value_of: Any, differentiated: bool) -> Any:
    """Translate one call of a PyTorch operation.

    The results have the shapes that PyTorch reports. Raises UnsupportedError if the call cannot be translated.
    """
    function = function_of(node.target)
    if function is None:
        raise UnsupportedError(f"{node.target} is not supported by mpsgraph")
    metas = torch.fx.node.map_arg(node.args, lambda n: n.meta.get("val"))
    name = str(node.target).split(".")[1] if "." in str(node.target) else str(node.target)
    picked = [user.args[1] for user in node.users if user.target is operator.getitem]
    read = set(picked) if len(picked) == len(node.users) else None
    call = Call(g, name, node.meta.get("val"), tuple(metas), differentiated, traced, read)
    try:
        return _as_said(call, function(call, *value_of(node.args), **value_of(node.kwargs)))
    except Error:
        raise
    except (TypeError, AttributeError, ValueError, IndexError) as error:
        raise UnsupportedError(f"{node.target} is not supported with these arguments: {error}") from error


def scratch(node: torch.fx.Node) -> tuple[Any, dict[str, Any]]:
    """Translate one call in a scratch graph. Return the result and the placeholders, keyed by the names of the
    operands.
    """
    g = Graph()
    given = {source.name: placeholders(g, source.meta.get("val")) for source in node.all_input_nodes}
    return called(g, node, lambda a: torch.fx.node.map_arg(a, lambda n: given[n.name]), False), given


def placeholders(g: Graph, value: Any) -> Any:
    """Return a placeholder for a meta tensor, or a sequence of placeholders for a sequence of meta tensors."""
    if isinstance(value, torch.Tensor):
        return g.placeholder(tuple(int(size) for size in value.shape), dtype_of(value.dtype))
    return [placeholders(g, v) for v in value] if isinstance(value, (list, tuple)) else value


def unread(node: torch.fx.Node) -> list[torch.fx.Node]:
    """Return the tensor operands of a call on which its translation does not depend.

    The list is empty if the call has no translation.
    """
    if function_of(node.target) is None:
        return []
    try:
        result, given = scratch(node)
    except Error:
        return []
    read = read_by([x for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, Tensor)])
    tensors = [n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]
    return [n for n in tensors if given[n.name] not in read]


def decompositions() -> dict[Any, Any]:
    """Return PyTorch's decompositions of the operations that have no translation in mpsgraph."""
    table = torch._decomp.decomposition_table
    return {operation: rule for operation, rule in table.items() if function_of(operation) is None}


def traced(call: Call, function: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Trace a PyTorch function with graph tensors among its arguments, and add the operations that it executes."""
    leaves, form = torch.utils._pytree.tree_flatten((arguments, dict(named)))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]

    def flat(*tensors: torch.Tensor) -> list[Any]:
        given = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        positional, keywords = torch.utils._pytree.tree_unflatten(given, form)
        return list(torch.utils._pytree.tree_leaves(function(*positional, **keywords)))

    with torch.utils._python_dispatch._disable_current_modes():
        with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
            fakes = [torch.empty(leaves[i].shape, dtype=getattr(torch, str(leaves[i].dtype))) for i in places]
        module = make_fx(flat, decomposition_table=decompositions())(*fakes)
    inputs = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    given = dict(zip(inputs, (leaves[i] for i in places), strict=True))
    for node in module.graph.nodes:
        if node.op == "get_attr":
            given[node.name] = call.g.constant(getattr(module, node.target).numpy())
    results, _ = build(call.g, module.graph, given, differentiated=call.differentiated)
    return results if isinstance(call.result, (tuple, list)) else results[0]


def _as_said(call: Call, found: Any) -> Any:
    """Reshape and cast the results of a translation to the shapes and dtypes that PyTorch reports."""
    if isinstance(found, (list, tuple)):
        said = call.result
        return [x if r is None else _one_as_said(call, x, r) for x, r in zip(found, said, strict=True)]
    return _one_as_said(call, found, call.result)


def _one_as_said(call: Call, x: Any, said: Any) -> Any:
    if not isinstance(x, Tensor) or not isinstance(said, torch.Tensor):
        return x
    shape = tuple(int(size) for size in said.shape)
    if x.shape != shape:
        same = x.shape is not None and torch.Size(x.shape).numel() == said.numel()
        x = call.g.reshape(x, shape) if same else call.g.broadcast_to(x, shape)
    wanted = str(said.dtype).removeprefix("torch.")
    return x if str(x.dtype) == wanted else call.g.cast(x, wanted)
