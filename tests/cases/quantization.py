"""Cases of the quantization family: per tensor, per axis, and per group; lookup tables of numbers and of vectors."""

import numpy as np
from harness.case import ANALYTIC, ANY, Case, apart, values

X = np.round(values(4, 6, seed=220, low=-9.0, high=9.0), 2)
HALVES = np.array([0.25, 0.75, -0.25, -0.75, 1.25, -1.25]) * 2  # halfway between two steps of 0.5 * 2
STEPS = np.random.default_rng(221).integers(-100, 100, (4, 6)).astype(np.int8)
PER_ROW, PER_COLUMN = values(4, seed=222, low=0.1, high=0.3), values(6, seed=223, low=0.1, high=0.3)
ZEROS = np.array([3, 0, -7, 100], np.int8)
RANGE = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-(2**15), 2**15 - 1)}


def along(parameter, x, axis):
    """Reshape a parameter so that it broadcasts against x."""
    parameter = np.asarray(parameter)
    if parameter.ndim == 0:
        return parameter
    if axis is not None:
        return parameter.reshape([-1 if a == axis % x.ndim else 1 for a in range(x.ndim)])
    for a, groups in enumerate(parameter.shape):
        parameter = np.repeat(parameter, x.shape[a] // groups if groups else 1, a)
    return parameter


def quantized(x, scale, zero_point=0, dtype="int8", axis=None):
    steps = np.rint(x / along(scale, x, axis)) + along(zero_point, x, axis).astype(np.int64)
    return np.nan_to_num(np.clip(steps, *RANGE[dtype])).astype(dtype)


def dequantized(x, scale, zero_point=0, axis=None, dtype=None):
    return (x.astype(np.float64) - along(zero_point, x, axis).astype(np.float64)) * along(scale, x, axis)


def quantize(label, x, scale, *zero_point, **how):
    def build(g, *operands, **how):
        return g.quantize(*operands, **how)

    return Case("quantize", [x, scale, *zero_point], quantized, how, build=build, label=label, batch=())


def by_number(g, x, **how):
    return g.quantize(x, 0.5, **how)


CASES = [
    Case("quantize", [X], lambda x: quantized(x, 0.5), build=by_number, label="number", batch=(0,)),
    Case("quantize", [X], lambda x: quantized(x, 0.5, 5, "uint8"), label="asymmetric", batch=(0,),
         build=lambda g, x: g.quantize(x, 0.5, 5, dtype="uint8")),
    Case("quantize", [HALVES], lambda x: quantized(x, 0.5), build=by_number, label="halves", batch=(0,)),
    Case("quantize", [np.array([1e9, -1e9, np.inf, -np.inf, np.nan, 63.3, -64.3])], lambda x: quantized(x, 0.5),
         build=by_number, label="far", batch=(0,), dtypes=("float32", "bfloat16", "float64")),
    Case("quantize", [X * 1000], lambda x: quantized(x, 0.5, -7, "int16"), label="int16", batch=(0,),
         dtypes=("float32", "float64"), build=lambda g, x: g.quantize(x, 0.5, -7, dtype="int16")),
    quantize("tensor", X, np.array(0.25)),
    quantize("per_row", X, PER_ROW, axis=0),
    quantize("per_column", X, PER_COLUMN, axis=-1),
    quantize("per_row_zero_points", X, PER_ROW, ZEROS, axis=0),
    quantize("one_scale_zero_points", X, np.array(0.25), ZEROS, axis=0),
    quantize("scales_one_zero_point", X, PER_ROW, np.array(4, np.int8), axis=0),
    quantize("groups", X, values(2, 3, seed=224, low=0.1, high=0.3)),
    quantize("empty", values(0, 3), PER_ROW[:3], axis=1),
    quantize("scalar", np.array(3.3), np.array(0.25)),
]  # fmt: skip


def dequantize(label, x, scale, *zero_point, **how):
    def build(g, *operands, **how):
        return g.dequantize(*operands, **how)

    return Case("dequantize", [x, scale, *zero_point], dequantized, how, build=build, label=label, batch=())


BYTES = STEPS.view(np.uint8)
CASES += [
    Case("dequantize", [STEPS], lambda x: dequantized(x, 0.5, -3), build=lambda g, x: g.dequantize(x, 0.5, -3),
         label="number", dtypes=(), batch=(0,)),
    dequantize("tensor", STEPS, np.array(0.25)),
    dequantize("unsigned", BYTES, np.array(0.25), np.array(128, np.uint8)),
    dequantize("per_row", STEPS, PER_ROW, axis=0),
    dequantize("per_row_zero_points", STEPS, PER_ROW, ZEROS, axis=0),
    dequantize("one_scale_zero_points", STEPS, np.array(0.25), ZEROS, axis=0),
    dequantize("scales_one_zero_point", STEPS, PER_COLUMN, np.array(4, np.int8), axis=1),
    dequantize("groups", STEPS, values(2, 3, seed=225, low=0.1, high=0.3)),
    dequantize("groups_zero_points", STEPS, values(4, 2, seed=226, low=0.1, high=0.3), STEPS[:, :2]),
    dequantize("one_group", STEPS, values(1, 1, seed=226, low=0.1, high=0.3)),
    dequantize("wide", STEPS.astype(np.int32) * 1000, np.array(0.25), np.array(1000, np.int32)),
    dequantize("empty", STEPS[:0], PER_COLUMN, axis=1),
    dequantize("scalar", np.array(-3, np.int8), np.array(0.25)),
]  # fmt: skip

# --- packed elements --------------------------------------------------------------------------------------------------


def packed(bits, *shape, seed):
    """Return random words that hold elements of this shape."""
    return np.random.default_rng(seed).integers(0, 2**32, (*shape[:-1], shape[-1] * bits // 32)).astype(np.uint32)


def unpacked(words, bits):
    """Return the elements of words, from the definition: bit by bit."""
    each = (words[..., None] >> np.arange(32, dtype=np.uint32)) & 1
    each = each.reshape(*words.shape[:-1], words.shape[-1] * 32 // bits, bits)
    return (each << np.arange(bits, dtype=np.uint32)).sum(-1)


def dequantized_packed(words, scale, bias, bits):
    elements = unpacked(words, bits)
    size = elements.shape[-1] // scale.shape[-1] if scale.shape[-1] else 1
    return elements * np.repeat(scale, size, -1) + np.repeat(bias, size, -1)


CASES += [
    Case("dequantize_packed", [packed(bits, *shape, seed=240), values(*shape[:-1], groups, seed=241),
                               values(*shape[:-1], groups, seed=242)],
         dequantized_packed, {"bits": bits}, dtypes=("float32", "float16", "bfloat16"), batch=(), label=label)
    for label, bits, shape, groups in [
        ("two_bits", 2, (3, 64), 2), ("three_bits", 3, (3, 128), 4), ("four_bits", 4, (3, 64), 1),
        ("five_bits", 5, (3, 96), 3), ("six_bits", 6, (2, 2, 64), 2), ("eight_bits", 8, (3, 128), 2),
        ("one_row", 4, (64,), 2), ("no_rows", 4, (0, 64), 2),
    ]
]  # fmt: skip

# --- lookup tables ----------------------------------------------------------------------------------------------------
NIBBLES = np.random.default_rng(227).integers(0, 16, (4, 6)).astype(np.uint8)


def looked_up(x, table, axis=None):
    vectors = axis is not None
    own = 2 if vectors else 1
    groups = table.shape[: table.ndim - own] or (1,) * x.ndim
    table = table.reshape(*groups, *table.shape[table.ndim - own :])
    if not vectors:
        table = table[..., None]
    result = np.zeros((*x.shape, table.shape[-1]), table.dtype)
    for at in np.ndindex(*x.shape):
        group = tuple(i * n // size for i, n, size in zip(at, groups, x.shape, strict=True))
        if 0 <= x[at] < table.shape[-2]:
            result[at] = table[group][x[at]]
    if not vectors:
        return result[..., 0]
    axis %= x.ndim
    moved = np.moveaxis(result, -1, axis + 1)
    return moved.reshape(*(n * table.shape[-1] if a == axis else n for a, n in enumerate(x.shape)))


def lookup(label, x, table, axis=None, **options):
    how = {} if axis is None else {"axis": axis}
    options = {"dtypes": ANALYTIC, "batch": (), "exact": True} | options
    return Case("dequantize_lookup_table", [x, table], looked_up, how, label=label, **options)


CASES += [
    lookup("nibbles", NIBBLES, apart(16, seed=228), dtypes=ANY),
    lookup("bytes", BYTES, apart(256, seed=229)),
    lookup("missing_entries", NIBBLES, apart(10, seed=228)),
    lookup("negative", NIBBLES.astype(np.int8) - 3, apart(16, seed=228)),
    lookup("groups", NIBBLES, apart(2, 3, 16, seed=230)),
    lookup("rows", NIBBLES, apart(4, 1, 16, seed=231)),
    lookup("each", NIBBLES[:2, :2], apart(2, 2, 16, seed=231)),
    lookup("vectors", NIBBLES, apart(16, 3, seed=232), axis=1),
    lookup("vectors_first_axis", NIBBLES, apart(16, 2, seed=232), axis=0),
    lookup("vectors_of_groups", NIBBLES, apart(2, 1, 16, 2, seed=233), axis=-1),
    lookup("empty", NIBBLES[:0], apart(16, seed=228)),
    lookup("scalar", np.array(3, np.uint8), apart(16, seed=228)),
]

# Finite differences see the jumps of the value, which the gradient ignores by definition; test_gradients.py checks it.
CASES += [
    Case("straight_through", [apart(3, 4, seed=234), apart(3, 4, seed=235)], lambda x, y: x, dtypes=ANALYTIC,
         gradient=False, exact=True, batch=(0, 1)),
]  # fmt: skip
