"""Cases of the resize family: every rounding and centering, layouts, growing and shrinking, scale and offset.

Most expected values use the matrices below; those labeled "torch" are from torch.nn.functional.interpolate of torch
2.13.
"""

import numpy as np
from harness.case import FLOATS, NUMBERS, ORDERED, Case, apart, values

ROUNDINGS = {
    "round_prefer_ceil": lambda p: np.floor(p + 0.5),
    "round_prefer_floor": lambda p: np.ceil(p - 0.5),
    "ceil": np.ceil,
    "floor": np.floor,
    "round_to_even": np.round,
    "round_to_odd": lambda p: 2 * np.floor(p / 2) + 1 if p % 1 == 0.5 else np.floor(p + 0.5),
}
AXES = {"NHWC": (1, 2), "NCHW": (2, 3), "HWC": (0, 1), "CHW": (1, 2), "HW": (0, 1)}


def matrix(before, after, how, rounding=None, scale=None, offset=None):
    """Return the weight of each input element (column) in each output element (row)."""
    result = np.zeros((after, before))
    for i in range(after):
        if scale is not None:
            place = (i - offset) / scale
        elif how.get("align_corners"):
            place = i * (before - 1) / (after - 1) if after > 1 else 0.0
        else:
            place = (i + 0.5) * before / after - 0.5 if how.get("center_result") else i * before / after
        if rounding:
            result[i, int(np.clip(ROUNDINGS[rounding](place), 0, before - 1))] = 1
            continue
        place = np.clip(place, 0, before - 1)
        low = int(np.floor(place))
        result[i, low] += 1 - (place - low)
        if place > low:
            result[i, low + 1] += place - low
    return result


def matrices(shape, size, layout, how, rounding, scale, offset):
    axes = AXES[layout] if layout else range(len(shape))
    for k, axis in enumerate(axes):
        given = {} if scale is None else {"scale": float(scale[k]), "offset": float(offset[k])}
        yield axis, matrix(shape[axis], int(size[k]), how, rounding, **given)


def apply(x, parts, dtype):
    for axis, m in parts:
        x = np.moveaxis(np.tensordot(m.astype(x.dtype) if x.dtype.kind != "b" else m, x, (1, axis)), 0, axis)
    return x.astype(dtype)


def resized(x, size, nearest_rounding_mode=None, layout=None, scale=None, offset=None, scale_offset=None, **how):
    if scale_offset is not None:
        scale, offset = scale_offset[:2], scale_offset[2:]
    return apply(x, matrices(x.shape, size, layout, how, nearest_rounding_mode, scale, offset), x.dtype)


def resize_gradient(g, shape, nearest_rounding_mode=None, layout=None, scale=None, offset=None, **how):
    size = [g.shape[a] for a in (AXES[layout] if layout else range(g.ndim))]
    parts = matrices(shape, size, layout, how, nearest_rounding_mode, scale, offset)
    return apply(g, ((axis, m.T) for axis, m in parts), g.dtype)


IMAGES = apart(2, 3, 4, 2, seed=190)
PLANE = apart(3, 5, seed=191)
CENTRING = {
    "top_left": {"center_result": False},
    "centered": {"center_result": True},
    "corners": {"align_corners": True},
}


def both(label, x, size, how, kind):
    """Yield the forward case and its gradient."""
    nearest = kind == "resize_nearest"
    if nearest:
        how = {"nearest_rounding_mode": "round_prefer_ceil", **how}
    options = {"batch": (), "tolerance": 4}
    yield Case(kind, [x], lambda x, size, **how: resized(x, size, **how), {"size": size, **how}, label=label,
               dtypes=ORDERED if nearest else FLOATS, exact=nearest, **options)  # fmt: skip
    result = resized(x, size, **how)
    build = lambda g, d, **how: getattr(g, kind + "_gradient")(d, x.shape, **how)  # noqa: E731
    oracle = lambda d, **how: resize_gradient(d, x.shape, **how)  # noqa: E731
    yield Case(kind + "_gradient", [apart(*result.shape, seed=192)], oracle, how, label=label, build=build,
               dtypes=NUMBERS if nearest else FLOATS, **options)  # fmt: skip


def cases():
    for kind in ("resize_nearest", "resize_bilinear"):
        for name, centring in CENTRING.items():
            yield from both(f"{name}_grown", PLANE, (7, 8), {"layout": "HW", **centring}, kind)
            yield from both(f"{name}_shrunk", apart(9, 8, seed=193), (4, 3), {"layout": "HW", **centring}, kind)
        for layout in AXES:
            x = {2: PLANE, 3: apart(3, 4, 5, seed=194), 4: IMAGES}[len(layout)]
            yield from both(f"layout_{layout}", x, (5, 3), {"layout": layout, "center_result": True}, kind)
        yield from both("all_axes", apart(2, 3, 2, seed=195), (3, 4, 5), {"center_result": True}, kind)
        yield from both("one_axis", PLANE, (3, 9), {"align_corners": True}, kind)
        yield from both("same_size", PLANE, (3, 5), {"center_result": True}, kind)
        yield from both("from_one", apart(1, 1, seed=196), (2, 3), {"layout": "HW"}, kind)
        yield from both("to_one", PLANE, (1, 1), {"layout": "HW", "align_corners": True}, kind)
        yield from both("nothing", values(0, 4, 4, 2), (2, 3), {"layout": "NHWC"}, kind)
        yield from both("to_nothing", PLANE, (0, 3), {"layout": "HW"}, kind)
    for rounding in ROUNDINGS:
        for name, centring in CENTRING.items():
            how = {"nearest_rounding_mode": rounding, "layout": "HW", **centring}
            yield from both(f"{rounding}_{name}", PLANE, (6, 9), how, "resize_nearest")


# --- sizes, scales, and offsets as tensors ----------------------------------------------------------------------------
def ints(*numbers):
    return np.array(numbers, np.int32)


def floats(*numbers):
    return np.array(numbers, np.float32)


def tensors():
    scale, offset = floats(1.5, 2.0), floats(0.25, -0.5)
    for kind in ("resize_nearest", "resize_bilinear"):
        nearest = {"nearest_rounding_mode": "round_prefer_floor"} if kind == "resize_nearest" else {}
        how = {"layout": "HW", **nearest}
        dtypes = NUMBERS if nearest else FLOATS

        def by_size(g, x, size, kind=kind, **how):
            return getattr(g, kind)(x, size, **how)

        centered = {**how, "center_result": True}
        yield Case(kind, [PLANE, ints(4, 7)], lambda x, size, **how: resized(x, size, **how), centered,
                   label="size_tensor", build=by_size, dtypes=dtypes, batch=(), late=True)  # fmt: skip

        def placed(g, x, s, o, kind=kind, **how):
            return getattr(g, kind)(x, (4, 9), scale=s, offset=o, **how)

        oracle = lambda x, s, o, **how: resized(x, (4, 9), scale=s, offset=o, **how)  # noqa: E731
        yield Case(kind, [PLANE, scale, offset], oracle, how, label="placed", build=placed, dtypes=dtypes, batch=(),
                   tolerance=4)  # fmt: skip

        def placed_back(g, d, s, o, kind=kind, **how):
            return getattr(g, kind + "_gradient")(d, PLANE.shape, scale=s, offset=o, **how)

        oracle = lambda d, s, o, **how: resize_gradient(d, PLANE.shape, scale=s, offset=o, **how)  # noqa: E731
        yield Case(kind + "_gradient", [apart(4, 9, seed=197), scale, offset], oracle, how, label="placed",
                   build=placed_back, dtypes=dtypes, batch=(), tolerance=4)  # fmt: skip
        all_axes = {"size": (4, 9), "scale": (1.5, 2.0), "offset": (0.25, -0.5), **nearest}
        yield Case(kind, [PLANE], resized, all_axes, label="placed_by_numbers", dtypes=dtypes, batch=(), tolerance=4)
        in_one = {"size": (4, 9), "scale_offset": (1.5, 2.0, 0.25, -0.5), "layout": "HW", **nearest}
        yield Case(kind, [PLANE], resized, in_one, label="scale_offset", dtypes=dtypes, batch=(), tolerance=4)


# --- expected values from PyTorch -------------------------------------------------------------------------------------
SMALL = np.array([[1.0, 2.0, -3.0], [4.0, 0.5, 6.0]])
TORCH = {
    "torch_bilinear": ("resize_bilinear", (3, 5), {"center_result": True},
                       [[1.0, 1.4, 2.0, -1.0, -3.0], [2.5, 2.0, 1.25, 1.4, 1.5], [4.0, 2.6, 0.5, 3.8, 6.0]]),
    "torch_corners": ("resize_bilinear", (3, 5), {"align_corners": True},
                      [[1.0, 1.5, 2.0, -0.5, -3.0], [2.5, 1.875, 1.25, 1.375, 1.5], [4.0, 2.25, 0.5, 3.25, 6.0]]),
    "torch_down": ("resize_bilinear", (1, 2), {"center_result": True}, [[2.1875, 1.4375]]),
    "torch_nearest": ("resize_nearest", (3, 5), {"nearest_rounding_mode": "floor", "center_result": False},
                      [[1, 1, 2, 2, -3], [1, 1, 2, 2, -3], [4, 4, 0.5, 0.5, 6]]),
    "torch_nearest_exact": ("resize_nearest", (3, 5), {"center_result": True},
                            [[1, 1, 2, -3, -3], [4, 4, 0.5, 6, 6], [4, 4, 0.5, 6, 6]]),
}  # fmt: skip


def from_torch():
    for label, (kind, size, how, numbers) in TORCH.items():
        oracle = lambda x, size, layout, numbers=numbers, **how: np.array(numbers)  # noqa: E731
        how = {"size": size, "layout": "HW", **how}
        yield Case(kind, [SMALL], oracle, how, label=label, dtypes=("float32", "float64"), tolerance=2, batch=())


CASES = [*cases(), *tensors(), *from_torch()]
