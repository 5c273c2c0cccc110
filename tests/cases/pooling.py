"""Cases of the family pooling: maximum and average, every padding and layout, rounding up, and both gradients.

The oracle visits each window of each channel. Maxima are distinct where derivatives are checked.
"""

import numpy as np
from harness.case import Case, apart, values

from cases.convolution import from_nhwc, nhwc, padding_of, pair


def windows_of(size, kernel, strides, dilations, padding, ceil_mode):
    """For both axes, for each position: the indices that its taps read; outside 0..n-1 they are padding."""
    sides = (padding, padding) if isinstance(padding, str) else padding
    result = []
    for n, k, s, d, side in zip(size, kernel, strides, dilations, sides, strict=True):
        before, after = padding_of(side, n, k, s, d)
        room = n + before + after - ((k - 1) * d + 1)
        count = room // s + 1
        if ceil_mode and room % s and count * s < n + before and not (isinstance(padding, str) and "SAME" in padding):
            count += 1
        result.append(([[p * s + t * d - before for t in range(k)] for p in range(count)], n, after))
    return result


def visit(x, kernel, strides, dilations, padding, ceil_mode):
    """(y, x, the pixels inside the window, how many taps count with zero padding) for every position."""
    rows, columns = windows_of(x.shape[1:3], kernel, strides, dilations, padding, ceil_mode)
    for y, ys in enumerate(rows[0]):
        for c, cs in enumerate(columns[0]):
            inside = [(i, j) for i in ys for j in cs if 0 <= i < rows[1] and 0 <= j < columns[1]]
            counted = sum(i < rows[1] + rows[2] for i in ys) * sum(j < columns[1] + columns[2] for j in cs)
            yield y, c, inside, counted
    return


def result_size(x, kernel, strides, dilations, padding, ceil_mode):
    rows, columns = windows_of(x.shape[1:3], kernel, strides, dilations, padding, ceil_mode)
    return x.shape[0], len(rows[0]), len(columns[0]), x.shape[3]


def described(kernel, strides=None, dilations=1, padding="TF_VALID", ceil_mode=False):
    kernel = pair(kernel)
    return kernel, kernel if strides is None else pair(strides), pair(dilations), padding, ceil_mode


def max_pooling(x, data_layout="NHWC", **how):
    x, window = nhwc(x, data_layout), described(**how)
    result = np.zeros(result_size(x, *window))
    for i, j, inside, _ in visit(x, *window):
        result[:, i, j] = np.max([x[:, a, b] for a, b in inside], axis=0)
    return from_nhwc(result, data_layout)


def max_pooling_gradient(g, x, data_layout="NHWC", **how):
    g, x, window = nhwc(g, data_layout), nhwc(x, data_layout), described(**how)
    result = np.zeros(x.shape)
    for i, j, inside, _ in visit(x, *window):
        first = np.argmax([x[:, a, b] for a, b in inside], axis=0)  # of shape (n, c)
        for k, (a, b) in enumerate(inside):
            result[:, a, b] += np.where(first == k, g[:, i, j], 0)
    return from_nhwc(result, data_layout)


def avg_pooling(x, data_layout="NHWC", include_zero_pad_to_average=False, **how):
    x, window = nhwc(x, data_layout), described(**how)
    result = np.zeros(result_size(x, *window))
    for i, j, inside, counted in visit(x, *window):
        divisor = counted if include_zero_pad_to_average else len(inside)
        result[:, i, j] = np.sum([x[:, a, b] for a, b in inside], axis=0) / divisor
    return from_nhwc(result, data_layout)


def avg_pooling_gradient(g, shape, data_layout="NHWC", include_zero_pad_to_average=False, **how):
    g, window = nhwc(g, data_layout), described(**how)
    result = np.zeros(nhwc(np.empty(shape), data_layout).shape)
    for i, j, inside, counted in visit(result, *window):
        for a, b in inside:
            result[:, a, b] += g[:, i, j] / (counted if include_zero_pad_to_average else len(inside))
    return from_nhwc(result, data_layout)


def maxima(label, shape, x=None, check=True, **how):
    x = apart(*shape, seed=60) if x is None else x
    g = values(*max_pooling(x, **how).shape, seed=61)
    common = {"label": label, "attributes": how, "gradient": check}
    return [
        Case("max_pooling2d", [x], max_pooling, batch=(0,), exact=True, **common),
        Case("max_pooling2d_gradient", [g, x], max_pooling_gradient, batch=(0, 1), **common),
    ]


def averages(label, shape, check=True, **how):
    x = values(*shape, seed=62)
    g = values(*avg_pooling(x, **how).shape, seed=63)

    def build(graph, incoming, **attributes):
        return graph.avg_pooling2d_gradient(incoming, shape, **attributes)

    common = {"label": label, "attributes": how, "gradient": check, "tolerance": 2}
    return [
        Case("avg_pooling2d", [x], avg_pooling, batch=(0,), **common),
        Case(
            "avg_pooling2d_gradient", [g], lambda g, **a: avg_pooling_gradient(g, shape, **a), build=build, batch=(),
            **common,
        ),
    ]  # fmt: skip


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
    "global": ((2, 3, 2, 3), {"kernel": (3, 2)}),
    "no_images": ((0, 4, 4, 1), {"kernel": 2}),
}
TIES = np.array([[1.0, 2.0, 2.0, 2.0], [2.0, 2.0, 0.0, 2.0], [-1.0, -1.0, 3.0, 3.0], [-1.0, -1.0, 3.0, 3.0]])

CASES = []
for name, (size, how) in WINDOWS.items():
    CASES += maxima(name, size, **how)
    CASES += averages(name, size, **how)
    if "padding" in how:
        CASES += averages(f"{name}_with_zeros", size, include_zero_pad_to_average=True, **how)
CASES += maxima("ties", (1, 4, 4, 1), TIES.reshape(1, 4, 4, 1), check=False, kernel=2)
CASES += maxima("ties_overlapping", (1, 4, 4, 1), TIES.reshape(1, 4, 4, 1), check=False, kernel=3, strides=1)
CASES += maxima("negative", (1, 3, 3, 1), -1 - values(1, 3, 3, 1) ** 2, kernel=2, strides=1, padding="TF_SAME")
CASES += maxima("wide", (3, 12, 12, 33), check=False, kernel=2)
CASES += averages("wide", (3, 12, 12, 33), check=False, kernel=3, strides=2)
