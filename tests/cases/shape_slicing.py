"""Cases of the shape family, continued: ranges and sizes as tensors, and updates of slices."""

import numpy as np
from harness.case import ANY, apart

from cases.shape import CUBE, SLICES, index_of, moved, slice_gradient, sliced

LATE = {"batch": (), "late": True}


def ints(*numbers):
    return np.array(numbers, np.int32)


def updated(data, update, **how):
    result = data.copy()
    result[index_of(**how)] = update
    return result


def updates():
    for label, how in SLICES.items():
        update = apart(*sliced(CUBE, **how).shape, seed=120) + 10
        yield moved("slice_update_data", [CUBE, update], updated, label, how)


# --- ranges as tensors: from the beginning, strided and backward, with masks ------------------------------------------
RANGES = {
    "plain": ({}, ints(0, 1, 1), ints(1, 3, 3), ints(1, 1, 1)),
    "backwards": ({"end_mask": 0b100}, ints(1, -1, 3), ints(0, 0, 0), ints(-1, -2, -2)),
    "squeezed": ({"squeeze_mask": 0b101, "end_mask": 0b010}, ints(1, 0, -1), ints(2, 3, 4), ints(1, 1, 1)),
}


def by_tensors():
    for label, (masks, starts, ends, strides) in RANGES.items():
        how = {"starts": starts, "ends": ends, "strides": strides, **masks}
        ranges = [starts, ends, strides]
        oracle = lambda x, a, b, c, **masks: sliced(x, starts=a, ends=b, strides=c, **masks)  # noqa: E731
        yield moved("slice", [CUBE, *ranges], oracle, f"tensors_{label}", masks, **LATE)
        part = apart(*sliced(CUBE, **how).shape, seed=121)

        def build(graph, incoming, a, b, c, **masks):
            return graph.slice_gradient(incoming, CUBE.shape, a, b, c, **masks)

        def gradient(g, a, b, c, **masks):
            return slice_gradient(g, CUBE.shape, starts=a, ends=b, strides=c, **masks)

        yield moved("slice_gradient", [part, *ranges], gradient, f"tensors_{label}", masks, build=build, batch=())

        def update(data, u, a, b, c, **masks):
            return updated(data, u, starts=a, ends=b, strides=c, **masks)

        yield moved("slice_update_data", [CUBE, part, *ranges], update, f"tensors_{label}", masks, batch=())


def from_to(starts, sizes):
    """Return the numpy index of slices of the given sizes."""
    return tuple(slice(a, a + n or None) if a < 0 else slice(a, a + n) for a, n in zip(starts, sizes, strict=True))


SIZES = {"": ([0, -3, -2], [1, 3, 2]), "_start": ([1, 0, 1], [1, 2, 0])}


def by_sizes():
    for suffix, (starts, sizes) in SIZES.items():
        how = {"starts": starts, "sizes": sizes}
        yield moved("slice", [CUBE], lambda x, starts, sizes: x[from_to(starts, sizes)].copy(), "sizes" + suffix, how)

        def build(graph, x, starts, sizes):
            return graph.slice(x, starts, sizes=sizes)

        def from_data(graph, x, starts, *, sizes=sizes):
            return graph.slice(x, starts, sizes=sizes)

        fixed = lambda x, starts, sizes=sizes: x[from_to(starts, sizes)].copy()  # noqa: E731
        yield moved("slice", [CUBE, ints(*starts)], fixed, "data_starts" + suffix, build=from_data, batch=())

        def updated_at(graph, x, update, starts, *, sizes=sizes):
            return graph.slice_update_data(x, update, starts, sizes=sizes)

        def oracle_of_update(x, update, starts, sizes=sizes):
            result = x.copy()
            result[from_to(starts, sizes)] = update
            return result

        part = apart(*sizes, seed=124) + 10
        operands = [CUBE, part, ints(*starts)]
        label = "data_starts" + suffix
        yield moved("slice_update_data", operands, oracle_of_update, label, build=updated_at, batch=())

        inputs = [CUBE, ints(*starts), ints(*sizes)]
        oracle = lambda x, starts, sizes: x[from_to(starts, sizes)].copy()  # noqa: E731
        yield moved("slice", inputs, oracle, "tensor_sizes" + suffix, build=build, **LATE)


def split(x, sizes, axis):
    return np.split(x, np.cumsum(sizes)[:-1], axis)


CASES = [
    *updates(),
    *by_tensors(),
    *by_sizes(),
    moved("split", [CUBE, ints(1, 0, 3)], split, "tensor_sizes", {"axis": 2}, **LATE, unranked=False),
    moved(
        "expand_dims", [CUBE, ints(0, -1)], lambda x, axes: np.expand_dims(x, tuple(axes)), "tensor_axes", **LATE,
    ),
    moved(
        "squeeze", [apart(1, 3, 1, seed=122), ints(-1)], lambda x, axes: np.squeeze(x, tuple(axes)), "tensor_axes",
        **LATE,
    ),
    moved("flatten2d", [CUBE, np.array(2, np.int32)], lambda x, axis: x.reshape(6, 4), "tensor_axis", **LATE),
    moved("flatten2d", [CUBE, ints(-2)], lambda x, axis: x.reshape(2, 12), "tensor_axis_of_one", **LATE),
    moved("reshape", [CUBE, ints(4, -1)], lambda x, shape: x.reshape(shape), "tensor_shape", dtypes=ANY, **LATE),
    moved(
        "broadcast_to", [apart(3, 1, seed=123), ints(2, 3, 2)], lambda x, s: np.broadcast_to(x, s).copy(),
        "tensor_shape", **LATE,
    ),
]  # fmt: skip
