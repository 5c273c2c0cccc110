"""Sizes of a PyTorch graph with dynamic dimensions, for compiling it for new sizes from two earlier compilations.

AOTAutograd traces a graph once, with symbols for the sizes of its inputs, so the shape of every value is a list of
numbers and expressions of the symbols.
"""

from __future__ import annotations

from typing import Any

import torch


class SymbolicShapes:
    """The shapes of all values of a graph, and other integers in it, as functions of the inputs' sizes.

    Args:
        module: A graph module whose placeholders and calls carry fake tensors with symbolic sizes.
    """

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self._sources: dict[Any, tuple[int, int | None]] = {}  # index of an input, and its axis, for each symbol
        shapes: dict[tuple[Any, ...], None] = {}
        self._returned: dict[int, Any] = {}  # results that are sizes
        place, other = 0, False
        for node in module.graph.nodes:
            value = node.meta.get("val")
            if node.op == "placeholder":
                if isinstance(value, torch.Tensor):
                    for axis, size in enumerate(value.shape):
                        self._enter(size, place, axis)
                else:
                    self._enter(value, place, None)
                place += 1
            for number in torch.utils._pytree.tree_leaves((node.args, node.kwargs)):
                if isinstance(number, int) and not isinstance(number, bool):
                    shapes[(number,)] = None
            for leaf in torch.utils._pytree.tree_leaves(value):
                if isinstance(leaf, torch.Tensor):
                    shapes[tuple(map(_expression, leaf.shape))] = None
                elif isinstance(leaf, (int, torch.SymInt)) and not isinstance(leaf, bool):
                    shapes[(_expression(leaf),)] = None
                elif isinstance(leaf, (torch.SymFloat, torch.SymBool)):
                    other = True
            if node.op == "output" and isinstance(node.args[0], (tuple, list)):
                self._returned = {
                    i: _expression(result.meta["val"])
                    for i, result in enumerate(node.args[0])
                    if isinstance(result, torch.fx.Node) and isinstance(result.meta.get("val"), torch.SymInt)
                }
        self._shapes = list(shapes)
        self._expressions = {e for shape in shapes for e in shape if not isinstance(e, int)}
        symbols = {symbol for e in self._expressions for symbol in e.free_symbols}
        self.known = symbols <= self._sources.keys() and not other
        """Whether the sizes of the inputs determine all shapes, and the graph computes no other numbers from sizes."""

    def _enter(self, size: Any, place: int, axis: int | None) -> None:
        expression = _expression(size) if isinstance(size, torch.SymInt) else None
        if expression is not None and getattr(expression, "is_Symbol", False):
            self._sources.setdefault(expression, (place, axis))

    def values(self, given: list[Any]) -> list[list[int]]:
        """Return all shapes for these inputs.

        Args:
            given: The inputs of the graph.

        Returns:
            A list of shapes, in an order that does not depend on the inputs.
        """
        sizes = self._sizes(given)
        values = {e: int(e.xreplace(sizes)) for e in self._expressions}
        return [[e if isinstance(e, int) else values[e] for e in shape] for shape in self._shapes]

    def returned(self, given: list[Any]) -> dict[int, int]:
        """Return the results of the graph that are sizes, keyed by their index, for these inputs."""
        sizes = self._sizes(given) if self._returned else {}
        return {i: e if isinstance(e, int) else int(e.xreplace(sizes)) for i, e in self._returned.items()}

    def _sizes(self, given: list[Any]) -> dict[Any, int]:
        return {
            symbol: int(given[place]) if axis is None else given[place].shape[axis]
            for symbol, (place, axis) in self._sources.items()
        }


def _expression(size: Any) -> Any:
    """Return a size as an int or as an expression of symbols."""
    if isinstance(size, int):
        return size
    expression = size.node.expr
    return int(expression) if expression.is_number else expression
