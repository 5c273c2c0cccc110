"""Cases of the family matrix: products of matrices, batched, broadcast, thin, empty, and larger than a block."""

import numpy as np
from harness.case import ANALYTIC, INTEGERS, Case, values


def product(label, left, right, **options):
    operands = [values(*left, seed=40), values(*right, seed=41)]
    options = {"dtypes": ANALYTIC, "tolerance": 4} | options
    return Case("matrix_multiplication", operands, np.matmul, label=label, **options)


def hamming(a, b, result_dtype="uint32"):
    """Bits of the differences, counted in their binary spelling."""
    differ = np.bitwise_xor(a[..., :, None, :], b[..., None, :, :])
    unsigned = differ.view(f"u{differ.dtype.itemsize}")
    return np.vectorize(lambda n: bin(n).count("1"), otypes=[np.int64])(unsigned).sum(-1).astype(result_dtype)


def bits(label, left, right, **how):
    rng = np.random.default_rng([42, *left])
    operands = [rng.integers(-120, 120, shape).astype(np.int64) for shape in (left, right)]
    return Case("hamming_distance", operands, hamming, how, label=label, dtypes=INTEGERS, batch=())


SINGLE_AND_DOUBLE = ("float32", "float64", "complex64", "complex128")
CASES = [
    bits("plain", (3, 5), (4, 5)),
    bits("batched", (2, 1, 3, 2), (3, 2, 2), result_dtype="uint16"),
    bits("nothing_to_count", (2, 0), (3, 0)),
    bits("no_rows", (0, 2), (3, 2)),
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
    product("odd_sizes", (65, 131), (131, 37), batch=(0,), gradient=False, dtypes=SINGLE_AND_DOUBLE),
    product("many", (9, 17, 33), (9, 33, 5), batch=(0, 1), gradient=False, dtypes=SINGLE_AND_DOUBLE),
]
