"""Translations of sequence operators.

Sequences are lists that exist only while the graph is being built. Their lengths and the indices into them must
therefore be known at that time, and a model cannot have sequences as inputs or outputs.
"""

from __future__ import annotations

import numpy as np

from ..._core import Tensor
from ...errors import GraphError
from ..building.node import Node, Results, TensorSequence, operator

MOST_PARTS = 10_000  # Maximum number of tensors that one tensor can be split into.


def _place(node: Node, i: int, length: int, default: int) -> int:
    """Return operand i, an index into a sequence of the given length. A negative index is made non-negative."""
    place = int(node.scalar(i, default))
    if not -length <= place < length:
        raise GraphError(f"index {place} is out of range for a sequence of length {length}")
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
    """Translate SequenceInsert, which inserts a tensor before the one at an index.

    An index equal to the length inserts at the end. A negative index counts from the end, so -1 inserts before the last
    tensor.
    """
    tensors = list(node.sequence(0))
    place = int(node.scalar(2, len(tensors)))
    if not -len(tensors) <= place <= len(tensors):
        raise GraphError(f"insertion index {place} is out of range for a sequence of length {len(tensors)}")
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
        raise GraphError("ConcatFromSequence needs a sequence of at least one tensor, got an empty one")
    axis, new = node.attribute("axis"), bool(node.attribute("new_axis", 0))
    rank = node.rank(tensors[0]) + new
    if not -rank <= axis < rank:
        raise GraphError(f"axis must be between {-rank} and {rank - 1}, got {axis}")
    return g.stack(tensors, axis % rank) if new else g.concat(tensors, axis % rank)


@operator("SplitToSequence", upto=24)
def split(node: Node) -> Results:
    """Translate SplitToSequence, which splits by sizes, into equal parts with a smaller last part, or into single
    slices.
    """
    g, x = node.g, node.tensor(0)
    axis, keeps = node.axis(x, node.attribute("axis", 0)), node.attribute("keepdims", 1)
    size = node.size(x, axis)
    if node.has(1) and node.rank(node.tensor(1)):
        sizes = node.ints(1)
    else:
        each = int(node.scalar(1, 1))
        if each < 1 or size > each * MOST_PARTS:
            raise GraphError(
                f"an axis of size {size} can be split into at most {MOST_PARTS} parts of at least 1 element, "
                f"got parts of {each}"
            )
        sizes = [min(each, size - start) for start in range(0, size, each)]
    parts: list[Tensor] = g.split(x, sizes, axis) if sizes else []
    if not node.has(1) and not keeps:
        parts = [g.squeeze(part, [axis]) for part in parts]
    return TensorSequence(tuple(parts))


@operator("SequenceMap", upto=17)
def mapped(node: Node) -> Results:
    """Translate SequenceMap, which applies the body to each tensor of the first sequence.

    Each call also receives the tensor at the same index of every other sequence, and all operands that are single
    tensors.
    """
    body, importer = node.attribute("body"), node.importer
    first = node.sequence(0)
    others = [node.sequence(i) if node.is_sequence(i) else None for i in range(1, len(node.inputs))]
    kept: list[list[Tensor]] = [[] for _ in body.output]
    for place, tensor in enumerate(first):
        arguments = [tensor]
        for i, other in enumerate(others, 1):
            if other is not None and len(other) != len(first):
                raise GraphError(f"all sequences must have the same length, got {len(first)} and {len(other)}")
            arguments.append(node.tensor(i) if other is None else other[place])
        for results, result in zip(kept, importer.subgraph(body, arguments), strict=True):
            results.append(result)
    return [TensorSequence(tuple(results)) for results in kept]
