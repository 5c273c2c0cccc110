"""Translations of window reductions, and of the select-and-scatter and select-and-gather operations in their gradients.

Sums and extrema are computed one axis at a time, with a slice per window position. Pooling of images uses the graph's
pooling operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from ..._core import Tensor
from ._table import Equation, highest, lowest, primitive, shape
from .elementwise import extremum
from .reductions import combination
from .shapes import padded, sliced


class _Window:
    """The windows of a window reduction: sizes, strides, dilations, and the padding of the operand."""

    def __init__(
        self,
        equation: Equation,
        *,
        window_dimensions: Any,
        window_strides: Any,
        padding: Any,
        base_dilation: Any = None,
        window_dilation: Any = None,
    ) -> None:
        self.equation = equation
        self.sizes, self.strides = [int(v) for v in window_dimensions], [int(v) for v in window_strides]
        ones = [1] * len(self.sizes)
        self.base = [int(v) for v in base_dilation or ones]
        self.dilation = [int(v) for v in window_dilation or ones]
        self.padding = [(int(low), int(high)) for low, high in padding]

    def padded(self, x: Tensor, value: Tensor) -> Tensor:
        config = [(low, high, base - 1) for (low, high), base in zip(self.padding, self.base, strict=True)]
        return padded(self.equation, x, value, config)

    def counts(self, x: Tensor) -> list[int]:
        """Return the number of windows along each axis of a padded operand."""
        extents = [(size - 1) * step + 1 for size, step in zip(self.sizes, self.dilation, strict=True)]
        return [
            max((n - extent) // stride + 1, 0)
            for n, extent, stride in zip(shape(x), extents, self.strides, strict=True)
        ]

    def tap(self, x: Tensor, place: Sequence[int], counts: Sequence[int]) -> Tensor:
        """Return, for each window, its element at one position, such as the first row and second column."""
        starts = [p * d for p, d in zip(place, self.dilation, strict=True)]
        ends = [s + (n - 1) * t + 1 for s, n, t in zip(starts, counts, self.strides, strict=True)]
        return sliced(self.equation, x, starts, ends, self.strides)

    def by_axes(self, x: Tensor, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Combine the elements of each window with a binary function, first along one axis, then along the next."""
        counts = self.counts(x)
        for axis, size in enumerate(self.sizes):
            parts = []
            for place in range(size):
                starts, ends, strides = [0] * len(shape(x)), list(shape(x)), [1] * len(shape(x))
                starts[axis] = place * self.dilation[axis]
                ends[axis] = starts[axis] + (counts[axis] - 1) * self.strides[axis] + 1
                strides[axis] = self.strides[axis]
                parts.append(sliced(self.equation, x, starts, ends, strides))
            while len(parts) > 1:
                pairs = [combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
                parts = pairs + parts[len(parts) - len(parts) % 2 :]
            x = parts[0]
        return x


def _simple(
    equation: Equation, x: Tensor, neutral: Any, combine: Callable[[Tensor, Tensor], Tensor], **window: Any
) -> Tensor:
    windows = _Window(equation, **window)
    return windows.by_axes(windows.padded(x, equation.constant(neutral, x.dtype)), combine)


def _image_window(equation: Equation, x: Tensor, parameters: dict[str, Any]) -> dict[str, Any] | None:
    """Return the graph's pooling arguments, or None if the windows are not those of image pooling.

    Image pooling has windows over H and W of (N, H, W, C) without base dilation.
    """
    sizes, strides = parameters["window_dimensions"], parameters["window_strides"]
    pads, base = parameters["padding"], parameters.get("base_dilation") or (1,) * len(sizes)
    dilation = parameters.get("window_dilation") or (1,) * len(sizes)
    if len(sizes) != 4 or not x.dtype.is_float or x.dtype.itemsize == 8:
        return None
    outer = [sizes[0], sizes[3], strides[0], strides[3], dilation[0], dilation[3]]
    if any(v != 1 for v in outer) or any(v != 1 for v in base) or any(tuple(pads[a]) != (0, 0) for a in (0, 3)):
        return None
    extents = [(int(sizes[a]) - 1) * int(dilation[a]) + 1 for a in (1, 2)]
    inside = all(0 <= v < e for a, e in zip((1, 2), extents, strict=True) for v in pads[a])
    if not inside or math.prod(sizes) == 1:
        return None
    return {
        "kernel": [int(sizes[a]) for a in (1, 2)],
        "strides": [int(strides[a]) for a in (1, 2)],
        "dilations": [int(dilation[a]) for a in (1, 2)],
        "padding": tuple((int(pads[a][0]), int(pads[a][1])) for a in (1, 2)),
    }


@primitive("reduce_window_sum")
def reduce_window_sum(equation: Equation, x: Tensor, **window: Any) -> Tensor:
    return _simple(equation, x, 0, equation.g.addition, **window)


@primitive.rows({"reduce_window_max": True, "reduce_window_min": False})
def reduce_window_extremum(equation: Equation, largest: bool, x: Tensor, **window: Any) -> Tensor:
    neutral = lowest(x.dtype) if largest else highest(x.dtype)
    return _simple(equation, x, neutral, lambda a, b: extremum(equation, a, b, largest), **window)


@primitive("reduce_window")
def reduce_window(
    equation: Equation,
    *operands: Tensor,
    jaxpr: Any,
    consts: Any,
    **parameters: Any,
) -> list[Tensor]:
    """Translate reduce_window for any function: start with the initial values, and combine one window position at a
    time.
    """
    count = len(operands) // 2
    window = _Window(equation, **parameters)
    combine = combination(equation, jaxpr, consts)
    wide = [window.padded(x, first) for x, first in zip(operands[:count], operands[count:], strict=True)]
    counts = window.counts(wide[0])
    found = [equation.g.broadcast_to(first, counts) for first in operands[count:]]
    for place in list(product(*map(range, window.sizes))):
        found = combine(found, [window.tap(x, place, counts) for x in wide])
    return found


def _chosen(
    equation: Equation, x: Tensor, window: _Window, select: Any
) -> tuple[list[int], list[tuple[tuple[int, ...], Tensor]]]:
    """Find the element that `select` prefers in each window: the first of equal elements, and NaN before all numbers.

    Returns the number of windows along each axis and, for each position in a window, a mask of the windows whose
    element at this position is selected.
    """
    g = equation.g
    largest = "ge" in getattr(select, "name", str(select))
    neutral = lowest(x.dtype) if largest else highest(x.dtype)
    wide = window.padded(x, equation.constant(neutral, x.dtype))
    counts = window.counts(wide)
    best: Tensor | None = None
    place_of_best: Tensor | None = None
    places = list(product(*map(range, window.sizes)))
    for number, place in enumerate(places):
        tap = window.tap(wide, place, counts)
        if best is None or place_of_best is None:
            best, place_of_best = tap, equation.constant(0, "int32", counts)
            continue
        better = (g.greater_than if largest else g.less_than)(tap, best)
        place_of_best = g.select(better, equation.constant(number, "int32"), place_of_best)
        best = g.select(better, tap, best)
    assert place_of_best is not None
    chosen = [
        (place, g.equal(place_of_best, equation.constant(number, "int32"))) for number, place in enumerate(places)
    ]
    return counts, chosen


@primitive("select_and_scatter_add")
def select_and_scatter_add(
    equation: Equation,
    source: Tensor,
    x: Tensor,
    *,
    select_prim: Any,
    **parameters: Any,
) -> Tensor:
    """Translate select_and_scatter_add, the gradient of window extrema.

    Each source element is added at the position of its window's extremum.
    """
    g, window = equation.g, _Window(equation, **parameters)
    add = g.logical_or if source.dtype.name == "bool" else g.addition
    if 0 in shape(source):
        return equation.constant(0, x.dtype, equation.shape)
    image = _image_window(equation, x, parameters)
    if image is not None and "ge" in getattr(select_prim, "name", str(select_prim)):
        return g.max_pooling2d_gradient(source, x, **image)
    counts, chosen = _chosen(equation, x, window, select_prim)
    wide = [n + low + high for n, (low, high) in zip(shape(x), window.padding, strict=True)]
    total: Tensor | None = None
    zero = equation.constant(0, source.dtype)
    for place, here in chosen:
        part = g.select(here, source, zero)
        ends = [p + (n - 1) * t + 1 for p, n, t in zip(place, counts, window.strides, strict=True)]
        spread = padded(
            equation, part, zero,
            [(p, w - e, t - 1) for p, w, e, t in zip(place, wide, ends, window.strides, strict=True)],
        )  # fmt: skip
        total = spread if total is None else add(total, spread)
    assert total is not None
    starts = [low for low, _ in window.padding]
    return sliced(equation, total, starts, [s + n for s, n in zip(starts, shape(x), strict=True)])


@primitive("select_and_gather_add")
def select_and_gather_add(
    equation: Equation,
    tangents: Tensor,
    x: Tensor,
    *,
    select_prim: Any,
    **parameters: Any,
) -> Tensor:
    """Translate select_and_gather_add, which returns the tangent at the position of each window's extremum."""
    g = equation.g
    window = _Window(equation, **parameters)
    counts, chosen = _chosen(equation, x, window, select_prim)
    zero = equation.constant(0, tangents.dtype)
    wide = window.padded(tangents, zero)
    total: Tensor | None = None
    for place, here in chosen:
        part = g.select(here, window.tap(wide, place, counts), zero)
        total = part if total is None else g.addition(total, part)
    assert total is not None
    return total
