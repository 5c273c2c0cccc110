"""Filters with windows, each with a reference formula in numpy.

These are convolutions, fully connected layers, pooling, and local normalizations.

The window positions are computed independently of the package from the formulas of the padding policies. With k the
dilated kernel size and style -1, 0 or 1 for valid, same and full, size = ceil((source + style * (k - 1)) / stride). The
padding needed for this number of windows is divided between both sides; the policy specifies which side gets an odd
pixel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from mpsgraph import nngraph as nn

from .nodes import Convolution, NodeCase, pool

Array = np.ndarray
STYLE = {"valid_only": -1, "same": 0, "full": 1}


def axis_windows(policy: nn.PaddingPolicy, axis: int, source: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return the number of windows on an axis and the first pixel of the first window.

    Axis 0 is y and 1 is x; `kernel` includes the dilation.
    """
    if policy.padding is not None:
        before, after = policy.padding[2 * axis : 2 * axis + 2]
        return (source + before + after - kernel) // stride + 1, -before
    size = math.ceil((source + STYLE[policy.size] * (kernel - 1)) / stride)
    missing = (size - 1) * stride + kernel - source
    first = policy.remainder in ("top_left", ("top_right", "bottom_left")[axis])
    if policy.alignment == "top_left":
        return size, 0
    if policy.alignment == "bottom_right":
        return size, -missing
    return size, -math.floor((missing + first) / 2)


def leaves_windows_outside(policy: nn.PaddingPolicy, sizes: Any, kernel: Any, stride: Any) -> bool:
    for axis in (0, 1):
        count, first = axis_windows(policy, axis, sizes[axis], kernel[axis], stride[axis])
        if first + kernel[axis] <= 0 or first + (count - 1) * stride[axis] >= sizes[axis]:
            return True
    return False


def windows(x: Array, policy: nn.PaddingPolicy, kernel: Any, stride: Any, dilation: Any = (1, 1), outside: float = 0.0):
    """Return the windows as [images, out height, out width, kernel height, kernel width, channels].

    Pixels beyond the edges have the value `outside`. All sizes are in the order y, x.
    """
    n, h, w, c = x.shape
    rows, columns = (
        np.add.outer(np.arange(size) * stride[a] + first, np.arange(kernel[a]) * dilation[a])
        for a in (0, 1)
        for size, first in [axis_windows(policy, a, (h, w)[a], (kernel[a] - 1) * dilation[a] + 1, stride[a])]
    )
    inside = ((rows >= 0) & (rows < h))[:, None, :, None] & ((columns >= 0) & (columns < w))[None, :, None, :]
    at = x[:, np.clip(rows, 0, h - 1)[:, None, :, None], np.clip(columns, 0, w - 1)[None, :, None, :]]
    return np.where(inside[None, ..., None], at, outside)


def convolution(x: Array, d: nn.ConvolutionDescriptor, policy: nn.PaddingPolicy, weights: Array, biases: Any) -> Array:
    parts = windows(
        x,
        policy,
        (d.kernel_height, d.kernel_width),
        (d.stride_in_pixels_y, d.stride_in_pixels_x),
        (d.dilation_rate_y, d.dilation_rate_x),
    )
    outs, ins = d.output_feature_channels, weights.shape[3]
    y = np.zeros((*parts.shape[:3], outs))
    for o in range(outs):
        first = o // (outs // (d.input_feature_channels if d.depthwise else d.groups)) * ins
        y[..., o] = np.einsum("nijpqc,pqc->nij", parts[..., first : first + ins], weights[o])
    return y if biases is None else y + biases


def fed_with(kernel: tuple[int, int], ins: int, outs: int, **options: Any) -> nn.ConvolutionDescriptor:
    """Return a descriptor from a kernel size given as (height, width)."""
    return nn.ConvolutionDescriptor(kernel[1], kernel[0], ins, outs, **options)


def weighted(
    kind: str, label: str, shape: tuple[int, ...], d: Any, policy: Any, formula: Any, node: Any, *, biases: bool = True
) -> NodeCase:
    parameters = {"weights": pool(*d.weights_shape, seed=3)}
    if biases:
        parameters["biases"] = pool(d.output_feature_channels, seed=4)

    def by_hand(x: Array, weights: Array, biases: Any = None) -> Array:
        return formula(x, d, policy, weights, biases)

    def source(arrays: Any) -> Convolution:
        return Convolution(d, arrays["weights"], arrays.get("biases"))

    return NodeCase(kind, label, node, by_hand, [pool(*shape, seed=5)], parameters, source)


def convolutions() -> Iterator[NodeCase]:
    for label, shape, d, biases in [
        ("3x3", (2, 5, 4, 2), fed_with((3, 3), 2, 3), True),
        ("no biases", (1, 4, 4, 2), fed_with((3, 3), 2, 2), False),
        ("1x1", (2, 3, 4, 3), fed_with((1, 1), 3, 2), True),
        ("2x4", (1, 5, 6, 2), fed_with((2, 4), 2, 2), True),
        ("stride 2,3", (1, 7, 8, 2), fed_with((3, 3), 2, 2, stride_in_pixels_y=2, stride_in_pixels_x=3), True),
        ("stride above kernel", (1, 7, 8, 1), fed_with((2, 1), 1, 2, stride_in_pixels_y=3, stride_in_pixels_x=3), True),
        ("dilation 2,3", (1, 8, 9, 2), fed_with((3, 2), 2, 2, dilation_rate_y=2, dilation_rate_x=3), True),
        ("both", (1, 9, 8, 1), fed_with((3, 3), 1, 2, dilation_rate_y=2, stride_in_pixels_x=2), True),
        ("groups", (2, 4, 4, 6), fed_with((3, 3), 6, 4, groups=2), True),
        ("groups of one", (1, 4, 4, 3), fed_with((3, 3), 3, 3, groups=3), True),
        ("depthwise", (2, 4, 4, 3), fed_with((3, 3), 3, 3, depthwise=True), True),
        ("depthwise twice", (1, 4, 5, 3), fed_with((3, 2), 3, 6, depthwise=True, stride_in_pixels_x=2), True),
        ("kernel above image", (1, 2, 3, 1), fed_with((5, 7), 1, 2), True),
    ]:
        node = nn.ConvolutionNode
        yield weighted("convolution", label, shape, d, nn.SAME, convolution, node, biases=biases)
    for label, policy in policies():
        for size, kernel in itertools.product((6, 7), (2, 3)):
            d = fed_with((kernel, kernel), 1, 1, stride_in_pixels_y=2, stride_in_pixels_x=3)
            node = lambda x, s, policy=policy: nn.ConvolutionNode(x, s, padding_policy=policy)  # noqa: E731
            name = f"{label},{size},{kernel}"
            yield weighted("convolution", name, (1, size, size + 1, 1), d, policy, convolution, node, biases=False)


def policies() -> Iterator[tuple[str, nn.PaddingPolicy]]:
    for size, alignment in itertools.product(STYLE, ("centered", "top_left", "bottom_right")):
        remainders = (
            ("top_left", "top_right", "bottom_left", "bottom_right") if alignment == "centered" else ("top_left",)
        )
        for remainder in remainders:
            yield f"{size},{alignment},{remainder}", nn.PaddingPolicy(size, alignment, remainder)
    for padding in [(0, 0, 0, 0), (1, 2, 0, 3), (4, 0, 5, 0)]:
        yield f"{padding}", nn.PaddingPolicy(padding=padding)


def fully_connected(x: Array, d: Any, policy: Any, weights: Array, biases: Any) -> Array:
    y = np.einsum("nhwc,ohwc->no", x, weights)[:, None, None]
    return y if biases is None else y + biases


def fully_connecteds() -> Iterator[NodeCase]:
    for shape, outs, biases in [((2, 3, 4, 2), 5, True), ((3, 1, 1, 6), 2, True), ((1, 2, 2, 3), 1, False)]:
        d = fed_with(shape[1:3], shape[3], outs)
        node = nn.FullyConnectedNode
        yield weighted("fully_connected", f"{shape}", shape, d, None, fully_connected, node, biases=biases)


def transposed(x: Array, d: Any, policy: nn.PaddingPolicy, weights: Array, biases: Any) -> Array:
    """Insert zeros between the pixels, then correlate with stride 1 so that the result has the size of the policy."""
    n, h, w, c = x.shape
    strides, kernel = (d.stride_in_pixels_y, d.stride_in_pixels_x), (d.kernel_height, d.kernel_width)
    wide = np.zeros((n, (h - 1) * strides[0] + 1, (w - 1) * strides[1] + 1, c))
    wide[:, :: strides[0], :: strides[1]] = x
    pads = []
    for axis in (0, 1):
        k = kernel[axis]
        if policy.padding is not None:
            cut = policy.padding[2 * axis : 2 * axis + 2]
        else:
            all_cut = (k - 1) * (1 - STYLE[policy.size])  # Number of pixels cropped from the full-size result.
            first = policy.remainder in ("top_left", ("top_right", "bottom_left")[axis])
            before = {"centered": (all_cut + (all_cut % 2 and first)) // 2, "top_left": 0, "bottom_right": all_cut}
            cut = (before[policy.alignment], all_cut - before[policy.alignment])
        pads += [k - 1 - cut[0], k - 1 - cut[1]]
    explicit = nn.PaddingPolicy(padding=pads)
    plain = fed_with(kernel, d.input_feature_channels, d.output_feature_channels)
    return convolution(wide, plain, explicit, weights, biases)


def transposes() -> Iterator[NodeCase]:
    for label, shape, d, biases in [
        ("stride 1", (2, 3, 4, 2), fed_with((3, 3), 2, 3), True),
        ("stride 2,3", (1, 3, 4, 2), fed_with((3, 4), 2, 2, stride_in_pixels_y=2, stride_in_pixels_x=3), True),
        ("1x1", (1, 3, 3, 3), fed_with((1, 1), 3, 2, stride_in_pixels_y=2, stride_in_pixels_x=2), False),
    ]:
        node = nn.ConvolutionTransposeNode
        yield weighted("convolution_transpose", label, shape, d, nn.SAME, transposed, node, biases=biases)
    for label, policy in policies():
        if policy.padding is not None and max(policy.padding) > 1:
            continue
        d = fed_with((2, 3), 1, 2, stride_in_pixels_y=2, stride_in_pixels_x=2)
        node = lambda x, s, policy=policy: nn.ConvolutionTransposeNode(x, s, padding_policy=policy)  # noqa: E731
        yield weighted("convolution_transpose", label, (1, 3, 4, 1), d, policy, transposed, node)


def max_of(parts: Array) -> Array:
    return parts.max((3, 4))


def mean_of(parts: Array) -> Array:
    """Return the mean of the pixels inside the image, or 0 if there are none."""
    inside = ~np.isnan(parts)
    return np.where(inside, parts, 0).sum((3, 4)) / np.maximum(inside.sum((3, 4)), 1)


def norm_of(parts: Array) -> Array:
    return np.sqrt((parts**2).sum((3, 4)))


POOLINGS: dict[str, tuple[Any, Any, float]] = {
    "pooling_max": (nn.PoolingMaxNode, max_of, -math.inf),
    "pooling_average": (nn.PoolingAverageNode, mean_of, math.nan),
    "pooling_l2_norm": (nn.PoolingL2NormNode, norm_of, 0.0),
}


def poolings() -> Iterator[NodeCase]:
    sizes = [((2, 2), None), ((3, 3), (2, 2)), ((3, 2), (1, 1)), ((2, 3), (3, 4)), ((5, 5), (1, 2))]
    for kind, (node, function, outside) in POOLINGS.items():

        def case(label: str, shape: Any, kernel: Any, stride: Any, policy: Any, kind: Any = kind, node: Any = node,
                 function: Any = function, outside: float = outside) -> NodeCase:  # fmt: skip
            def formula(x: Array) -> Array:
                return function(windows(x, policy, kernel, stride or kernel, outside=outside))

            given = None if stride is None else stride[::-1]
            build = lambda x: node(x, kernel[::-1], given, padding_policy=policy)  # noqa: E731
            return NodeCase(kind, label, build, formula, [pool(*shape, seed=6)])

        for kernel, stride in sizes:
            for h, w in [(6, 6), (7, 5)]:
                yield case(f"{kernel},{stride},{h}x{w}", (2, h, w, 2), kernel, stride, nn.SAME)
        for label, policy in policies():
            if kind != "pooling_average" and leaves_windows_outside(policy, (6, 7), (3, 2), (2, 2)):
                continue  # Rejected, see test_bad_input.py.
            yield case(label, (1, 6, 7, 1), (3, 2), (2, 2), policy)
    for kernel, stride, rate in [((3, 3), (1, 1), (2, 2)), ((2, 3), (2, 1), (3, 2)), ((2, 2), (1, 1), (1, 1))]:

        def dilated(x: Array, kernel: Any = kernel, stride: Any = stride, rate: Any = rate) -> Array:
            return max_of(windows(x, nn.SAME, kernel, stride, rate, outside=-math.inf))

        build = lambda x, k=kernel, s=stride, r=rate: nn.DilatedPoolingMaxNode(x, k[::-1], s[::-1], r[::-1])  # noqa: E731
        yield NodeCase("dilated_pooling_max", f"{kernel},{stride},{rate}", build, dilated, [pool(2, 7, 8, 2)])
    yield from at_kinks()


def at_kinks() -> Iterator[NodeCase]:
    """Return cases at kinks.

    With ties, the gradient goes to the first element of a window. The norm of a window of zeros has the gradient 0.
    """
    flat = np.ones((1, 4, 4, 1))
    first = np.zeros((4, 4))
    first[::2, ::2] = 1

    def spread(g: Array, x: Array) -> list[Array]:
        return [g.repeat(2, 1).repeat(2, 2) * first[None, :, :, None]]

    tops = lambda x: max_of(windows(x, nn.VALID, (2, 2), (2, 2)))  # noqa: E731
    yield NodeCase("pooling_max", "ties", lambda x: nn.PoolingMaxNode(x, 2), tops, [flat], derivative=spread)
    none = lambda x: norm_of(windows(x, nn.VALID, (2, 2), (2, 2)))  # noqa: E731
    build = lambda x: nn.PoolingL2NormNode(x, 2)  # noqa: E731
    zeros = lambda g, x: [np.zeros_like(x)]  # noqa: E731
    yield NodeCase("pooling_l2_norm", "zeros", build, none, [0 * flat], derivative=zeros)


def around(x: Array, kernel: tuple[int, int]) -> Array:
    """Return the mean of the pixels around each, with zeros outside. Even kernels extend further to the top left."""
    h, w = kernel
    padding = nn.PaddingPolicy(padding=(h // 2, h - 1 - h // 2, w // 2, w - 1 - w // 2))
    return windows(x, padding, kernel, (1, 1)).mean((3, 4))


def local_normalizations() -> Iterator[NodeCase]:
    for kernel, alpha, beta, delta in [((5, 5), 1.0, 5.0, 1.0), ((3, 2), 0.5, 0.75, 2.0), ((1, 7), 2.0, 1.0, 0.5)]:
        o = {"alpha": alpha, "beta": beta, "delta": delta}
        given = {} if kernel == (5, 5) else {"kernel_height": kernel[0], "kernel_width": kernel[1], **o}
        spatial = lambda x, k=kernel, a=alpha, b=beta, d=delta: x / (d + a * around(x * x, k)) ** b  # noqa: E731
        build = lambda x, given=given: nn.SpatialNormalizationNode(x, **given)  # noqa: E731
        yield NodeCase("spatial_normalization", f"{kernel}", build, spatial, [pool(2, 4, 5, 2)])

        def cross(x: Array, k: int = kernel[1], a: float = alpha, b: float = beta, d: float = delta) -> Array:
            padded = np.pad(x * x, ((0, 0), (0, 0), (0, 0), (k // 2, k - 1 - k // 2)))
            return x / (d + a * sum(padded[..., i : i + x.shape[3]] for i in range(k)) / k) ** b

        given = {} if kernel == (5, 5) else {"kernel_size": kernel[1], **o}
        build = lambda x, given=given: nn.CrossChannelNormalizationNode(x, **given)  # noqa: E731
        yield NodeCase("cross_channel_normalization", f"{kernel[1]}", build, cross, [pool(2, 2, 3, 6)])
    for kernel, o in [
        ((5, 5), {}),
        ((3, 2), {"alpha": 0.5, "beta": 0.75, "delta": 0.25, "pm": 0.5, "ps": -2.0, "p0": 0.5}),
    ]:
        full = {"alpha": 1.0, "beta": 0.5, "delta": 2.0**-10, "pm": 0.0, "ps": 1.0, "p0": 1.0, **o}

        def contrast(x: Array, k: Any = kernel, p: dict[str, float] = full) -> Array:
            mean = around(x, k)
            variance = around(x * x, k) - mean**2
            return p["pm"] + p["ps"] * (x - p["p0"] * mean) / (p["delta"] + p["alpha"] * variance) ** p["beta"]

        given = {"kernel_height": kernel[0], "kernel_width": kernel[1], **o} if o else {}
        build = lambda x, given=given: nn.LocalContrastNormalizationNode(x, **given)  # noqa: E731
        yield NodeCase("local_contrast_normalization", f"{kernel}", build, contrast, [pool(2, 4, 5, 2)])


CASES = [
    *convolutions(),
    *fully_connecteds(),
    *transposes(),
    *poolings(),
    *local_normalizations(),
]
