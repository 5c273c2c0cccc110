"""Cases of the sparse family: each storage format, with unordered, repeated, out-of-range, and no entries."""

import numpy as np
from harness.case import ALGEBRAIC, Case, apart

COLUMNS = np.array([2, 0, 3, 0, 2, 1], np.int32)
ROWS = np.array([0, 2, 1, 0, 2, 2], np.int32)
VALUES = apart(6, seed=240)


def placed(values, columns, rows, shape):
    result = np.zeros(shape, values.dtype)
    for v, c, r in zip(values, columns, rows, strict=True):
        if 0 <= c < shape[1] and 0 <= r < shape[0]:
            result[r, c] += v
    return result


def lines(starts, count):
    """Return the row or column of each entry from the start positions."""
    return np.searchsorted(starts[1:], np.arange(count), side="right")


def sparse(values, index0, index1, shape, storage="COO"):
    if storage == "COO":
        return placed(values, index0, index1, shape)
    along = lines(index1, len(values))
    return placed(values, index0, along, shape) if storage == "CSR" else placed(values, along, index0, shape)


def case(label, values, index0, index1, shape, storage="COO", **options):
    return Case(
        "sparse_tensor", [values, index0, index1], sparse, {"shape": shape, "storage": storage}, label=label,
        dtypes=ALGEBRAIC, batch=(), **options,
    )  # fmt: skip


STARTS = np.array([0, 2, 3, 6], np.int32)  # for three rows; of four columns, the second is empty in CSC
CASES = [
    case("coo", VALUES, COLUMNS, ROWS, (3, 4)),
    case("csr", VALUES, COLUMNS, STARTS, (3, 4), "CSR"),
    case("csc", VALUES, ROWS, np.array([0, 2, 2, 5, 6], np.uint16), (3, 4), "CSC"),
    case("twice", VALUES, COLUMNS * 0, ROWS * 0, (1, 1)),
    case("outside", VALUES, COLUMNS - 1, ROWS + 1, (3, 3)),
    case("no_values", VALUES[:0], COLUMNS[:0], ROWS[:0], (2, 3)),
    case("empty_rows", VALUES[:2], COLUMNS[:2], np.array([0, 0, 2, 2, 2], np.int32), (4, 4), "CSR"),
    case("nothing", VALUES[:0], COLUMNS[:0], np.array([0], np.uint8), (0, 3), "CSR"),
]
