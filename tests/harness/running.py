"""Build cases as graphs of placeholders and run them in a dtype.

Runs may use optimized or reference kernels, with or without compiler passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mpsgraph as mg
import numpy as np

from . import dtypes
from .case import Case, typed

REFERENCE = mg.CompilationDescriptor(reference_kernels=True)
OPTIMISED = mg.CompilationDescriptor()
# All passes except three: widen, which correct results require; indices, which clips or checks out-of-range indices;
# and expand, without which composite operations have no kernel. test_passes checks that the list is complete.
OPTIONAL_PASSES = (
    "prune", "channels_last", "quantize", "normalize", "fold", "simplify", "absorb", "fuse", "fuse_elementwise",
    "schedule",
)  # fmt: skip
AS_WRITTEN = mg.CompilationDescriptor(disabled_passes=OPTIONAL_PASSES)


@dataclass
class Built:
    """A case as a graph: one placeholder for each input, and the results."""

    graph: mg.Graph
    placeholders: list[mg.Tensor]
    results: list[mg.Tensor]

    def run(self, arrays: Sequence[np.ndarray], options: mg.CompilationDescriptor | None = None) -> list[mg.NDArray]:
        return run(self.graph, self.placeholders, arrays, self.results, options)


def run(
    graph: mg.Graph,
    placeholders: Sequence[mg.Tensor],
    arrays: Sequence[np.ndarray],
    targets: Sequence[mg.Tensor],
    options: mg.CompilationDescriptor | None = None,
    device: str | None = None,
) -> list[mg.NDArray]:
    """Return the values of the targets.

    With options, an executable is compiled for them instead of using the graph's cache.
    """
    feeds = dict(zip(placeholders, arrays, strict=True))
    if options is None:
        results = graph.run(feeds, list(targets), device=device)
        return [results[t] for t in targets]
    executable = graph.compile({p: a.shape for p, a in feeds.items()}, list(targets), options=options, device=device)
    return executable.run([feeds[p] for p in executable.feeds])


def feed_dtype(array: np.ndarray, dtype: str) -> Any:
    return dtype if typed(array) else str(array.dtype)


def build(case: Case, dtype: str, shapes: Sequence[Any] | None = None) -> Built:
    """Build a case with placeholders of its inputs' shapes, or of the given shapes, which may be dynamic or unknown."""
    graph = mg.Graph()
    shapes = [x.shape for x in case.inputs] if shapes is None else shapes
    placeholders = [
        graph.placeholder(shape, feed_dtype(x, dtype)) for x, shape in zip(case.inputs, shapes, strict=True)
    ]
    return Built(graph, placeholders, case.tensors(graph, *placeholders))


def feeds(inputs: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
    return [dtypes.array(x, dtype) if typed(x) else x for x in inputs]


def expected(case: Case, arrays: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
    """Return the expected results for exactly the numbers that are fed."""
    return case.expected(*(dtypes.plain(a, feed_dtype(x, dtype)) for x, a in zip(case.inputs, arrays, strict=True)))


def check(case: Case, results: list[mg.NDArray], wanted: list[np.ndarray], what: str) -> None:
    """Check results against the expected ones within the tolerance of the case."""
    assert len(results) == len(wanted), what
    for result, numbers in zip(results, wanted, strict=True):
        dtypes.assert_matches(result, numbers, factor=case.tolerance, exact=case.exact, what=f"{case.id} {what}")


def strided(array: np.ndarray) -> np.ndarray:
    """Return the same numbers as a non-contiguous view; it is only non-contiguous with more than one element."""
    wide = np.zeros((*array.shape, 2), array.dtype)
    wide[..., 0] = array
    return wide[..., 0]
