"""Discrete Fourier transforms of the array API. The frontends use `transform`, `real_transform`, and
`real_inverse`, which work around the graph's limit of four axes for one operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core import NDArray, Tensor
from .._display import shown
from .._dtypes import DTypeLike, as_dtype
from ..errors import DTypeError, GraphError, ShapeError
from ..graph import Graph
from ._creation import _array
from ._manipulation import axes_of, roll
from ._operation import cast_to, graph_of, operation, shape_of
from ._promotion import DEFAULT_FLOAT, check_device, complex_of, floating

Array = NDArray | Tensor
MOST = 4
"""Maximum number of axes that one Fourier transform operation of the graph supports."""


# --- transforms of tensors, for the functions below and the frontends ----------------------------------------------
def transform(g: Graph, x: Tensor, axes: Sequence[int], scaling: str, inverse: bool) -> Tensor:
    """Transform a complex tensor along any number of axes. scaling is "none", "size", or "unitary"."""
    for first in range(0, len(axes), MOST):
        part = list(axes[first : first + MOST])
        x = g.fast_fourier_transform(x, part, inverse=inverse, scaling=scaling)  # type: ignore[arg-type]
    return x


def real_transform(g: Graph, x: Tensor, axes: Sequence[int], scaling: Any, inverse: bool = False) -> Tensor:
    """Transform a real tensor. The result has the first half of the points along the last of the axes."""
    *others, last = axes
    return transform(g, g.real_to_hermitean_fft(x, last, scaling=scaling, inverse=inverse), others, scaling, inverse)


def real_inverse(g: Graph, x: Tensor, axes: Sequence[int], scaling: Any, count: int, inverse: bool = True) -> Tensor:
    """Transform a Hermitian tensor, given by half of its points along the last of the axes, to `count` real points."""
    *others, last = axes
    half = transform(g, x, others, scaling, inverse)
    odd = count % 2 == 1
    return g.hermitean_to_real_fft(half, last, inverse=inverse, scaling=scaling, round_to_odd_hermitean=odd)


# --- the array API ----------------------------------------------------------------------------------------------------
def _scaling(norm: str, inverse: bool) -> str:
    if norm not in ("backward", "ortho", "forward"):
        raise GraphError(f'norm must be "backward", "ortho", or "forward", got {shown(norm)}')
    return "unitary" if norm == "ortho" else "size" if (norm == "backward") == inverse else "none"


def _resized(x: Tensor, count: int | None, axis: int) -> Tensor:
    """Cut or zero-pad an axis to a number of points."""
    g, shape = graph_of(x), list(shape_of(x, "fft"))
    if count is None or count == shape[axis]:
        return x
    if count < 1:
        raise ShapeError(f"the number of points must be positive, got {count}")
    if count < shape[axis]:
        return g.slice_axis(x, axis, 0, count)
    shape[axis] = count - shape[axis]
    return g.concat([x, g.constant(0, shape, x.dtype)], axis)


def _axes(x: Tensor, s: Any, axes: Any, what: str) -> tuple[list[int], list[int | None]]:
    rank = len(shape_of(x, what))
    if axes is None:
        axes = tuple(range(rank - len(s), rank)) if s is not None else tuple(range(rank))
    found = axes_of(tuple(axes), rank, what)
    counts: list[int | None] = [None] * len(found) if s is None else [None if n == -1 else int(n) for n in s]
    if len(counts) != len(found) or not found:
        raise ShapeError(f"{what}: s must have one number for each axis, got {shown(s)} and axes {shown(axes)}")
    return found, counts


@operation("x")
def _complex(x: Any, s: Any, axes: Any, norm: str, inverse: bool, what: str) -> Any:
    places, counts = _axes(x, s, axes, what)
    x = cast_to(x, complex_of(floating(x.dtype)))
    for axis, count in zip(places, counts, strict=True):
        x = _resized(x, count, axis)
    if 0 in shape_of(x, what):
        raise ShapeError(f"{what} requires at least one point along each axis, got shape {x.shape}")
    return transform(graph_of(x), x, places, _scaling(norm, inverse), inverse)


@operation("x")
def _real(x: Any, s: Any, axes: Any, norm: str, inverse: bool, what: str) -> Any:
    if x.dtype.is_complex:
        raise DTypeError(f"{what} requires a real array, got {x.dtype}: use fft")
    places, counts = _axes(x, s, axes, what)
    x = cast_to(x, floating(x.dtype))
    for axis, count in zip(places, counts, strict=True):
        x = _resized(x, count, axis)
    if 0 in shape_of(x, what):
        raise ShapeError(f"{what} requires at least one point along each axis, got shape {x.shape}")
    return real_transform(graph_of(x), x, places, _scaling(norm, inverse), inverse)


@operation("x")
def _hermitian(x: Any, s: Any, axes: Any, norm: str, inverse: bool, what: str) -> Any:
    places, counts = _axes(x, s, axes, what)
    x = cast_to(x, complex_of(floating(x.dtype)))
    *others, last = places
    *sizes, count = counts
    count = 2 * (shape_of(x, what)[last] - 1) if count is None else count
    if count < 1:
        raise ShapeError(f"{what} requires at least one point in the result, got {count}")
    for axis, size in zip(others, sizes, strict=True):
        x = _resized(x, size, axis)
    x = _resized(x, count // 2 + 1, last)
    return real_inverse(graph_of(x), x, places, _scaling(norm, inverse), count, inverse)


def fft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    return _complex(x, None if n is None else (n,), (axis,), norm, False, "fft")


def ifft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    return _complex(x, None if n is None else (n,), (axis,), norm, True, "ifft")


def fftn(
    x: Array, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Any:
    return _complex(x, s, axes, norm, False, "fftn")


def ifftn(
    x: Array, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Any:
    return _complex(x, s, axes, norm, True, "ifftn")


def rfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    return _real(x, None if n is None else (n,), (axis,), norm, False, "rfft")


def irfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    return _hermitian(x, None if n is None else (n,), (axis,), norm, True, "irfft")


def rfftn(
    x: Array, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Any:
    return _real(x, s, axes, norm, False, "rfftn")


def irfftn(
    x: Array, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Any:
    return _hermitian(x, s, axes, norm, True, "irfftn")


def hfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    return _hermitian(x, None if n is None else (n,), (axis,), norm, False, "hfft")


def ihfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    return _real(x, None if n is None else (n,), (axis,), norm, True, "ihfft")


_ONE = """
    n: Number of points. The axis is cut or padded with zeros. None, the default, means its size{size}.
    axis: The axis. Defaults to the last."""
_SEVERAL = """
    s: Number of points along each axis, which is cut or padded with zeros. None, the default, means its size{size}.
    axes: The axes. None, the default, means the last len(s), or all."""
_LIKE_REAL = " for the input, and 2 (size - 1) for the last axis of the result"
for _function, _summary, _several, _size, _call, _value in (
    (fft, "Compute the discrete Fourier transform along an axis.", False, "", "[1.0, 0.0]", "[(1+0j), (1+0j)]"),
    (ifft, "Compute the inverse discrete Fourier transform along an axis.", False, "", "[1.0, 1.0]", "[(1+0j), 0j]"),
    (fftn, "Compute the discrete Fourier transform along several axes.", True, "", "[[1.0, 0.0]]",
     "[[(1+0j), (1+0j)]]"),
    (ifftn, "Compute the inverse discrete Fourier transform along several axes.", True, "", "[[1.0, 1.0]]",
     "[[(1+0j), 0j]]"),
    (rfft, "Compute the discrete Fourier transform of a real array along an axis, without the points that follow from "
     "symmetry.", False, "", "[1.0, 0.0, 0.0]", "[(1+0j), (1+0j)]"),
    (irfft, "Compute the inverse of `rfft`.", False, _LIKE_REAL, "[1.0, 1.0]", "[1.0, 0.0]"),
    (rfftn, "Compute the discrete Fourier transform of a real array along several axes, without the points that follow "
     "from symmetry along the last of them.", True, "", "[[1.0, 0.0]]", "[[(1+0j), (1+0j)]]"),
    (irfftn, "Compute the inverse of `rfftn`.", True, _LIKE_REAL, "[[1.0, 1.0]]", "[[1.0, 0.0]]"),
    (hfft, "Compute the real discrete Fourier transform of a Hermitian array along an axis.", False, _LIKE_REAL,
     "[1.0, 0.0]", "[1.0, 1.0]"),
    (ihfft, "Compute the inverse of `hfft`.", False, "", "[1.0, 1.0]", "[(1+0j), 0j]"),
):  # fmt: skip
    _arguments = (_SEVERAL if _several else _ONE).format(size=_size)
    _function.__doc__ = f"""{_summary}

Args:
    x: Array or tensor of at least one point along each transformed axis; integers become float32.{_arguments}
    norm: "backward" (the default) scales the inverse transform by 1 / n, "forward" the other, and "ortho" both by
        1 / sqrt(n).

Returns:
    An array, {"real" if _function in (irfft, irfftn, hfft) else "complex"}.

Raises:
    ShapeError: If an axis is out of range or empty.
    GraphError: If norm is unknown.

Example:
    >>> import mpsgraph.numpy as mnp
    >>> (mnp.fft.{_function.__name__}({_call}) + 0).tolist()
    {_value}
"""


def _frequencies(places: np.ndarray, n: int, d: float, dtype: DTypeLike | None, device: Any) -> NDArray:
    check_device(device)
    return _array(places / (n * d), DEFAULT_FLOAT if dtype is None else as_dtype(dtype))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: Any = None) -> NDArray:
    """Return the frequencies of the points of a discrete Fourier transform.

    Args:
        n: Number of points.
        d: Distance of the samples. Defaults to 1.
        dtype: dtype of the result. None, the default, means float32.
        device: None, the default, or the default device.

    Returns:
        An NDArray of shape (n,).

    Raises:
        DeviceError: If the device is not the default device.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.fft.fftfreq(4).tolist()
        [0.0, 0.25, -0.5, -0.25]
    """
    places = np.arange(n)
    return _frequencies(np.where(places < (n + 1) // 2, places, places - n), n, d, dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: Any = None) -> NDArray:
    """Return the frequencies of the points of a discrete Fourier transform of a real array.

    Args:
        n: Number of points of the real array.
        d: Distance of the samples. Defaults to 1.
        dtype: dtype of the result. None, the default, means float32.
        device: None, the default, or the default device.

    Returns:
        An NDArray of shape (n // 2 + 1,).

    Raises:
        DeviceError: If the device is not the default device.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.fft.rfftfreq(4).tolist()
        [0.0, 0.25, 0.5]
    """
    return _frequencies(np.arange(n // 2 + 1), n, d, dtype, device)


def _shifted(x: Array, axes: int | Sequence[int] | None, forward: bool) -> Any:
    shape = shape_of(x, "fftshift")
    places = axes_of(axes, len(shape), "fftshift")
    return roll(x, tuple(shape[a] // 2 if forward else -(shape[a] // 2) for a in places), axis=tuple(places))


def fftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Any:
    """Move the point of frequency 0 to the middle of each axis.

    Args:
        x: Array or tensor.
        axes: The axis or axes. None, the default, means all.

    Returns:
        An array with the shape and dtype of x.

    Raises:
        ShapeError: If an axis is out of range.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.fft.fftshift(mnp.asarray([0, 1, -2, -1])).tolist()
        [-2, -1, 0, 1]
    """
    return _shifted(x, axes, True)


def ifftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Any:
    """Undo `fftshift`.

    Args:
        x: Array or tensor.
        axes: The axis or axes. None, the default, means all.

    Returns:
        An array with the shape and dtype of x.

    Raises:
        ShapeError: If an axis is out of range.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.fft.ifftshift(mnp.asarray([-2, -1, 0, 1])).tolist()
        [0, 1, -2, -1]
    """
    return _shifted(x, axes, False)


__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]
