"""Cases of the convolution family: two and three axes, strides, dilations, groups, depthwise, every padding and layout,
gradients, transposed convolution, and im2col.

The numpy version computes one filter tap at a time: it slices the padded input for each kernel position and multiplies
the slice by the weights. It works in NHWC and HWIO and converts other layouts. Cases labeled "torch" have expected
values from torch 2.13 where a convention could be misinterpreted.
"""

import itertools

import numpy as np
from harness.case import ALGEBRAIC, FLOATS, Case, values


def padding_of(padding, size, kernel, stride, dilation):
    """Return (before, after) padding of one axis."""
    if not isinstance(padding, str):
        return padding
    if padding == "TF_VALID":
        return 0, 0
    out = -(-size // stride)
    total = max((out - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if padding == "TF_SAME" else (large, small)


def pair(value, count=2):
    return (value,) * count if isinstance(value, int) else tuple(value)


def channels_last(x, layout):
    return x if layout.endswith("C") else np.moveaxis(x, 1, -1)


def from_channels_last(x, layout):
    return x if layout.endswith("C") else np.moveaxis(x, -1, 1)


def outputs_last(w, layout):
    """Convert weights to the order (kernel..., I, O)."""
    return w if layout.endswith("O") else np.moveaxis(w, (0, 1), (-1, -2))


def from_outputs_last(w, layout):
    return w if layout.endswith("O") else np.moveaxis(w, (-1, -2), (0, 1))


class Windows:
    """The slices of the input that each filter tap reads, for all output positions at once."""

    def __init__(self, size, kernel, strides, dilations, padding):
        count = len(size)
        self.strides, self.dilations = pair(strides, count), pair(dilations, count)
        sides = (padding,) * count if isinstance(padding, str) else padding
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
        inside = [slice(before, before + n) for (before, _), n in zip(self.pads, self.size, strict=True)]
        return x[(slice(None), *inside)]

    def taps(self):
        """Yield each tap with the slices of the padded image that it reads."""
        for tap in itertools.product(*(range(k) for k in self.kernel)):
            cut = [
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, d, n, s in zip(tap, self.dilations, self.out, self.strides, strict=True)
            ]
            yield tap, (slice(None), *cut)


def convolution(x, w, strides=1, dilations=1, groups=1, padding="TF_VALID", data_layout="NHWC", weights_layout="HWIO"):
    x, w = channels_last(x, data_layout), outputs_last(w, weights_layout)
    windows = Windows(x.shape[1:-1], w.shape[:-2], strides, dilations, padding)
    padded = windows.pad(x)
    result = np.zeros((x.shape[0], *windows.out, w.shape[-1]))
    for tap, cut in windows.taps():
        for inputs, outputs in channels(w, groups):
            result[..., outputs] += padded[cut][..., inputs] @ w[tap][:, outputs]
    return from_channels_last(result, data_layout)


def data_gradient(
    g, w, shape, strides=1, dilations=1, groups=1, padding="TF_VALID", data_layout="NHWC", weights_layout="HWIO"
):
    g, w = channels_last(g, data_layout), outputs_last(w, weights_layout)
    n, *size, c = channels_last(np.empty(shape), data_layout).shape
    windows = Windows(size, w.shape[:-2], strides, dilations, padding)
    padded = windows.pad(np.zeros((n, *size, c)))
    for tap, cut in windows.taps():
        for inputs, outputs in channels(w, groups):
            padded[cut][..., inputs] += g[..., outputs] @ w[tap][:, outputs].T
    return from_channels_last(windows.crop(padded), data_layout)


def weights_gradient(
    g, x, shape, strides=1, dilations=1, groups=1, padding="TF_VALID", data_layout="NHWC", weights_layout="HWIO"
):
    g, x = channels_last(g, data_layout), channels_last(x, data_layout)
    result = np.zeros(outputs_last(np.empty(shape), weights_layout).shape)
    windows = Windows(x.shape[1:-1], result.shape[:-2], strides, dilations, padding)
    padded = windows.pad(x)
    for tap, cut in windows.taps():
        for inputs, outputs in channels(result, groups):
            read, given = padded[cut][..., inputs], g[..., outputs]
            result[tap][:, outputs] += np.tensordot(read, given, (range(read.ndim - 1),) * 2)
    return from_outputs_last(result, weights_layout)


def channels(w, groups):
    """Return the slices of input and output channels of each group."""
    inputs, outputs = w.shape[-2], w.shape[-1] // max(groups, 1)
    return [(slice(k * inputs, (k + 1) * inputs), slice(k * outputs, (k + 1) * outputs)) for k in range(groups)]


# --- depthwise: one group per channel ---------------------------------------------------------------------------------
def by_groups(w, layout):
    """Convert depthwise weights (h, w, C, M) to grouped weights (h, w, 1, C * M), and return them with C."""
    w = outputs_last(w, layout)
    return w.reshape(*w.shape[:-2], 1, -1), w.shape[-2]


def depthwise(x, w, weights_layout="HWIO", **how):
    grouped, groups = by_groups(w, weights_layout)
    return convolution(x, grouped, groups=groups, **how)


def depthwise_data_gradient(g, w, shape, weights_layout="HWIO", **how):
    grouped, groups = by_groups(w, weights_layout)
    return data_gradient(g, grouped, shape, groups=groups, **how)


def depthwise_weights_gradient(g, x, shape, weights_layout="HWIO", **how):
    grouped, groups = by_groups(np.zeros(shape), weights_layout)
    result = weights_gradient(g, x, grouped.shape, groups=groups, **how)
    return from_outputs_last(result.reshape(outputs_last(np.zeros(shape), weights_layout).shape), weights_layout)


class Volumes:
    """Layout conversions for 3-D depthwise convolution: axes before the last four are batch axes, and the
    channel axis may be any of the last four.
    """

    def __init__(self, axis):
        self.axis = axis

    def data(self, x):  # (N, D, H, W, C)
        return np.moveaxis(x.reshape(int(np.prod(x.shape[:-4])), *x.shape[-4:]), self.axis, -1)

    def back(self, y, shape):
        y = np.moveaxis(y, -1, self.axis)
        return y.reshape(*shape[:-4], *y.shape[1:])

    def weights(self, w, channels):  # (D, H, W, 1, C * M), with one group per channel
        return np.moveaxis(w, self.axis, -1)[..., None, :], channels


def depthwise3d(x, w, channel_dimension_index=-4, **how):
    v = Volumes(channel_dimension_index)
    grouped, groups = v.weights(w, x.shape[channel_dimension_index])
    return v.back(convolution(v.data(x), grouped, groups=groups, **how), x.shape)


def depthwise3d_data_gradient(g, w, shape, channel_dimension_index=-4, **how):
    v = Volumes(channel_dimension_index)
    grouped, groups = v.weights(w, shape[channel_dimension_index])
    return v.back(data_gradient(v.data(g), grouped, v.data(np.empty(shape)).shape, groups=groups, **how), shape)


def depthwise3d_weights_gradient(g, x, shape, channel_dimension_index=-4, **how):
    v = Volumes(channel_dimension_index)
    grouped, groups = v.weights(np.zeros(shape), x.shape[channel_dimension_index])
    result = weights_gradient(v.data(g), v.data(x), grouped.shape, groups=groups, **how)
    return np.moveaxis(result[..., 0, :], -1, channel_dimension_index)


ORACLES = {
    "convolution2d": (convolution, data_gradient, weights_gradient),
    "convolution3d": (convolution, data_gradient, weights_gradient),
    "depthwise_convolution2d": (depthwise, depthwise_data_gradient, depthwise_weights_gradient),
    "depthwise_convolution3d": (depthwise3d, depthwise3d_data_gradient, depthwise3d_weights_gradient),
}


def three(label, source, weights, check=True, batch=(0,), dtypes=FLOATS, kind="convolution2d", unranked=True, **how):
    """Return cases of a convolution and its two gradients; shapes are in the layouts given by `how`."""
    forward, to_data, to_weights = ORACLES[kind]
    x, w = values(*source, seed=50), values(*weights, seed=51)
    g = values(*forward(x, w, **how).shape, seed=52)
    tolerance = 4 if check else 40  # for sums of hundreds of products
    common = {
        "label": label, "attributes": how, "gradient": check, "tolerance": tolerance, "dtypes": dtypes,
        "unranked": unranked,
    }  # fmt: skip

    def build_data(graph, incoming, kernel, **attributes):
        return getattr(graph, kind + "_data_gradient")(incoming, kernel, source, **attributes)

    def build_weights(graph, incoming, image, **attributes):
        return getattr(graph, kind + "_weights_gradient")(incoming, image, weights, **attributes)

    return [
        Case(kind, [x, w], forward, batch=batch, **common),
        Case(
            kind + "_data_gradient", [g, w], lambda g, w, **a: to_data(g, w, source, **a), build=build_data, batch=(),
            **common,
        ),
        Case(
            kind + "_weights_gradient", [g, x], lambda g, x, **a: to_weights(g, x, weights, **a), build=build_weights,
            batch=(0, 1) if batch else (), **common,
        ),
    ]  # fmt: skip


def transposed(label, image, weights, **how):
    """Return cases of the transposed convolution to `image` and its two gradients."""
    w, g = values(*weights, seed=53), values(*image, seed=54)
    x = values(*convolution(g, w, **how).shape, seed=55)
    common = {"label": label, "attributes": how, "tolerance": 4, "batch": ()}
    stem = "convolution_transpose2d"

    def to(shape, kind):
        return lambda graph, a, b, **attributes: getattr(graph, kind)(a, b, shape, **attributes)

    return [
        Case(stem, [x, w], lambda x, w, **a: data_gradient(x, w, image, **a), build=to(image, stem), **common),
        Case(
            stem + "_data_gradient", [g, w], convolution, build=to(x.shape, stem + "_data_gradient"), **common,
        ),
        Case(
            stem + "_weights_gradient", [g, x], lambda g, x, **a: weights_gradient(x, g, weights, **a),
            build=to(weights, stem + "_weights_gradient"), **common,
        ),
    ]  # fmt: skip


# --- im2col -----------------------------------------------------------------------------------------------------------
def patch_places(shape, kernel, strides=1, dilations=1, padding=((0, 0), (0, 0)), data_layout="NHWC"):
    """Return the flat pixel index of each im2col element, or -1 in the padding."""
    index = channels_last(np.arange(np.prod(shape)).reshape(shape), data_layout)
    windows = Windows(index.shape[1:3], pair(kernel), strides, dilations, padding)
    padded = np.pad(index, [(0, 0), *windows.pads, (0, 0)], constant_values=-1)
    cuts = np.stack([padded[cut] for _, cut in windows.taps()], axis=3)  # (n, y, x, tap, c)
    n, y, x, taps, c = cuts.shape
    if data_layout == "NHWC":
        return cuts.reshape(n, y * x, taps * c)
    return cuts.transpose(0, 4, 3, 1, 2).reshape(n, c * taps, y * x)


def im_to_col(x, kernel, **how):
    places = patch_places(x.shape, kernel, **how)
    return np.append(x.ravel(), x.dtype.type(0))[places]


def col_to_im(columns, shape, kernel, **how):
    places = patch_places(shape, kernel, **how)
    result = np.zeros(int(np.prod(shape)) + 1, columns.dtype)
    np.add.at(result, places, columns)
    return result[:-1].reshape(shape)


def columns(label, shape, batch=(0,), **how):
    x = values(*shape, seed=56)
    c = values(*im_to_col(x, **how).shape, seed=57)

    def build(graph, columns, **attributes):
        return graph.col_to_im(columns, shape, **attributes)

    common = {"label": label, "attributes": how, "dtypes": ALGEBRAIC}
    return [
        Case("im_to_col", [x], im_to_col, batch=batch, exact=True, **common),
        Case("col_to_im", [c], lambda c, **a: col_to_im(c, shape, **a), build=build, batch=(), **common),
    ]


# --- expected values from torch 2.13 ----------------------------------------------------------------------------------
def counted(*shape, modulo=10**6, less=0):
    return (np.arange(np.prod(shape)) % modulo - less).astype(np.float64).reshape(shape)


def golden(operation, inputs, shape, numbers, *, build=None, **how):
    wanted = np.array(numbers, np.float64).reshape(shape)
    return Case(
        operation, inputs, lambda *_, **__: wanted, attributes=how, build=build, label="torch", batch=(),
        gradient=False, dtypes=("float32", "float64"),
    )  # fmt: skip


NCHW = {"data_layout": "NCHW", "weights_layout": "OIHW"}
NCDHW = {"data_layout": "NCDHW", "weights_layout": "OIDHW"}
TORCH = [
    golden(  # conv_transpose2d(stride=2, padding=1, output_padding=1)
        "convolution_transpose2d", [counted(1, 2, 2, 3), counted(2, 2, 3, 2, less=5)], (1, 2, 4, 5),
        [60, 60, 68, 66, 76, 132, 126, 148, 138, 164, 84, 78, 92, 84, 100, 108, 106, 120, 116, 132, 96, 108, 116, 126,
         136, 240, 258, 280, 294, 320, 156, 162, 176, 180, 196, 180, 190, 204, 212, 228],
        build=lambda g, x, w, **a: g.convolution_transpose2d(x, w, (1, 2, 4, 5), **a), strides=2,
        padding=((1, 1), (1, 1)), **NCHW,
    ),
    golden(  # conv3d(stride=(1, 2, 1), padding=(0, 1, 1), groups=2, dilation=(2, 1, 1))
        "convolution3d", [counted(1, 2, 3, 3, 3, modulo=7), counted(2, 1, 2, 2, 2, modulo=5, less=2)], (1, 2, 1, 2, 4),
        [0, -3, -3, -6, 3, -15, -18, -11, -12, -14, -3, 8, 1, -10, -2, 12], groups=2, strides=(1, 2, 1),
        padding=((0, 0), (1, 1), (1, 1)), dilations=(2, 1, 1), **NCDHW,
    ),
    golden(  # conv2d(groups=2, padding=1, stride=2) with weights (4, 1, 2, 2)
        "depthwise_convolution2d", [counted(1, 2, 3, 3), counted(4, 1, 2, 2, less=6)], (1, 4, 2, 2),
        [0, -10, -33, -101, 0, 2, 3, -5, 45, 95, 111, 217, 81, 179, 219, 457], strides=2, padding=((1, 1), (1, 1)),
        build=lambda g, x, w, **a: g.depthwise_convolution2d(
            x, g.transpose(g.reshape(w, (2, 2, 2, 2)), (1, 0, 2, 3)), **a
        ), **NCHW,
    ),
    golden(  # conv3d(groups=2) with weights (4, 1, 1, 2, 2)
        "depthwise_convolution3d", [counted(1, 2, 2, 2, 3), counted(4, 1, 2, 2, less=6)], (1, 4, 2, 1, 2),
        [-29, -47, -137, -155, 3, 1, -9, -11, 203, 217, 287, 301, 427, 457, 607, 637],
    ),
    golden(  # unfold((2, 2), dilation=(2, 1), padding=(1, 0), stride=(2, 1))
        "im_to_col", [counted(1, 2, 3, 3)], (1, 8, 4),
        [0, 0, 3, 4, 0, 0, 4, 5, 3, 4, 0, 0, 4, 5, 0, 0, 0, 0, 12, 13, 0, 0, 13, 14, 12, 13, 0, 0, 13, 14, 0, 0],
        kernel=2, dilations=(2, 1), padding=((1, 1), (0, 0)), strides=(2, 1), data_layout="NCHW",
    ),
    golden(
        "col_to_im", [counted(1, 8, 4)], (1, 2, 3, 3), [0, 0, 0, 10, 30, 20, 0, 0, 0, 0, 0, 0, 42, 94, 52, 0, 0, 0],
        build=lambda g, x, **a: g.col_to_im(x, (1, 2, 3, 3), **a), kernel=2, dilations=(2, 1),
        padding=((1, 1), (0, 0)), strides=(2, 1), data_layout="NCHW",
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
    # 3-D convolutions.
    *three("plain", (2, 3, 2, 4, 2), (2, 2, 2, 2, 3), kind="convolution3d"),
    *three(
        "strides", (1, 4, 5, 3, 1), (2, 3, 1, 1, 2), kind="convolution3d", strides=(2, 1, 2), dilations=(1, 2, 1),
    ),
    *three("groups", (1, 2, 2, 3, 4), (2, 1, 2, 2, 2), kind="convolution3d", groups=2, padding="TF_SAME"),
    *three(
        "same_lower", (1, 3, 2, 4, 1), (2, 2, 2, 1, 2), kind="convolution3d", padding="ONNX_SAME_LOWER",
        strides=(2, 1, 1),
    ),
    *three(
        "ncdhw", (2, 2, 2, 3, 3), (3, 2, 2, 2, 2), kind="convolution3d", padding=((1, 0), (0, 1), (2, 0)), **NCDHW,
    ),
    *three("no_images", (0, 3, 3, 3, 2), (2, 2, 2, 2, 1), kind="convolution3d", batch=()),
    *three(
        "channels_16", (2, 5, 6, 7, 16), (3, 3, 3, 16, 16), kind="convolution3d", check=False, padding="TF_SAME",
        dtypes=("float32", "float64"),
    ),
    # Depthwise convolutions.
    *three("plain", (2, 3, 4, 3), (2, 2, 3, 1), kind="depthwise_convolution2d"),
    *three(
        "multiplier", (1, 4, 3, 2), (2, 3, 2, 3), kind="depthwise_convolution2d", strides=(2, 1), dilations=(1, 2),
        padding="TF_SAME",
    ),
    *three(
        "nchw_oihw", (1, 3, 4, 4), (2, 3, 2, 3), kind="depthwise_convolution2d", padding=((1, 0), (1, 1)), **NCHW,
    ),
    *three("oihw", (1, 4, 4, 2), (2, 2, 2, 2), kind="depthwise_convolution2d", weights_layout="OIHW"),
    *three("one_channel", (2, 3, 3, 1), (2, 2, 1, 2), kind="depthwise_convolution2d"),
    *three("no_channels", (1, 3, 3, 0), (2, 2, 0, 2), kind="depthwise_convolution2d", batch=()),
    *three(
        "channels_32", (2, 9, 8, 32), (3, 3, 32, 1), kind="depthwise_convolution2d", check=False, padding="TF_SAME",
        dtypes=("float32", "bfloat16", "float64"),
    ),
    *three(
        "channels_odd", (2, 35, 9, 8), (1, 35, 3, 3), kind="depthwise_convolution2d", check=False, strides=2,
        padding="TF_SAME", dtypes=("float32", "float16", "float64"), **NCHW,
    ),
    *three("plain", (2, 2, 3, 2, 3), (2, 2, 1, 2), kind="depthwise_convolution3d"),
    *three(
        "last", (1, 3, 3, 2, 2), (2, 2, 2, 2), kind="depthwise_convolution3d", channel_dimension_index=-1,
        strides=(2, 1, 1), padding="TF_SAME",
    ),
    *three(
        "between", (1, 2, 3, 2, 3), (2, 3, 2, 2), kind="depthwise_convolution3d", channel_dimension_index=-3,
        dilations=(1, 1, 2),
    ),
    *three("height_before", (3, 2, 2, 2), (1, 2, 2, 2), kind="depthwise_convolution3d", channel_dimension_index=-2,
           batch=(), padding=((0, 0), (1, 0), (0, 1))),
    *three("multiplier", (2, 2, 2, 2), (4, 1, 2, 2), kind="depthwise_convolution3d", batch=()),
    *three("two_batch_axes", (2, 2, 2, 1, 2, 2), (2, 1, 2, 1), kind="depthwise_convolution3d"),
    *three("no_channels", (1, 0, 3, 3, 2), (0, 2, 2, 2), kind="depthwise_convolution3d", batch=()),
    *three(
        "channels_32", (2, 4, 9, 8, 32), (3, 3, 3, 32), kind="depthwise_convolution3d", check=False,
        channel_dimension_index=-1, padding="TF_SAME", dtypes=("float32", "float64"),
    ),
    # Transposed convolutions.
    *transposed("plain", (2, 4, 5, 2), (3, 2, 2, 3)),
    *transposed("strides", (1, 6, 7, 2), (2, 3, 2, 2), strides=(3, 2)),
    *transposed("same", (1, 4, 6, 1), (3, 3, 1, 2), strides=2, padding="TF_SAME"),
    *transposed("groups", (2, 3, 3, 4), (2, 2, 2, 4), groups=2, dilations=(1, 2)),
    *transposed("nchw", (1, 2, 5, 4), (3, 2, 3, 2), strides=2, padding=((1, 1), (0, 1)), **NCHW),
    *transposed("no_images", (0, 4, 4, 2), (3, 3, 2, 2)),
    # im2col and col2im.
    *columns("plain", (2, 3, 4, 2), kernel=2),
    *columns("strides", (1, 5, 6, 2), kernel=(2, 3), strides=(2, 3), dilations=(2, 1), padding=((1, 0), (2, 1))),
    *columns("nchw", (2, 2, 4, 3), kernel=(3, 2), padding=((1, 1), (0, 1)), data_layout="NCHW"),
    *columns("nchw_strides", (1, 3, 5, 7), kernel=2, strides=(2, 3), dilations=(1, 2), data_layout="NCHW"),
    *columns("no_images", (0, 3, 3, 2), kernel=2, batch=()),
    *columns("no_channels", (2, 0, 3, 3), kernel=2, data_layout="NCHW"),
    *TORCH,
]  # fmt: skip
