"""Cases of the scatter_nd family: every mode with and without data, repeated and out-of-range indices,
batches, and ties.
"""

import numpy as np
from harness.case import ALGEBRAIC, ANY, NUMBERS, Case, apart, off_zero

MODES = ("add", "sub", "mul", "div", "min", "max", "set")


def combine(mode, a, b):
    if mode == "div" and a.dtype.kind != "f":  # integers: rounded toward zero, and 0 for division by zero
        nonzero = np.where(b == 0, 1, b)
        magnitude = np.abs(a) // np.abs(nonzero) if a.dtype.kind == "i" else a // nonzero
        sign = np.sign(a) * np.sign(nonzero) if a.dtype.kind == "i" else 1
        return np.where(b == 0, 0, magnitude * sign).astype(a.dtype)
    functions = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.minimum,
                 "max": np.maximum}  # fmt: skip
    return b if mode == "set" else functions[mode](a, b)


def put(result, where, updates, mode):
    """Apply updates one at a time; where(position in updates) returns the index in the result, or None."""
    for at in np.ndindex(*updates.shape):
        to = where(at)
        if to is not None:
            result[to] = combine(mode, result[to], updates[at])
    return result


def inside(index, size):
    return 0 <= index < size


def held(indices, lengths, out_of_range):
    """Return the indices, clipped to the valid range if out_of_range is "clip"."""
    return np.clip(indices, 0, np.array(lengths) - 1) if out_of_range == "clip" else indices


def scatter(data, updates, indices, axis, mode="add", out_of_range="drop"):
    axis = axis % data.ndim
    indices = held(indices, data.shape[axis], out_of_range)

    def where(at):
        index = int(indices[at[axis]])
        return (*at[:axis], index, *at[axis + 1 :]) if inside(index, data.shape[axis]) else None

    return put(data.copy(), where, updates, mode)


def scatter_nd(data, updates, indices, batch_dimensions=0, mode="add", out_of_range="drop"):
    picks, b = indices.ndim - 1, batch_dimensions
    indices = held(indices, data.shape[b : b + indices.shape[-1]], out_of_range)

    def where(at):
        index = [int(i) for i in indices[at[:picks]]]
        sizes = data.shape[b : b + len(index)]
        return (*at[:b], *index, *at[picks:]) if all(map(inside, index, sizes)) else None

    return put(data.copy(), where, updates, mode)


def scatter_along_axis(axis, data, updates, indices, mode="add", out_of_range="drop"):
    axis = int(axis) % data.ndim
    indices = held(indices, data.shape[axis], out_of_range)

    def where(at):
        index = int(indices[at])
        return (*at[:axis], index, *at[axis + 1 :]) if inside(index, data.shape[axis]) else None

    return put(data.copy(), where, updates, mode)


# --- with data --------------------------------------------------------------------------------------------------------
TABLE = off_zero(4, 3, seed=170)
ROWS = np.array([2, 0, 2, 9, -1], np.int32)
CUBE = off_zero(2, 4, 3, seed=171)
VECTORS = np.array([[[3, 0], [1, 2], [3, 0]], [[0, 0], [4, 1], [2, 2]]], np.int32)
ALONG = np.array([[2, 0, 1], [2, 3, 1], [-1, 3, 7]], np.int32)


def onto(method):
    def build(graph, data, updates, indices, **how):
        return getattr(graph, method)(updates, indices, data=data, **how)

    return build


def build_along(graph, data, updates, indices, *axis, **how):
    return graph.scatter_along_axis(how.pop("axis", *axis), updates, indices, data=data, **how)


def along(data, updates, indices, *tensor_axis, axis=None, **how):
    return scatter_along_axis(axis if axis is not None else tensor_axis[0], data, updates, indices, **how)


def taken(mode):
    return ANY if mode == "set" else ALGEBRAIC if mode in ("add", "sub") else NUMBERS


def by_modes():
    for mode in MODES:
        options = {"dtypes": taken(mode), "batch": (), "tolerance": 4}
        how = {"mode": mode}
        updates = off_zero(5, 3, seed=172)
        yield Case("scatter", [TABLE, updates, ROWS], scatter, {"axis": 0, **how}, build=onto("scatter"), label=mode,
                   **options)  # fmt: skip
        updates = off_zero(2, 3, seed=173)
        yield Case("scatter_nd", [CUBE, updates, VECTORS], scatter_nd, {"batch_dimensions": 1, **how},
                   build=onto("scatter_nd"), label=mode + "_batched", **options)  # fmt: skip
        updates = off_zero(2, 4, 3, seed=174)
        rows = np.array([[1], [0]], np.int64).astype(np.int16)
        yield Case("scatter_nd", [CUBE, updates, rows], scatter_nd, how, build=onto("scatter_nd"),
                   label=mode + "_slices", **options)  # fmt: skip
        updates = off_zero(3, 3, seed=175)
        yield Case("scatter_along_axis", [TABLE, updates, ALONG], along, {"axis": 0, **how}, build=build_along,
                   label=mode, **options)  # fmt: skip


def other_shapes():
    plain = {"dtypes": NUMBERS, "batch": (), "tolerance": 4}
    columns = [CUBE, off_zero(2, 4, 2, seed=176), np.array([2, 2], np.int64).astype(np.uint8)]
    yield Case("scatter", columns, scatter, {"axis": -1}, build=onto("scatter"), label="columns", **plain)
    none = [TABLE, np.zeros((0, 3)), np.zeros(0, np.int32)]
    yield Case("scatter", none, scatter, {"axis": 0}, build=onto("scatter"), label="no_updates", **plain)
    into_nothing = [np.zeros((0, 3)), off_zero(2, 3), np.array([0, 1], np.int32)]
    yield Case("scatter", into_nothing, scatter, {"axis": 0}, build=onto("scatter"), label="no_place", **plain)
    whole = [TABLE, off_zero(2, 4, 3, seed=177), np.zeros((2, 0), np.int32)]
    yield Case("scatter_nd", whole, scatter_nd, build=onto("scatter_nd"), label="whole_tensors", **plain)
    one = [TABLE, np.array(2.0), np.array([1, 1], np.int32)]
    yield Case("scatter_nd", one, scatter_nd, build=onto("scatter_nd"), label="one_element", **plain)
    last = [TABLE, off_zero(4, 2, seed=178), np.array([[0, 0], [1, 2], [2, 3], [0, 1]], np.int32)]
    yield Case("scatter_along_axis", last, along, {"axis": -1}, build=build_along, label="last", **plain)
    tensor = [*last, np.array(1, np.int32)]
    for mode in MODES:
        yield Case("scatter_along_axis", tensor, along, {"mode": mode}, build=build_along, label=f"tensor_axis_{mode}",
                   dtypes=taken(mode), batch=(), tolerance=4)  # fmt: skip
    line = [off_zero(500, seed=179), off_zero(900, seed=180),
            np.random.default_rng(181).integers(-5, 505, 900).astype(np.int32)]  # fmt: skip
    for mode in ("add", "max", "set"):
        yield Case("scatter_along_axis", line, along, {"axis": 0, "mode": mode}, build=build_along,
                   label=f"line_{mode}", dtypes=("float32", "float16", "int32"), batch=(), tolerance=4)  # fmt: skip


def out_of_range():
    """Yield cases with clipped indices, for modes whose gradient is a gather, and checked ones with valid indices."""
    for mode in ("add", "mul", "set"):
        options = {"dtypes": taken(mode), "batch": (), "tolerance": 4, "label": f"{mode}_clipped"}
        how = {"mode": mode, "out_of_range": "clip"}
        updates = off_zero(5, 3, seed=185)
        yield Case("scatter", [TABLE, updates, ROWS], scatter, {"axis": 0, **how}, build=onto("scatter"), **options)
        updates = off_zero(2, 3, seed=186)
        yield Case("scatter_nd", [CUBE, updates, VECTORS], scatter_nd, {"batch_dimensions": 1, **how},
                   build=onto("scatter_nd"), **options)  # fmt: skip
        updates = off_zero(3, 3, seed=187)
        yield Case(
            "scatter_along_axis", [TABLE, updates, ALONG], along, {"axis": 0, **how}, build=build_along, **options
        )
    options = {"dtypes": NUMBERS, "batch": (), "label": "checked"}
    how = {"out_of_range": "error"}
    rows = [TABLE, off_zero(2, 3, seed=188), np.array([3, 0], np.int32)]
    yield Case("scatter", rows, scatter, {"axis": 0, **how}, build=onto("scatter"), **options)
    places = [TABLE, off_zero(2, seed=189), np.array([[3, 0], [1, 2]], np.int32)]
    yield Case("scatter_nd", places, scatter_nd, how, build=onto("scatter_nd"), **options)
    last = [TABLE, off_zero(4, 1, seed=190), np.array([[2], [0], [1], [1]], np.int32)]
    yield Case("scatter_along_axis", last, along, {"axis": -1, **how}, build=build_along, **options)


# --- with the initial value of the mode -------------------------------------------------------------------------------
def start(mode, dtype):
    if mode in ("min", "max"):
        limits = (np.inf, -np.inf) if dtype.kind == "f" else (np.iinfo(dtype).max, np.iinfo(dtype).min)
        return limits[mode == "max"]
    return {"mul": 1, "div": 1}.get(mode, 0)


def without_data():
    for mode in MODES:
        options = {"dtypes": NUMBERS, "batch": (), "tolerance": 4}

        def zeros(updates, indices, axis, shape, mode):
            return scatter(np.zeros(shape, updates.dtype), updates, indices, axis, mode)

        yield Case("scatter", [off_zero(5, 3, seed=182), ROWS], zeros, {"axis": 0, "shape": (4, 3), "mode": mode},
                   label=f"{mode}_zeros", **{**options, "gradient": mode == "add"})  # fmt: skip

        def neutral(updates, indices, axis, shape, mode):
            data = np.full(shape, start(mode, updates.dtype), updates.dtype)
            return scatter_along_axis(axis, data, updates, indices, mode)

        def build(graph, updates, indices, axis, **how):
            return graph.scatter_along_axis(axis, updates, indices, **how)

        finite = mode not in ("min", "max")
        yield Case("scatter_along_axis", [off_zero(3, 3, seed=183), ALONG], neutral,
                   {"axis": 0, "shape": (4, 3), "mode": mode}, build=build, label=f"{mode}_neutral",
                   **{**options, "gradient": finite})  # fmt: skip

    def nd_zeros(updates, indices, shape):
        return scatter_nd(np.zeros(tuple(shape), updates.dtype), updates, indices)

    def nd_build(graph, updates, indices, shape):
        return graph.scatter_nd(updates, indices, shape=shape)

    inputs = [apart(2, 3, seed=184), np.array([[1], [0]], np.int32)]
    yield Case("scatter_nd", inputs, nd_zeros, {"shape": (3, 3)}, build=nd_build, label="shape", dtypes=NUMBERS,
               batch=())  # fmt: skip
    yield Case("scatter_nd", [*inputs, np.array([3, 3], np.int32)], nd_zeros, build=nd_build, label="tensor_shape",
               dtypes=NUMBERS, batch=(), late=True)  # fmt: skip


CASES = [*by_modes(), *other_shapes(), *out_of_range(), *without_data()]
