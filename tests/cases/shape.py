"""Cases of the shape family: reshaping, reordering, and slicing of elements; padding and tiling; casts.

Cases with tensor arguments are in shape_slicing.py, and blocks and coordinates in shape_blocks.py.
"""

import numpy as np
from harness.case import ALGEBRAIC, ANALYTIC, ANY, SIGNED, Case, apart, values

CUBE = apart(2, 3, 4, seed=90)
ROW = apart(5, seed=91)


def moved(operation, inputs, oracle, label="", attributes=None, **options):
    """Build a case of an operation that only moves elements, for every dtype."""
    settings = {"dtypes": ANY, "exact": True, "batch": ()} | options
    return Case(operation, inputs, oracle, attributes or {}, label=label, **settings)


def reshaped(label, shape, x=CUBE, result=None, **options):
    result = shape if result is None else result
    return moved("reshape", [x], lambda x, shape: x.reshape(result), label, {"shape": shape}, **options)


def transposed(label, permutation):
    oracle = lambda x, permutation: x.transpose(permutation)  # noqa: E731
    batch = (0,)  # wherever axis 0 moves to
    return moved("transpose", [CUBE], oracle, label, {"permutation": permutation}, batch=batch)


# --- slices -----------------------------------------------------------------------------------------------------------
def bits(mask, axis):
    return mask >> axis & 1


def index_of(starts, ends, strides=None, start_mask=0, end_mask=0, squeeze_mask=0):
    """Return the numpy index of a slice."""
    keys = []
    for axis, (start, end) in enumerate(zip(starts, ends, strict=True)):
        first, last = None if bits(start_mask, axis) else start, None if bits(end_mask, axis) else end
        step = 1 if strides is None else strides[axis]
        keys.append(start if bits(squeeze_mask, axis) else slice(first, last, step))
    return tuple(keys)


def sliced(x, **how):
    return x[index_of(**how)].copy()


def slice_gradient(g, shape, **how):
    result = np.zeros(shape, g.dtype)
    result[index_of(**how)] = g
    return result


SLICES = {
    "plain": {"starts": [0, 1, 1], "ends": [1, 3, 3]},
    "strided": {"starts": [0, 0, 1], "ends": [2, 3, 4], "strides": [1, 2, 2]},
    "from_the_end": {"starts": [-1, -3, -2], "ends": [2, -1, 4]},
    "backwards": {"starts": [1, 2, 3], "ends": [0, 0, 0], "strides": [-1, -1, -2], "end_mask": 0b110},
    "masks": {"starts": [5, 1, 9], "ends": [9, 0, 2], "start_mask": 0b101, "end_mask": 0b010},
    "squeezed": {"starts": [1, 0, -1], "ends": [2, 3, 4], "squeeze_mask": 0b101, "end_mask": 0b010},
    "all_squeezed": {"starts": [0, 2, 1], "ends": [0, 0, 0], "squeeze_mask": 0b111},
    "nothing": {"starts": [0, 2, 0], "ends": [2, 2, 4]},
    "beyond": {"starts": [0, 1, -9], "ends": [9, 9, 9]},
}


def slices():
    for label, how in SLICES.items():
        yield moved("slice", [CUBE], sliced, label, how)
        g = apart(*sliced(CUBE, **how).shape, seed=92)

        def build(graph, incoming, **attributes):
            return graph.slice_gradient(incoming, CUBE.shape, **attributes)

        yield moved(
            "slice_gradient", [g], lambda g, **how: slice_gradient(g, CUBE.shape, **how), label, how, build=build
        )


# --- concatenation ----------------------------------------------------------------------------------------------------
def together(method):
    return lambda graph, *tensors, **attributes: getattr(graph, method)(tensors, **attributes)


def interleaved(*arrays, axis, interleave):
    stacked = np.stack(arrays, axis=axis + 1)
    shape = list(arrays[0].shape)
    shape[axis] *= len(arrays)
    return stacked.reshape(shape)


PARTS = [apart(2, 1, 3, seed=93), apart(2, 4, 3, seed=94), apart(2, 0, 3, seed=95), apart(2, 2, 3, seed=96)]
ALIKE = [apart(2, 3, seed=97), apart(2, 3, seed=98), apart(2, 3, seed=99)]


def concatenated(*arrays, axis):
    return np.concatenate(arrays, axis)


def stacked(*arrays, axis):
    return np.stack(arrays, axis)


def split(x, sizes_or_count, axis):
    if isinstance(sizes_or_count, int):
        return np.split(x, sizes_or_count, axis)
    return np.split(x, np.cumsum(sizes_or_count)[:-1], axis)


JOINS = [
    moved("concat", PARTS, concatenated, "sizes", {"axis": 1}, build=together("concat"), batch=(0, 1, 2, 3)),
    moved("concat", PARTS, concatenated, "negative_axis", {"axis": -2}, build=together("concat")),
    moved("concat", ALIKE, concatenated, "first_axis", {"axis": 0}, build=together("concat"), batch=(0, 1, 2)),
    moved("concat", ALIKE[:1], concatenated, "one", {"axis": 0}, build=together("concat")),
    moved("concat", ALIKE, interleaved, "interleaved", {"axis": 1, "interleave": True}, build=together("concat")),
    *(moved("stack", ALIKE, stacked, f"axis_{a}", {"axis": a}, build=together("stack")) for a in (0, 1, 2, -1)),
    moved("stack", [np.array(1.0), np.array(2.0)], stacked, "scalars", {"axis": 0}, build=together("stack")),
    moved("split", [CUBE], split, "sizes", {"sizes_or_count": [1, 0, 3], "axis": 2}, batch=(0,)),
    moved("split", [CUBE], split, "count", {"sizes_or_count": 3, "axis": -2}, batch=(0,), unranked=False),
]

# --- padding and tiling -----------------------------------------------------------------------------------------------
NUMPY_MODES = {
    "constant": "constant",
    "zero": "constant",
    "reflect": "reflect",
    "symmetric": "symmetric",
    "clamp_to_edge": "edge",
    "periodic": "wrap",
}
IMAGE = apart(3, 4, seed=100)


def padded(x, left, right, mode="constant", value=0.0):
    widths = list(zip(left, right, strict=True))
    if mode == "anti_periodic":
        for axis, (before, after) in enumerate(widths):
            position = np.arange(-before, x.shape[axis] + after)
            periods = np.floor_divide(position, x.shape[axis])
            sign = np.where(periods % 2 == 0, 1, -1).astype(x.dtype)
            shape = [-1 if a == axis else 1 for a in range(x.ndim)]
            x = np.take(x, position % x.shape[axis], axis) * sign.reshape(shape)
        return x
    extra = {"constant_values": np.asarray(value).astype(x.dtype)} if mode == "constant" else {}
    return np.pad(x, widths, NUMPY_MODES[mode], **extra)


def pad_gradient(g, shape, **how):
    """Apply the transposed matrix of the padding, which is linear apart from its constant."""
    basis = np.eye(int(np.prod(shape))).reshape(-1, *shape)
    numbers = [(padded(e, **how) * g).sum() for e in basis]
    return np.array(numbers).astype(g.dtype).reshape(shape)


def pads():
    amounts = {"": ([1, 2], [2, 0])}
    for mode in (*NUMPY_MODES, "anti_periodic"):
        far = {"_far": ([7, 0], [1, 9])} if mode not in ("constant", "zero") else {}
        for suffix, (left, right) in {**amounts, **far}.items():
            how = {"left": left, "right": right, "mode": mode}
            signed = (*ANALYTIC, *SIGNED)
            dtypes = signed if mode == "anti_periodic" else ANY
            yield moved("pad", [IMAGE], padded, mode + suffix, how, dtypes=dtypes)
            g = apart(*padded(IMAGE, **how).shape, seed=101)

            def build(graph, incoming, **attributes):
                return graph.pad_gradient(incoming, IMAGE.shape, **attributes)

            yield moved(
                "pad_gradient", [g], lambda g, **how: pad_gradient(g, IMAGE.shape, **how), mode + suffix, how,
                build=build, dtypes=signed if mode == "anti_periodic" else ALGEBRAIC, exact=False, tolerance=4,
            )  # fmt: skip
    with_value = {"left": [0, 1], "right": [1, 1], "value": 2.0}
    yield moved("pad", [IMAGE], padded, "value", with_value, dtypes=ANY)
    yield moved("pad", [values(0, 2)], padded, "empty", with_value, dtypes=ANY)


def tiled(x, multiplier):
    return np.tile(x, multiplier)


def tile_gradient(g, multiplier):
    (rows, columns), (m, n) = g.shape, multiplier
    return g.reshape(m, rows // m, n, columns // n).sum((0, 2)).astype(g.dtype)


def build_tile_gradient(graph, incoming, multiplier):
    shape = [n // m for n, m in zip((4, 9), multiplier, strict=True)]
    return graph.tile_gradient(incoming, shape, multiplier)


TILES = [
    moved("tile", [IMAGE], tiled, "plain", {"multiplier": [2, 3]}, batch=(0,)),
    moved("tile", [IMAGE], tiled, "nothing", {"multiplier": [0, 1]}),
    moved("tile", [np.array(3.0)], tiled, "scalar", {"multiplier": []}),
    moved(
        "tile_gradient", [apart(4, 9, seed=102)], tile_gradient, "plain", {"multiplier": [2, 3]},
        build=build_tile_gradient, dtypes=ALGEBRAIC, exact=False,
    ),
]  # fmt: skip

# --- other operations -------------------------------------------------------------------------------------------------
ONES = apart(1, 3, 1, seed=103)


def expanded(x, axes):
    return np.expand_dims(x, tuple(axes) if isinstance(axes, (list, tuple)) else axes)


def squeezed(x, axes=None):
    return np.squeeze(x, tuple(axes) if isinstance(axes, (list, tuple)) else axes)


def broadcast(label, x, shape):
    return moved("broadcast_to", [x], lambda x, shape: np.broadcast_to(x, shape).copy(), label, {"shape": shape})


def flattened(x, axis):
    split_at = axis if axis >= 0 else axis + x.ndim
    rows = int(np.prod(x.shape[:split_at]))
    return x.reshape(rows, int(np.prod(x.shape[split_at:])))


def cast_to(dtype):
    """Build a case that casts from every dtype, with values that every dtype can represent.

    Complex numbers give their real part, except for bool.
    """
    numbers = np.array([0.0, 1.0, 2.75, 100.5, 3.0])

    def oracle(x, dtype):
        wanted = "float64" if dtype == "bfloat16" else dtype
        keeps_both = dtype == "bool" or dtype.startswith("complex")
        return (x if keeps_both else x.real).astype(wanted)

    return Case("cast", [numbers], oracle, {"dtype": dtype}, label=dtype, dtypes=ANY,
                gradient=dtype in ("float64", "complex128"))  # fmt: skip


CASES = [
    reshaped("plain", (4, 6)),
    reshaped("wildcard", (3, -1), result=(3, 8), batch=()),
    reshaped("rows", (-1, 12), result=(-1, 12), batch=(0,)),
    reshaped("to_scalar", (), np.array([[2.0]])),
    reshaped("from_scalar", (1, 1, 1), np.array(2.0)),
    reshaped("nothing", (0, 7), values(3, 0)),
    transposed("reverse", [2, 1, 0]),
    transposed("rotate", [1, 2, 0]),
    transposed("negative", [0, -1, 1]),
    transposed("unmoved", [0, 1, 2]),
    moved(
        "transpose", [apart(33, 70, seed=104)], lambda x, permutation: x.T.copy(), "matrix", {"permutation": [1, 0]},
        gradient=False, dtypes=("float32", "int8", "float64", "int16"), batch=(0,),
    ),
    *slices(),
    *JOINS,
    *pads(),
    *TILES,
    moved("expand_dims", [CUBE], expanded, "one", {"axes": 1}, batch=(0,)),
    moved("expand_dims", [ROW], expanded, "several", {"axes": [0, -1]}),
    moved("expand_dims", [np.array(4.0)], expanded, "scalar", {"axes": [0]}),
    moved("squeeze", [ONES], squeezed, "all", {}),
    moved("squeeze", [ONES], squeezed, "one", {"axes": -1}),
    moved("squeeze", [ONES], squeezed, "both", {"axes": [0, 2]}),
    broadcast("rows", ROW, (3, 5)),
    broadcast("columns", apart(3, 1, seed=105), (2, 3, 4)),
    broadcast("scalar", np.array(1.5), (2, 2)),
    broadcast("unmoved", ROW, (5,)),
    broadcast("to_nothing", apart(1, 3, seed=106), (0, 3)),
    moved("flatten2d", [CUBE], flattened, "batch", {"axis": 1}, batch=(0,)),
    *(moved("flatten2d", [CUBE], flattened, f"axis_{a}", {"axis": a}) for a in (0, -1, 3)),
    moved("shape_of", [CUBE], lambda x: np.array(x.shape, np.int32), "cube", batch=(0,)),
    moved("shape_of", [np.array(1.0)], lambda x: np.array([], np.int32), "scalar"),
    *(cast_to(dtype) for dtype in ANY),
]  # fmt: skip
