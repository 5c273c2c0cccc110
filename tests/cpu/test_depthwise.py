"""Compare depthwise convolutions and their gradients with the reference kernels.

The cases include dilations, windows larger than the image, bias, residual and ReLU, strides, odd channel counts, and
both layouts.
"""

import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import SMALLER_SETS, run_again_with
from harness.runtime import run_program

PLAIN = mg.CompilationDescriptor(reference_kernels=True)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("channels", [3, 16, 70])
@pytest.mark.parametrize("dilations, strides", [((1, 16), (1, 1)), ((2, 3), (1, 2))])
def test_dilated_depthwise_convolution_matches_reference(dtype, channels, dilations, strides):
    rng = np.random.default_rng(channels)
    images = rng.standard_normal((2, 5, 40, channels)).astype(dtype)
    g = mg.Graph()
    x = g.placeholder(images.shape, dtype)
    weights = g.constant(rng.standard_normal((3, 3, 1, channels)).astype(dtype))
    how = {"groups": channels, "dilations": dilations, "strides": strides, "padding": "TF_SAME"}
    y = g.convolution2d(x, weights, **how)
    y = g.relu(y + g.constant(rng.standard_normal(channels).astype(dtype)) + g.square(y))
    kept = g.compile({x: images}, [y])
    assert "depthwise, strips of pixels, packed weights" in kept.plan()
    [found], [expected] = kept.run([images]), g.compile({x: images}, [y], options=PLAIN).run([images])
    tolerance = 1e-5 if dtype == "float32" else 4e-3
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=tolerance, atol=4 * tolerance)


# Image size, channels, taps, options. The sizes cover strips of six, three, and one pixels and remainders; whole,
# paired, partial, and single channel vectors; and kernels with 1, 3, 5, and 7 taps in a row.
STRIPS = {
    "three_of_a_row": ((7, 20), 96, (3, 3), {}),
    "five_of_a_row": ((9, 23), 40, (5, 5), {}),
    "seven_of_a_row": ((9, 14), 28, (7, 7), {}),
    "one_of_a_row": ((6, 9), 20, (3, 1), {}),
    "a_row_of_taps": ((2, 31), 33, (1, 3), {}),
    "strides": ((11, 29), 24, (3, 3), {"strides": 2}),
    "strides_beyond_taps": ((11, 29), 12, (2, 2), {"strides": (3, 4)}),
    "dilations_as_far_as_strides": ((11, 29), 16, (3, 3), {"strides": 2, "dilations": 2}),
    "narrow_images": ((6, 2), 17, (3, 3), {}),
    "windows_larger_than_the_image": ((2, 4), 7, (5, 5), {}),
    "explicit_padding": ((5, 8), 36, (3, 3), {"padding": ((3, 0), (1, 7))}),
    "no_padding": ((5, 10), 8, (3, 5), {"padding": "TF_VALID"}),
    "one_long_row": ((1, 500), 5, (1, 5), {}),
    "outputs_first": ((8, 13), 23, (3, 3), {"weights_layout": "OIHW"}),
}


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("rest", ["", "bias", "bias, residual and relu"])
@pytest.mark.parametrize("name", STRIPS)
def test_depthwise_strips_of_pixels_match_reference(name, rest, constant):
    size, channels, taps, how = STRIPS[name]
    rng = np.random.default_rng(0)
    g = mg.Graph()
    x = g.placeholder((3, *size, channels))
    weights = rng.standard_normal((channels, 1, *taps) if "weights_layout" in how else (*taps, 1, channels))
    w = g.constant(weights.astype(np.float32)) if constant else g.placeholder(weights.shape)
    y = g.convolution2d(x, w, groups=channels, **{"padding": "TF_SAME", **how})
    residual = g.placeholder(y.shape)
    if "bias" in rest:
        y = y + g.constant(rng.standard_normal(channels).astype(np.float32))
    if "residual" in rest:
        y = g.relu(y + residual)
    feeds = [x, residual, *([] if constant else [w])]
    arrays = [rng.standard_normal(t.shape).astype(np.float32) for t in feeds]
    [found], plan = run(g, feeds, [y], arrays)
    [expected], _ = run(g, feeds, [y], arrays, PLAIN)
    assert "depthwise, strips of pixels" in plan, plan
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)


# Rows of one to five vectors with remainders, bands of planes, windows beyond the image, dilated taps.
PLANES = {
    "rows_of_vectors": ((9, 150), 3, (3, 3), {}),
    "short_rows": ((7, 7), 40, (5, 5), {}),
    "bands": ((90, 83), 2, (7, 7), {}),
    "bands_of_strides": ((331, 61), 2, (3, 3), {"strides": (2, 1)}),
    "wide_bands": ((9, 7000), 2, (3, 3), {}),
    "one_column": ((5, 1), 9, (3, 3), {}),
    "windows_larger_than_the_image": ((2, 4), 7, (5, 9), {}),
    "explicit_padding": ((5, 8), 6, (3, 3), {"padding": ((3, 0), (1, 7))}),
    "no_padding": ((5, 40), 8, (3, 5), {"padding": "TF_VALID"}),
    "outputs_first": ((8, 13), 23, (3, 3), {"weights_layout": "OIHW"}),
}


@pytest.mark.parametrize("kind", ["groups", "depthwise"])
@pytest.mark.parametrize("name", PLANES)
def test_channels_first_depthwise_convolution_matches_reference(name, kind):
    """The convolution is alone in its graph, because next to others it would be converted to channels last."""
    size, channels, taps, how = PLANES[name]
    how = {"padding": "TF_SAME", "data_layout": "NCHW", **how}
    rng = np.random.default_rng(0)
    g = mg.Graph()
    x = g.placeholder((3, channels, *size))
    outputs_first = "weights_layout" in how
    if kind == "groups":
        w = g.placeholder((channels, 1, *taps) if outputs_first else (*taps, 1, channels))
        y = g.convolution2d(x, w, groups=channels, **how)
    else:
        w = g.placeholder((1, channels, *taps) if outputs_first else (*taps, channels, 1))
        y = g.depthwise_convolution2d(x, w, **how)
    arrays = [rng.standard_normal(t.shape).astype(np.float32) for t in (x, w)]
    [found], plan = run(g, [x, w], [y], arrays)
    [expected], _ = run(g, [x, w], [y], arrays, PLAIN)
    assert "depthwise, rows of planes" in plan and "transpose" not in plan, plan
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("width", [7, 16, 75])
def test_channels_first_depthwise_convolution_fuses_bias_and_relu(width):
    """Bias and relu are fused into the stores. Inside control flow blocks, the channels-first layout is kept."""
    rng = np.random.default_rng(0)
    g = mg.Graph()
    x, w = g.placeholder((2, 5, 6, width)), g.placeholder((3, 3, 1, 5))
    bias = g.constant(rng.standard_normal((5, 1, 1)).astype(np.float32))
    y = g.relu(g.convolution2d(x, w, groups=5, padding="TF_SAME", data_layout="NCHW") + bias)
    arrays = [rng.standard_normal(t.shape).astype(np.float32) for t in (x, w)]
    arrays[0][1, 2, 3, width - 1] = np.nan
    [found], plan = run(g, [x, w], [y], arrays, mg.CompilationDescriptor(disabled_passes=("channels_last",)))
    [expected], _ = run(g, [x, w], [y], arrays, PLAIN)
    assert plan.startswith("1 kernels") and "depthwise, rows of planes" in plan, plan
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("dilations", [(3, 4), (8, 8), (1, 100_000), (100_000, 1)])
def test_channels_first_depthwise_convolution_supports_large_dilations(dilations):
    """Input that no tap sees must neither be copied nor allocated, however large the dilation."""
    rng = np.random.default_rng(0)
    g = mg.Graph()
    x, w = g.placeholder((2, 4, 5, 7)), g.placeholder((3, 3, 1, 4))
    y = g.convolution2d(x, w, groups=4, padding="TF_SAME", data_layout="NCHW", dilations=dilations)
    arrays = [rng.standard_normal(t.shape).astype(np.float32) for t in (x, w)]
    [found], _ = run(g, [x, w], [y], arrays)
    [expected], _ = run(g, [x, w], [y], arrays, PLAIN)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)


def test_depthwise_convolution3d_matches_reference():
    rng = np.random.default_rng(0)
    g = mg.Graph()
    x, w = g.placeholder((2, 5, 6, 15, 18)), g.placeholder((3, 3, 3, 1, 18))
    y = g.convolution3d(x, w, groups=18, padding="TF_SAME")
    arrays = [rng.standard_normal(t.shape).astype(np.float32) for t in (x, w)]
    [found], plan = run(g, [x, w], [y], arrays)
    [expected], _ = run(g, [x, w], [y], arrays, PLAIN)
    assert "depthwise, strips of pixels" in plan, plan
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)


# Images, (height, width), channels, taps, options.
GRADIENTS = {
    "one_pixel": (32, (1, 1), 96, (3, 3), {}),
    "window_as_large_as_the_image": (16, (4, 4), 24, (5, 5), {}),
    "odd_channels": (3, (2, 3), 37, (5, 3), {}),
    "strides": (5, (5, 4), 19, (5, 5), {"strides": (2, 3)}),
    "many_parts": (8, (28, 28), 40, (7, 7), {}),
    "dilations": (4, (15, 13), 33, (3, 3), {"dilations": (2, 5)}),
    "dilations_and_strides": (4, (15, 13), 33, (3, 3), {"dilations": (3, 2), "strides": (2, 2)}),
    "planes": (4, (9, 8), 24, (5, 5), {"dilations": (2, 2), "data_layout": "NCHW"}),
    "outputs_first": (4, (3, 3), 24, (5, 5), {"weights_layout": "OIHW"}),
    "rows_of_two_taps": (3, (6, 9), 28, (7, 2), {}),
    "rows_of_four_taps": (3, (6, 40), 44, (3, 4), {}),
    "rows_of_six_taps": (2, (5, 33), 20, (2, 6), {"strides": (1, 2)}),
    "more_rows_of_taps_than_a_call_takes": (2, (24, 9), 17, (19, 1), {}),
    "many_channels": (2, (5, 20), 1030, (3, 3), {}),
    "taps_that_see_nothing": (2, (2, 2), 16, (3, 3), {"dilations": (8, 8)}),
}


def gradients(name: str, dtype: str = "float32"):
    """Return a graph with both gradients of a convolution, its feeds, and the gradients."""
    images, size, channels, taps, how = GRADIENTS[name]
    how = {"groups": channels, "padding": "TF_SAME", **how}
    g = mg.Graph()
    shape = (images, channels, *size) if how.get("data_layout") == "NCHW" else (images, *size, channels)
    x = g.placeholder(shape, dtype)
    w = g.placeholder((channels, 1, *taps) if "weights_layout" in how else (*taps, 1, channels), dtype)
    y = g.convolution2d(x, w, **how)
    incoming = g.placeholder(y.shape, dtype)
    results = g.gradients(y, [x, w], incoming)
    return g, [x, w, incoming], list(results.values())


def run(g: mg.Graph, feeds, targets, arrays, options=None):
    made = g.compile({x: a.shape for x, a in zip(feeds, arrays, strict=True)}, targets, options=options)
    fed = dict(zip(feeds, arrays, strict=True))
    return [result.numpy().copy() for result in made.run([fed[x] for x in made.feeds])], made.plan()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_depthwise_gradients_match_reference_kernels(name: str, dtype: str):
    g, feeds, targets = gradients(name, dtype)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(x.shape).astype(dtype) for x in feeds]
    found, plan = run(g, feeds, targets, arrays)
    expected, _ = run(g, feeds, targets, arrays, PLAIN)
    assert "depthwise, " in plan, plan
    for ours, theirs in zip(found, expected, strict=True):
        bound = np.abs(theirs.astype(np.float64)).max() * (2e-6 if dtype == "float32" else 2e-3)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=bound)


def test_depthwise_gradient_sums_do_not_depend_on_thread_count():
    """Compare one thread with the default number of threads."""
    g, feeds, targets = gradients("many_parts")
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(x.shape).astype(np.float32) for x in feeds]
    before = mg.get_num_threads()
    try:
        results = []
        for count in sorted({1, before}):
            mg.set_num_threads(count)
            results.append(run(g, feeds, targets[1:], arrays)[0][0])
    finally:
        mg.set_num_threads(before)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def test_nan_pixel_affects_only_weight_gradients_that_use_it():
    g, feeds, targets = gradients("window_as_large_as_the_image")
    arrays = [np.ones(x.shape, np.float32) for x in feeds]
    arrays[0][0, 0, 0, 5] = np.nan
    (_, weights), _ = run(g, feeds, targets, arrays)
    expected = np.zeros((5, 5, 1, 24), bool)
    expected[:3, :3, 0, 5] = True  # taps that cover the first pixel for some position of the window
    np.testing.assert_array_equal(np.isnan(weights), expected)


def test_depthwise_training_matches_reference_kernels():
    """Train five steps. The forward pass is computed in strips of pixels, and the gradient pixel by pixel."""
    weights = np.random.default_rng(0).standard_normal((40, 1, 5, 5)).astype(np.float32) * 0.2
    batch = np.random.default_rng(1).standard_normal((16, 4, 4, 40)).astype(np.float32)
    trained = []
    for options in (None, PLAIN):
        g = mg.Graph()
        x, w = g.placeholder(batch.shape), g.variable(weights)
        y = g.convolution2d(x, w, groups=40, padding="TF_SAME", weights_layout="OIHW")
        loss = g.mean(g.square(y - 1.0), [0, 1, 2, 3])
        step = g.assign(w, w - 0.5 * g.gradients(loss, [w])[w])
        made = g.compile({x: x.shape}, [loss], [step], options=options)
        for _ in range(5):
            made.run([batch])
        trained.append(g.variable_value(w))
    assert np.abs(trained[0] - weights).max() > 0.01
    np.testing.assert_allclose(trained[0], trained[1], rtol=0, atol=2e-6)


# Cases that are compared with numpy sums in double precision. They cover pairs of result rows, edges, and the gradient
# for strides of 1. Each lists images, rows, columns, channels, kernel, strides, dilations, and padding of rows and
# columns.
SAME = ((1, 1), (1, 1))
WINDOWS = {
    "pairs_of_rows": (2, 14, 14, 64, (3, 3), 1, 1, SAME),
    "an_odd_number_of_inner_rows": (1, 9, 20, 32, (3, 3), 1, 1, SAME),
    "one_inner_row": (2, 3, 13, 48, (3, 3), 1, 1, SAME),
    "no_inner_row": (1, 2, 13, 16, (3, 3), 1, 1, SAME),
    "one_row": (3, 1, 30, 16, (3, 3), 1, 1, SAME),
    "one_column": (3, 30, 1, 16, (3, 3), 1, 1, SAME),
    "no_padding": (1, 12, 11, 32, (3, 3), 1, 1, ((0, 0), (0, 0))),
    "uneven_padding": (2, 7, 9, 32, (3, 3), 1, 1, ((2, 0), (0, 2))),
    "more_padding_than_taps": (1, 5, 6, 16, (3, 3), 1, 1, ((4, 3), (5, 3))),
    "channels_of_half_a_vector": (1, 10, 16, 24, (3, 3), 1, 1, SAME),
    "channels_of_no_vector": (1, 10, 16, 21, (3, 3), 1, 1, SAME),
    "few_channels": (1, 11, 12, 3, (3, 3), 1, 1, SAME),
    "strides_and_dilations_of_two": (2, 19, 23, 32, (3, 3), 2, 2, ((2, 2), (2, 2))),
    "strides_of_two": (2, 15, 18, 32, (3, 3), 2, 1, SAME),
    "dilations_of_two": (2, 15, 18, 32, (3, 3), 1, 2, ((2, 2), (2, 2))),
    "five_taps": (1, 12, 17, 32, (5, 5), 1, 1, ((2, 2), (2, 2))),
    "three_rows_of_five": (1, 12, 17, 16, (3, 5), 1, 1, ((1, 1), (2, 2))),
    "a_row_of_taps": (1, 6, 17, 16, (1, 3), 1, 1, ((0, 0), (1, 1))),
    "one_tap": (1, 6, 17, 16, (1, 1), 1, 1, ((0, 0), (0, 0))),
}


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def taps(result, kernel, strides, dilations):
    """Yield each tap with the slices of the padded input that it sees."""
    (rows, columns), (_, h, w, _) = kernel, result
    for y in range(rows):
        for x in range(columns):
            first_y, first_x = y * dilations, x * dilations
            yield (
                (y, x),
                (
                    slice(None),
                    slice(first_y, first_y + (h - 1) * strides + 1, strides),
                    slice(first_x, first_x + (w - 1) * strides + 1, strides),
                ),
            )


def sums(x, w, strides, dilations, padding):
    padded = np.pad(x.astype(np.float64), ((0, 0), *padding, (0, 0)))
    sizes = [(padded.shape[1 + i] - (w.shape[i] - 1) * dilations - 1) // strides + 1 for i in (0, 1)]
    y = np.zeros((x.shape[0], *sizes, x.shape[3]))
    for tap, where in taps(y.shape, w.shape[:2], strides, dilations):
        y += padded[where] * w[tap][:, 0].astype(np.float64)
    return y


def gradient_sums(dy, w, shape, strides, dilations, padding):
    padded = np.zeros((shape[0], shape[1] + sum(padding[0]), shape[2] + sum(padding[1]), shape[3]))
    for tap, where in taps(dy.shape, w.shape[:2], strides, dilations):
        padded[where] += dy.astype(np.float64) * w[tap][:, 0]
    (top, _), (left, _) = padding
    return padded[:, top : top + shape[1], left : left + shape[2]]


@pytest.mark.parametrize("name", WINDOWS)
def test_depthwise_results_and_input_gradients_match_float64_sums(name):
    n, h, width, c, kernel, strides, dilations, padding = WINDOWS[name]
    x, w = drawn(n, h, width, c), drawn(*kernel, c, 1, seed=1)
    g = mg.Graph()
    source, weights = g.placeholder(x.shape), g.placeholder(w.shape)
    how = {"strides": strides, "dilations": dilations, "padding": padding}
    y = g.depthwise_convolution2d(source, weights, **how)
    incoming = g.placeholder(y.shape)
    dy = drawn(*y.shape, seed=2)
    (dx,) = g.gradients(y, [source], incoming).values()
    results = g.run({source: x, weights: w, incoming: dy}, [y, dx])
    size = np.abs(w).sum((0, 1, 3)).max()  # for sums of products of numbers of magnitude about 1
    np.testing.assert_allclose(results[y].numpy(), sums(x, w, strides, dilations, padding), rtol=0, atol=2e-6 * size)
    expected = gradient_sums(dy, w, x.shape, strides, dilations, padding)
    np.testing.assert_allclose(results[dx].numpy(), expected, rtol=0, atol=2e-6 * size)


def test_nan_and_inf_affect_only_windows_that_contain_them():
    x, w = np.zeros((1, 12, 14, 16), np.float32), np.ones((3, 3, 16, 1), np.float32)
    x[0, 5, 6, 3], x[0, 8, 2, 9] = np.nan, np.inf
    g = mg.Graph()
    source = g.placeholder(x.shape)
    y = g.run({source: x}, g.depthwise_convolution2d(source, g.constant(w), padding=SAME)).numpy()
    assert np.argwhere(np.isnan(y)).tolist() == [[0, r, c, 3] for r in (4, 5, 6) for c in (5, 6, 7)]
    assert np.argwhere(np.isinf(y)).tolist() == [[0, r, c, 9] for r in (7, 8, 9) for c in (1, 2, 3)]


def test_depthwise_convolution_larger_than_caches_matches_reference():
    """A result over 25 MB is written with streaming stores, unless the caches are larger."""
    x, w = drawn(1, 56, 56, 64), drawn(3, 3, 64, 1, seed=1)
    g = mg.Graph()
    source = g.placeholder((-1, 56, 56, 64))
    y = g.depthwise_convolution2d(source, g.constant(w), padding=SAME)
    many = np.concatenate([x, 2 * x] * 40)
    one, all_of_them = g.run({source: x}, y).numpy(), g.run({source: many}, y).numpy()
    np.testing.assert_array_equal(all_of_them, np.concatenate([one, 2 * one] * 40))


PROGRAM = """
    import hashlib
    import mpsgraph as mg, numpy as np

    rng = np.random.default_rng(0)
    for shape in ((1, 7, 50, 64), (3, 20, 9, 33)):
        x = rng.standard_normal(shape, np.float32)
        g = mg.Graph()
        source = g.placeholder(shape)
        w = g.constant(rng.standard_normal((3, 3, shape[3], 1), np.float32))
        y = g.depthwise_convolution2d(source, w, padding="TF_SAME")
        for result in g.run({source: x}, [y, *g.gradients(y, [source]).values()]).values():
            print(hashlib.sha256(result.numpy().tobytes()).hexdigest())
"""


def test_depthwise_results_do_not_depend_on_thread_count():
    runs = [run_program(PROGRAM, OMP_NUM_THREADS=str(threads)) for threads in (1, 2, 5)]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    assert len({run.stdout for run in runs}) == 1 and runs[0].stdout.count("\n") == 4


@pytest.mark.parametrize("instructions", SMALLER_SETS)
def test_tests_of_this_file_pass_with_smaller_instruction_sets(instructions: str):
    run_again_with(instructions, __file__)
