"""A case as a graph of placeholders, its feeds in an element type, run on either kernels, with passes or without."""

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
# All passes but widen, of right numbers, indices, of which some must lie inside, and expand, without which composites
# have no kernel; test_passes holds it to what there is.
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
    """The targets' values: through the cache, or with options through an executable compiled for them."""
    feeds = dict(zip(placeholders, arrays, strict=True))
    if options is None:
        results = graph.run(feeds, list(targets), device=device)
        return [results[t] for t in targets]
    executable = graph.compile({p: a.shape for p, a in feeds.items()}, list(targets), options=options, device=device)
    return executable.run([feeds[p] for p in executable.feeds])


def feed_dtype(array: np.ndarray, dtype: str) -> Any:
    return dtype if typed(array) else str(array.dtype)


def build(case: Case, dtype: str, shapes: Sequence[Any] | None = None) -> Built:
    """The case with placeholders of its inputs' shapes, or of the given ones (-1, None)."""
    graph = mg.Graph()
    shapes = [x.shape for x in case.inputs] if shapes is None else shapes
    placeholders = [
        graph.placeholder(shape, feed_dtype(x, dtype)) for x, shape in zip(case.inputs, shapes, strict=True)
    ]
    return Built(graph, placeholders, case.tensors(graph, *placeholders))


def feeds(inputs: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
    return [dtypes.array(x, dtype) if typed(x) else x for x in inputs]


def expected(case: Case, arrays: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
    """What the oracle makes of the very numbers that are fed."""
    return case.expected(*(dtypes.plain(a, feed_dtype(x, dtype)) for x, a in zip(case.inputs, arrays, strict=True)))


def check(case: Case, results: list[mg.NDArray], wanted: list[np.ndarray], what: str) -> None:
    """Holds what ran against what the oracle says, within the case's tolerance."""
    assert len(results) == len(wanted), what
    for result, numbers in zip(results, wanted, strict=True):
        dtypes.assert_matches(result, numbers, factor=case.tolerance, exact=case.exact, what=f"{case.id} {what}")


def strided(array: np.ndarray) -> np.ndarray:
    """The same numbers in a view that is not contiguous; only of arrays with more than one element."""
    wide = np.zeros((*array.shape, 2), array.dtype)
    wide[..., 0] = array
    return wide[..., 0]
