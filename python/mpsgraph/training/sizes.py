"""A warning when batches have more different sizes than the number of compiled programs that a graph keeps.

A program is compiled for each size of the inputs, and a graph keeps a limited number of compiled programs. Without the
warning, users could not see why batches of many sizes are slow.
"""

from __future__ import annotations

import warnings
from typing import Any

from .trainer_type import Trainer


class Sizes:
    """The sizes of the batches that a trainer has used."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.last: Any = None
        self.warned = False


def notice_size(trainer: Trainer, shapes: Any) -> None:
    """Record the shapes of a batch, and warn once when there are more sizes than the graph keeps programs.

    Args:
        trainer: The trainer or trainable model.
        shapes: Shapes of the arrays of a batch.
    """
    sizes: Sizes = trainer._sizes
    if sizes.warned or sizes.last == shapes:
        return
    sizes.last = shapes
    sizes.seen.add(str(shapes))
    if len(sizes.seen) <= 32:  # This is below any useful limit, so skip reading the limit.
        return
    runner = trainer._runner()
    limit = getattr(getattr(runner, "cache", None), "count_limit", None)
    if limit is not None and len(sizes.seen) > limit:
        sizes.warned = True
        warnings.warn(
            f"batches have had more than {limit} different sizes; each size is compiled separately, and only {limit} "
            "compiled programs are kept, so steps with other sizes are slow: pad batches to a few sizes, for example "
            "with mg.data.bucketed, or keep more programs with trainer.graph.set_cache_limits(count, bytes)",
            stacklevel=5,
        )
