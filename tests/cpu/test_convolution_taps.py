"""Test convolutions computed as one matmul per filter tap, at sizes that cross tile, panel, and thread boundaries.

The sizes in the case suite are smaller than a tile. Winograd convolutions are tested in test_convolution_winograd.py.
"""

import re
from pathlib import Path

import ml_dtypes
import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import HAS_VECTORS

# Images, input size, channels, kernel, outputs, and options of the convolution.
SIZES = {
    "one_tap_of_nine": (64, (1, 1), 40, (3, 3), 70, {"padding": "TF_SAME"}),
    "four_pixels_that_see_each_other": (16, (2, 2), 32, (3, 3), 64, {"padding": "TF_SAME"}),
    "strided_product": (13, (7, 6), 33, (1, 1), 65, {"strides": 2}),
    "strided_windows": (3, (9, 11), 20, (3, 5), 31, {"strides": (2, 3), "padding": "TF_SAME"}),
    "pixels_that_no_window_sees": (2, (11, 11), 8, (2, 2), 32, {"strides": 4}),
    "dilated": (2, (12, 9), 16, (3, 3), 32, {"dilations": (2, 3), "padding": "TF_SAME"}),
    "one_image": (1, (14, 14), 20, (5, 5), 96, {"padding": "TF_SAME"}),
    "one_channel": (4, (28, 28), 1, (5, 5), 32, {"padding": "TF_SAME"}),
    "three_channels": (4, (20, 20), 3, (7, 7), 64, {"strides": 2}),
    "few_channels_dilated": (5, (12, 9), 5, (3, 3), 33, {"dilations": (2, 3), "padding": "TF_SAME"}),
    "few_channels_of_pixels_that_no_window_sees": (3, (23, 11), 3, (2, 2), 40, {"strides": 4}),
    "few_outputs": (40, (9, 9), 48, (3, 3), 5, {"padding": "TF_SAME"}),
    "four_pixels_of_one_image": (1, (2, 2), 64, (3, 3), 96, {"padding": "TF_SAME"}),
    "more_rows_than_a_tile": (2, (5, 4), 32, (3, 3), 70, {"padding": "TF_SAME"}),
    "panels_one_by_one": (24, (2, 3), 256, (3, 3), 256, {"padding": "TF_SAME"}),
    "slices_and_parts_of_sums": (3, (14, 14), 36, (5, 5), 64, {"padding": "TF_SAME"}),
    "rows_that_lie_alike": (4, (8, 8), 64, (1, 1), 96, {}),
    "rows_that_lie_alike_in_windows": (64, (1, 2), 96, (1, 2), 64, {}),
    "product_of_many_rows": (20, (5, 5), 48, (1, 1), 64, {}),
    "all_taps_of_all_windows": (1, (14, 14), 60, (3, 3), 128, {}),  # one thread: sums are stored directly
    "explicit_padding": (2, (5, 5), 16, (3, 3), 40, {"padding": ((3, 0), (1, 4))}),
    "half_a_panel": (3, (9, 9), 24, (5, 5), 16, {"padding": "TF_SAME", "strides": 2}),
    "half_a_panel_at_the_end": (2, (13, 7), 24, (5, 3), 41, {"padding": "TF_SAME"}),
    "windows_apart": (1, (12, 10), 1, (2, 2), 16, {"strides": 2}),
    "windows_apart_in_long_rows": (3, (6, 206), 5, (3, 2), 20, {"strides": (3, 2)}),
    "windows_apart_but_for_an_edge": (2, (13, 11), 3, (2, 2), 16, {"strides": 2}),
    "outputs_first": (6, (6, 6), 36, (3, 3), 64, {"padding": "TF_SAME", "weights_layout": "OIHW"}),
    "outputs_first_product": (6, (6, 6), 48, (1, 1), 64, {"weights_layout": "OIHW"}),
}


APART = {"windows_apart", "windows_apart_in_long_rows"}
TAP_BY_TAP = {"four_pixels_of_one_image", "more_rows_than_a_tile"}  # few pixels per phase


def executables(size, bias, residual, relu, dtype=mg.float32):
    images, source, channels, kernel, outputs, options = SIZES[size]
    g = mg.Graph()
    x = g.placeholder((images, *source, channels), dtype)
    shape = (*kernel, channels, outputs)
    if options.get("weights_layout") == "OIHW":
        shape = (outputs, channels, *kernel)
    w = g.placeholder(shape, dtype)
    y = g.convolution2d(x, w, **options)
    r, b = g.placeholder(y.shape, dtype), g.placeholder((outputs,), dtype)
    z = y + b if bias else y
    z = z + r if residual else z
    z = g.relu(z) if relu else z
    cotangent = g.placeholder(y.shape, dtype)
    gradients = g.gradients(g.reduction_sum(z * cotangent), [x, w])
    targets = [z, gradients[x], gradients[w]]
    feeds = {t: t.shape for t in (x, w, b, r, cotangent)}
    made = [
        g.compile(feeds, targets, options=mg.CompilationDescriptor(reference_kernels=reference))
        for reference in (False, True)
    ]
    rng = np.random.default_rng(1)
    of_numpy = np.float32 if dtype == mg.float32 else ml_dtypes.bfloat16
    arrays = {t: rng.standard_normal(t.shape).astype(of_numpy) for t in feeds}
    return made, arrays


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bias, residual, relu", [(False, False, False), (True, True, True), (True, False, False)])
def test_per_tap_convolution_matches_reference(size, bias, residual, relu):
    (fast, plain), arrays = executables(size, bias, residual, relu)
    if HAS_VECTORS:
        few = SIZES[size][2] < 8  # another kernel computes their gradient with respect to the input
        assert fast.plan().count("one matmul per tap") == 3 - few and "one matmul per tap" not in plain.plan()
        # Overlapping windows are accumulated by one thread per image, so there must be as many images as threads.
        if size in APART or SIZES[size][0] >= mg.get_num_threads():
            assert fast.plan().count(f"taps, {'without overlap' if size in APART else 'accumulated'}") == few
        assert "tap by tap" in fast.plan() or size not in TAP_BY_TAP
    found, expected = ([a.numpy() for a in e.run([arrays[f] for f in e.feeds])] for e in (fast, plain))
    for name, ours, theirs in zip(("result", "source", "weights"), found, expected, strict=True):
        scale = np.abs(theirs).max()
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=scale * 4e-6, err_msg=name)


@pytest.mark.parametrize("size", SIZES)
def test_bfloat16_convolution_rounds_its_result_once(size):
    """Sums are float32, so results differ from float32 results of the same operands by a single rounding."""
    (fast, _), arrays = executables(size, True, True, True, mg.bfloat16)
    even = all(n % 2 == 0 for n in (SIZES[size][2], SIZES[size][4]))
    if "avx512_bf16" in Path("/proc/cpuinfo").read_text() and "AVX-512" in mg.Device("cpu").description:
        assert len(re.findall(r"^  \w+: taps: ", fast.plan(), re.MULTILINE)) == (3 if even else 0), fast.plan()
        assert even or "in_float32" in fast.plan()
    (_, plain), _ = executables(size, True, True, True)
    found = [a.numpy().astype(np.float32) for a in fast.run([arrays[f] for f in fast.feeds])]
    expected = [a.numpy() for a in plain.run([a.astype(np.float32) for a in arrays.values()])]
    # relu's derivative uses the result before rounding, so it may change sides where the result is close to 0.
    near = np.abs(expected[0]) <= np.abs(expected[0]).max() * 1e-5
    np.testing.assert_allclose(found[0][~near], expected[0][~near], rtol=2**-8, atol=1e-5)
    for name, ours, theirs in zip(("source", "weights"), found[1:], expected[1:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2**-8, atol=np.abs(theirs).max() * 2**-8, err_msg=name)


@pytest.mark.parametrize("images, pixels, kernel", [(1, 1, 1), (2, 2, 3), (1, 4, 3), (16, 1, 1), (17, 1, 1)])
def test_convolution_of_few_pixels_reads_bfloat16_weights_unconverted(images, pixels, kernel):
    """Where weight bandwidth is the bottleneck, weights stay in bfloat16, even if other matmuls compute in float32."""
    rng, shape = np.random.default_rng(3), (kernel, kernel, 64, 128)
    weights = (rng.standard_normal(shape) / 8).astype(mg.bfloat16.numpy)
    fed = rng.standard_normal((images, pixels, pixels, 64)).astype(weights.dtype)
    found = []
    for dtype in (mg.bfloat16, mg.float32):
        g = mg.Graph()
        x = g.placeholder(fed.shape, dtype)
        product = g.convolution2d(x, g.constant(weights.astype(dtype.numpy)), padding="TF_SAME")
        options = mg.CompilationDescriptor(reference_kernels=dtype == mg.float32)
        executable = g.compile({x: x.shape}, [g.relu(product)], options=options)
        found.append(executable.run([fed.astype(dtype.numpy)])[0].numpy().astype(np.float32))
        processor = Path("/proc/cpuinfo").read_text()
        if dtype == mg.bfloat16 and "avx512_bf16" in processor and "AVX-512" in mg.Device("cpu").description:
            plan, more = executable.plan(), images * pixels**2 > 16
            has_amx = "AMX" in mg.Device("cpu").description
            in_float32 = more and "GenuineIntel" in processor and not has_amx
            assert "packed weights" in plan and ("in float32" in plan) == in_float32, plan
            assert ("with AMX" in plan) == has_amx, plan
    near = np.abs(found[1]) <= np.abs(found[1]).max() * 1e-5
    np.testing.assert_allclose(found[0][~near], found[1][~near], rtol=2**-8, atol=1e-5)


@pytest.mark.parametrize("size", SIZES)
def test_constant_convolution_weights_are_packed_once(size):
    images, source, channels, kernel, outputs, options = SIZES[size]
    rng = np.random.default_rng(2)
    weights = rng.standard_normal((*kernel, channels, outputs)).astype(np.float32)
    if options.get("weights_layout") == "OIHW":
        weights = np.ascontiguousarray(weights.transpose(3, 2, 0, 1))
    g = mg.Graph()
    x = g.placeholder((images, *source, channels))
    y = g.relu(g.convolution2d(x, g.constant(weights), **options) + 0.5)
    fed, results = rng.standard_normal(x.shape).astype(np.float32), []
    for reference in (False, True):
        made = g.compile({x: fed}, [y], options=mg.CompilationDescriptor(reference_kernels=reference))
        if not reference and HAS_VECTORS:
            assert "packed weights" in made.plan() and ("tap by tap" in made.plan()) == (size in TAP_BY_TAP)
        results.append(made.run([fed])[0].numpy())
    np.testing.assert_allclose(*results, rtol=0, atol=np.abs(results[1]).max() * 4e-6)


def test_per_tap_convolution_is_bitwise_reproducible():
    (fast, _), arrays = executables("three_channels", True, True, True)
    inputs = [arrays[f] for f in fast.feeds]
    first = [a.numpy().copy() for a in fast.run(inputs)]
    for _ in range(5):
        for ours, theirs in zip(first, fast.run(inputs), strict=True):
            assert ours.tobytes() == theirs.numpy().tobytes()


def test_nan_weight_that_only_meets_padding_does_not_affect_result():
    """A tap that only sees padding is skipped, so a NaN in its weights must not reach any pixel."""
    g = mg.Graph()
    x, w = g.placeholder((2, 1, 1, 4)), g.placeholder((3, 3, 4, 4))
    y = g.convolution2d(x, w, padding="TF_SAME")
    weights = np.ones((3, 3, 4, 4), np.float32)
    weights[1, 1, 0, 1] = np.nan
    values = g.run({x: np.ones((2, 1, 1, 4), np.float32), w: weights}, y).numpy()
    assert np.isnan(values[..., 1]).all() and np.isfinite(values[..., [0, 2, 3]]).all()


@pytest.mark.parametrize("dtype", [mg.float32, mg.bfloat16], ids=str)
def test_nan_input_does_not_affect_neighboring_pixels(dtype: mg.DType):
    """Where channels or rows are padded to a full tile, a NaN in adjacent memory must not be multiplied by the zero
    padding.
    """
    g = mg.Graph()
    x, w = g.placeholder((3, 2, 2, 40), dtype), g.placeholder((3, 3, 40, 48), dtype)
    y = g.convolution2d(x, w, padding="TF_SAME")
    gradients = g.gradients(g.reduction_sum(y), [x, w])
    source, weights = np.ones(x.shape, dtype.numpy), np.ones(w.shape, dtype.numpy)
    with_tap = weights.copy()
    with_tap[2, 0] = np.nan  # one pixel of four sees this tap
    values = g.run({x: source, w: with_tap}, y).numpy().astype(np.float32)
    assert np.isnan(values[:, 0, 1]).all()
    assert np.isfinite(np.delete(values.reshape(3, 4, 48), 1, axis=1)).all()
    source[1, ..., 39] = np.nan
    found = g.run({x: source, w: weights}, [y, gradients[w]])
    values, of_weights = (found[t].numpy().astype(np.float32) for t in (y, gradients[w]))
    assert np.isnan(values[1]).all() and np.isfinite(values[[0, 2]]).all()
    assert np.isnan(of_weights[:, :, 39]).all() and np.isfinite(of_weights[:, :, :39]).all()
