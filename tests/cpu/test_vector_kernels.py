"""Compare vectorized kernels with plain sums at sizes around a vector's length, and with non-finite numbers.

test_instruction_sets.py runs this file with every instruction set.
"""

import mpsgraph as mg
import numpy as np
import pytest
from cases.gather import gather_nd
from cases.sample_grid import sampled
from cases.sort import arg_sorted


def run(build, *arrays):
    g = mg.Graph()
    inputs = [g.placeholder(array.shape, array.dtype) for array in arrays]
    y = build(g, *inputs)
    return g.run(dict(zip(inputs, arrays, strict=True)), [y])[y].numpy()


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("shape", [(5, 15), (5, 16), (3, 37), (1, 40), (70, 101), (2, 20021)])
def test_cumulative_sums_of_rows_match_numpy(shape, exclusive, reverse):
    x = normal(*shape)
    y = run(lambda g, t: g.cumulative_sum(t, axis=1, exclusive=exclusive, reverse=reverse), x)
    lanes = x[:, ::-1] if reverse else x
    sums = np.cumsum(lanes, axis=1, dtype=np.float64)
    sums = np.hstack([np.zeros((shape[0], 1)), sums[:, :-1]]) if exclusive else sums
    np.testing.assert_allclose(y, sums[:, ::-1] if reverse else sums, rtol=1e-6, atol=1e-6)


def test_non_finite_numbers_affect_only_later_cumulative_sums():
    x = np.ones((2, 40), np.float32)
    x[0, 21], x[1, 9], x[1, 27] = np.nan, np.inf, -np.inf
    y = run(lambda g, t: g.cumulative_sum(t, axis=1), x)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(y, np.cumsum(x, axis=1))


def plain_softmax(x):
    """Return x minus its row maximum ignoring NaN, as float32, the exponentials, and their row sums."""
    with np.errstate(invalid="ignore"):
        largest = np.fmax.reduce(x, axis=1, keepdims=True, initial=np.float32(-np.inf))
        shifted = (x - largest).astype(np.float64)
        powers = np.exp(shifted)
        return shifted, powers, powers.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n", [1, 7, 8, 15, 16, 17, 31, 33, 64, 67, 1000])
def test_softmax_of_rows_matches_numpy(n):
    """Test rows of large and tiny numbers, rows that are mostly -inf, and rows with NaN and infinities."""
    x = normal(12, n) * np.array([1, 30, 1e-3, 1e30, 1, 1, 1, 1, 1, 1, 1, 1], np.float32)[:, None]
    x[4, : n - 1] = -np.inf
    x[5] = -np.inf
    x[6, n // 2], x[7, 0], x[8, n - 1] = np.nan, np.inf, np.nan
    x[9, n - 1] = 60
    shifted, powers, sums = plain_softmax(x)
    with np.errstate(invalid="ignore"):
        share = powers / sums
        logarithms = shifted - np.log(sums)
    np.testing.assert_allclose(run(lambda g, t: g.softmax(t, axis=1), x), share, rtol=2e-6, atol=1e-37)
    np.testing.assert_allclose(run(lambda g, t: g.log_softmax(t, axis=1), x), logarithms, rtol=1e-6, atol=3e-6)

    finite, incoming, classes = x[9:], normal(3, n, seed=1), np.array([0, n - 1, n // 2], np.int32)
    share, logarithms = share[9:], logarithms[9:]
    found = run(lambda g, t, i: g.gradients(g.softmax(t, axis=1), [t], i)[t], finite, incoming)
    wanted = share * (incoming - (incoming * share).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    loss, gradient = (
        run(build, finite, classes)
        for build in (
            lambda g, t, c: g.softmax_cross_entropy(t, g.one_hot(c, n), axis=1, reduction="sum"),
            lambda g, t, c: g.gradients(g.softmax_cross_entropy(t, g.one_hot(c, n), axis=1, reduction="sum"), [t])[t],
        )
    )
    rows = np.arange(3)
    np.testing.assert_allclose(loss, -logarithms[rows, classes].sum(), rtol=1e-5, atol=1e-6)
    share[rows, classes] -= 1
    np.testing.assert_allclose(gradient, share, rtol=1e-5, atol=1e-6)


def test_softmax_of_long_row_sums_accurately():
    """Summing two million equal exponentials and a 1 sequentially in each lane would lose digits."""
    n = 1 << 21
    x = np.full((1, n), np.log(0.1), np.float32)
    x[0, 5] = 0
    total = np.exp(x.astype(np.float64)).sum()
    np.testing.assert_allclose(run(lambda g, t: g.softmax(t, axis=1), x)[0, 5], 1 / total, rtol=3e-6)
    loss = run(lambda g, t: g.softmax_cross_entropy(t, g.one_hot(g.constant([5]), n), axis=1, reduction="sum"), x)
    np.testing.assert_allclose(loss, np.log(total), rtol=3e-6)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 33, 1000])
def test_complex_operations_match_numpy(n):
    x, y = (normal(2, n, seed=seed).astype(np.float64) for seed in (0, 1))
    a, b = (x[0] + 1j * x[1]).astype(np.complex64), (y[0] + 1j * y[1]).astype(np.complex64)
    builds = {
        "product": (lambda g, x, y: x * y, a.astype(np.complex128) * b),
        "conjugate": (lambda g, x, y: g.conjugate(x), a.conj()),
        "sum": (lambda g, x, y: x + y, a + b),
        "difference": (lambda g, x, y: x - y, a - b),
        "negative": (lambda g, x, y: -x, -a),
    }
    for name, (build, wanted) in builds.items():
        np.testing.assert_allclose(run(build, a, b), wanted, rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("n", [5, 8, 16, 24, 32, 64, 65, 128, 129])
def test_copies_of_short_runs_match_numpy(n):
    """The tensors are so large that some threads begin in the middle of an axis."""
    x = normal(7, 53, 9, 2 * n)
    np.testing.assert_array_equal(run(lambda g, t: t[:, 1:, :, n:], x), x[:, 1:, :, n:])
    np.testing.assert_array_equal(run(lambda g, t: g.transpose(t, [2, 0, 1, 3]), x), x.transpose(2, 0, 1, 3))
    halves = run(lambda g, t: g.concat([t[..., n:], t[..., :n]], axis=3), x)
    np.testing.assert_array_equal(halves, np.concatenate([x[..., n:], x[..., :n]], axis=3))


SAMPLING = pytest.mark.parametrize("how", [
    {"padding_mode": "zero"},
    {"padding_mode": "constant", "constant_value": 2.5, "align_corners": True},
    {"padding_mode": "clamp_to_edge"},
    {"padding_mode": "clamp_to_edge", "relative_coordinates": True},
    {"padding_mode": "zero", "normalize_coordinates": False},
], ids=lambda how: "_".join(how))  # fmt: skip


def places_of(how, *shape):
    places = 0.7 * normal(*shape, 2)
    return 3 * places + 2 if how.get("normalize_coordinates") is False else places


@SAMPLING
@pytest.mark.parametrize("channels", [3, 16, 21])
def test_channels_last_sample_grid_matches_numpy(how, channels):
    source, places = normal(2, 4, 5, channels), places_of(how, 2, 9, 8)
    y = run(lambda g, x, p: g.sample_grid(x, p, **how), source, places)
    expected = sampled(source.astype(np.float64), places.astype(np.float64), **how)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@SAMPLING
@pytest.mark.parametrize("rows, columns", [(1, 1), (3, 5), (8, 8), (9, 9), (10, 13)])
def test_channels_first_sample_grid_matches_numpy(how, rows, columns):
    """Positions are processed in vectors and blocks, the last of them partial. Gradients are compared with the
    reference.
    """
    source, places = normal(2, 3, 4, 5), places_of(how, 2, rows, columns)
    y = run(lambda g, x, p: g.sample_grid(x, p, "NCHW", **how), source, places)
    expected = sampled(source.astype(np.float64), places.astype(np.float64), layout="NCHW", **how)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)

    g, incoming = mg.Graph(), normal(*y.shape, seed=1)
    feeds = [g.placeholder(value.shape) for value in (source, places, incoming)]
    by = g.gradients(g.sample_grid(feeds[0], feeds[1], "NCHW", **how), feeds[:2], feeds[2])
    types = {feed: feed.shape for feed in feeds}
    fast, plain = (
        g.compile(types, [by[feeds[1]]], options=mg.CompilationDescriptor(reference_kernels=reference))
        for reference in (False, True)
    )
    of_places, wanted = (e.run([source, places, incoming])[0].numpy() for e in (fast, plain))
    np.testing.assert_allclose(of_places, wanted, rtol=1e-4, atol=1e-5)


def test_sample_grid_does_not_read_planes_outside_image():
    source = np.full((1, 2, 3, 3), 5, np.float32)
    source[..., 0, 0] = np.nan
    places = np.array([[[[-3, 0], [0.6, 0.6], [np.nan, 0], [0, 1e30]] * 5]], np.float32)
    y = run(lambda g, x, p: g.sample_grid(x, p, "NCHW", padding_mode="constant", constant_value=7.0), source, places)
    np.testing.assert_array_equal(y, np.tile(np.float32([7, 5, np.nan, 7]), 5) * np.ones((1, 2, 1, 1), np.float32))


@pytest.mark.parametrize("padding", ["constant", "clamp_to_edge"])
@pytest.mark.parametrize("channels", [16, 48])
@pytest.mark.parametrize("behind", [0, 1, 4, 15])
def test_sample_grid_of_unaligned_image_stays_in_bounds(behind, channels, padding):
    """Like numpy's large arrays, the image is not aligned to cache lines; memory around it must not be read."""
    source = normal(2, 4, 5, channels)
    memory = np.full(source.size + 64, np.nan, np.float32)
    first = -(memory.ctypes.data // 4) % 16 + behind
    pixels = memory[first : first + source.size].reshape(source.shape)
    pixels[:] = source
    assert pixels.ctypes.data % 64 == 4 * behind
    places = 0.7 * normal(2, 9, 8, 2)
    y = run(lambda g, x, p: g.sample_grid(x, p, padding_mode=padding), pixels, places)
    expected = sampled(source.astype(np.float64), places.astype(np.float64), padding_mode=padding)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_sample_grid_at_non_finite_positions_returns_padding():
    places = np.array([[[[np.nan, 0.0], [1e30, 0.0], [-1e30, 0.0], [0.0, 3.0]]]], np.float32)
    source = np.arange(16, dtype=np.float32).reshape(1, 1, 2, 8) + 1
    y = run(lambda g, x, p: g.sample_grid(x, p, padding_mode="constant", constant_value=7.0), source, places)[0, 0]
    assert np.isnan(y[0]).all()
    np.testing.assert_array_equal(y[1:], np.full((3, 8), 7.0))


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize(
    "k, n", [(1, 1), (2, 3), (17, 1), (2048, 10), (40, 15), (40, 70), (300, 96), (900, 133), (40, 1100), (33, 2049)]
)
def test_row_vector_matrix_product_matches_numpy(k, n, passes):
    x, w, b = normal(1, k), normal(k, n), normal(n)
    x[0, 0] = 2.0
    w[0, n // 2] = np.nan
    g = mg.Graph()
    row = g.placeholder((1, k))
    sums = row @ g.constant(w)
    options = mg.CompilationDescriptor(disabled_passes=() if passes else ("fuse",))
    results = g.compile({row: (1, k)}, [sums, g.relu(row @ g.constant(w) + g.constant(b))], options=options)
    plain, finished = (value.numpy() for value in results.run([x]))
    expected = x.astype(np.float64) @ w
    np.testing.assert_allclose(plain, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(finished, np.maximum(expected + b, 0), rtol=1e-4, atol=1e-4)


def rows_with_ends_and_ties(n):
    rng = np.random.default_rng(n)
    x = normal(14, n)
    x[1] = np.round(x[1])
    x[2], x[3] = np.sort(x[2]), -np.sort(x[3])
    x[4] = np.maximum(x[4] - 2, 0)  # few nonzero elements
    x[5] = rng.choice(np.array([0.0, -0.0], np.float32), n)
    x[6, rng.random(n) < 0.3] = np.nan
    x[7, rng.random(n) < 0.97] = np.nan
    x[8] = np.nan
    x[9] = np.where(rng.random(n) < 0.2, np.inf, -np.inf)
    x[10] = rng.choice(np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0], np.float32), n)
    x[11, n - 1] = 9
    x[12, n - 1] = -9
    x[13, : n - 1] = -3
    return x


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 5, 8, 9, 16, 17, 50, 64, 65])
@pytest.mark.parametrize("n", [5, 31, 32, 33, 64, 67, 100, 129, 200, 260, 1000, 4099, 9001])
def test_top_k_and_bottom_k_of_float32_rows_match_numpy(n, k, largest):
    """Groups of elements are bounded block by block and filtered; results must equal numpy's exactly."""
    x, k = rows_with_ends_and_ties(n), min(n, k)
    g = mg.Graph()
    p = g.placeholder(x.shape)
    best = (g.top_k if largest else g.bottom_k)(p, k=k)
    results = g.run({p: x}, list(best))
    values, indices = (results[y].numpy() for y in best)
    expected = arg_sorted(x, descending=largest)[:, :k]
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(values.view(np.int32), np.take_along_axis(x, expected, 1).view(np.int32))


@pytest.mark.parametrize("indices", ["int32", "int64", "uint16"])
@pytest.mark.parametrize("picks", [1, 3, 7, 8, 15, 17, 33, 1023, 1025, 2100])
@pytest.mark.parametrize(
    "shape, depth, batches", [((50,), 1, 0), ((9, 7), 2, 0), ((5, 7, 6), 3, 0), ((2, 3, 2, 4), 4, 0), ((3, 9, 7), 2, 1)]
)
def test_gather_nd_of_elements_and_slices_matches_numpy(shape, depth, batches, picks, indices):
    """Gather single elements and slices of a few bytes, with and without out-of-range indices."""
    rng = np.random.default_rng(picks)
    lengths = shape[batches : batches + depth]
    inside = np.stack([rng.integers(0, n, (*shape[:batches], picks)) for n in lengths], -1)
    outside = rng.choice([-1, 9, 40, 255, 2**15, 2**31 - 1, -(2**31), 2**32, 2**40], inside.shape)
    for at in (inside, np.where(rng.random(inside.shape) < 0.1, outside, inside)):
        for dtype, inner in (("float32", ()), ("float64", ()), ("int8", ()), ("float32", (2,)), ("float32", (3,))):
            x = rng.integers(-99, 99, (*shape, *inner)).astype(dtype)
            i = at.astype(indices)
            y = run(lambda g, x, i: g.gather_nd(x, i, batch_dimensions=batches), x, i)
            np.testing.assert_array_equal(y, gather_nd(x, i, batches))


def resized(x, rows, columns):
    """Resize NHWC images at the given positions, rounding like float32. A row with weight 0 is not read."""
    with np.errstate(invalid="ignore"):
        for axis, places in ((1, rows), (2, columns)):
            last = x.shape[axis] - 1
            places = np.clip(places, 0, last)
            low = places.astype(int)
            v = (places - low).astype(np.float32).reshape(-1, *(1,) * (3 - axis))
            a, b = np.take(x, low, axis), np.take(x, np.minimum(low + 1, last), axis)
            x = np.where((v == 0) & (axis == 1), a, (1 - v) * a + v * b)
    return x


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("columns", [1, 4, 5, 9, 35])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 67])
def test_bilinear_resize_with_exact_weights_matches_numpy(channels, columns, layout):
    """Results must be exact, because weights are eighths and no multiply-add is fused."""
    x = normal(2, 3, columns, channels)
    x[1, 1, columns // 2, channels // 2], x[1, 2, 0, 0], x[0, 0, -1, -1] = np.nan, np.inf, -np.inf
    moved, back = ((0, 3, 1, 2), (0, 2, 3, 1)) if layout == "NCHW" else (range(4), range(4))
    fed = np.ascontiguousarray(x.transpose(*moved))
    y = run(lambda g, x: g.resize_bilinear(x, (12, 8 * columns), layout=layout, center_result=False), fed)
    np.testing.assert_array_equal(y.transpose(*back), resized(x, np.arange(12) / 4, np.arange(8 * columns) / 8))


@pytest.mark.parametrize("scale", [8, -8, 2, 0.5, -0.25, 0.03125])
@pytest.mark.parametrize("columns", [3, 16, 31, 33, 200])
@pytest.mark.parametrize("size", [5, 8, 15, 16, 40, 67])
def test_linear_interpolation_at_various_scales_matches_numpy(size, columns, scale):
    x = normal(3, columns)
    at = np.arange(size) - (0.75 if scale > 0 else size)
    y = run(lambda g, x: g.resize_bilinear(x, (3, size), layout="HW", scale=(1, scale), offset=(0, -at[0])), x)
    np.testing.assert_array_equal(y, resized(x[None, ..., None], np.arange(3), at / scale)[0, ..., 0])


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_bilinear_resize_larger_than_caches_matches_numpy(layout):
    x = normal(2, 48, 64, 32)
    fed = np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if layout == "NCHW" else x
    y = run(lambda g, x: g.resize_bilinear(x, (192, 512), layout=layout, center_result=False), fed)
    y = y.transpose(0, 2, 3, 1) if layout == "NCHW" else y
    np.testing.assert_array_equal(y, resized(x, np.arange(192) / 4, np.arange(512) / 8))
