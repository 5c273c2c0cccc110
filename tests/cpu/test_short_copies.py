"""Compare copies of short rows with numpy: transposing, reversing, padding, concatenating, and sorting.

Transposes use shuffles for square blocks and copy the remaining elements one by one. Rows of up to 32 bytes are copied
as two overlapping words.
"""

import mpsgraph as mg
import numpy as np
import pytest

DTYPES = ["bool", "uint8", "float16", "int32", "float64", "complex128"]
LENGTHS = [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 33, 70]


def numbers(shape, dtype):
    x = np.random.default_rng(int(np.prod(shape))).integers(0, 120, shape)
    return (x % 2 == 0) if dtype == "bool" else x.astype(dtype)


def check(build, x, expected):
    g = mg.Graph()
    p = g.placeholder(x.shape, x.dtype)
    found = g.run({p: x}, build(g, p)).numpy()
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", LENGTHS)
def test_transpose_of_short_rows_matches_numpy(rows, dtype):
    for columns in LENGTHS:
        x = numbers((2, rows, columns), dtype)
        check(lambda g, p: g.transpose(p, [0, 2, 1]), x, x.swapaxes(1, 2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", LENGTHS)
def test_reverse_of_short_rows_matches_numpy(columns, dtype):
    x = numbers((13, columns), dtype)
    for axes in ([0], [1], [0, 1]):
        check(lambda g, p, axes=axes: g.reverse(p, axes), x, np.flip(x, axes))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [*LENGTHS, 300])
def test_padding_of_rows_matches_numpy(columns, dtype):
    """Pad on one side and on both, for short rows and long ones."""
    x = numbers((6, columns), dtype)
    value = 1 if dtype == "bool" else 7
    for left, right in (([1, 2], [0, 3]), ([0, 1], [2, 0]), ([0, 0], [0, 1])):
        expected = np.pad(x, list(zip(left, right, strict=True)), constant_values=value)
        check(lambda g, p, a=left, b=right: g.pad(p, a, b, value=value), x, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", LENGTHS)
def test_concatenation_and_slice_of_short_rows_match_numpy(columns, dtype):
    x = numbers((9, columns), dtype)
    check(lambda g, p: g.concat([p, p], 1), x, np.concatenate([x, x], 1))
    check(lambda g, p: g.slice(p, [1, columns // 3], [8, columns]), x, x[1:8, columns // 3 :])


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "float32", "float64", "int64"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 8, 9])
def test_sorting_short_rows_matches_numpy(n, dtype):
    """Rows contain ties, which arg_sort must keep in order, and floats include NaN, infinities, and zeros of both
    signs.
    """
    rng = np.random.default_rng(n)
    x = rng.integers(0, 4, (200, n)).astype(dtype)
    if "float" in dtype:
        x[rng.random(x.shape) < 0.2] *= -1  # includes negative zeros
        x[rng.random(x.shape) < 0.1] = np.nan
        x[rng.random(x.shape) < 0.1] = -np.inf
    check(lambda g, p: g.sort(p, 1), x, np.sort(x, 1))
    check(lambda g, p: g.arg_sort(p, 1), x, np.argsort(x, 1, kind="stable").astype(np.int32))
    down = np.sort(x, 1)[:, ::-1] if "float" not in dtype else None
    if down is not None:
        check(lambda g, p: g.sort(p, 1, descending=True), x, down)
