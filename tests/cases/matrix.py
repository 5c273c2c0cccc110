"""Cases of the matrix family: matmuls that are batched, broadcast, thin, empty, or larger than a block;
attention with masks, causal order, and dropout; and Hamming distances.
"""

import numpy as np
from harness.case import ANY, INTEGERS, Case, values

from cases.random import philox


def product(label, left, right, **options):
    operands = [values(*left, seed=40), values(*right, seed=41)]
    options = {"dtypes": ANY, "tolerance": 4} | options
    return Case("matrix_multiplication", operands, np.matmul, label=label, **options)


def bytes_product(a, b, a_zero=0, b_zero=0):
    """Multiply 8-bit matrices in integers that can hold every sum."""
    wide = [np.asarray(x).astype(np.int64) for x in (a, b, a_zero, b_zero)]
    return np.matmul(wide[0] - wide[2], wide[1] - wide[3]).astype(np.int32)


def bytes_of(label, *shapes, **options):
    """Build a case with operands and zero points of these shapes."""
    rng = np.random.default_rng([47, *shapes[0]])
    operands = [rng.integers(0, 128, shape).astype(np.int64) for shape in shapes]
    options = {"batch": (), "dtypes": ("int8", "uint8")} | options
    return Case("integer_matrix_multiplication", operands, bytes_product, label=label, **options)


def hamming(a, b, result_dtype="uint32"):
    """Count differing bits in binary notation."""
    differ = np.bitwise_xor(a[..., :, None, :], b[..., None, :, :])
    unsigned = differ.view(f"u{differ.dtype.itemsize}")
    return np.vectorize(lambda n: bin(n).count("1"), otypes=[np.int64])(unsigned).sum(-1).astype(result_dtype)


def bits(label, left, right, **how):
    rng = np.random.default_rng([42, *left])
    operands = [rng.integers(-120, 120, shape).astype(np.int64) for shape in (left, right)]
    return Case("hamming_distance", operands, hamming, how, label=label, dtypes=INTEGERS, batch=())


def attention(query, key, value, mask=0.0, state=None, scale=None, causal=False, dropout=0.0):
    """Compute attention one query at a time; a query without keys gives zeros."""
    scores = np.einsum("...ie,...je->...ij", query, key) * (query.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - np.max(scores, -1, initial=-1e9, keepdims=True))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    if dropout:
        words = philox(int(state[1]), int(state[5]), -(-weights.size // 4)).reshape(-1)[: weights.size]
        weights = weights * ((words.reshape(weights.shape) & 0x7FFFFF) >= dropout * 2**23) / (1 - dropout)
    return np.einsum("...ij,...jf->...if", weights, value)


def attend(label, query, key, value, mask=None, **options):
    operands = [values(*shape, seed=43 + i) for i, shape in enumerate((query, key, value))]
    if mask is not None:
        operands.append(values(*mask, seed=46) if isinstance(mask, tuple) else mask)
    return Case("scaled_dot_product_attention", operands, attention, label=label, **{"tolerance": 8} | options)


def attend_from_state(g, query, key, value, mask, state, **how):
    return g.scaled_dot_product_attention(query, key, value, mask, state=state, **how)


CAUSAL = np.where(np.tri(5, dtype=bool), 0.0, -np.inf)
BLIND = CAUSAL.copy()
BLIND[[0, 3]] = -np.inf  # zeros for such queries, as in torch 2.13 and ONNX Runtime
STATE = np.int32([1, 3, 0, 0, 0, 17, 0])  # counter and key of Philox
# Operands and results of torch.nn.functional.scaled_dot_product_attention in torch 2.13, in float64.
TORCH_OPERANDS = [
    (np.arange(6.0).reshape(1, 1, 2, 3) - 2) / 4,
    (np.arange(12.0).reshape(1, 1, 4, 3) % 5 - 2) / 3,
    (np.arange(8.0).reshape(1, 1, 4, 2) % 3),
]
TORCH_RESULT = np.array([[[[0.6699382047856717, 1.0672333487424912], [0.8204456573300903, 1.0403749084362828]]]])

SINGLE_AND_DOUBLE = ("float32", "float64", "complex64", "complex128")
CASES = [
    bits("plain", (3, 5), (4, 5)),
    bits("batched", (2, 1, 3, 2), (3, 2, 2), result_dtype="uint16"),
    bits("nothing_to_count", (2, 0), (3, 0)),
    bits("no_rows", (0, 2), (3, 2)),
    bytes_of("plain", (3, 5), (5, 4)),
    bytes_of("zero_points", (3, 6), (6, 4), (), ()),
    bytes_of("rows_and_columns", (3, 70), (70, 37), (3, 1), (37,)),
    bytes_of("of_columns", (65, 130), (130, 37), (1,), (1, 37)),
    bytes_of("batched", (2, 1, 3, 8), (3, 8, 2), (2, 1, 1, 1), (3, 1, 2)),
    bytes_of("one_row", (1, 64), (64, 100), ()),
    bytes_of("nothing_to_sum", (2, 0), (0, 3)),
    bytes_of("no_rows", (0, 2), (2, 3), (), ()),
    attend("matrices", (3, 4), (5, 4), (5, 2), batch=(0,), unranked=False),
    attend("heads", (2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 4), batch=(0, 1, 2), attributes={"scale": 0.7}),
    attend(
        "masked", (2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 3), (2, 1, 3, 5), batch=(0, 1, 2, 3), attributes={"scale": 1.0}
    ),
    attend(
        "causal", (2, 5, 4), (2, 5, 4), (2, 5, 4), CAUSAL, batch=(0, 1, 2), gradient=False, attributes={"scale": 0.5}
    ),
    attend(
        "blind",
        (2, 3, 5, 4),
        (2, 3, 5, 4),
        (2, 3, 5, 4),
        BLIND,
        batch=(0, 1, 2),
        gradient=False,
        attributes={"scale": 0.5},
    ),
    attend(
        "blind_rows",
        (2, 5, 4),
        (2, 5, 4),
        (2, 5, 4),
        BLIND[:, :1],
        batch=(0, 1, 2),
        gradient=False,
        attributes={"scale": 0.5},
    ),
    attend("mask_of_keys", (2, 3, 4), (2, 5, 4), (2, 5, 2), (5,), batch=(0, 1, 2), attributes={"scale": -0.5}),
    attend("shared_keys", (2, 3, 4, 2), (1, 5, 2), (5, 3), (2, 1, 1, 5), batch=(0, 3), attributes={"scale": 0.3}),
    attend("no_queries", (2, 0, 4), (2, 3, 4), (2, 3, 4), batch=(0, 1, 2), attributes={"scale": 0.5}),
    attend("no_keys", (2, 3, 4), (2, 0, 4), (2, 0, 4), batch=(0, 1, 2), attributes={"scale": 0.5}),
    attend(
        "tiles",
        (2, 70, 33),
        (2, 300, 33),
        (2, 300, 18),
        (70, 300),
        batch=(0, 1, 2),
        gradient=False,
        attributes={"scale": 0.5},
    ),
    attend(
        "in_order", (2, 5, 4), (2, 7, 4), (2, 7, 3), (7,), batch=(0, 1, 2), attributes={"scale": 0.5, "causal": True}
    ),
    Case(
        "scaled_dot_product_attention",
        [values(2, 5, 4, seed=43), values(2, 7, 4, seed=44), values(2, 7, 3, seed=45), values(5, 7, seed=46), STATE],
        attention,
        {"scale": 0.5, "dropout": 0.25},
        build=attend_from_state,
        label="dropped",
        batch=(),
        tolerance=8,
    ),
    Case(
        "scaled_dot_product_attention",
        TORCH_OPERANDS,
        lambda *_: TORCH_RESULT,
        label="torch",
        batch=(),
        gradient=False,
        unranked=False,
    ),
    product("plain", (3, 4), (4, 2), batch=(0,)),
    product("batched", (2, 3, 4), (2, 4, 2), batch=(0, 1)),
    product("one_right", (2, 3, 4), (4, 2), batch=(0,)),
    product("one_left", (3, 4), (2, 4, 2), batch=(1,)),
    product("broadcast", (2, 1, 2, 3), (3, 3, 1), batch=(0,)),
    product("broadcast_ones", (2, 1, 2, 3), (1, 2, 3, 2), batch=(0,)),
    product("row_times_column", (1, 5), (5, 1), batch=()),
    product("column_times_row", (4, 1), (1, 3), batch=(0,)),
    product("no_rows", (0, 3), (3, 2), batch=()),
    product("nothing_to_sum", (2, 0), (0, 3), batch=()),
    product(
        "odd_sizes", (65, 131), (131, 37), batch=(0,), gradient=False, dtypes=(*SINGLE_AND_DOUBLE, "uint8", "int64")
    ),
    product("many", (9, 17, 33), (9, 33, 5), batch=(0, 1), gradient=False, dtypes=SINGLE_AND_DOUBLE),
]
