"""Translations of window functions, Fourier transforms, and mel filter banks."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from ..._core import Tensor, float64
from ...errors import ShapeError
from ..building.node import Node, Results, operator
from ._compose import counted
from .shapes import padded

_WINDOWS = {  # Coefficients a of the window a[0] - a[1] cos(2 pi n / N) + a[2] cos(4 pi n / N), where n is the index.
    "HannWindow": (0.5, 0.5),
    "HammingWindow": (25 / 46, 21 / 46),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@operator(*_WINDOWS, upto=17)
def window(node: Node) -> Results:
    size = int(node.scalar(0, 0))
    count = size if node.attribute("periodic", 1) else size - 1
    phase = 2 * math.pi * counted(size) / max(count, 1)
    values = sum((-1) ** k * a * np.cos(k * phase) for k, a in enumerate(_WINDOWS[node.name]))
    return node.g.constant(np.asarray(values, np.float64), dtype=node.dtype_attribute("output_datatype", 1))


def _transform(node: Node, x: Tensor, axis: int, length: int | None, inverse: bool, onesided: bool) -> Tensor:
    """Return the discrete Fourier transform of x along an axis.

    The last axis of x has size 1 for real numbers, or size 2 for the real and imaginary parts. A `length` of None means
    the length of x.
    """
    g, dtype, rank = node.g, x.dtype, node.rank(x)
    if axis == rank - 1:
        raise ShapeError("axis must not be the last axis, which holds real and imaginary parts")
    x = node.cast(x, float64)
    # Compute in float64, because values that cancel then stay close to zero.
    x = x if length is None else _of_length(node, x, axis, length)
    parts = [g.squeeze(part, [rank - 1]) for part in g.split(x, node.size(x, rank - 1), rank - 1)]
    scaling: Literal["none", "size"] = "size" if inverse else "none"
    if onesided and len(parts) == 1:
        y = g.real_to_hermitean_fft(parts[0], axis, inverse=inverse, scaling=scaling)
    else:
        z = parts[0] if len(parts) == 1 else g.complex_tensor(parts[0], parts[1])
        y = g.fast_fourier_transform(z, axis, inverse=inverse, scaling=scaling)
        length = node.size(x, axis) if onesided and length is None else length
        y = g.slice_axis(y, axis, 0, length // 2 + 1) if onesided and length is not None else y
    return node.cast(g.stack([g.real_part(y), g.imaginary_part(y)], rank - 1), dtype)


def _of_length(node: Node, x: Tensor, axis: int, length: int) -> Tensor:
    """Crop x or pad it with zeros to a length along an axis."""
    size, rank = node.size(x, axis), node.rank(x)
    if size > length:
        return node.g.slice_axis(x, axis, 0, length)
    return padded(node, x, [0] * rank, [length - size if a == axis else 0 for a in range(rank)])


@operator("DFT", upto=20)
def fourier_transform(node: Node) -> Results:
    x = node.tensor(0)
    axis = node.attribute("axis", 1) if node.version < 20 else int(node.scalar(2, -2))
    axis = node.axis(x, axis)
    inverse, onesided = bool(node.attribute("inverse", 0)), bool(node.attribute("onesided", 0))
    if inverse and onesided:  # The missing half of the spectrum is the complex conjugate of the given half.
        return _from_half(node, x, axis, int(node.scalar(1, 2 * (node.size(x, axis) - 1))))
    length = int(node.scalar(1, 0)) if node.has(1) else None
    return _transform(node, x, axis, length, inverse, onesided)


def _from_half(node: Node, x: Tensor, axis: int, length: int) -> Tensor:
    """Return the inverse of a one-sided Fourier transform, which holds half of the spectrum of a real signal."""
    g, rank = node.g, node.rank(x)
    half = _of_length(node, node.cast(x, float64), axis, length // 2 + 1)
    real, imaginary = (g.squeeze(part, [rank - 1]) for part in g.split(half, 2, rank - 1))
    z, odd = g.complex_tensor(real, imaginary), bool(length % 2)
    y = g.hermitean_to_real_fft(z, axis, inverse=True, scaling="size", round_to_odd_hermitean=odd)
    return node.cast(g.expand_dims(y, rank - 1), x.dtype)


@operator("STFT", upto=17)
def short_time_transform(node: Node) -> Results:
    """Translate STFT, which transforms windowed frames of a signal. Consecutive frames begin `frame_step` apart."""
    g, x = node.g, node.tensor(0)
    step = int(node.scalar(1, 0))
    if node.rank(x) == 2:
        x = g.expand_dims(x, 2)
    length = int(node.scalar(3, node.size(node.tensor(2), 0) if node.has(2) else 0))
    size = node.dims(x)[1]
    if step < 1 or length < 1 or 0 <= size < length:
        raise ShapeError(
            "frame_step must be positive and frame_length between 1 and the length of the signal, "
            f"got frame_step {step}, frame_length {length}, and a signal of {size} elements"
        )
    last = node.dim(x, 1)
    if isinstance(last, Tensor):
        count: int | Tensor = g.addition(g.division(g.subtraction(last, length), step), 1)
    else:
        count = (last - length) // step + 1
    shape = node.joined([count, length])
    index = g.addition(g.multiplication(g.coordinate_along_axis(0, shape), step), g.coordinate_along_axis(1, shape))
    frames = g.gather(x, index, 1)
    if node.has(2):
        frames = g.multiplication(frames, g.reshape(node.tensor(2), [-1, 1]))
    onesided = bool(node.attribute("onesided", 1)) and node.size(x, 2) == 1
    return _transform(node, frames, 2, length, False, onesided)


@operator("MelWeightMatrix", upto=17)
def mel_weights(node: Node) -> Results:
    """Translate MelWeightMatrix: triangular filters over DFT bins, with corners equally spaced on the mel scale.

    As in ONNX's definition, the last corner is one step below the upper edge.
    """
    bands, length, rate = int(node.scalar(0, 0)), int(node.scalar(1, 0)), int(node.scalar(2, 0))
    low, high = float(node.scalar(3, 0.0)), float(node.scalar(4, 0.0))

    def mel(hertz: float) -> float:
        return 2595 * math.log10(1 + hertz / 700)

    parts = counted(bands + 2) / (bands + 2)
    edges = 700 * (10 ** ((mel(low) + (mel(high) - mel(low)) * parts) / 2595) - 1)
    bins = np.floor((length + 1) * edges / rate).astype(np.int64)
    places = counted(length // 2 + 1, np.int64)[:, None]
    left, centre, right = bins[:-2], bins[1:-1], bins[2:]
    rising = np.where((places >= left) & (places < centre), (places - left) / np.maximum(centre - left, 1), 0)
    falling = np.where((places > centre) & (places < right), (right - places) / np.maximum(right - centre, 1), 0)
    weights = rising + (places == centre) + falling
    return node.g.constant(weights, dtype=node.dtype_attribute("output_datatype", 1))
