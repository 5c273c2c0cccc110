"""A view of a node with other operands, for translating it with the function of another operator."""

from __future__ import annotations

from collections.abc import Mapping

from ..._core import Tensor
from ..building.node import Node


class WithOperands(Node):
    """A view of a node with `count` operands, some replaced by tensors, and optionally another operator name."""

    def __init__(self, node: Node, given: Mapping[int, Tensor], count: int, name: str | None = None) -> None:
        # Copying __dict__ shares the set of attributes that were read, so the check for unread attributes covers both
        # views.
        self.__dict__.update(node.__dict__)
        self._given = dict(given)
        self.inputs = [*node.inputs, *[""] * count][:count]
        self.name = name or node.name

    def has(self, i: int) -> bool:
        return i in self._given or super().has(i)

    def tensor(self, i: int) -> Tensor:
        return self._given[i] if i in self._given else super().tensor(i)
