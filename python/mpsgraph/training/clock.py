"""Clock: variables of a graph that replace values which Python computes for a trainer."""

from __future__ import annotations

from dataclasses import dataclass, field

from .._core import Operation, Tensor


@dataclass(eq=False)
class Clock:
    """Step counters and learning-rate tables, which packages need.

    They are created once and set each time a package is saved. Checkpoints store the step count and the rates in
    another form.
    """

    step: Tensor
    first_update: Tensor
    last_row: Tensor
    count: Operation
    tables: dict[tuple[int, int], tuple[Tensor, Tensor]] = field(default_factory=dict)
    """Learning-rate tables, keyed by (schedule index, length).

    Each value is a pair of the table's variable and a tensor with the rates that the next update uses.
    """
