"""Cases of the shape family, continued: space to batch and depth, reversal, coordinates, and bits."""

import numpy as np
from harness.case import Case, apart

from cases.shape import CUBE, moved

IMAGES = apart(2, 3, 4, 6, seed=130)  # NCHW
LATE = {"batch": (), "late": True}


def scalar(number):
    return np.array(number, np.int32)


# --- blocks, element by element ---------------------------------------------------------------------------------------
def to_blocks(x, spatial, batch, sizes, shuffle=False):
    """Move every element to its position according to the definition."""
    spatial, batch = [a % x.ndim for a in spatial], batch % x.ndim
    n, volume = x.shape[batch], int(np.prod(sizes))
    shape = list(x.shape)
    for axis, size in zip(spatial, sizes, strict=True):
        shape[axis] //= size
    shape[batch] *= volume
    result = np.zeros(shape, x.dtype)
    for index in np.ndindex(*x.shape):
        place, to = 0, list(index)
        for axis, size in zip(spatial, sizes, strict=True):
            place = place * size + index[axis] % size
            to[axis] = index[axis] // size
        to[batch] = index[batch] * volume + place if shuffle else place * n + index[batch]
        result[tuple(to)] = x[index]
    return result


def from_blocks(y, spatial, batch, sizes, shuffle=False):
    """Apply to_blocks to element numbers and invert the resulting permutation."""
    shape = list(y.shape)
    for axis, size in zip(spatial, sizes, strict=True):
        shape[axis] *= size
    shape[batch] //= int(np.prod(sizes))
    places = to_blocks(np.arange(int(np.prod(shape))).reshape(shape), spatial, batch, sizes, shuffle)
    result = np.zeros(int(np.prod(shape)), y.dtype)
    result[places.ravel()] = y.ravel()
    return result.reshape(shape)


def plane(function):
    def oracle(x, width_axis, height_axis, depth_axis, block_size, use_pixel_shuffle_order=False):
        size = [block_size] * 2
        return function(x, [int(height_axis), int(width_axis)], int(depth_axis), size, use_pixel_shuffle_order)

    return oracle


def space(function):
    def oracle(x, spatial_axes, batch_axis, block_dimensions, use_pixel_shuffle_order=False):
        sizes = [int(n) for n in block_dimensions]
        return function(x, [int(a) for a in spatial_axes], int(batch_axis), sizes, use_pixel_shuffle_order)

    return oracle


def blocks():
    for shuffle in (False, True):
        suffix = "_shuffled" if shuffle else ""
        order = {"use_pixel_shuffle_order": shuffle}
        nchw = {"width_axis": 3, "height_axis": -2, "depth_axis": 1, "block_size": 2, **order}
        nhwc = {"width_axis": 2, "height_axis": 1, "depth_axis": 3, "block_size": 1, **order}
        deep = to_blocks(IMAGES, [2, 3], 1, [2, 2], shuffle)
        yield moved("space_to_depth2d", [IMAGES], plane(to_blocks), "nchw" + suffix, nchw, batch=(0,))
        yield moved("space_to_depth2d", [IMAGES], plane(to_blocks), "ones" + suffix, nhwc, batch=(0,))
        yield moved("depth_to_space2d", [deep], plane(from_blocks), "nchw" + suffix, nchw, batch=(0,))
        rows = {"spatial_axes": [1, 2, 3], "batch_axis": 0, "block_dimensions": [3, 2, 1], **order}
        batched = to_blocks(IMAGES, [1, 2, 3], 0, [3, 2, 1], shuffle)
        yield moved("space_to_batch", [IMAGES], space(to_blocks), "three" + suffix, rows)
        yield moved("batch_to_space", [batched], space(from_blocks), "three" + suffix, rows)


LAST = {"spatial_axes": [0], "batch_axis": 1, "block_dimensions": [2]}
AXES = [scalar(3), scalar(2), scalar(1)]
SPACE = [np.array([3, 2], np.int32), scalar(0), np.array([3, 2], np.int32)]


def ordered(function):
    """Convert the tensor operands to Python integers. Spatial axes may be in any order, and the last one
    varies fastest.
    """
    return lambda x, axes, batch, sizes: function(x, [int(a) for a in axes], int(batch), [int(n) for n in sizes])


TENSORS = [
    moved(
        "space_to_depth2d", [IMAGES, *AXES], plane(to_blocks), "tensor_axes", {"block_size": 2}, **LATE,
        build=lambda g, x, w, h, d, block_size: g.space_to_depth2d(x, w, h, d, block_size),
    ),
    moved(
        "depth_to_space2d", [to_blocks(IMAGES, [2, 3], 1, [2, 2]), *AXES], plane(from_blocks), "tensor_axes",
        {"block_size": 2}, build=lambda g, x, w, h, d, block_size: g.depth_to_space2d(x, w, h, d, block_size), **LATE,
    ),
    moved("space_to_batch", [IMAGES, *SPACE], ordered(to_blocks), "tensors", **LATE),
    moved("batch_to_space", [to_blocks(IMAGES, [3, 2], 0, [3, 2]), *SPACE], ordered(from_blocks), "tensors", **LATE),
]  # fmt: skip


# --- other operations -------------------------------------------------------------------------------------------------
def reversed_(x, axes=None):
    return np.flip(x, None if axes is None else tuple(np.atleast_1d(axes))).copy()


def coordinates(shape, axis):
    return np.broadcast_to(np.arange(shape[axis]).reshape([-1] + [1] * (len(shape) - 1 - axis % len(shape))), shape)


def coordinate(label, axis, shape):
    oracle = lambda axis, shape: coordinates(shape, axis).astype(np.int32)  # noqa: E731
    return Case("coordinate_along_axis", [], oracle, {"axis": axis, "shape": shape}, label=label, dtypes=())


def seen_as(label, x, dtype, **options):
    oracle = lambda x, dtype: x.astype("float32").view(dtype)  # noqa: E731
    return moved("reinterpret_cast", [x], oracle, label, {"dtype": dtype}, dtypes=("float32",), **options)


CASES = [
    *blocks(),
    moved("space_to_batch", [apart(4, 3, seed=131)], space(to_blocks), "other_batch", LAST),
    moved(
        "space_to_batch", [np.zeros((0, 4))], space(to_blocks), "nothing",
        {**LAST, "spatial_axes": [1], "batch_axis": 0},
    ),
    *TENSORS,
    moved("reverse", [CUBE], reversed_, "all"),
    moved("reverse", [CUBE], reversed_, "one", {"axes": -1}, batch=(0,)),
    moved("reverse", [CUBE], reversed_, "two", {"axes": [0, 2]}),
    moved("reverse", [CUBE], reversed_, "none", {"axes": []}),
    moved("reverse", [np.array(2.0)], reversed_, "scalar"),
    moved("reverse", [CUBE, np.array([1, -3], np.int32)], reversed_, "tensor_axes", batch=()),
    coordinate("first", 0, (3, 2)),
    coordinate("last", -1, (2, 3, 4)),
    coordinate("nothing", 1, (2, 0)),
    Case(
        "coordinate_along_axis", [scalar(1), np.array([2, 3], np.int32)],
        lambda axis, shape: coordinates(tuple(shape), int(axis)).astype(np.int32), label="tensors", dtypes=(),
        late=True,
    ),
    seen_as("ints", CUBE, "int32"),
    seen_as("bytes", CUBE, "uint8"),
    seen_as("doubles", CUBE, "int64"),
    moved("reinterpret_cast", [CUBE], lambda x: x, "same", build=lambda g, x: g.reinterpret_cast(x, x.dtype)),
]  # fmt: skip
