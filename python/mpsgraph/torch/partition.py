"""Partition of AOTAutograd's joint graph into a forward and a backward graph that share few tensors.

PyTorch's default partition saves every tensor that the backward graph reads. Before the default partition runs, this
module changes the joint graph in two ways. Views and cheap operations whose results the forward graph would not write
to memory are repeated in the backward graph. Operands that mpsgraph's gradients do not read are removed. After the
partition, images are saved with channels last, the layout that the kernels of both graphs use.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch._functorch.partitioners import default_partition

from . import importer
from .sharing import OUTPUTS

# Operations that return the same elements in a different shape or order. They cost nothing when an operation reads the
# result.
_VIEWS = {
    "alias", "clone", "detach", "expand", "permute", "reshape", "squeeze", "t", "transpose", "unsqueeze", "view",
    "_unsafe_view",
}  # fmt: skip
# Operations that select a part of a tensor, such as a slice of a parameter.
_PARTS = {"narrow", "select", "slice"}
_MADE = {"arange", "full", "full_like", "iota", "ones", "ones_like", "scalar_tensor", "zeros", "zeros_like"}
# Cheap element-wise operations. They are fused into operations that read and write the same memory in any case.
_CHEAP = {
    "_to_copy", "abs", "add", "bitwise_and", "bitwise_not", "bitwise_or", "clamp", "clamp_min", "clamp_max", "div",
    "eq", "ge", "gt", "le", "logical_and", "logical_not", "logical_or", "lt", "masked_fill", "maximum", "minimum",
    "mul", "ne", "neg", "reciprocal", "relu", "rsqrt", "rsub", "sqrt", "sub", "where",
}  # fmt: skip
# Operations that read their operands from memory, so that the forward graph must write these operands to memory.
_HEAVY = {
    "addmm", "baddbmm", "bmm", "convolution", "mm", "_scaled_dot_product_flash_attention_for_cpu",
}  # fmt: skip
_POOLINGS = {"avg_pool2d", "max_pool2d_with_indices"}
# Operations whose image results have the channel layout of their operands.
_FOLLOWING = _CHEAP | {
    "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training", "bernoulli", "cat", "clone",
    "constant_pad_nd", "elu", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "native_dropout", "sigmoid",
    "silu", "tanh",
}  # fmt: skip

_TO_LAST, _TO_SECOND = [0, 2, 3, 1], [0, 3, 1, 2]


def partition(
    joint: torch.fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **options: Any
) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """Partition a joint graph into a forward and a backward graph, as AOTAutograd's partition_fn."""
    # If torch.utils.checkpoint has marked which nodes to recompute, its choice is kept.
    if not any("recompute" in node.meta for node in joint.graph.nodes):
        _forget_what_is_not_read(joint.graph)
        _Again(joint.graph).do()
        joint.graph.eliminate_dead_code()
        joint.recompile()
    forward, backward = default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)
    _keep_channels_last(forward, backward, num_fwd_outputs)
    forward.meta[OUTPUTS] = num_fwd_outputs
    return forward, backward


def _name_of(node: torch.fx.Node) -> str:
    if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
        namespace, _, name = node.target._schema.name.partition("::")
        return name if namespace == "aten" else ""
    return ""


def _tensors(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    return (n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor))


def _is_open(tensor: torch.Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) for size in tensor.shape)


def _forget_what_is_not_read(graph: torch.fx.Graph) -> None:
    """Replace operands that mpsgraph's gradient operations do not read with constants.

    An example is the indices of max pooling. The forward graph then need not save such operands.
    """
    for node in list(graph.nodes):
        if "backward" not in _name_of(node) or any(_is_open(n.meta["val"]) for n in _tensors(node)):
            continue
        for operand in importer.unread(node):
            value = operand.meta["val"]
            with graph.inserting_before(node):
                nothing = graph.call_function(
                    torch.ops.aten.full.default, (list(value.shape), 0), {"dtype": value.dtype, "device": value.device}
                )
            nothing.meta |= {"val": value, "partitioner_tag": "is_backward"}
            if "tensor_meta" in operand.meta:
                nothing.meta["tensor_meta"] = operand.meta["tensor_meta"]
            node.replace_input_with(operand, nothing)


def _forward_part(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """Return the nodes that PyTorch's default partition assigns to the forward graph."""
    nodes, end = list(graph.nodes), 0
    for place, node in enumerate(nodes):
        if node.meta.get("partitioner_tag") == "is_forward" or node.name.startswith("primals"):
            end = place + 1
    return [node for node in nodes[:end] if not node.name.startswith("tangents")]


def _changed(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """Return the inputs that the program writes to, such as buffers.

    Operations on these inputs cannot be repeated in the backward graph, because they would read the new values.
    """
    given = [node for node in graph.nodes if node.op == "placeholder"]
    said = next(iter(reversed(graph.nodes))).meta.get("desc")
    if said is None:
        return set(given)
    changed = [result.mutated_input for result in said if hasattr(result, "mutated_input")]
    return {node for node in given if node.meta.get("desc") in changed}


class _Again:
    """Repeats views and cheap operations of the forward graph in the backward graph, so that their results are not
    saved.
    """

    FAR = 8

    def __init__(self, graph: torch.fx.Graph) -> None:
        self.graph, self.forward, self.changed = graph, _forward_part(graph), _changed(graph)
        self.inside = set(self.forward)
        self.output = next(iter(reversed(graph.nodes)))

    def do(self) -> None:
        for node in reversed(self.forward):
            users = self.behind(node)
            if not users or not isinstance(node.meta.get("val"), torch.Tensor) or not self.is_free(node):
                continue
            with self.graph.inserting_before(min(users)):  # Nodes compare by position, so min returns the first user.
                again = self.graph.node_copy(node, lambda n: n)
            again.meta = {**node.meta, "partitioner_tag": "is_backward"}
            for user in users:
                user.replace_input_with(node, again)

    def behind(self, node: torch.fx.Node) -> list[torch.fx.Node]:
        return [user for user in node.users if user not in self.inside and user is not self.output]

    def is_free(self, node: torch.fx.Node, far: int = 0) -> bool:
        """Return whether a node can and should be repeated in the backward graph.

        A view is repeated, unless it shows an input that the program writes to. Any other node must be computable from
        tensors that the backward graph has in any case, and repeating it must save memory.
        """
        name = _name_of(node)
        if name in _VIEWS and far == 0:
            return self.is_there(_seen(node), self.FAR) or _seen(node).op != "placeholder"
        if name in _CHEAP and any(_name_of(user) in _HEAVY | _VIEWS for user in node.users if user in self.inside):
            # The forward graph writes the result to memory in any case, so repeating the node would save nothing.
            return False
        return name in _VIEWS | _PARTS | _MADE | _CHEAP and all(self.is_there(n, far) for n in _tensors(node))

    def is_there(self, node: torch.fx.Node, far: int) -> bool:
        if node.op == "placeholder":
            return node not in self.changed
        return bool(self.behind(node)) or (far < self.FAR and self.is_free(node, far + 1))


def _seen(node: torch.fx.Node) -> torch.fx.Node:
    """Return the node whose result a chain of views shows."""
    while _name_of(node) in _VIEWS:
        node = next(_tensors(node))
    return node


def _keep_channels_last(forward: torch.fx.GraphModule, backward: torch.fx.GraphModule, outputs: int) -> None:
    """Save images for the backward graph with channels last, and convert them back in the backward graph."""
    images = _images(forward.graph)
    (output,) = (node for node in forward.graph.nodes if node.op == "output")
    given = {node.name: node for node in backward.graph.nodes if node.op == "placeholder"}
    results = list(output.args[0])
    for i in range(outputs, len(results)):
        kept = results[i]
        if kept not in images or kept.op == "placeholder" or kept.name not in given:
            continue
        with forward.graph.inserting_before(output):
            results[i] = _turned(forward.graph, kept, _TO_LAST)
        there = given[kept.name]
        whole, there.meta = dict(there.meta), {**there.meta, "val": results[i].meta["val"]}
        there.meta.pop("tensor_meta", None)
        with backward.graph.inserting_after(there):
            turned = backward.graph.call_function(torch.ops.aten.permute.default, (there, _TO_SECOND))
        with backward.graph.inserting_after(turned):  # PyTorch's view operations require contiguous memory.
            back = backward.graph.call_function(
                torch.ops.aten.clone.default, (turned,), {"memory_format": torch.contiguous_format}
            )
        turned.meta["val"] = back.meta["val"] = whole["val"]
        there.replace_all_uses_with(back, delete_user_cb=lambda user, turned=turned: user is not turned)
    output.args = (type(output.args[0])(results),)
    forward.recompile()
    backward.recompile()


def _images(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """Return the nodes whose images the compiler stores with channels last: convolutions and operations that follow
    them.
    """
    found: set[torch.fx.Node] = set()
    for node in graph.nodes:
        value, name = node.meta.get("val"), _name_of(node)
        if node.target is operator.getitem:
            source, index = node.args
            if index == 0 and source in found:
                found.add(node)
            continue
        first = value[0] if isinstance(value, (tuple, list)) and value else value
        if not isinstance(first, torch.Tensor) or first.dim() != 4 or not first.dtype.is_floating_point:
            continue
        if first.dtype == torch.float64:
            continue
        if name == "convolution" or (name in _FOLLOWING | _POOLINGS and any(n in found for n in _tensors(node))):
            found.add(node)
    return found


def _turned(graph: torch.fx.Graph, node: torch.fx.Node, order: list[int]) -> torch.fx.Node:
    turned = graph.call_function(torch.ops.aten.permute.default, (node, order))
    value = node.meta["val"]
    turned.meta["val"] = value.new_empty([value.shape[axis] for axis in order])
    return turned
