"""Masks that go with sequences from layer to layer: which steps are real, said once, as in Keras.

`Embedding(mask_zero=True)` and `Masking` say which steps of (N, T, ...) are real. What a layer that keeps the steps
apart (`passes_mask`) or an element-wise operation makes of such a tensor has the same mask; recurrent layers and
attention use it where they are given none. A tensor made otherwise, by a convolution over the steps or a reshape, has
none. `mask_of` gives it to losses and to layers of your own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from .._checks import checked
from .._core import Tensor, bool_, definitions
from ..errors import DTypeError, ShapeError

if TYPE_CHECKING:
    from ..graph import Graph

_ELEMENTWISE = {item["name"] for item in definitions() if item["elementwise"]}
_masks: WeakKeyDictionary[Graph, dict[int, int]] = WeakKeyDictionary()
"""The operations that make masks, by those that make what they are of. Numbers, so that no graph keeps itself alive."""


@checked
def set_mask(x: Tensor, mask: Tensor) -> Tensor:
    """Says which steps of x are real. Args: x (N, T, ...); mask, bools (N, T), True where real. Result: x.

    Errors: DTypeError, ShapeError.

    >>> g = mg.Graph()
    >>> x, mask = g.placeholder((-1, 20, 8)), g.placeholder((-1, 20), mg.bool_)
    >>> mg.nn.mask_of(mg.nn.Linear(4)(mg.nn.set_mask(x, mask)) * 2) is mask
    True
    """
    if mask.dtype != bool_:
        raise DTypeError(f"set_mask: a mask is of bools, True where a step is real, came {mask.dtype}")
    if x.shape is not None and (
        mask.shape is None or len(mask.shape) != 2 or not _alike(x.shape[:2], mask.shape) or len(x.shape) < 2
    ):
        raise ShapeError(f"set_mask: a mask is shaped as the first two axes of {x.shape}, its shape is {mask.shape}")
    graph: Graph = x.graph  # type: ignore[assignment]
    _masks.setdefault(graph, {})[x.operation.id] = mask.operation.id
    return x


@checked
def mask_of(x: Tensor) -> Tensor | None:
    """The mask (N, T) that came with a tensor, True where a step is real, or None.

    The mean of a loss over the real steps is that with `weights=mask_of(y)` and
    `reduction="sum_by_nonzero_weights"`. Of operands with different masks a result has steps that are real in all.

    >>> g = mg.Graph()
    >>> y = mg.nn.Embedding(10, 4, mask_zero=True)(g.constant([[3, 1, 0]]))
    >>> g.run({}, mg.nn.mask_of(y)).tolist()
    [[True, True, False]]
    """
    known = _masks.get(x.graph)  # type: ignore[call-overload]
    if not known:
        return None
    found, seen, waiting = set(), {x.operation.id}, [x]
    while waiting:
        tensor = waiting.pop()
        operation = tensor.operation
        if operation.id in known:
            found.add(known[operation.id])
        elif operation.kind in _ELEMENTWISE:
            for operand in operation.inputs:
                same = (
                    operand.shape is not None and tensor.shape is not None and len(operand.shape) == len(tensor.shape)
                )
                if (
                    same
                    and _alike((operand.shape or ())[:2], (tensor.shape or ())[:2])
                    and operand.operation.id not in seen
                ):
                    seen.add(operand.operation.id)
                    waiting.append(operand)
    result: Tensor | None = None
    for mask in _made_by(x.graph.operations, sorted(found)) if found else ():
        result = mask if result is None else x.graph.logical_and(result, mask)  # type: ignore[attr-defined]
    return result


def pass_mask(x: Tensor, result: object) -> None:
    """A layer's result has the mask of its input."""
    if isinstance(result, Tensor) and _masks.get(x.graph):  # type: ignore[call-overload]
        mask = mask_of(x)
        if mask is not None and mask_of(result) is None:
            set_mask(result, mask)


def _made_by(operations: list, numbers: Iterable[int]) -> list[Tensor]:  # type: ignore[type-arg]
    wanted = set(numbers)
    return [operation.outputs[0] for operation in operations if operation.id in wanted]


def _alike(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return len(one) == len(other) and all(a == b or min(a, b) < 0 for a, b in zip(one, other, strict=True))
