"""Marks for operations whose results the backward pass computes again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ._core import Graph


@contextmanager
def recomputed(graph: Graph) -> Iterator[None]:
    """Mark the operations that are created in a `with` block, so that gradients compute their results again."""
    graph.create("recomputation_begin", ())
    try:
        yield
    finally:
        graph.create("recomputation_end", ())
