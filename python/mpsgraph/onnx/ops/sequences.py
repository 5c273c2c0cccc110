"""Sequences of tensors: lists while the graph is built, nothing in the graph.

So their lengths and the places in them must be known then, and a model neither takes nor gives one.
"""

from __future__ import annotations

import numpy as np

from ..._core import Tensor
from ...errors import GraphError
from .._registry import Node, Results, TensorSequence, operator

MOST_PARTS = 10_000  # that one tensor is split into


def _place(node: Node, i: int, length: int, default: int) -> int:
    """Operand i as a place in a sequence of that length."""
    place = int(node.scalar(i, default))
    if not -length <= place < length:
        raise GraphError(f"there is no place {place} in a sequence of {length} tensors")
    return place % length


@operator("SequenceEmpty", upto=11)
def empty(node: Node) -> Results:
    node.without_effect("dtype")
    return TensorSequence(())


@operator("SequenceConstruct", upto=11)
def construct(node: Node) -> Results:
    return TensorSequence(tuple(node.tensors()))


@operator("SequenceAt", upto=11)
def at(node: Node) -> Results:
    tensors = node.sequence(0)
    return tensors[_place(node, 1, len(tensors), 0)]


@operator("SequenceLength", upto=11)
def length(node: Node) -> Results:
    return node.g.constant(np.array(len(node.sequence(0)), np.int64))


@operator("SequenceInsert", upto=11)
def insert(node: Node) -> Results:
    """Before the tensor at a place; one behind the last is the end, which -1 does not mean."""
    tensors = list(node.sequence(0))
    place = int(node.scalar(2, len(tensors)))
    if not -len(tensors) <= place <= len(tensors):
        raise GraphError(f"there is no place {place} to insert at in a sequence of {len(tensors)} tensors")
    tensors.insert(place, node.tensor(1))
    return TensorSequence(tuple(tensors))


@operator("SequenceErase", upto=11)
def erase(node: Node) -> Results:
    tensors = list(node.sequence(0))
    del tensors[_place(node, 1, len(tensors), len(tensors) - 1)]
    return TensorSequence(tuple(tensors))


@operator("ConcatFromSequence", upto=11)
def concat(node: Node) -> Results:
    g, tensors = node.g, list(node.sequence(0))
    if not tensors:
        raise GraphError("an empty sequence cannot be joined")
    axis, new = node.attribute("axis"), bool(node.attribute("new_axis", 0))
    rank = node.rank(tensors[0]) + new
    if not -rank <= axis < rank:
        raise GraphError(f"axis {axis} must lie in {-rank}..{rank - 1}")
    return g.stack(tensors, axis % rank) if new else g.concat(tensors, axis % rank)


@operator("SplitToSequence", upto=24)
def split(node: Node) -> Results:
    """By sizes, into parts of one size, of which the last may be smaller, or into single slices."""
    g, x = node.g, node.tensor(0)
    axis, keeps = node.axis(x, node.attribute("axis", 0)), node.attribute("keepdims", 1)
    size = node.size(x, axis)
    if node.has(1) and node.rank(node.tensor(1)):
        sizes = node.ints(1)
    else:
        each = int(node.scalar(1, 1))
        if each < 1 or size > each * MOST_PARTS:
            raise GraphError(f"parts of {each} out of {size}: at most {MOST_PARTS} are made")
        sizes = [min(each, size - start) for start in range(0, size, each)]
    parts: list[Tensor] = g.split(x, sizes, axis) if sizes else []
    if not node.has(1) and not keeps:
        parts = [g.squeeze(part, [axis]) for part in parts]
    return TensorSequence(tuple(parts))


@operator("SequenceMap", upto=17)
def mapped(node: Node) -> Results:
    """The body for each tensor of the first sequence; of other sequences with the tensor there, of tensors with all."""
    body, importer = node.attribute("body"), node.importer
    first = node.sequence(0)
    others = [node.sequence(i) if node.is_sequence(i) else None for i in range(1, len(node.inputs))]
    kept: list[list[Tensor]] = [[] for _ in body.output]
    for place, tensor in enumerate(first):
        arguments = [tensor]
        for i, other in enumerate(others, 1):
            if other is not None and len(other) != len(first):
                raise GraphError(f"sequences of {len(first)} and {len(other)} tensors")
            arguments.append(node.tensor(i) if other is None else other[place])
        for results, result in zip(kept, importer.subgraph(body, arguments), strict=True):
            results.append(result)
    return [TensorSequence(tuple(results)) for results in kept]
