"""Cases of the stencil family: every reduction, boundary mode, padding style, offset, stride, and dilation.

The numpy version visits each tap and looks up the value that the boundary mode gives for each position. Some expected
values are from torch 2.13.
"""

import functools
import itertools
import math

import numpy as np
from harness.case import Case, apart, off_zero, values

from cases.convolution import padding_of, pair


def shown(i, n, mode):
    """Return the index of the element at position i of an axis with n elements, or None for the constant, and
    its sign.
    """
    if 0 <= i < n:
        return i, 1
    if mode in ("zero", "constant"):
        return None, 1
    if mode == "clamp_to_edge":
        return min(max(i, 0), n - 1), 1
    if mode == "periodic":
        return i % n, 1
    if mode == "anti_periodic":
        return i % n, -1 if i // n % 2 else 1
    period = 2 * n if mode == "symmetric" else max(2 * n - 2, 1)
    i %= period
    return (i if i < n else period - i - (mode == "symmetric")), 1


REDUCTIONS = {  # combine two partial results; a NaN that comes first is kept
    "sum": np.add, "product": np.multiply,
    "minimum": lambda a, b: np.where(b < a, b, a), "maximum": lambda a, b: np.where(b > a, b, a),
}  # fmt: skip
POSITIONS = {"arg_minimum": np.argmin, "arg_maximum": np.argmax}


def mesh(axes):
    return np.meshgrid(*axes, indexing="ij", sparse=True)


def stencil(
    x, w, reduction_mode="sum", strides=1, dilations=1, padding=((0, 0),) * 4, offsets=None, boundary_mode="zero",
    padding_constant=0.0,
):  # fmt: skip
    strides, dilations = pair(strides, 4), pair(dilations, 4)
    sides = (padding,) * 4 if isinstance(padding, str) else padding
    size, axes = x.shape[-4:], []
    for a, (n, k, s, d, side) in enumerate(zip(size, w.shape, strides, dilations, sides, strict=True)):
        before, after = padding_of(side, n, k, s, d)
        count = (n + before + after - ((k - 1) * d + 1)) // s + 1
        start = -before if offsets is None else offsets[a]
        axes.append([[shown(start + p * s + t * d, n, boundary_mode) for t in range(k)] for p in range(count)])
    flat = x.reshape(int(np.prod(x.shape[:-4])), *size)
    outside, taps = padding_constant if boundary_mode == "constant" else 0.0, []
    for tap in itertools.product(*(range(k) for k in w.shape)):
        looks = [[position[t] for position in axis] for axis, t in zip(axes, tap, strict=True)]
        inside = math.prod(mesh([i is not None for i, _ in axis] for axis in looks))
        signs = math.prod(mesh([sign for _, sign in axis] for axis in looks))
        seen = flat[(slice(None), *mesh([i or 0 for i, _ in axis] for axis in looks))]
        taps.append(np.where(inside, signs * seen, outside) * w[tap])
    if reduction_mode in POSITIONS:
        result = POSITIONS[reduction_mode](taps, axis=0).astype(np.int32)
    else:
        result = functools.reduce(REDUCTIONS[reduction_mode], taps)
    return result.reshape(*x.shape[:-4], *result.shape[1:])


def case(label, shape, window, x=None, w=None, check=True, tolerance=4.0, batch=True, **how):
    x = values(*shape, seed=70) if x is None else x
    w = values(*window, seed=71) if w is None else w
    return Case(
        "stencil", [x, w], stencil, attributes=how, label=label, gradient=check, tolerance=tolerance,
        batch=(0,) if batch and len(shape) > 4 else (), unranked=False,
    )  # fmt: skip


MODES = ("zero", "constant", "clamp_to_edge", "reflect", "symmetric", "periodic", "anti_periodic")
WIDE = ((0, 0), (1, 0), (0, 2), (3, 1))
CASES = [
    case("plain", (2, 1, 2, 3, 4), (1, 2, 2, 3)),
    case("four", (2, 3, 2, 3), (2, 2, 1, 2)),
    case("channels", (1, 4, 5, 3), (1, 2, 3, 1)),
    case("strides", (1, 1, 5, 7), (1, 1, 2, 3), strides=(1, 1, 2, 3), dilations=(1, 1, 2, 1)),
    case("strides_of_channels", (1, 5, 6, 2), (1, 3, 2, 1), strides=(1, 2, 3, 1), dilations=(1, 1, 2, 1)),
    case("same", (1, 2, 3, 4), (1, 1, 3, 2), padding="TF_SAME"),
    case("same_strides", (1, 1, 5, 6), (1, 1, 2, 3), padding="TF_SAME", strides=(1, 1, 2, 3)),
    case("same_lower", (1, 1, 4, 3), (1, 1, 2, 2), padding="ONNX_SAME_LOWER", boundary_mode="periodic"),
    case("valid", (1, 1, 4, 3), (1, 1, 2, 2), padding="TF_VALID"),
    case("offsets", (1, 1, 4, 5), (1, 1, 2, 2), offsets=(0, 0, -1, 1), boundary_mode="symmetric"),
    case(
        "offsets_padding", (2, 1, 1, 4, 5), (1, 1, 3, 3), offsets=(0, 0, 2, -2), boundary_mode="periodic",
        padding=((0, 0), (0, 0), (1, 1), (2, 0)),
    ),
    case("offsets_before", (1, 1, 1, 5), (1, 1, 1, 2), offsets=(0, 0, 0, -2), strides=(1, 1, 1, 2)),
    case("offsets_beyond", (1, 1, 1, 3), (1, 1, 1, 2), offsets=(0, 0, 0, 4), boundary_mode="constant",
         padding_constant=2.5),
    case("one_tap", (2, 1, 3, 2), (1, 1, 1, 1)),
    case("no_images", (0, 1, 1, 3, 3), (1, 1, 2, 2), batch=False),
    case("wide", (2, 1, 1, 9, 150), (1, 1, 3, 3), check=False, padding="TF_SAME"),
    case("wide_channels", (1, 6, 7, 150), (1, 3, 3, 1), check=False, padding="TF_SAME", strides=(1, 1, 2, 1)),
]  # fmt: skip
CASES += [
    case(f"boundary_{mode}", (1, 1, 2, 3, 4), (1, 2, 2, 3), padding=WIDE, boundary_mode=mode, padding_constant=1.5)
    for mode in MODES
]
for mode in ("product", "minimum", "maximum"):
    far = {"x": apart(1, 1, 4, 5, seed=72, distance=0.4), "w": np.array([[[[1.0, 0.7], [1.3, 0.9]]]])}
    CASES += [
        case(mode, (1, 1, 4, 5), (1, 1, 2, 2), reduction_mode=mode, tolerance=8, **far),
        case(
            f"{mode}_boundary", (1, 2, 3, 4), (1, 1, 2, 3), x=off_zero(1, 2, 3, 4, seed=73),
            w=off_zero(1, 1, 2, 3, seed=74), reduction_mode=mode, padding="TF_SAME", boundary_mode="reflect",
            strides=(1, 1, 1, 2), tolerance=8,
        ),
        case(f"{mode}_channels", (1, 3, 3, 2), (1, 2, 2, 1), x=off_zero(1, 3, 3, 2, seed=75),
             w=off_zero(1, 2, 2, 1, seed=76), reduction_mode=mode, tolerance=8),
    ]  # fmt: skip
for mode in ("arg_minimum", "arg_maximum"):
    exact = {"x": np.round(values(1, 2, 5, 6, seed=77)), "w": np.ones((1, 2, 2, 2))}  # ties, of which the first counts
    CASES += [
        case(mode, (1, 2, 5, 6), (1, 2, 2, 2), reduction_mode=mode, **exact),
        case(f"{mode}_channels", (1, 2, 5, 6), (1, 2, 2, 1), reduction_mode=mode, x=exact["x"], w=exact["w"][..., :1]),
    ]


# --- expected values from other libraries -----------------------------------------------------------------------------
PI = np.array([[3.0, 1, 4, 1, 5], [9, 2, 6, 5, 3], [5, 8, 9, 7, 9]]).reshape(1, 1, 3, 5)
CROSS = np.array([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]]).reshape(1, 1, 3, 3)


def golden(label, w, numbers, **how):
    wanted = np.array(numbers, float).reshape(1, 1, 3, 5)
    return Case(
        "stencil", [PI, w], lambda *_, **__: wanted, attributes={"padding": "TF_SAME", **how}, label=label, batch=(),
        gradient=False, unranked=False, dtypes=("float32", "float64"),
    )  # fmt: skip


CASES += [  # conv2d after padding, and max_pool2d, in torch 2.13
    golden("torch_zero", CROSS, [-2, 5, -8, 10, -16, -26, 16, -4, -3, 7, -3, -16, -15, -5, -26]),
    golden("torch_reflect", CROSS, [8, 7, -2, 15, -12, -24, 16, -4, -3, 12, 14, -14, -9, 0, -16],
           boundary_mode="reflect"),
    golden("torch_replicate", CROSS, [4, 6, -4, 11, -6, -17, 16, -4, -3, 10, 7, -8, -6, 2, -8],
           boundary_mode="clamp_to_edge"),
    golden("torch_circular", CROSS, [8, 13, 1, 17, -4, -23, 16, -4, -3, 16, 9, -15, -11, -4, -16],
           boundary_mode="periodic"),
    golden("torch_maximum", np.ones((1, 1, 3, 3)), [9, 9, 6, 6, 5, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
           reduction_mode="maximum", boundary_mode="constant", padding_constant=-100.0),
]  # fmt: skip
