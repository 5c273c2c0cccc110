"""A warning when batches have more different sizes than the number of compiled programs that a graph keeps.

A program is compiled for each size of the inputs, and a graph keeps a limited number of compiled programs. Without the
warning, users could not see why batches of many sizes are slow.
"""

from __future__ import annotations

import warnings

from .._core import DeviceGraph


class Sizes:
    """The sizes of the batches that a trainer has used."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._last: object = None
        self._warned = False

    def notice(self, shapes: object, runner: object) -> None:
        """Record the shapes of a batch, and warn once when there are more sizes than the graph keeps programs.

        Args:
            shapes: Shapes of the arrays of a batch.
            runner: The object that runs the graph. Engines have no limit.
        """
        if self._warned or self._last == shapes:
            return
        self._last = shapes
        self._seen.add(str(shapes))
        if len(self._seen) <= 32:  # This is below any useful limit, so skip reading the limit.
            return
        limit = runner.cache.count_limit if isinstance(runner, DeviceGraph) else None
        if limit is not None and len(self._seen) > limit:
            self._warned = True
            warnings.warn(
                f"batches have had more than {limit} different sizes; each size is compiled separately, and only "
                f"{limit} compiled programs are kept, so steps with other sizes are slow: pad batches to a few sizes, "
                "for example with mg.data.bucketed, or keep more programs with "
                "trainer.graph.set_cache_limits(count, bytes)",
                stacklevel=5,
            )
