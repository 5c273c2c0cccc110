"""Masks that travel with sequences from layer to layer and mark the real steps, as in Keras.

`Embedding(mask_zero=True)`, `Masking`, and `set_mask` attach a mask to a tensor of shape (N, T, ...). The output of an
element-wise operation, or of a layer that keeps time steps separate (`passes_mask`), has the same mask. Recurrent
layers and attention use the attached mask unless they are passed a mask explicitly. Other operations, such as a
convolution over time or a reshape, drop the mask. `mask_of` returns the mask, for use in losses and custom layers.
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
"""Masks of a graph: for each masked tensor's operation ID, the ID of the operation that produces the mask.

IDs are stored instead of tensors, so that the table does not keep a graph alive.
"""


@checked
def set_mask(x: Tensor, mask: Tensor) -> Tensor:
    """Attach a mask to a sequence, which following layers use to skip padding.

    Args:
        x: Sequence (N, T, ...).
        mask: Bool tensor (N, T), True at real steps.

    Returns:
        x itself.

    Raises:
        DTypeError: If mask is not bool.
        ShapeError: If the shape of mask is not that of the first two axes of x.

    Example:
        >>> g = mg.Graph()
        >>> x, mask = g.placeholder((-1, 20, 8)), g.placeholder((-1, 20), mg.bool_)
        >>> mg.nn.mask_of(mg.nn.Linear(4)(mg.nn.set_mask(x, mask)) * 2) is mask
        True
    """
    if mask.dtype != bool_:
        raise DTypeError(f"set_mask: mask must be bool (True marks real steps), got {mask.dtype}")
    if x.shape is not None and (
        mask.shape is None or len(mask.shape) != 2 or not _alike(x.shape[:2], mask.shape) or len(x.shape) < 2
    ):
        raise ShapeError(
            f"set_mask: mask must have the shape of the first two axes of x, got mask of shape {mask.shape} and x of "
            f"shape {x.shape}"
        )
    graph: Graph = x.graph  # type: ignore[assignment]
    _masks.setdefault(graph, {})[x.operation.id] = mask.operation.id
    return x


@checked
def mask_of(x: Tensor) -> Tensor | None:
    """Return the mask attached to a tensor, or None.

    If the operands of an operation have different masks, a step of its result is real if it is real in all of them. To
    average a loss over real steps only, pass `weights=mask_of(y)` and `reduction="sum_by_nonzero_weights"`.

    Args:
        x: Sequence (N, T, ...).

    Returns:
        A bool tensor (N, T), True at real steps, or None if x has no mask.

    Example:
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
    """Attach the mask of a layer's input to its output."""
    if isinstance(result, Tensor) and _masks.get(x.graph):  # type: ignore[call-overload]
        mask = mask_of(x)
        if mask is not None and mask_of(result) is None:
            set_mask(result, mask)


def _made_by(operations: list, numbers: Iterable[int]) -> list[Tensor]:  # type: ignore[type-arg]
    wanted = set(numbers)
    return [operation.outputs[0] for operation in operations if operation.id in wanted]


def _alike(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return len(one) == len(other) and all(a == b or min(a, b) < 0 for a, b in zip(one, other, strict=True))
