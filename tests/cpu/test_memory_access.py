"""Test kernels that choose a memory access pattern by size, at sizes on both sides of each threshold."""

import ml_dtypes
import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import SMALLER_SETS, run_again_with
from harness.running import REFERENCE

RNG = np.random.default_rng(11)


def run(build, *feeds, options=None):
    """Return the results of build(graph, *placeholders) for the feeds."""
    g = mg.Graph()
    inputs = [g.placeholder(x.shape, x.dtype) for x in feeds]
    targets = build(g, *inputs)
    executable = g.compile({p: x.shape for p, x in zip(inputs, feeds, strict=True)}, targets, options=options)
    return [r.numpy() for r in executable.run(list(feeds))]


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "complex64"])
@pytest.mark.parametrize("sizes", [(16, 16), (64, 64), (70, 3, 129), (600, 20), (1, 64)])
def test_concatenation_and_split_match_numpy(sizes, dtype):
    """Runs of a few bytes to thousands of bytes are copied in the order of the result or operand by operand."""
    parts = [RNG.integers(0, 100, (7, n, 2)).astype(dtype) for n in sizes]
    whole = np.concatenate(parts, 1)
    (found,) = run(lambda g, *x: [g.concat(list(x), 1)], *parts)
    np.testing.assert_array_equal(found, whole)
    same = [np.ascontiguousarray(part) for part in np.split(whole[:, : whole.shape[1] // 2 * 2], 2, axis=1)]
    for a, b in zip(run(lambda g, x: g.split(x, 2, 1), np.concatenate(same, 1)), same, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("size", [(3, 40, 8, 32), (2, 5, 17, 16), (2, 16, 16, 3), (1, 9, 2, 64)])
@pytest.mark.parametrize("permutation", [(0, 2, 1, 3), (2, 1, 0, 3), (1, 0, 2, 3), (1, 2, 0, 3)])
def test_transpose_that_keeps_innermost_axis_matches_numpy(permutation, size):
    x = RNG.random(size, np.float32)
    np.testing.assert_array_equal(
        run(lambda g, x: [g.transpose(x, permutation)], x)[0], np.ascontiguousarray(x.transpose(permutation))
    )


@pytest.mark.parametrize("dtype", ["float32", "uint8", "float16", "int64", "complex128"])
@pytest.mark.parametrize("count", [1, 3, 7, 64, 65, 131])
def test_broadcast_and_padding_of_columns_match_numpy(count, dtype):
    x = RNG.integers(0, 100, (5, 1)).astype(dtype)
    found, zeros = run(lambda g, x: [g.broadcast_to(x, (5, count)), g.pad(x, [1, 0], [2, count])], x)
    np.testing.assert_array_equal(found, np.broadcast_to(x, (5, count)))
    np.testing.assert_array_equal(zeros, np.pad(x, [(1, 2), (0, count)]))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [16384, 131072, 200003, 1 << 18])
def test_cumulative_sum_of_long_vector_matches_numpy(n, reverse):
    x = RNG.standard_normal(n).astype(np.float32)
    inclusive, exclusive = run(
        lambda g, x: [g.cumulative_sum(x, 0, exclusive=e, reverse=reverse) for e in (False, True)], x
    )
    exact = np.cumsum(x[::-1].astype(np.float64))[::-1] if reverse else np.cumsum(x.astype(np.float64))
    np.testing.assert_allclose(inclusive, exact, rtol=1e-6, atol=1e-4)
    np.testing.assert_allclose(exclusive, exact - x, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("n", [3, 16, 37, 130, 530])
def test_matrix_inverse_error_is_within_condition_number_bound(n):
    x = RNG.standard_normal((n, n)).astype(np.float32)
    (found,) = run(lambda g, x: [g.matrix_inverse(x)], x)
    exact = np.linalg.inv(x.astype(np.float64))
    assert np.abs(found - exact).max() <= 1e-6 * np.linalg.cond(x) * np.abs(exact).max()


@pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("n", [1, 5, 8, 33, 100, 1000, 3001])
def test_half_precision_row_sums_are_accurate_to_rounding(n, half):
    x = (RNG.standard_normal((3, n)) * 4).astype(half)
    (found,) = run(lambda g, x: [g.reduction_sum(x, 1)], x)
    exact = x.astype(np.float64).sum(1, keepdims=True)
    spacing = 2.0**-10 if half is np.float16 else 2.0**-7
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=spacing, atol=1e-5 * n)


@pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16])
def test_casts_to_half_precision_and_back_match_numpy(half):
    """The rounded value is stored directly, or also used in the fused kernel that computes it."""
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.9, 65520, 1e30, 2.0**-14, 2.0**-24, 2.0**-25, 3e-8]
    x = np.concatenate([special, RNG.standard_normal(3000) * 10.0 ** RNG.integers(-6, 5, 3000)]).astype(np.float32)
    name = np.dtype(half).name

    def build(g, x):
        low = g.cast(x, name)
        return [low, g.cast(low, "float32") * 1.0, g.cast(g.cast(x + 1.0, name), "float32")]

    with np.errstate(over="ignore"):
        stored, rounded, sums = x.astype(half), x.astype(half).astype(np.float32), (x + 1).astype(half)
    found = run(build, x)
    np.testing.assert_array_equal(found[0].astype(np.float32), stored.astype(np.float32))
    np.testing.assert_array_equal(found[1], rounded)
    np.testing.assert_array_equal(found[2], sums.astype(np.float32))
    np.testing.assert_array_equal(run(lambda g, x: [g.cast(x, "float32")], stored)[0], rounded)


@pytest.mark.parametrize("channels", [1, 3, 8, 20])
@pytest.mark.parametrize(
    "window", [{"kernel": 3}, {"kernel": 2}, {"kernel": (3, 2), "strides": (1, 2)}, {"kernel": 3, "strides": 2},
               {"kernel": 2, "dilations": 2, "strides": 1}, {"kernel": 2, "strides": 3}],
)  # fmt: skip
@pytest.mark.parametrize("include", [False, True])
def test_average_pooling_and_gradient_match_reference(window, channels, include):
    x = RNG.standard_normal((2, 9, 8, channels)).astype(np.float32)
    arguments = {"strides": 1, "padding": ((1, 1), (1, 0)), "include_zero_pad_to_average": include, **window}

    def build(g, x):
        y = g.avg_pooling2d(x, **arguments)
        return [y, g.gradients(g.reduction_sum(g.sin(y)), [x])[x]]

    for a, b in zip(run(build, x), run(build, x, options=REFERENCE), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(98304, 64), (98305, 80), (400000, 20)])
def test_batch_normalization_larger_than_caches_matches_reference(shape):
    """Results over 24 MB use streaming stores if channels fill whole vectors."""
    x, start = (RNG.standard_normal(shape).astype(np.float32) for _ in range(2))

    def build(g, x, start):
        mean = g.mean(x, 0)
        y = g.relu(g.normalization(x, mean, g.variance(x, mean, 0)))
        return [y, g.gradients(y, [x], start=start)[x]]

    options = mg.CompilationDescriptor(disabled_passes=("normalize",))
    for a, b in zip(run(build, x, start), run(build, x, start, options=options), strict=True):
        assert np.abs(a - b).max() <= 2e-5 and np.isfinite(a).all()


@pytest.mark.parametrize("mode", ["add", "max", "set", "mul"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_scatter_of_single_elements_matches_numpy(mode, dtype):
    data = RNG.integers(1, 5, (30, 40)).astype(dtype)
    updates = RNG.integers(1, 4, (30, 300)).astype(dtype)
    index = RNG.integers(-2, 43, (30, 300)).astype(np.int32)
    (found,) = run(lambda g, d, u, i: [g.scatter_along_axis(1, u, i, mode, data=d)], data, updates, index)
    wanted = data.copy()
    combine = {"add": np.add, "max": np.maximum, "mul": np.multiply, "set": lambda a, b: b}[mode]
    with np.errstate(over="ignore"):
        for row in range(30):
            for i, u in zip(index[row], updates[row], strict=True):
                if 0 <= i < 40:
                    wanted[row, i] = combine(wanted[row, i], u)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (700,), (3, 0, 2), (2, 3, 700), (2000, 3), (90, 5, 70)])
def test_non_zero_indices_match_numpy(shape):
    x = RNG.random(shape) < 0.4
    np.testing.assert_array_equal(run(lambda g, x: [g.non_zero_indices(x)], x)[0], np.argwhere(x))


@pytest.mark.parametrize("instructions", SMALLER_SETS)
def test_tests_of_this_file_pass_with_smaller_instruction_sets(instructions):
    run_again_with(instructions, __file__)
