"""Translations of image resizing.

Along each axis, the image is multiplied by a constant matrix with one row per output element and one column per input
element, or, for nearest neighbors, its elements are gathered. The backward pass uses the transposed matrix. Source
positions are computed in float32, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core import Tensor
from ...interchange.resizing import cubic_weights
from ._table import Call, aten, shape_of
from .pooling import along

Scale = float | None
Matrix = Callable[[int, int, bool, Scale], np.ndarray]
"""Function that builds the matrix of an interpolation mode, with one row of weights per output element.

Its arguments are (number of input elements, number of output elements, align_corners, scale).
"""


def _step(inner: int, out: int, align: bool, scale: Scale) -> np.float32:
    if align:
        return np.float32((inner - 1) / (out - 1) if out > 1 else 0)
    return np.float32(1 / scale if scale else inner / out)


def _picks(inner: int, places: np.ndarray) -> np.ndarray:
    found = np.zeros((len(places), inner))
    found[np.arange(len(places)), np.clip(places, 0, inner - 1)] = 1
    return found


def _nearest(inner: int, out: int, align: bool, scale: Scale) -> np.ndarray:
    places = np.floor(np.arange(out, dtype=np.float32) * _step(inner, out, False, scale))
    return _picks(inner, places.astype(int))


def _nearest_exact(inner: int, out: int, align: bool, scale: Scale) -> np.ndarray:
    places = np.floor((np.arange(out, dtype=np.float32) + np.float32(0.5)) * _step(inner, out, False, scale))
    return _picks(inner, places.astype(int))


def _sources(inner: int, out: int, align: bool, scale: Scale, cubic: bool) -> np.ndarray:
    step, number = _step(inner, out, align, scale), np.arange(out, dtype=np.float32)
    if align:
        return number * step
    places = (number + np.float32(0.5)) * step - np.float32(0.5)
    return places if cubic else np.maximum(places, np.float32(0))


def _linear(inner: int, out: int, align: bool, scale: Scale) -> np.ndarray:
    places = _sources(inner, out, align, scale, False)
    low = np.minimum(places.astype(int), inner - 1)
    share = np.clip(places - low, 0, 1)[:, None]
    return _picks(inner, low) * (1 - share) + _picks(inner, low + 1) * share


def _cubic(inner: int, out: int, align: bool, scale: Scale) -> np.ndarray:
    places = _sources(inner, out, align, scale, True)
    low = np.floor(places)
    found = np.zeros((out, inner))
    for offset in range(-1, 3):
        weight = cubic_weights(places - low - offset, -0.75)
        found += _picks(inner, (low + offset).astype(int)) * weight[:, None]
    return found


def _antialiased(weight: Callable[[np.ndarray], np.ndarray], reach: float) -> Matrix:
    """Return a function that builds the matrix of an interpolation mode with antialiasing.

    Interpolation windows become wider when the image shrinks, and their weights are normalized.
    """

    def matrix(inner: int, out: int, align: bool, scale: Scale) -> np.ndarray:
        step = float(_step(inner, out, align, scale))
        wide = max(step, 1.0)
        found = np.zeros((out, inner))
        for i in range(out):
            centre = step * (i + 0.5)
            begin = max(int(centre - reach * wide + 0.5), 0)
            end = min(int(centre + reach * wide + 0.5), inner)
            row = weight((np.arange(begin, end) - centre + 0.5) / wide)
            found[i, begin:end] = row / row.sum() if row.sum() else row
        return found

    return matrix


def _lanczos(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0.0)


def _applied(call: Call, x: Tensor, matrices: Sequence[np.ndarray]) -> Tensor:
    for axis, matrix in enumerate(matrices):
        place = len(shape_of(x)) - len(matrices) + axis
        if matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix))):
            continue
        if (np.count_nonzero(matrix, 1) == 1).all() and (matrix.max(1) == 1).all():
            x = call.g.gather(x, call.g.constant(matrix.argmax(1).astype(np.int32)), place)
        else:
            x = along(call, x, place, matrix)
    return x


def _scales(call: Call, given: Sequence[Any], count: int) -> list[Scale]:
    """Return one scale per axis from the trailing arguments of a resize operation.

    Overloads that specify output sizes pass the scales as separate arguments, and other overloads pass a list of
    scales.
    """
    if given and isinstance(given[-1], (list, tuple)):
        return [float(scale) for scale in given[-1]]
    numbers = list(given[-count:]) if len(given) >= count else [None] * count
    return [float(n) if isinstance(n, (int, float)) and not isinstance(n, bool) else None for n in numbers]


def _enter(name: str, matrix: Matrix, aligned: bool) -> None:
    count = int(name.split("d")[0][-1]) if name[-1] == "d" else int(name[name.index("d_aa") - 1])

    def matrices(call: Call, inner: Sequence[int], out: Sequence[int], rest: Sequence[Any]) -> list[np.ndarray]:
        align = bool(rest[0]) if aligned and rest else False
        scales = _scales(call, rest[1:] if aligned else rest, count)
        return [matrix(n, o, align, s) for n, o, s in zip(inner, out, scales, strict=True)]

    def forward(call: Call, x: Tensor, size: Any = None, *rest: Any) -> Tensor:
        return _applied(call, x, matrices(call, shape_of(x)[-count:], call.sizes[-count:], rest))

    def backward(call: Call, incoming: Tensor, out: Any, sizes: Sequence[int], *rest: Any) -> Tensor:
        each = matrices(call, list(sizes)[-count:], shape_of(incoming)[-count:], rest)
        return _applied(call, incoming, [np.ascontiguousarray(m.T) for m in each])

    aten(name)(forward)
    aten(f"{name}_backward")(backward)


for _count in (1, 2, 3):
    _enter(f"upsample_nearest{_count}d", _nearest, False)
    _enter(f"_upsample_nearest_exact{_count}d", _nearest_exact, False)
for _name in ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"):
    _enter(_name, _linear, True)
_enter("upsample_bicubic2d", _cubic, True)
_enter("_upsample_bilinear2d_aa", _antialiased(lambda x: np.maximum(1 - np.abs(x), 0), 1.0), True)
_enter("_upsample_bicubic2d_aa", _antialiased(lambda x: cubic_weights(x, -0.5), 2.0), True)
_enter("_upsample_lanczos2d_aa", _antialiased(_lanczos, 3.0), True)
