"""Compare Winograd convolutions with double-precision sums that numpy computes as one matmul per filter tap.

test_instruction_sets.py runs this file with every instruction set.
"""

import functools

import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import HAS_VECTORS

pytestmark = pytest.mark.begins_early

LANES = 16 if "AVX-512" in mg.Device("cpu").description else 8

# Images, input size, channels, kernel (3-D kernels start with their depth), outputs, options of the convolution; then
# the expected tile sizes for the result and the gradients of input and weights, where 0 means one matmul per tap.
SIZES = {
    "four_of_three_taps": (8, (16, 16), 32, 3, 32, {"padding": "TF_SAME"}, (4, 4, 4)),
    "three_of_three_taps": (32, (6, 6), 64, 3, 64, {"padding": "TF_SAME"}, (3, 3, 3)),
    "two_of_three_taps": (64, (4, 20), 64, 3, 64, {}, (2, 4, 2)),
    "three_of_five_taps": (8, (14, 14), 32, 5, 64, {"padding": "TF_SAME"}, (3, 3, 3)),
    "two_of_five_taps": (64, (6, 6), 32, 5, 32, {}, (2, 0, 2)),
    "four_of_two_taps": (16, (16, 16), 64, 2, 64, {"padding": "TF_SAME"}, (4, 4, 4)),
    "three_of_two_taps": (32, (10, 10), 64, 2, 64, {}, (3, 0, 3)),
    "two_of_two_taps": (64, (3, 3), 64, 2, 64, {}, (2, 0, 2)),
    "phases_of_two_taps": (16, (16, 16), 48, 4, 64, {"strides": 2, "padding": "TF_SAME"}, (2, 3, 2)),
    "phases_of_three_taps": (9, (21, 18), 32, 6, 32, {"strides": 2, "padding": "TF_SAME"}, (3, 3, 3)),
    "phases_of_five_taps": (8, (24, 24), 16, 10, 32, {"strides": 2, "padding": "TF_SAME"}, (3, 3, 3)),
    "nine_phases": (12, (36, 36), 32, 6, 48, {"strides": 3, "padding": ((2, 1), (0, 3))}, (3, 3, 3)),
    "half_a_panel": (5, (32, 31), 16, 3, 16, {"padding": "TF_SAME"}, (4, 4, 4)),
    "panels_and_a_half": (4, (19, 13), 80, 3, 48, {"padding": "TF_SAME"}, (4, 4, 4)),
    "uneven_padding": (5, (15, 18), 32, 3, 48, {"padding": ((3, 0), (1, 4))}, (4, 3, 4)),
    "half_a_vector_of_16": (4, (19, 16), 40, 3, 24, {"padding": "TF_SAME"}, (4, 4, 4)),
    "one_image": (1, (40, 40), 48, 3, 64, {"padding": "TF_SAME"}, (4, 4, 4)),
    "weights_from_a_far_cache": (16, (8, 8), 128, 3, 160, {"padding": "TF_SAME"}, (4, 4, 4)),
    "volumes": (3, (7, 16, 16), 32, (3, 3), 32, {"padding": "TF_SAME"}, (4, 4, 4)),
    "volumes_without_padding": (2, (6, 15, 18), 16, (2, 5), 48, {}, (3, 0, 3)),
    "volumes_of_far_slices": (
        2,
        (6, 16, 12),
        16,
        (3, 3),
        32,
        {"padding": "TF_SAME", "dilations": (2, 1, 1)},
        (4, 4, 4),
    ),
    "volumes_in_phases": (2, (5, 21, 18), 32, (3, 6), 96, {"strides": (1, 2, 2), "padding": "TF_SAME"}, (3, 3, 3)),
    "one_slice_of_many": (4, (3, 16, 16), 32, (3, 3), 32, {"padding": ((0, 0), (1, 1), (1, 1))}, (4, 0, 4)),
    "outputs_first": (6, (13, 12), 48, 3, 64, {"padding": "TF_SAME", "weights_layout": "OIHW"}, (4, 4, 4)),
}
BOUNDS = {
    (4, 3): 8e-6,
    (3, 3): 6e-6,
    (2, 3): 3e-6,
    (3, 5): 1.2e-5,
    (2, 5): 8e-6,
    (4, 2): 8e-6,
    (3, 2): 3e-6,
    (2, 2): 3e-6,
}
"""Error bounds relative to the largest result, by (tile, taps). Larger tiles interpolate at points with larger powers.
"""


def convolution(g, x, w, **options):
    return (g.convolution3d if len(x.shape) == 5 else g.convolution2d)(x, w, **options)


def weights_shape(size):
    _, _, channels, kernel, outputs, options, _ = SIZES[size]
    *depth, kernel = np.atleast_1d(kernel).tolist()
    shape = (*depth, kernel, kernel, channels, outputs)
    return tuple(shape[i] for i in (3, 2, 0, 1)) if options.get("weights_layout") == "OIHW" else shape


def executable(size, bias=False, residual=False, relu=False, reference=False):
    """Return an executable for the result and the gradients of input and weights, and random feeds."""
    images, source, channels, _, outputs, options, _ = SIZES[size]
    g = mg.Graph()
    x, w = g.placeholder((images, *source, channels)), g.placeholder(weights_shape(size))
    y = convolution(g, x, w, **options)
    r, b, cotangent = g.placeholder(y.shape), g.placeholder((outputs,)), g.placeholder(y.shape)
    z = y + b if bias else y
    z = z + r if residual else z
    z = g.relu(z) if relu else z
    gradients = g.gradients(z, [x, w], start=cotangent)
    feeds = {t: t.shape for t in (x, w, b, r, cotangent)}
    options = mg.CompilationDescriptor(reference_kernels=reference)
    made = g.compile(feeds, [z, gradients[x], gradients[w]], options=options)
    rng = np.random.default_rng(1)
    return made, [rng.standard_normal(t.shape).astype(np.float32) for t in feeds]


def results(executable, arrays):
    return [a.numpy().copy() for a in executable.run(arrays)]


def windows(size, source, sizes):
    """Return the padding and, for each tap, its index in the weights and the slices of the padded input that it
    multiplies.
    """
    _, _, _, kernel, _, options, _ = SIZES[size]
    kernel = np.atleast_1d(kernel).tolist()
    kernel = [*kernel, *kernel[-1:]]  # square in height and width
    strides, dilations = (np.broadcast_to(options.get(name, 1), len(kernel)) for name in ("strides", "dilations"))
    spans = [(n - 1) * s + 1 for n, s in zip(sizes, strides, strict=True)]
    reach = [span + (k - 1) * d for span, k, d in zip(spans, kernel, dilations, strict=True)]
    padding = options.get("padding", [(0, 0)] * len(kernel))
    if padding == "TF_SAME":
        padding = [divmod(max(r - n, 0), 2) for r, n in zip(reach, source, strict=True)]
        padding = [(half, half + odd) for half, odd in padding]

    def slices(tap):
        starts = [t * d for t, d in zip(tap, dilations, strict=True)]
        return tuple(slice(a, a + span, s) for a, span, s in zip(starts, spans, strides, strict=True))

    return [(0, 0), *padding, (0, 0)], [(tap, (slice(None), *slices(tap))) for tap in np.ndindex(*kernel)]


def in_double(size, x, w, cotangent):
    """Compute the convolution and the gradients of input and weights in float64, one matmul per tap."""
    x, w, cotangent = (a.astype(np.float64) for a in (x, w, cotangent))
    outputs_first = SIZES[size][5].get("weights_layout") == "OIHW"
    w = w.transpose(2, 3, 1, 0) if outputs_first else w
    padding, taps = windows(size, x.shape[1:-1], cotangent.shape[1:-1])
    padded, rows = np.pad(x, padding), cotangent.reshape(-1, cotangent.shape[-1])
    result, of_padded, of_weights = np.zeros_like(rows), np.zeros_like(padded), np.zeros_like(w)
    for tap, window in taps:
        seen = padded[window]
        seen, shape = seen.reshape(-1, seen.shape[-1]), seen.shape
        result += seen @ w[tap]
        of_padded[window] += (rows @ w[tap].T).reshape(shape)
        of_weights[tap] = seen.T @ rows
    inside = tuple(slice(before, before + n) for (before, _), n in zip(padding, x.shape, strict=True))
    of_weights = of_weights.transpose(3, 2, 0, 1) if outputs_first else of_weights
    return result.reshape(cotangent.shape), of_padded[inside], of_weights


@functools.cache
def plain(size):
    """Return the feeds and the results in float64."""
    arrays = executable(size)[1]
    x, w, _, _, cotangent = arrays
    return arrays, in_double(size, x, w, cotangent)


def tiles_of(executable):
    """Return the tile sizes of the three kernels along an axis."""
    lines = [line for line in executable.plan().splitlines() if "by Winograd" in line]
    order = {"data_gradient": 1, "weights_gradient": 2}
    found = {next((n for k, n in order.items() if k in line), 0): int(line.split("tiles of ")[1][0]) for line in lines}
    return tuple(found.get(i, 0) for i in range(3))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bias, residual, relu", [(False, False, False), (True, True, True), (True, False, False)])
def test_winograd_convolution_matches_float64_sums(size, bias, residual, relu):
    fast, _ = executable(size, bias, residual, relu)
    (x, w, b, r, cotangent), expected = plain(size)
    kernel, options, tiles = np.max(SIZES[size][3]), *SIZES[size][5:]
    if HAS_VECTORS:
        if LANES == 16 and (SIZES[size][2] % 16 or SIZES[size][4] % 16):
            tiles = (0, 0, 0)  # transforms require whole vectors
        assert tiles_of(fast) == tiles
    taps = kernel // np.max(options.get("strides", 1))
    result = expected[0] + bias * b + residual * r
    if relu:
        # Where the result is close to 0, relu's derivative may change sides.
        cotangent = np.where(np.abs(result) <= np.abs(result).max() * 1e-4, np.float32(0), cotangent)
        expected = in_double(size, x, w, np.where(result > 0, cotangent, np.float32(0)))
        result = np.maximum(result, 0)
    found = results(fast, [x, w, b, r, cotangent])
    expected = [result, *expected[1:]]
    for name, tile, ours, theirs in zip(("result", "source", "weights"), tiles, found, expected, strict=True):
        bound = np.abs(theirs).max() * BOUNDS.get((tile, taps), 4e-6)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=bound, err_msg=name)


def test_reference_convolution_kernel_matches_float64_sums():
    """Validate, for one size, the reference kernels that other files compare against."""
    exact, arrays = executable("half_a_panel", reference=True)
    assert tiles_of(exact) == (0, 0, 0)
    for ours, theirs in zip(results(exact, arrays), plain("half_a_panel")[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=np.abs(theirs).max() * 1e-6)


@pytest.mark.parametrize("size", SIZES)
def test_constant_winograd_weights_are_transformed_once(size):
    (fed, w, _, _, _), (result, _, _) = plain(size)
    g = mg.Graph()
    x, weights = g.placeholder(fed.shape), g.constant(w)
    y = g.relu(convolution(g, x, weights, **SIZES[size][5]) + 0.5)
    made = g.compile({x: fed}, [y])
    assert not HAS_VECTORS or "packed weights" in made.plan(), made.plan()
    wanted = np.maximum(result + 0.5, 0)
    np.testing.assert_allclose(made.run([fed])[0].numpy(), wanted, rtol=0, atol=wanted.max() * 1.2e-5)


@pytest.mark.parametrize("size", ["three_of_five_taps", "weights_from_a_far_cache", "phases_of_two_taps"])
def test_winograd_results_are_bitwise_reproducible(size):
    fast, arrays = executable(size, True, True, True)
    first = results(fast, arrays)
    for _ in range(5):
        for ours, theirs in zip(first, fast.run(arrays), strict=True):
            assert ours.tobytes() == theirs.numpy().tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_input_affects_only_its_winograd_tiles(value):
    """Pixels whose taps read the value must become non-finite, and pixels outside the tiles that read it must not
    change.
    """
    g = mg.Graph()
    x, w = g.placeholder((4, 16, 16, 32)), g.placeholder((3, 3, 32, 32))
    y = g.convolution2d(x, w, padding="TF_SAME")
    rng = np.random.default_rng(3)
    source, weights = (rng.standard_normal(t.shape).astype(np.float32) for t in (x, w))
    before = g.run({x: source, w: weights}, y).numpy().copy()
    source[1, 5, 5, 7] = value
    after = g.run({x: source, w: weights}, y).numpy()
    assert not np.isfinite(after[1, 4:7, 4:7]).any()
    changed = np.zeros(after.shape, bool)
    changed[1, 4:8, 4:8] = True
    np.testing.assert_array_equal(after[~changed], before[~changed])


@functools.cache
def with_zeros(size):
    """Return feeds in which most pixels of input and incoming gradient are all zero, and the results in float64."""
    arrays, _ = plain(size)
    rng = np.random.default_rng(5)
    arrays = [a.copy() for a in arrays]
    for i in (0, 4):
        arrays[i] *= rng.random((*arrays[i].shape[:-1], 1)) < 0.02
    arrays[0][-1] = -0.0  # one image contains only zeros
    x, w, _, _, cotangent = arrays
    return arrays, in_double(size, x, w, cotangent)


@pytest.mark.parametrize("size", SIZES)
def test_winograd_results_of_zero_pixels_are_exactly_zero(size):
    """ReLU must pass no gradient there. Rounding errors of the transforms would let some of it through."""
    arrays, (result, of_source, _) = with_zeros(size)
    found, of_found, _ = results(executable(size)[0], arrays)
    for ours, theirs in ((found, result), (of_found, of_source)):
        assert (theirs == 0).mean() > 0.2
        np.testing.assert_array_equal(ours == 0, theirs == 0)
        assert not np.signbit(ours[ours == 0]).any()


def test_winograd_pixels_with_only_last_channel_nonzero_are_computed():
    arrays, _ = with_zeros("panels_and_a_half")
    arrays = [a.copy() for a in arrays]
    arrays[0][..., :-1] = 0
    result = in_double("panels_and_a_half", arrays[0], arrays[1], arrays[4])[0]
    found = results(executable("panels_and_a_half")[0], arrays)[0]
    np.testing.assert_array_equal(found == 0, result == 0)
    np.testing.assert_allclose(found, result, rtol=0, atol=np.abs(result).max() * 1e-5)


@pytest.mark.parametrize("size", ["four_of_three_taps", "three_of_five_taps", "volumes"])
def test_winograd_bias_and_residual_are_added_to_exact_zeros(size):
    arrays, (result, _, _) = with_zeros(size)
    _, _, b, r, _ = arrays
    found = results(executable(size, True, True, True)[0], arrays)[0]
    np.testing.assert_array_equal(found[result == 0], np.maximum(b + r, 0)[result == 0])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_non_finite_weight_disables_winograd_zero_shortcut(value):
    arrays, _ = with_zeros("three_of_five_taps")
    x, w, b, r, cotangent = arrays
    w = w.copy()
    w[0, 4, 3, 5] = value
    found = results(executable("three_of_five_taps")[0], [x, w, b, r, cotangent])[0]
    assert np.isnan(found[-1, 2:, :-2, 5]).all(), "an image of zeros must still become NaN"
    others = np.delete(found, 5, axis=-1)
    assert np.isfinite(others).all() and (others == 0).any()


def test_winograd_bias_gradient_is_exact_for_mostly_zero_images():
    """Biases start at zero, so ReLU's input is zero wherever the previous layer saw only background."""
    g = mg.Graph()
    x, w, b = g.placeholder((16, 14, 14, 32)), g.placeholder((5, 5, 32, 64)), g.placeholder((64,))
    y = g.max_pooling2d(g.relu(g.convolution2d(x, w, padding="TF_SAME") + b), 2)
    cotangent = g.placeholder(y.shape)
    gradient = g.gradients(y, b, start=cotangent)[b]
    feeds = {t: t.shape for t in (x, w, b, cotangent)}
    rng = np.random.default_rng(7)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in feeds.values()]
    arrays[0][:, :, :4] = 0
    arrays[0][:, 9:, :] = 0
    arrays[2][:] = 0
    fast, exact = (
        g.compile(feeds, [gradient], options=mg.CompilationDescriptor(reference_kernels=reference))
        for reference in (False, True)
    )
    assert not HAS_VECTORS or "by Winograd" in fast.plan()
    expected = results(exact, arrays)[0]
    np.testing.assert_allclose(results(fast, arrays)[0], expected, rtol=0, atol=np.abs(expected).max() * 1e-5)


def test_winograd_rms_error_is_small():
    """Bound the RMS error relative to the RMS of the result, which docs/measurements.md reports for decision 0018."""
    fast, arrays = executable("three_of_five_taps")
    for ours, theirs in zip(results(fast, arrays), plain("three_of_five_taps")[1], strict=True):
        assert np.sqrt(np.mean((ours - theirs) ** 2) / np.mean(theirs**2)) < 4e-6
