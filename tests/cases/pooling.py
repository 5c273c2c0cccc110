"""Cases of the pooling family: maximum, average, and L2 norm over two and four axes, every padding and layout, ceil
mode, indices in every mode, and all gradients.

The numpy version visits each window, with images as (N, H, W, C) and four pooled axes as (N, a, b, y, x, 1). Maxima are
distinct where gradients are checked. Cases labeled "torch" have expected values from torch 2.13.
"""

import functools
import itertools

import numpy as np
from harness.case import Case, apart, values

from cases.convolution import channels_last, from_channels_last, padding_of, pair


def windows_of(size, kernel, strides, dilations, padding, ceil_mode):
    """Return, per axis and output position, the indices that the taps read; indices outside 0..n-1 are padding."""
    sides = (padding,) * len(size) if isinstance(padding, str) else padding
    result = []
    for n, k, s, d, side in zip(size, kernel, strides, dilations, sides, strict=True):
        before, after = padding_of(side, n, k, s, d)
        room = n + before + after - ((k - 1) * d + 1)
        count = room // s + 1
        if ceil_mode and room % s and count * s < n + before and not (isinstance(padding, str) and "SAME" in padding):
            count += 1
        result.append(([[p * s + t * d - before for t in range(k)] for p in range(count)], n, after))
    return result


@functools.cache
def visits(size, *window):
    """Return (output position, [(pixel, tap) inside the image], number of taps counted with zero padding) for
    each window.
    """
    axes, result = windows_of(size, *window), []
    for position in itertools.product(*(range(len(positions)) for positions, _, _ in axes)):
        reads = [positions[p] for p, (positions, _, _) in zip(position, axes, strict=True)]
        inside = [
            ((slice(None), *pixel), tap)
            for tap in itertools.product(*(range(len(r)) for r in reads))
            for pixel in [tuple(r[t] for r, t in zip(reads, tap, strict=True))]
            if all(0 <= i < n for i, (_, n, _) in zip(pixel, axes, strict=True))
        ]
        counted = [sum(i < n + after for i in r) for r, (_, n, after) in zip(reads, axes, strict=True)]
        result.append(((slice(None), *position), inside, int(np.prod(counted))))
    return result


def result_size(x, *window):
    return (x.shape[0], *(len(positions) for positions, _, _ in windows_of(x.shape[1:-1], *window)), x.shape[-1])


def described(axes, kernel, strides=None, dilations=1, padding="TF_VALID", ceil_mode=False):
    kernel = pair(kernel, axes)
    if strides is None:
        strides = kernel if axes == 2 else 1
    return kernel, pair(strides, axes), pair(dilations, axes), padding, ceil_mode


class Images:
    """Pooling of two axes, for x as (N, H, W, C)."""

    axes, stem = 2, "2d"

    def __init__(self, data_layout="NHWC", **window):
        self.layout, self.window = data_layout, described(2, **window)

    def canonical(self, x):
        return channels_last(x, self.layout)

    def back(self, y, like):
        return from_channels_last(y, self.layout)

    def taps(self, tap):  # for all axes of the operand
        return (0, *tap, 0) if self.layout == "NHWC" else (0, 0, *tap)


class Tiles:
    """Pooling of the last four axes, for x as (N, a, b, y, x, 1)."""

    axes, stem = 4, "4d"

    def __init__(self, **window):
        self.window = described(4, **window)

    def canonical(self, x):
        return x.reshape(int(np.prod(x.shape[:-4])), *x.shape[-4:], 1)

    def back(self, y, like):
        return y[..., 0].reshape(*like.shape[:-4], *y.shape[1:-1])

    def taps(self, tap):
        return tap


def max_pooling(view, x, **how):
    v = view(**how)
    c = v.canonical(x)
    result = np.full(result_size(c, *v.window), -np.inf)
    for position, inside, _ in visits(c.shape[1:-1], *v.window):
        result[position] = np.max([c[pixel] for pixel, _ in inside], axis=0)
    return v.back(result, x)


def max_pooling_gradient(view, g, x, **how):
    v = view(**how)
    c, d = v.canonical(x), v.canonical(g)
    result = np.zeros(c.shape)
    for position, inside, _ in visits(c.shape[1:-1], *v.window):
        first = np.argmax([c[pixel] for pixel, _ in inside], axis=0)  # shape (n, c)
        for k, (pixel, _) in enumerate(inside):
            result[pixel] += np.where(first == k, d[position], 0)
    return v.back(result, x)


def return_indices(view, x, return_indices_mode="global_flatten_4d", **how):
    v = view(**how)
    c = v.canonical(x)
    scope, _, axes = return_indices_mode.split("_")
    axes = int(axes[0])
    kernel = v.taps(v.window[0])
    kernel = tuple(max(k, 1) for k in kernel)[-axes:]
    places = v.canonical(np.arange(x.size).reshape(x.shape) % max(int(np.prod(x.shape[-axes:])), 1))
    indices = np.zeros(result_size(c, *v.window), np.int32)
    for position, inside, _ in visits(c.shape[1:-1], *v.window):
        first = np.argmax([c[pixel] for pixel, _ in inside], axis=0)
        if scope == "global":
            at = np.stack([places[pixel] for pixel, _ in inside])
        else:
            taps = [np.ravel_multi_index(v.taps(tap)[-axes:], kernel) for _, tap in inside]
            at = np.broadcast_to(np.reshape(taps, (-1, 1, 1)), (len(taps), *first.shape))
        indices[position] = np.take_along_axis(at, first[None], 0)[0]
    return max_pooling(view, x, **how), v.back(indices, x)


def avg_pooling(view, x, include_zero_pad_to_average=False, **how):
    v = view(**how)
    c = v.canonical(x)
    result = np.zeros(result_size(c, *v.window))
    for position, inside, counted in visits(c.shape[1:-1], *v.window):
        divisor = counted if include_zero_pad_to_average else len(inside)
        result[position] = np.sum([c[pixel] for pixel, _ in inside], axis=0) / divisor
    return v.back(result, x)


def avg_pooling_gradient(view, g, shape, include_zero_pad_to_average=False, **how):
    v = view(**how)
    x = np.zeros(shape)
    d, result = v.canonical(g), np.zeros(v.canonical(x).shape)
    for position, inside, counted in visits(result.shape[1:-1], *v.window):
        for pixel, _ in inside:
            result[pixel] += d[position] / (counted if include_zero_pad_to_average else len(inside))
    return v.back(result, x)


def l2_norm(x, **how):
    v = Tiles(**how)
    c = v.canonical(x)
    result = np.zeros(result_size(c, *v.window))
    for position, inside, _ in visits(c.shape[1:-1], *v.window):
        result[position] = np.linalg.norm([c[pixel] for pixel, _ in inside], axis=0)
    return v.back(result, x)


def l2_norm_gradient(g, x, **how):
    v = Tiles(**how)
    c, d = v.canonical(x), v.canonical(g)
    result = np.zeros(c.shape)
    for position, inside, _ in visits(c.shape[1:-1], *v.window):
        norm = np.linalg.norm([c[pixel] for pixel, _ in inside], axis=0)
        for pixel, _ in inside:
            result[pixel] += np.where(norm == 0, 0, d[position] * c[pixel] / np.where(norm == 0, 1, norm))
    return v.back(result, x)


def batched(view, shape):
    """Axis 0 is a batch axis unless windows extend over it."""
    return () if view is Tiles and len(shape) == 4 else (0, 1)


def maxima(view, label, shape, x=None, check=True, **how):
    x = apart(*shape, seed=60) if x is None else x
    g = values(*max_pooling(view, x, **how).shape, seed=61)
    common = {"label": label, "attributes": how, "gradient": check}
    batch = batched(view, shape)
    return [
        Case(
            f"max_pooling{view.stem}", [x], lambda x, **a: max_pooling(view, x, **a), batch=batch[:1], exact=True,
            **common,
        ),
        Case(
            f"max_pooling{view.stem}_gradient", [g, x], lambda g, x, **a: max_pooling_gradient(view, g, x, **a),
            batch=batch, **common,
        ),
    ]  # fmt: skip


def averages(view, label, shape, check=True, **how):
    x = values(*shape, seed=62)
    g = values(*avg_pooling(view, x, **how).shape, seed=63)
    kind = f"avg_pooling{view.stem}_gradient"

    def build(graph, incoming, **attributes):
        return getattr(graph, kind)(incoming, shape, **attributes)

    common = {"label": label, "attributes": how, "gradient": check, "tolerance": 2}
    return [
        Case(
            f"avg_pooling{view.stem}",
            [x],
            lambda x, **a: avg_pooling(view, x, **a),
            batch=batched(view, shape)[:1],
            **common,
        ),
        Case(kind, [g], lambda g, **a: avg_pooling_gradient(view, g, shape, **a), build=build, batch=(), **common),
    ]


def indexed(view, label, mode, shape, x=None, check=True, located=True, **how):
    """Build cases of max pooling with indices and of the gradient from indices.

    The numpy version computes the gradient from the input, which is possible where the index mode determines the
    position.
    """
    x = apart(*shape, seed=64) if x is None else x
    how = {**how, "return_indices_mode": mode}
    result, indices = return_indices(view, x, **how)
    g = values(*result.shape, seed=65)
    kind = f"max_pooling{view.stem}_gradient_from_indices"
    without = {k: v for k, v in how.items() if k != "return_indices_mode"}
    common = {"label": f"{label}_{mode}", "attributes": how, "gradient": check}

    def build(graph, incoming, indices, **attributes):
        return getattr(graph, kind)(incoming, indices, shape, **attributes)

    forward = Case(
        f"max_pooling{view.stem}_return_indices", [x], lambda x, **a: return_indices(view, x, **a), exact=True,
        batch=() if mode == "global_flatten_4d" else batched(view, shape)[:1], **common,
    )  # fmt: skip
    backward = Case(
        kind, [g, indices], lambda g, _, **a: max_pooling_gradient(view, g, x, **without), build=build, batch=(),
        **common,
    )  # fmt: skip
    return [forward, backward] if located else [forward]


def norms(label, shape, x=None, check=True, **how):
    x = values(*shape, seed=66) if x is None else x
    g = values(*l2_norm(x, **how).shape, seed=67)
    common = {"label": label, "attributes": how, "tolerance": 4, "gradient": check}
    return [
        Case("l2_norm_pooling4d", [x], l2_norm, batch=batched(Tiles, shape)[:1], **common),
        Case("l2_norm_pooling4d_gradient", [g, x], l2_norm_gradient, batch=batched(Tiles, shape), **common),
    ]


WINDOWS = {
    "plain": ((2, 4, 6, 2), {"kernel": 2}),
    "overlapping": ((1, 4, 5, 1), {"kernel": (3, 2), "strides": 1}),
    "gaps": ((1, 7, 5, 2), {"kernel": 2, "strides": (3, 4)}),
    "dilations": ((1, 5, 6, 1), {"kernel": 2, "strides": 1, "dilations": (2, 3)}),
    "same": ((1, 5, 4, 2), {"kernel": 3, "strides": 2, "padding": "TF_SAME"}),
    "same_lower": ((1, 4, 5, 1), {"kernel": 2, "strides": (1, 2), "padding": "ONNX_SAME_LOWER"}),
    "explicit": ((1, 4, 4, 1), {"kernel": 3, "strides": 2, "padding": ((1, 2), (2, 0))}),
    "ceil": ((1, 5, 6, 1), {"kernel": 2, "strides": (2, 3), "ceil_mode": True}),
    "ceil_padding": ((1, 6, 5, 1), {"kernel": 3, "strides": 2, "padding": ((1, 1), (1, 0)), "ceil_mode": True}),
    "nchw": ((2, 2, 4, 4), {"kernel": 2, "data_layout": "NCHW"}),
    "nchw_same": ((1, 2, 5, 6), {"kernel": 3, "strides": (2, 1), "padding": "TF_SAME", "data_layout": "NCHW"}),
    "nchw_strides": ((1, 1, 5, 8), {"kernel": (1, 2), "strides": (2, 3), "data_layout": "NCHW"}),
    "nchw_global": ((1, 3, 3, 5), {"kernel": (3, 5), "data_layout": "NCHW"}),
    "rows": ((1, 2, 6, 3), {"kernel": (2, 1), "data_layout": "NCHW"}),
    "one": ((1, 2, 3, 2), {"kernel": 1}),
    "global": ((2, 3, 2, 3), {"kernel": (3, 2)}),
    "no_images": ((0, 4, 4, 1), {"kernel": 2}),
}
FOUR = {
    "volumes": ((1, 2, 4, 2, 4), {"kernel": (1, 2, 2, 2)}),
    "volumes_last": ((2, 2, 3, 3, 2), {"kernel": (2, 2, 3, 1), "strides": (1, 2, 1, 1)}),
    "four": ((2, 3, 2, 3), {"kernel": 2, "strides": 1}),
    "padding": (
        (2, 2, 3, 3),
        {"kernel": (1, 2, 3, 2), "strides": (1, 2, 1, 2), "padding": ((0, 0), (1, 0), (1, 2), (0, 1))},
    ),
    "same": ((1, 1, 3, 2, 4, 3), {"kernel": (2, 1, 3, 2), "strides": (2, 1, 2, 1), "padding": "TF_SAME"}),
    "ceil": ((1, 3, 3, 4), {"kernel": (1, 2, 2, 1), "strides": (1, 2, 2, 1), "ceil_mode": True}),
    "dilations": ((1, 2, 4, 5), {"kernel": (1, 1, 2, 2), "strides": 1, "dilations": (1, 1, 3, 2)}),
    "gap_between": ((3, 2, 2, 3), {"kernel": (2, 1, 1, 2), "strides": 1}),
    "no_rows": ((2, 0, 3, 2), {"kernel": (1, 1, 2, 2)}),
}  # fmt: skip
MODES = [f"{scope}_flatten_{axes}d" for scope in ("global", "local") for axes in (1, 2, 3, 4)]
TIES = np.array([[1.0, 2.0, 2.0, 2.0], [2.0, 2.0, 0.0, 2.0], [-1.0, -1.0, 3.0, 3.0], [-1.0, -1.0, 3.0, 3.0]])
NAN = np.array([[1.0, np.nan, 2.0, 5.0], [np.nan, 0.0, -1.0, 5.0]])
LOWEST = np.full((1, 2, 2, 1), -np.inf)
# Index modes that determine the position for 2 x 3 windows with strides (1, 2), per layout.
NHWC_LOCATED, NCHW_LOCATED = {"3d", "4d"}, {"2d", "3d", "4d"}

CASES = []
for name, (size, how) in WINDOWS.items():
    CASES += maxima(Images, name, size, **how)
    CASES += averages(Images, name, size, **how)
    if "padding" in how:
        CASES += averages(Images, f"{name}_with_zeros", size, include_zero_pad_to_average=True, **how)
for name, (size, how) in FOUR.items():
    CASES += maxima(Tiles, name, size, **how)
    CASES += averages(Tiles, name, size, **how)
    CASES += norms(name, size, **how)
    if "padding" in how:
        CASES += averages(Tiles, f"{name}_with_zeros", size, include_zero_pad_to_average=True, **how)
for mode in MODES:
    window = {"kernel": (2, 3), "strides": (1, 2), "padding": ((1, 0), (0, 1))}
    CASES += indexed(Images, "each_nhwc", mode, (2, 3, 5, 2), located=mode[-2:] in NHWC_LOCATED, **window)
    CASES += indexed(
        Images, "each_nchw", mode, (1, 2, 3, 5), located=mode[-2:] in NCHW_LOCATED, data_layout="NCHW", **window
    )
    CASES += indexed(
        Tiles, "each_volumes", mode, (2, 2, 2, 3, 4), located=mode[-2:] in {"3d", "4d"}, kernel=(1, 2, 2, 2), strides=1
    )
    CASES += indexed(
        Tiles, "each_columns", mode, (3, 2, 4, 2), located=mode[-2:] != "1d", kernel=(1, 1, 3, 1), strides=(2, 1, 1, 1)
    )
for name, (size, how) in WINDOWS.items():
    CASES += indexed(Images, name, "global_flatten_4d", size, **how)
    CASES += indexed(Images, name, "local_flatten_4d", size, **how)
for name in ("four", "same", "gap_between", "no_rows"):
    CASES += indexed(Tiles, name, "global_flatten_4d", FOUR[name][0], **FOUR[name][1])
    CASES += indexed(Tiles, name, "local_flatten_4d", FOUR[name][0], **FOUR[name][1])
for layout, shape in (("NHWC", (1, 4, 4, 1)), ("NCHW", (1, 1, 4, 4))):
    ties = TIES.reshape(shape)
    for name, how in {"ties": {"kernel": 2}, "ties_overlapping": {"kernel": 3, "strides": 1}}.items():
        CASES += maxima(Images, f"{name}_{layout}", shape, ties, check=False, data_layout=layout, **how)
        CASES += indexed(
            Images, f"{name}_{layout}", "global_flatten_3d", shape, ties, check=False, data_layout=layout, **how
        )
CASES += indexed(Images, "nan", "local_flatten_4d", (1, 2, 4, 1), NAN.reshape(1, 2, 4, 1), check=False, kernel=2)
CASES += indexed(
    Images, "nan_nchw", "global_flatten_2d", (1, 1, 2, 4), NAN.reshape(1, 1, 2, 4), check=False, kernel=2,
    data_layout="NCHW",
)  # fmt: skip
CASES += indexed(Images, "lowest", "global_flatten_3d", (1, 2, 2, 1), LOWEST, check=False, kernel=2)
CASES += maxima(Images, "nan", (1, 2, 4, 1), NAN.reshape(1, 2, 4, 1), check=False, kernel=2)
CASES += maxima(Images, "negative", (1, 3, 3, 1), -1 - values(1, 3, 3, 1) ** 2, kernel=2, strides=1, padding="TF_SAME")
CASES += norms("zeros", (1, 2, 2, 1), np.array([0.0, 0.0, 3.0, 4.0]).reshape(1, 2, 2, 1), check=False,
               kernel=(1, 1, 2, 1))  # fmt: skip
for view, name, size, how in (
    (Images, "wide", (3, 12, 12, 33), {"kernel": 2}),
    (Images, "wide_nchw", (3, 5, 12, 140), {"kernel": 2, "data_layout": "NCHW"}),
    (Images, "many_taps", (1, 12, 12, 5), {"kernel": 9, "strides": 1}),
    (Tiles, "wide", (2, 4, 6, 6, 33), {"kernel": (2, 2, 2, 1)}),
):
    CASES += maxima(view, name, size, check=False, **how)
    CASES += averages(view, name, size, check=False, **how)
    CASES += indexed(view, name, "global_flatten_4d", size, check=False, **how)
    CASES += indexed(view, name, "local_flatten_4d", size, check=False, **how)


# --- expected values from torch 2.13 ----------------------------------------------------------------------------------
PI = np.array(
    [[3.0, 1, 4, 1, 5], [9, 2, 6, 5, 3], [5, 8, 9, 7, 9], [3, 2, 3, 8, 4], [6, 2, 6, 4, 3]]
)  # fmt: skip


def golden(operation, label, x, *wanted, **how):
    return Case(
        operation, [x], lambda *_, **__: [np.array(w) for w in wanted], attributes=how, label=label, batch=(),
        gradient=False, dtypes=("float32", "float64"),
    )  # fmt: skip


CASES += [
    golden(  # max_pool2d(3, 2, padding=1, return_indices=True)
        "max_pooling2d_return_indices", "torch", PI.reshape(1, 1, 5, 5),
        np.array([9.0, 6, 5, 9, 9, 9, 6, 8, 8]).reshape(1, 1, 3, 3),
        np.array([5, 7, 4, 5, 12, 14, 20, 18, 18]).reshape(1, 1, 3, 3), kernel=3, strides=2,
        padding=((1, 1), (1, 1)), data_layout="NCHW", return_indices_mode="global_flatten_2d",
    ),
    golden(  # max_pool3d((2, 3, 3), (1, 2, 2), return_indices=True)
        "max_pooling4d_return_indices", "torch", np.stack([PI, PI[::-1]]).reshape(1, 1, 2, 5, 5),
        np.full((1, 1, 1, 2, 2), 9.0), np.array([5, 12, 12, 12]).reshape(1, 1, 1, 2, 2), kernel=(1, 2, 3, 3),
        strides=(1, 1, 2, 2), return_indices_mode="global_flatten_3d",
    ),
    golden(  # avg_pool2d(3, 2, padding=1, count_include_pad=True) * 9
        "avg_pooling2d", "torch_padding", 9 * PI.reshape(1, 1, 5, 5),
        np.array([15.0, 19, 14, 29, 50, 36, 13, 25, 19]).reshape(1, 1, 3, 3), kernel=3, strides=2,
        padding=((1, 1), (1, 1)), data_layout="NCHW", include_zero_pad_to_average=True,
    ),
    golden(  # avg_pool2d(2, ceil_mode=True)
        "avg_pooling2d", "torch_ceil", PI.reshape(1, 1, 5, 5),
        np.array([3.75, 4, 4, 4.5, 6.75, 6.5, 4, 5, 3]).reshape(1, 1, 3, 3), kernel=2, ceil_mode=True,
        data_layout="NCHW", include_zero_pad_to_average=True,
    ),
    golden(  # lp_pool2d(2, 2)
        "l2_norm_pooling4d", "torch", PI.reshape(1, 1, 5, 5), np.sqrt([[[[95.0, 78], [102, 203]]]]),
        kernel=(1, 1, 2, 2), strides=(1, 1, 2, 2),
    ),
]  # fmt: skip
