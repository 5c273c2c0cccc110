"""Test integer matmuls at the limits of their dtypes, with two's complement wraparound, on every instruction set.

The cases in tests/cases/matrix.py cover sizes and shapes.
"""

import os
from itertools import product

import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import SMALLER_SETS, run_again_with

pytestmark = pytest.mark.both_devices

BYTES = ("int8", "uint8")


def everything(dtype, shape, seed=0):
    """Return random numbers from the whole range of an integer dtype."""
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def wrapped(a, b, a_zero=0, b_zero=0):
    wide = [np.asarray(x).astype(np.int64) for x in (a, b, a_zero, b_zero)]
    return np.matmul(wide[0] - wide[2], wide[1] - wide[3]).astype(np.int32)


def bytes_product(a, b, *zeros, constant=True):
    """Multiply fed operands, or fed rows by constant weights."""
    g = mg.Graph()
    feeds = {g.placeholder(a.shape, a.dtype.name): a}
    [x] = feeds
    if constant:
        y, *points = [g.constant(value) for value in (b, *zeros)]
    else:
        y, *points = [g.placeholder(value.shape, value.dtype.name) for value in (b, *zeros)]
        feeds |= dict(zip([y, *points], (b, *zeros), strict=True))
    return g.run(feeds, g.integer_matrix_multiplication(x, y, *points)).numpy()


@pytest.mark.parametrize("left, right", list(product(BYTES, BYTES)))
@pytest.mark.parametrize("constant", [True, False])
def test_int8_and_uint8_matmuls_match_numpy(left, right, constant):
    for m, k, n in ((1, 64, 33), (13, 131, 65), (40, 256, 100)):
        a, b = everything(left, (m, k)), everything(right, (k, n), 1)
        assert np.array_equal(bytes_product(a, b, constant=constant), wrapped(a, b))
        zeros = (np.array(77, left), everything(right, (n,), 2))
        assert np.array_equal(bytes_product(a, b, *zeros, constant=constant), wrapped(a, b, *zeros))
        rows = (everything(left, (m, 1), 3), np.array(5, right))
        assert np.array_equal(bytes_product(a, b, *rows, constant=constant), wrapped(a, b, *rows))


@pytest.mark.parametrize("left, right", list(product(BYTES, BYTES)))
def test_largest_integer_products_do_not_saturate(left, right):
    """Sums of adjacent largest products would saturate in 16-bit instructions."""
    ends = [(np.iinfo(dtype).min, np.iinfo(dtype).max) for dtype in (left, right)]
    for a_value, b_value in product(*ends):
        a, b = np.full((3, 260), a_value, left), np.full((260, 40), b_value, right)
        assert np.array_equal(bytes_product(a, b), wrapped(a, b))
        zeros = (np.array(np.iinfo(left).max, left), np.array(np.iinfo(right).min, right))
        assert np.array_equal(bytes_product(a, b, *zeros), wrapped(a, b, *zeros))


@pytest.mark.parametrize("left, right", list(product(BYTES, BYTES)))
def test_int8_matmul_with_partly_small_weights_does_not_saturate(left, right):
    """Weights that cannot saturate 16-bit sums are mixed with others, and rows contain the limits of the dtype."""
    middle = 0 if right == "int8" else 128
    for spread, m in product((3, 20, 40), (1, 2, 3, 6)):
        b = np.random.default_rng([spread, m]).normal(0, spread, (150, 70)).round().clip(-128, 127)
        b[40:44, ::5], b[44:52, ::2] = -64, 64  # 128 in sum
        a = np.where(everything(left, (m, 150)) % 3 == 0, np.iinfo(left).min, np.iinfo(left).max).astype(left)
        b = (b + middle).astype(right)
        assert np.array_equal(bytes_product(a, b), wrapped(a, b))
        assert np.array_equal(bytes_product(a, b, constant=False), wrapped(a, b))


@pytest.mark.parametrize("left", BYTES)
def test_int8_matmul_with_alternating_weight_magnitudes_is_exact(left):
    """Runs of weights that may saturate are shorter or longer than a block that is widened at once.

    Row counts vary, and the columns do not fill a vector.
    """
    steps = 4 * np.array([3, 15, 40, 16, 40, 17, 60, 300, 900, 1, 1])  # small and large weights alternate
    ranges = np.repeat([3, 128] * 5 + [3], steps)[:, None]
    b = everything("int8", (len(ranges), 43), 4).astype(np.int64)
    b = np.where(ranges == 3, b % 3 - 1, np.where(b < 0, -128, 127)).astype(np.int8)
    for m in (*range(1, 8), 13):
        a = np.where(everything(left, (m, len(b)), m) % 3 == 0, np.iinfo(left).min, np.iinfo(left).max).astype(left)
        assert np.array_equal(bytes_product(a, b), wrapped(a, b))
        part = len(b) - 2  # not a multiple of the block size
        assert np.array_equal(bytes_product(a[:, :part], b[:part]), wrapped(a[:, :part], b[:part]))


def test_long_int32_sums_wrap_around():
    a, b = np.full((1, 40000), 255, np.uint8), np.full((40000, 2), 255, np.uint8)
    assert np.array_equal(bytes_product(a, b), np.full((1, 2), 255 * 255 * 40000 - 2**32, np.int32))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integer_matmul_wraps_around(dtype):
    for m, k, n in ((1, 9, 70), (30, 61, 33)):
        a, b = everything(dtype, (m, k)), everything(dtype, (k, n), 1)
        g = mg.Graph()
        x = g.placeholder((m, k), dtype)
        both = g.run({x: a}, g.matrix_multiplication(x, g.constant(b))).numpy()
        assert both.dtype == dtype
        assert np.array_equal(both, np.matmul(a, b))


def test_bool_matmul_is_logical_or_of_ands():
    rng = np.random.default_rng(0)
    a, b = rng.random((5, 300)) < 0.05, rng.random((300, 4)) < 0.05
    g = mg.Graph()
    assert np.array_equal(g.run({}, g.matrix_multiplication(g.constant(a), g.constant(b))).numpy(), a @ b)


def test_zero_points_can_be_scalars_or_tensors():
    g = mg.Graph()
    a, b = g.constant(np.zeros((2, 3), np.uint8)), g.constant(np.ones((3, 4), np.int8))
    assert g.run({}, g.integer_matrix_multiplication(a, b, 2, -1)).tolist() == [[-12] * 4] * 2
    with pytest.raises(mg.DTypeError, match="the number 300 cannot be represented in uint8"):
        g.integer_matrix_multiplication(a, b, 300)
    with pytest.raises(mg.DTypeError, match=r"primary's zero point must have its operand's dtype \(uint8\)"):
        g.integer_matrix_multiplication(a, b, g.constant(0, dtype="int8"))
    with pytest.raises(mg.DTypeError, match="primary must be int8 or uint8, got int32"):
        g.integer_matrix_multiplication(g.cast(a, "int32"), b)
    with pytest.raises(mg.ShapeError, match="must have size 1 along the axis that is summed over"):
        g.integer_matrix_multiplication(a, b, g.constant(np.zeros((1, 3), np.uint8)))
    with pytest.raises(mg.ShapeError, match="must broadcast to its operand"):
        g.integer_matrix_multiplication(a, b, 0, g.constant(np.zeros(3, np.int8)))


@pytest.mark.skipif(os.environ.get("MPSGRAPH_TEST_DEVICE") == "metal", reason="tests the CPU's plan")
def test_constant_weights_are_packed_once_for_all_batch_sizes():
    g = mg.Graph()
    x = g.placeholder((-1, 64), "uint8")
    product_of = g.integer_matrix_multiplication(x, g.constant(everything("int8", (64, 48))), 128, 3)
    for rows in (1, 40):
        plan = g.compile({x: np.zeros((rows, 64), np.uint8)}, [product_of]).plan()
        assert "8-bit integer matmul in tiles" not in plan or "packed weights" in plan


@pytest.mark.skipif(os.environ.get("MPSGRAPH_TEST_DEVICE") == "metal", reason="tests the CPU's instruction sets")
@pytest.mark.parametrize("instructions", SMALLER_SETS)
def test_tests_of_this_file_pass_with_smaller_instruction_sets(instructions):
    """Run this file in another process with a smaller instruction set."""
    run_again_with(instructions, __file__)
