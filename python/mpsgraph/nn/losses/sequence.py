"""Losses for sequences that are not aligned with their labels: connectionist temporal classification."""

from __future__ import annotations

import numpy as np

from ..._checks import checked
from ..._core import Tensor, int32
from ..._display import shown
from ...errors import DTypeError, GraphError, ShapeError
from ...precision.mixed_precision import in_float32
from ..layers import shape_of_sizes, size_in_run
from ..parts import graph_of
from ..sequence_lengths import Lengths, checked_lengths
from .reduction import REDUCTIONS, reduced


@checked
@in_float32
def ctc(
    logits: Tensor,
    labels: Tensor,
    *,
    input_lengths: Lengths | None = None,
    label_lengths: Lengths | None = None,
    blank: int = 0,
    batch_first: bool = True,
    zero_infinity: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Connectionist temporal classification: the negative log-probability, in nats, of all alignments with the labels.

    An alignment assigns a class to each step; it spells its classes with repetitions merged and then blanks removed.
    Labels that no alignment can spell, because there are fewer steps than labels plus repetitions or because a
    probability is 0, have infinite loss and zero gradient, where PyTorch's gradient is NaN. Logits of steps after
    input_lengths do not matter, even if they are NaN. On device "metal", the gradient needs a known number of steps.

    Args:
        logits: (N, T, C), or (T, N, C) if batch_first is False. They are passed through log_softmax, so
            log-probabilities work as well.
        labels: Integers (N, U) from 0 to C - 1, other than blank.
        input_lengths: Number of real steps of each sequence, (N,). Defaults to all steps.
        label_lengths: Number of labels of each sequence, (N,). Defaults to the labels before the first blank.
        blank: Class index of the blank. Defaults to 0.
        batch_first: Whether the batch is the first axis of logits. Defaults to True.
        zero_infinity: Whether infinite losses are replaced by 0. Defaults to False.
        reduction: "mean" (the default) for the mean of the losses, each divided by its number of labels (at least 1);
            "sum"; or "none".

    Returns:
        A tensor of rank 0, or the losses (N,) if reduction is "none".

    Raises:
        ShapeError: If shapes do not match, the number of classes is dynamic, or blank is not a class index.
        DTypeError: If labels or lengths are not integers.
        GraphError: If reduction is unknown.
        OutOfRangeError: If a label is not a class index or a length exceeds its axis; for tensors, at run time.

    Gradient: with respect to logits.

    Source: PyTorch's CTCLoss, Keras's CTC; Graves et al., 2006.

    Example:
        >>> g = mg.Graph()
        >>> logits = g.constant(0.0, (1, 2, 3))  # two steps write "1" as 11, 1-, -1: three of nine ways
        >>> round(g.run({}, mg.nn.losses.ctc(logits, g.constant([[1]]))).item(), 4), round(float(np.log(3)), 4)
        (1.0986, 1.0986)
    """
    if reduction not in REDUCTIONS[:3]:
        raise GraphError(f"ctc: reduction must be one of {', '.join(REDUCTIONS[:3])}, got {shown(reduction)}")
    _require_fitting(logits, labels, blank, batch_first)
    g, dtype = graph_of(logits), logits.dtype
    # A finite number in place of -infinity, since the difference of two infinities would be NaN.
    lowest = float(np.finfo(dtype.numpy).min) / 8
    by_time = g.swap_axes(logits, 0, 1) if batch_first else logits
    steps, rows, classes = size_in_run(by_time, 0), (by_time.shape or ())[1], (logits.shape or ())[-1]
    numbers = g.gather(g.constant(np.arange(classes, dtype=np.int32)), labels, out_of_range="error")
    if label_lengths is None:
        found = g.cast(g.not_equal(numbers, blank), int32)
        label_lengths = g.reshape(g.reduction_sum(g.cumulative_minimum(found, 1), 1), [-1])
    written = checked_lengths(numbers, label_lengths, size_in_run(numbers, 1), rows, "ctc: label_lengths")
    padded = input_lengths is not None
    if input_lengths is None:
        input_lengths = g.reshape(g.reduction_sum(numbers * 0, 1), [-1]) + steps
    heard = checked_lengths(by_time, input_lengths, steps, rows, "ctc: input_lengths")
    written, heard = g.expand_dims(written, 1), g.expand_dims(heard, 1)
    if padded:
        # Padding may be NaN, which would reach the gradient, so its logits are replaced before they are used.
        time = g.coordinate_along_axis(0, shape_of_sizes(by_time, [steps, size_in_run(by_time, 1), 1]))
        by_time = g.select(g.less_than(time, g.expand_dims(heard, 0)), by_time, g.constant(0.0, dtype=dtype))

    # The class of each state of an alignment: the labels, with blanks between and around them.
    a_blank = g.reduction_sum(numbers * 0, 1) + blank  # (N, 1)
    states = g.concat([numbers * 0 + blank, numbers], 1, interleave=True)
    states = g.concat([states, a_blank], 1)
    before = g.concat([a_blank, a_blank, states[:, :-2]], 1)
    barred = g.logical_or(g.equal(states, blank), g.equal(states, before))
    skip = g.select(barred, g.constant(lowest, dtype=dtype), g.constant(0.0, dtype=dtype))
    sizes = [size_in_run(states, axis) for axis in (0, 1)]
    places = g.broadcast_to(g.expand_dims(states, 0), shape_of_sizes(by_time, [steps, *sizes]))
    odds = g.gather_along_axis(2, _at_least(g.log_softmax(by_time, -1), lowest), places)

    # Prepend two states that no step can reach. The second one is the start state, with log-probability 0 before the
    # first step.
    closed = g.cast(a_blank * 0, dtype) + lowest
    first = g.concat([closed, closed - lowest, g.cast(states * 0, dtype) + lowest], 1)

    def one_step(time: Tensor, ways: Tensor) -> list[Tensor]:
        came = _log_sum([ways[:, 2:], ways[:, 1:-1], ways[:, :-2] + skip])
        reached = _at_least(came + g.gather(odds, time, axis=0), lowest)
        return [g.select(g.less_than(time, heard), g.concat([closed, closed, reached], 1), ways)]

    count = steps if isinstance(steps, int) else g.reshape(steps, ())
    last = g.for_(count, initial=[first], body=one_step)[0]
    total = -_log_sum([g.gather_along_axis(1, last, 2 * written + state) for state in (1, 2)])

    # Two equal labels in a row need a blank between them.
    repeated = g.equal(numbers[:, 1:], numbers[:, :-1])
    place = g.coordinate_along_axis(1, shape_of_sizes(numbers, [size_in_run(numbers, 0), size_in_run(numbers, 1)]))
    counted = g.logical_and(repeated, g.less_than(place[:, 1:], written))
    needed = written + g.reduction_sum(g.cast(counted, int32), 1)
    impossible = g.constant(0.0 if zero_infinity else np.inf, dtype=dtype)
    # Logits of -infinity can also rule out every alignment. A NaN stays NaN.
    unreachable = g.logical_and(g.logical_or(g.less_than(heard, needed), total > -lowest / 2), g.equal(total, total))
    losses = g.reshape(g.select(unreachable, impossible, total), [-1])
    if reduction == "mean":
        losses = losses / g.reshape(g.cast(g.maximum(written, 1), dtype), [-1])
    return reduced(losses, reduction)


def _require_fitting(logits: Tensor, labels: Tensor, blank: int, batch_first: bool) -> None:
    axes = "(batch, time, classes)" if batch_first else "(time, batch, classes)"
    if logits.shape is None or len(logits.shape) != 3 or logits.shape[-1] < 1:
        raise ShapeError(f"ctc needs 3-D logits {axes} with a known number of classes, got shape {logits.shape}")
    if not labels.dtype.is_integer:
        raise DTypeError(f"ctc: labels must be integer class indices, got {labels.dtype}")
    rows = logits.shape[0 if batch_first else 1]
    if labels.shape is None or len(labels.shape) != 2 or (min(rows, labels.shape[0]) >= 0 and labels.shape[0] != rows):
        raise ShapeError(
            f"ctc: labels must be 2-D (batch, labels) with a batch of {rows} like the logits, got shape {labels.shape}"
        )
    if not 0 <= blank < logits.shape[-1]:
        raise ShapeError(f"ctc: blank must be a class index from 0 to {logits.shape[-1] - 1}, got {blank}")


def _log_sum(parts: list[Tensor]) -> Tensor:
    """Return the logarithm of the sum of exponentials of finite numbers, or NaN if one of them is NaN."""
    g, most = graph_of(parts[0]), parts[0]
    for part in parts[1:]:
        most = g.maximum_with_nan_propagation(most, part)
    total = g.exponent(parts[0] - most)
    for part in parts[1:]:
        total = total + g.exponent(part - most)
    return most + g.logarithm(total)


def _at_least(x: Tensor, lowest: float) -> Tensor:
    """Replace numbers below a bound by the bound, but not NaN."""
    return graph_of(x).maximum_with_nan_propagation(x, lowest)
