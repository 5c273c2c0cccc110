"""Which steps of padded sequences are real, and sequences without their padding: what `lengths` and `mask` mean.

Recurrent layers run over sequences whose real steps stand in front, in order; what stands behind them changes no real
step. The way back begins at each sequence's own last step. Here sequences have the time first: (T, N, features).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._core import Tensor, bool_, int32
from ..errors import DTypeError, GraphError, OutOfRangeError, ShapeError
from .layers import shape_of_sizes, size_in_run
from .module import graph_of

Lengths = Tensor | np.ndarray | Sequence[int]


class RealSteps:
    """The real steps of sequences (T, N, features), by their lengths or by a mask.

    Args: x, the sequences; lengths (N,), integers; or mask, bools, True where a step is real, (N, T) if batch_first,
    else (T, N); what, who asks. Errors: GraphError for both or neither, DTypeError, ShapeError; OutOfRangeError for
    lengths below 0 or above T, which a run may find.
    """

    def __init__(self, x: Tensor, lengths: Lengths | None, mask: Tensor | None, batch_first: bool, what: str) -> None:
        if (lengths is None) == (mask is None):
            raise GraphError(f"{what}: give lengths or a mask, not both")
        g = graph_of(x)
        self.steps, self.rows = size_in_run(x, 0), size_in_run(x, 1)
        shape = shape_of_sizes(x, [self.steps, self.rows])
        self.time, self.row = g.coordinate_along_axis(0, shape), g.coordinate_along_axis(1, shape)
        self.order: Tensor | None = None  # times of the real steps of each row, then of the others
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
        """x of other times, (times, N) of them, for each row."""
        g = graph_of(x)
        features = (x.shape or ())[-1]
        place = times * self.rows + (self.row if rows is None else rows)
        return g.gather(g.reshape(x, [-1, features]), place, axis=0)

    def packed(self, x: Tensor) -> Tensor:
        """The real steps of each sequence in front, zeros behind: whatever the padding holds."""
        g = graph_of(x)
        kept = g.select(g.expand_dims(self.given, -1), x, g.constant(0.0, dtype=x.dtype))
        return kept if self.order is None else self.gathered(kept, self.order)

    def unpacked(self, y: Tensor) -> Tensor:
        """Steps back where they were; zeros at those that are not real."""
        y = self.cleared(y)
        return y if self.order is None else self.gathered(y, graph_of(y).arg_sort(self.order, 0))

    def cleared(self, y: Tensor) -> Tensor:
        """Packed sequences with zeros behind their real steps."""
        g = graph_of(y)
        return g.select(g.expand_dims(self.real, -1), y, g.constant(0.0, dtype=y.dtype))

    def reversed(self, y: Tensor) -> Tensor:
        """The real steps of packed sequences the other way round."""
        return self.gathered(y, self.turned)

    def last(self, y: Tensor, before: Tensor | None) -> Tensor:
        """The last real step of packed sequences, (1, N, features); of an empty one what was before it, or zeros."""
        g = graph_of(y)
        row = g.coordinate_along_axis(1, shape_of_sizes(y, [1, self.rows]))
        found = self.gathered(y, g.maximum(self.lengths - 1, 0), row)
        start = g.constant(0.0, dtype=y.dtype) if before is None else g.expand_dims(before, 0)
        return g.select(g.expand_dims(g.equal(self.lengths, 0), -1), start, found)


def checked_lengths(x: Tensor, lengths: Lengths, steps: int | Tensor, rows: int, what: str) -> Tensor:
    """Lengths as int32 (N,) in x's graph, each from 0 to `steps`; of `rows` sequences, -1 when their number is open."""
    g = graph_of(x)
    if not isinstance(lengths, Tensor):
        numbers = np.asarray(lengths)
        if numbers.dtype.kind not in "iu":
            raise DTypeError(f"{what}: lengths must be integers, came {numbers.dtype}")
        most = steps if isinstance(steps, int) else np.iinfo(np.int32).max
        wrong = numbers[(numbers < 0) | (numbers > most)]
        if wrong.size:
            raise OutOfRangeError(f"{what}: length {wrong[0]} is outside of 0 to {most}, the steps of the input")
        lengths = g.constant(numbers.astype(np.int32))
    if not lengths.dtype.is_integer:
        raise DTypeError(f"{what}: lengths must be integers, came {lengths.dtype}")
    if (
        lengths.shape is None
        or len(lengths.shape) != 1
        or (min(rows, *lengths.shape) >= 0 and lengths.shape != (rows,))
    ):
        raise ShapeError(f"{what}: lengths must be one for each of {rows} sequences, their shape is {lengths.shape}")
    # a table of themselves, which refuses what is outside of it
    possible = g.coordinate_along_axis(0, shape_of_sizes(x, [steps + 1]))
    return g.gather(possible, lengths, axis=0, out_of_range="error")


def _checked_mask(x: Tensor, mask: Tensor | None, batch_first: bool, what: str) -> Tensor:
    """A mask as (T, N)."""
    if not isinstance(mask, Tensor) or mask.dtype != bool_:
        came = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise DTypeError(f"{what}: a mask is a tensor of bools, True where a step is real, came {came}")
    wanted = (x.shape or ())[:2]
    turned = None if mask.shape is None or len(mask.shape) != 2 else mask.shape[::-1] if batch_first else mask.shape
    if turned is None or any(a != b for a, b in zip(turned, wanted, strict=True) if a >= 0 and b >= 0):
        axes = "(batch, time)" if batch_first else "(time, batch)"
        raise ShapeError(
            f"{what}: a mask is {axes} as the input, its shape is {mask.shape}, that of the steps {wanted}"
        )
    return graph_of(x).swap_axes(mask, 0, 1) if batch_first else mask
