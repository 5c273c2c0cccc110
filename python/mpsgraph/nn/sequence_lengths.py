"""RealSteps: the real steps of padded sequences, as given by `lengths` or `mask`, and conversion to packed sequences.

Recurrent layers run over packed sequences, whose real steps come first, in order; later steps do not affect real ones.
The reverse direction starts at each sequence's own last real step. In this module, time is the first axis: (T, N,
features).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._core import Tensor, bool_, int32
from ..errors import DTypeError, GraphError, OutOfRangeError, ShapeError
from .layers import shape_of_sizes, size_in_run
from .parts import graph_of

Lengths = Tensor | np.ndarray | Sequence[int]


class RealSteps:
    """The real steps of sequences (T, N, features), given by their lengths or by a mask.

    Args:
        x: The sequences.
        lengths: Integers (N,), or None.
        mask: Bool tensor, True at real steps, (N, T) if batch_first, otherwise (T, N), or None.
        batch_first: Whether the batch is the first axis of mask.
        what: Name of the caller, for error messages.

    Raises:
        GraphError: If both or neither of lengths and mask are given.
        DTypeError: If lengths are not integers, or mask is not bool.
        ShapeError: If lengths or mask has the wrong shape.
        OutOfRangeError: If a length is negative or exceeds T; for tensors, at run time.
    """

    def __init__(self, x: Tensor, lengths: Lengths | None, mask: Tensor | None, batch_first: bool, what: str) -> None:
        if (lengths is None) == (mask is None):
            raise GraphError(f"{what}: pass exactly one of lengths and mask")
        g = graph_of(x)
        self.steps, self.rows = size_in_run(x, 0), size_in_run(x, 1)
        shape = shape_of_sizes(x, [self.steps, self.rows])
        self.time, self.row = g.coordinate_along_axis(0, shape), g.coordinate_along_axis(1, shape)
        # For each row, the time indices of its real steps, followed by those of its padding.
        self.order: Tensor | None = None
        if lengths is not None:
            self.lengths = g.expand_dims(checked_lengths(x, lengths, self.steps, (x.shape or ())[1], what), 0)
            self.given = g.less_than(self.time, self.lengths)
        else:
            self.given = _checked_mask(x, mask, batch_first, what)
            absent = g.cast(g.not_(self.given), int32)
            self.lengths = self.steps - g.reduction_sum(absent, 0)
            self.order = g.arg_sort(absent, 0)
        self.real = g.less_than(self.time, self.lengths)
        self.turned = g.select(self.real, self.lengths - self.time - 1, self.time)

    def gathered(self, x: Tensor, times: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return, for each sequence of x, its steps at the time indices `times`, (steps, N)."""
        g = graph_of(x)
        features = (x.shape or ())[-1]
        place = times * self.rows + (self.row if rows is None else rows)
        return g.gather(g.reshape(x, [-1, features]), place, axis=0)

    def packed(self, x: Tensor) -> Tensor:
        """Move the real steps of each sequence to the front and fill the rest with zeros."""
        g = graph_of(x)
        kept = g.select(g.expand_dims(self.given, -1), x, g.constant(0.0, dtype=x.dtype))
        return kept if self.order is None else self.gathered(kept, self.order)

    def unpacked(self, y: Tensor) -> Tensor:
        """Undo `packed`: move steps back to their positions, with zeros at padding."""
        y = self.cleared(y)
        return y if self.order is None else self.gathered(y, graph_of(y).arg_sort(self.order, 0))

    def cleared(self, y: Tensor) -> Tensor:
        """Return packed sequences with zeros after their real steps."""
        g = graph_of(y)
        return g.select(g.expand_dims(self.real, -1), y, g.constant(0.0, dtype=y.dtype))

    def reversed(self, y: Tensor) -> Tensor:
        """Return packed sequences with their real steps in reverse order."""
        return self.gathered(y, self.turned)

    def last(self, y: Tensor, before: Tensor | None) -> Tensor:
        """Return the last real step of each packed sequence (1, N, features); for an empty one, `before` or zeros."""
        g = graph_of(y)
        row = g.coordinate_along_axis(1, shape_of_sizes(y, [1, self.rows]))
        found = self.gathered(y, g.maximum(self.lengths - 1, 0), row)
        start = g.constant(0.0, dtype=y.dtype) if before is None else g.expand_dims(before, 0)
        return g.select(g.expand_dims(g.equal(self.lengths, 0), -1), start, found)


def checked_lengths(x: Tensor, lengths: Lengths, steps: int | Tensor, rows: int, what: str) -> Tensor:
    """Return lengths as an int32 tensor (N,) in x's graph whose values are from 0 to `steps`.

    `rows` is N, or -1 if it is dynamic.
    """
    g = graph_of(x)
    if not isinstance(lengths, Tensor):
        numbers = np.asarray(lengths)
        if numbers.dtype.kind not in "iu":
            raise DTypeError(f"{what}: lengths must be integers, got {numbers.dtype}")
        most = steps if isinstance(steps, int) else np.iinfo(np.int32).max
        wrong = numbers[(numbers < 0) | (numbers > most)]
        if wrong.size:
            raise OutOfRangeError(
                f"{what}: lengths must be from 0 to {most}, the number of steps of the input, got {wrong[0]}"
            )
        lengths = g.constant(numbers.astype(np.int32))
    if not lengths.dtype.is_integer:
        raise DTypeError(f"{what}: lengths must be integers, got {lengths.dtype}")
    if (
        lengths.shape is None
        or len(lengths.shape) != 1
        or (min(rows, *lengths.shape) >= 0 and lengths.shape != (rows,))
    ):
        raise ShapeError(
            f"{what}: lengths must be 1-D with one entry for each sequence, shape ({rows},), got shape {lengths.shape}"
        )
    # Look lengths up in the table 0, 1, ..., steps, which rejects lengths out of range.
    possible = g.coordinate_along_axis(0, shape_of_sizes(x, [steps + 1]))
    return g.gather(possible, lengths, axis=0, out_of_range="error")


def _checked_mask(x: Tensor, mask: Tensor | None, batch_first: bool, what: str) -> Tensor:
    """Check a mask and return it in the shape (T, N), with time first."""
    if not isinstance(mask, Tensor) or mask.dtype != bool_:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise DTypeError(f"{what}: mask must be a bool tensor (True marks real steps), got {kind}")
    wanted = (x.shape or ())[:2]
    turned = None if mask.shape is None or len(mask.shape) != 2 else mask.shape[::-1] if batch_first else mask.shape
    if turned is None or any(a != b for a, b in zip(turned, wanted, strict=True) if a >= 0 and b >= 0):
        axes = "(batch, time)" if batch_first else "(time, batch)"
        expected = wanted[::-1] if batch_first else wanted
        raise ShapeError(f"{what}: mask must have shape {axes} = {expected} to match the input, got shape {mask.shape}")
    return graph_of(x).swap_axes(mask, 0, 1) if batch_first else mask
