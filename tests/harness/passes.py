"""The text of a program after each compiler pass, and whether the device has integer kernels."""

from __future__ import annotations

from collections.abc import Callable

import mpsgraph as mg
import numpy as np

Program = Callable[[mg.Graph], tuple[dict, list, list]]


def observed(program: Program, disabled: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the text of the program after each pass, in order."""
    g = mg.Graph()
    feeds, targets, operations = program(g)
    seen: dict[str, str] = {}
    options = mg.CompilationDescriptor(disabled_passes=disabled, observe=seen.__setitem__)
    g.compile(feeds, targets, operations, options=options)
    return seen


def integers(g: mg.Graph):
    """Build a convolution, an addition and a clamp between dequantize and quantize operations."""
    q = g.placeholder((1, 2, 2, 4), mg.uint8, name="q")
    r = g.placeholder((1, 2, 2, 2), mg.int8, name="r")
    w = g.dequantize(g.constant(np.ones((1, 1, 4, 2), np.int8), name="i"), g.constant([0.5, 0.25]), axis=3)
    y = g.convolution2d(g.dequantize(q, 0.5, 7), w) + g.constant([1.0, 2.0])
    y = g.relu(y + g.dequantize(r, 0.125))
    return {q: q.shape, r: r.shape}, [g.quantize(y, 0.25, 3, dtype=mg.uint8, name="y")], []


def has_integer_kernels() -> bool:
    """Return whether the device has integer kernels; otherwise it skips the quantize pass."""
    return "quantize" in observed(integers)
