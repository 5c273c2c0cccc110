"""A node whose operands were changed before the function of another operator sees it."""

from __future__ import annotations

from collections.abc import Mapping

from ..._core import Tensor
from .._registry import Node


class WithOperands(Node):
    """The node with the first `count` operands, some of them replaced by tensors, as an operator of another name."""

    def __init__(self, node: Node, given: Mapping[int, Tensor], count: int, op: str | None = None) -> None:
        self.__dict__.update(node.__dict__)  # attributes that are asked for count for both
        self._given = dict(given)
        self.inputs = [*node.inputs, *[""] * count][:count]
        self.op = op or node.op

    def has(self, i: int) -> bool:
        return i in self._given or super().has(i)

    def tensor(self, i: int) -> Tensor:
        return self._given[i] if i in self._given else super().tensor(i)
