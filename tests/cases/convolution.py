"""Cases of the family convolution: strides, dilation, groups, every padding and layout, and both gradients.

The oracle goes tap by tap: the source, padded, is cut once for each kernel position and multiplied with its weights.
It works in NHWC and HWIO; other layouts are brought there and back.
"""

import numpy as np
from harness.case import FLOATS, Case, values


def padding_of(padding, size, kernel, stride, dilation):
    """(before, after) of one axis."""
    if not isinstance(padding, str):
        return padding
    if padding == "TF_VALID":
        return 0, 0
    out = -(-size // stride)
    total = max((out - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if padding == "TF_SAME" else (large, small)


def pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def nhwc(x, layout):
    return x if layout == "NHWC" else x.transpose(0, 2, 3, 1)


def from_nhwc(x, layout):
    return x if layout == "NHWC" else x.transpose(0, 3, 1, 2)


def hwio(w, layout):
    return w if layout == "HWIO" else w.transpose(2, 3, 1, 0)


def from_hwio(w, layout):
    return w if layout == "HWIO" else w.transpose(3, 2, 0, 1)


class Windows:
    """Where each tap of a kernel reads, for all output positions at once."""

    def __init__(self, size, kernel, strides, dilations, padding):
        self.strides, self.dilations = pair(strides), pair(dilations)
        sides = (padding, padding) if isinstance(padding, str) else padding
        self.pads = [
            padding_of(p, *rest)
            for p, *rest in zip(sides, size, kernel, self.strides, self.dilations, strict=True)
        ]  # fmt: skip
        self.out = [
            (n + before + after - ((k - 1) * d + 1)) // s + 1
            for n, (before, after), k, s, d in zip(size, self.pads, kernel, self.strides, self.dilations, strict=True)
        ]
        self.kernel, self.size = kernel, size

    def pad(self, x):
        return np.pad(x, [(0, 0), *self.pads, (0, 0)])

    def crop(self, x):
        (top, _), (left, _) = self.pads
        return x[:, top : top + self.size[0], left : left + self.size[1]]

    def taps(self):
        """(i, j, the slices of the padded image that tap (i, j) reads)."""
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                cut = [
                    slice(t * d, t * d + (n - 1) * s + 1, s)
                    for t, d, n, s in zip((i, j), self.dilations, self.out, self.strides, strict=True)
                ]
                yield i, j, (slice(None), *cut)


def convolution(x, w, strides=1, dilations=1, groups=1, padding="TF_VALID", data_layout="NHWC", weights_layout="HWIO"):
    x, w = nhwc(x, data_layout), hwio(w, weights_layout)
    windows = Windows(x.shape[1:3], w.shape[:2], strides, dilations, padding)
    padded = windows.pad(x)
    result = np.zeros((x.shape[0], *windows.out, w.shape[3]))
    for i, j, cut in windows.taps():
        for inputs, outputs in channels(w, groups):
            result[..., outputs] += padded[cut][..., inputs] @ w[i, j][:, outputs]
    return from_nhwc(result, data_layout)


def data_gradient(
    g, w, shape, strides=1, dilations=1, groups=1, padding="TF_VALID", data_layout="NHWC", weights_layout="HWIO"
):
    g, w = nhwc(g, data_layout), hwio(w, weights_layout)
    n, h, width, c = nhwc(np.empty(shape), data_layout).shape
    windows = Windows((h, width), w.shape[:2], strides, dilations, padding)
    padded = windows.pad(np.zeros((n, h, width, c)))
    for i, j, cut in windows.taps():
        for inputs, outputs in channels(w, groups):
            padded[cut][..., inputs] += g[..., outputs] @ w[i, j][:, outputs].T
    return from_nhwc(windows.crop(padded), data_layout)


def weights_gradient(
    g, x, shape, strides=1, dilations=1, groups=1, padding="TF_VALID", data_layout="NHWC", weights_layout="HWIO"
):
    g, x = nhwc(g, data_layout), nhwc(x, data_layout)
    result = np.zeros(hwio(np.empty(shape), weights_layout).shape)
    windows = Windows(x.shape[1:3], result.shape[:2], strides, dilations, padding)
    padded = windows.pad(x)
    for i, j, cut in windows.taps():
        for inputs, outputs in channels(result, groups):
            result[i, j][:, outputs] += np.einsum("nyxc,nyxo->co", padded[cut][..., inputs], g[..., outputs])
    return from_hwio(result, weights_layout)


def channels(w, groups):
    """The channels (of the source, of the result) that each group connects."""
    inputs, outputs = w.shape[2], w.shape[3] // groups
    return [(slice(k * inputs, (k + 1) * inputs), slice(k * outputs, (k + 1) * outputs)) for k in range(groups)]


def three(label, source, weights, check=True, batch=(0,), dtypes=FLOATS, **how):
    """The convolution and its two gradients; shapes are given in the layouts of `how`."""
    x, w = values(*source, seed=50), values(*weights, seed=51)
    g = values(*convolution(x, w, **how).shape, seed=52)
    tolerance = 4 if check else 40  # sums over hundreds of products
    common = {"label": label, "attributes": how, "gradient": check, "tolerance": tolerance, "dtypes": dtypes}

    def build_data(graph, incoming, kernel, **attributes):
        return graph.convolution2d_data_gradient(incoming, kernel, source, **attributes)

    def build_weights(graph, incoming, image, **attributes):
        return graph.convolution2d_weights_gradient(incoming, image, weights, **attributes)

    return [
        Case("convolution2d", [x, w], convolution, batch=batch, **common),
        Case(
            "convolution2d_data_gradient", [g, w], lambda g, w, **a: data_gradient(g, w, source, **a),
            build=build_data, batch=(), **common,
        ),
        Case(
            "convolution2d_weights_gradient", [g, x], lambda g, x, **a: weights_gradient(g, x, weights, **a),
            build=build_weights, batch=(0, 1) if batch else (), **common,
        ),
    ]  # fmt: skip


CASES = [
    *three("plain", (2, 4, 5, 2), (3, 2, 2, 3)),
    *three("strides", (1, 5, 6, 2), (2, 3, 2, 2), strides=(2, 1)),
    *three("dilations", (1, 6, 5, 1), (2, 2, 1, 2), dilations=(3, 2)),
    *three("groups", (2, 3, 3, 4), (2, 2, 2, 4), groups=2),
    *three("depthwise", (1, 4, 4, 3), (3, 3, 1, 6), groups=3, padding="TF_SAME"),
    *three("same", (1, 4, 5, 2), (3, 2, 2, 2), padding="TF_SAME"),
    *three("same_strides", (1, 5, 6, 1), (3, 3, 1, 2), padding="TF_SAME", strides=2),
    *three("same_even", (1, 4, 4, 1), (4, 2, 1, 1), padding="TF_SAME"),
    *three("same_lower", (1, 4, 5, 1), (2, 4, 1, 2), padding="ONNX_SAME_LOWER", strides=(1, 2)),
    *three("explicit", (1, 3, 4, 2), (3, 3, 2, 1), padding=((2, 0), (1, 3))),
    *three("nchw", (2, 2, 4, 3), (2, 2, 2, 3), data_layout="NCHW"),
    *three("oihw", (1, 4, 3, 2), (3, 2, 2, 2), weights_layout="OIHW"),
    *three(
        "nchw_oihw", (1, 4, 5, 5), (4, 2, 3, 2), data_layout="NCHW", weights_layout="OIHW", groups=2, strides=2,
        dilations=(1, 2), padding=((1, 1), (2, 0)),
    ),
    *three("one_by_one", (2, 3, 3, 3), (1, 1, 3, 2)),
    *three("one_by_one_strided", (1, 5, 4, 2), (1, 1, 2, 2), strides=(2, 3)),
    *three("whole_image", (2, 3, 4, 2), (3, 4, 2, 3)),
    *three("no_images", (0, 4, 4, 2), (3, 3, 2, 2), batch=()),
    *three("channels_16", (2, 9, 7, 16), (3, 3, 16, 32), check=False, padding="TF_SAME", dtypes=("float32", "float64")),
    *three("channels_odd", (3, 8, 8, 5), (5, 5, 5, 7), check=False, strides=2, dtypes=("float32", "float64")),
    *three(
        "grouped_16", (1, 6, 6, 32), (3, 3, 16, 16), check=False, groups=2, padding="TF_SAME",
        dtypes=("float32", "float64"),
    ),
    *three(
        "nchw_16", (2, 16, 9, 9), (32, 16, 3, 3), check=False, data_layout="NCHW", weights_layout="OIHW", strides=2,
        padding="TF_SAME", dtypes=("float32", "float64"),
    ),
]  # fmt: skip
