"""Cases of the gather family: gathering along any axis, slices and single elements, batches, repeated and
out-of-range indices, and one-hot. out_of_range="error" is tested in tests/operations/test_out_of_range.py.
"""

import numpy as np
from harness.case import ALGEBRAIC, ANY, Case, apart

TABLE = apart(4, 3, seed=110)
CUBE = apart(2, 4, 3, seed=111)
REPEATED = np.array([[3, 0, 3], [1, 1, 2]], np.int32)
OUTSIDE = np.array([-1, 0, 4, 2, 1 << 30], np.int32)
PER_BATCH = np.array([[3, 0], [1, 1]], np.int32)


def held(indices, lengths, out_of_range):
    """Return the indices, clipped to the valid range if out_of_range is "clip"."""
    return np.clip(indices, 0, np.array(lengths) - 1) if out_of_range == "clip" else indices


def gather(updates, indices, axis=0, batch_dimensions=0, out_of_range="zeros"):
    """Compute result[b, o, i, r] = updates[b, o, indices[b, i], r] element by element, with zeros for
    out-of-range indices.
    """
    axis = axis % updates.ndim
    indices = held(indices, updates.shape[axis], out_of_range)
    batch, outer = updates.shape[:batch_dimensions], updates.shape[batch_dimensions:axis]
    result = np.zeros((*batch, *outer, *indices.shape[batch_dimensions:], *updates.shape[axis + 1 :]), updates.dtype)
    for b in np.ndindex(*batch):
        for o in np.ndindex(*outer):
            for i in np.ndindex(*indices.shape[batch_dimensions:]):
                index = int(indices[b + i])
                if 0 <= index < updates.shape[axis]:
                    result[b + o + i] = updates[(*b, *o, index)]
    return result


def gather_gradient(g, indices, shape, axis=0, batch_dimensions=0, out_of_range="zeros"):
    axis = axis % len(shape)
    indices = held(indices, shape[axis], out_of_range)
    result = np.zeros(shape, g.dtype)
    for b in np.ndindex(*shape[:batch_dimensions]):
        for o in np.ndindex(*shape[batch_dimensions:axis]):
            for i in np.ndindex(*indices.shape[batch_dimensions:]):
                index = int(indices[b + i])
                if 0 <= index < shape[axis]:
                    result[(*b, *o, index)] += g[b + o + i]
    return result


def both(label, updates, indices, batch=(), **how):
    g = apart(*gather(updates, indices, **how).shape, seed=112)

    def build(graph, incoming, picked, **attributes):
        return graph.gather_gradient(incoming, picked, updates.shape, **attributes)

    oracle = lambda g, i, **how: gather_gradient(g, i, updates.shape, **how)  # noqa: E731
    return [
        Case("gather", [updates, indices], gather, how, label=label, dtypes=ANY, batch=batch, exact=True),
        Case("gather_gradient", [g, indices], oracle, how, build=build, label=label, dtypes=ALGEBRAIC, batch=()),
    ]


def one_hot(indices, depth, axis=-1, dtype="float32", on_value=1.0, off_value=0.0, out_of_range="zeros"):
    indices = held(indices, depth, out_of_range)
    rows = np.where(np.arange(depth) == indices[..., None], on_value, off_value)
    return np.moveaxis(rows, -1, axis).astype(dtype)


def gather_nd(updates, indices, batch_dimensions=0, out_of_range="zeros"):
    b, depth = batch_dimensions, indices.shape[-1]
    indices = held(indices, updates.shape[b : b + depth], out_of_range)
    result = np.zeros((*indices.shape[:-1], *updates.shape[b + depth :]), updates.dtype)
    for at in np.ndindex(*indices.shape[:-1]):
        index = tuple(int(i) for i in indices[at])
        if all(0 <= i < n for i, n in zip(index, updates.shape[b : b + depth], strict=True)):
            result[at] = updates[at[:b] + index]
    return result


def gather_along_axis(updates, indices, axis, out_of_range="zeros"):
    axis = int(axis) % updates.ndim
    indices = held(indices, updates.shape[axis], out_of_range)
    result = np.zeros(indices.shape, updates.dtype)
    for at in np.ndindex(*indices.shape):
        index = int(indices[at])
        if 0 <= index < updates.shape[axis]:
            result[at] = updates[(*at[:axis], index, *at[axis + 1 :])]
    return result


def nd(label, updates, indices, batch=(), **how):
    return Case("gather_nd", [updates, indices], gather_nd, how, label=label, dtypes=ANY, batch=batch, exact=True)


def along(label, updates, indices, *axis, batch=(), **how):
    def build(g, x, i, *tensor_axis, axis=None, **how):
        return g.gather_along_axis(tensor_axis[0] if axis is None else axis, x, i, **how)

    return Case(
        "gather_along_axis", [updates, indices, *axis], gather_along_axis, how, build=build, label=label, dtypes=ANY,
        batch=batch, exact=True,
    )  # fmt: skip


ALONG = np.array([[3, 0, 1], [3, 4, -1]], np.int32)
VECTORS = np.array([[[3, 0], [1, 2], [3, 0]], [[0, 0], [4, 1], [2, 2]]], np.int32)

CLASSES = np.array([[0, 3, 1], [2, 9, -1]], np.int32)

CASES = [
    *both("rows", TABLE, np.array([2, 0, 2, 3], np.int32), batch=(1,)),
    *both("matrix_of_rows", TABLE, REPEATED),
    *both("columns", TABLE, np.array([2, 0], np.int32), axis=1, batch=(0,)),
    *both("middle", CUBE, REPEATED, axis=-2, batch=(0,)),
    *both("outside", TABLE, OUTSIDE),
    *both("batched", CUBE, PER_BATCH, axis=1, batch_dimensions=1, batch=(0, 1)),
    *both("batched_last", CUBE, PER_BATCH, axis=2, batch_dimensions=1),
    *both("one", TABLE, np.array(1, np.int32)),
    *both("no_indices", TABLE, np.zeros((0,), np.int32)),
    *both("int16_indices", TABLE, np.array([1, 3], np.int32).astype(np.int16)),
    *both("clipped", TABLE, OUTSIDE, out_of_range="clip"),
    *both("clipped_columns", TABLE, np.array([[3, -1], [0, 2]], np.int32), axis=1, out_of_range="clip"),
    *both("clipped_int8", apart(200, 2, seed=113), np.array([-128, 127, 5], np.int8), out_of_range="clip"),
    *both("clipped_batches", CUBE, PER_BATCH * 3 - 2, axis=1, batch_dimensions=1, out_of_range="clip"),
    *both("checked", TABLE, REPEATED, out_of_range="error"),
    *both("checked_batches", CUBE, PER_BATCH, axis=1, batch=(0, 1), batch_dimensions=1, out_of_range="error"),
    nd("elements", TABLE, VECTORS),
    nd("rows", TABLE, np.array([[2], [0], [2], [7]], np.int32)),
    nd("batched", CUBE, VECTORS, batch=(0, 1), batch_dimensions=1),
    nd("whole", TABLE, np.zeros((2, 0), np.int32)),
    nd("one", TABLE, np.array([1, 2], np.int64).astype(np.int8)),
    nd("clipped", TABLE, VECTORS * 2 - 1, out_of_range="clip"),
    nd("clipped_batches", CUBE, VECTORS * 2 - 1, batch_dimensions=1, out_of_range="clip"),
    nd("checked", TABLE, np.array([[2, 0], [3, 2]], np.int32), out_of_range="error"),
    nd("no_vectors", TABLE, np.zeros((0, 2), np.int32)),
    along("first", TABLE, ALONG, axis=0),
    along("last", TABLE, np.array([[0], [2], [1], [3]], np.int32), axis=-1, batch=(0, 1)),
    along("middle", CUBE, np.stack([ALONG, ALONG[::-1]]), axis=1, batch=(0, 1)),
    along("clipped", TABLE, ALONG, axis=0, out_of_range="clip"),
    along("checked", TABLE, np.array([[0], [2], [1], [2]], np.int32), axis=-1, out_of_range="error"),
    along("nothing", TABLE, np.zeros((0, 3), np.int32), axis=0),
    along("tensor_axis", TABLE, ALONG, np.array(0, np.int32)),
    *(
        Case("one_hot", [CLASSES], one_hot, {"depth": 4, "axis": a}, label=f"axis_{a}", dtypes=(), batch=(0,))
        for a in (-1, 0, 1)
    ),
    Case(
        "one_hot", [CLASSES], one_hot, {"depth": 3, "dtype": "int32", "on_value": 5, "off_value": -1}, label="int32",
        dtypes=(), batch=(0,),
    ),
    Case("one_hot", [CLASSES], one_hot, {"depth": 4, "out_of_range": "clip"}, label="clipped", dtypes=(), batch=(0,)),
    Case("one_hot", [np.array([2, 0], np.int32)], one_hot, {"depth": 3, "out_of_range": "error"}, label="checked",
         dtypes=(), batch=(0,)),
    Case("one_hot", [np.array(1, np.int32)], one_hot, {"depth": 2, "dtype": "float64"}, label="one", dtypes=()),
    Case("one_hot", [CLASSES], one_hot, {"depth": 0}, label="no_classes", dtypes=(), batch=(0,)),
]  # fmt: skip
