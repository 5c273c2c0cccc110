"""Test that calls known to fail or give wrong results on Macs never reach MPSGraph.

tests/apple/behaviour.md lists the calls. The mock raises where a Mac would abort the process, and computes the same
wrong results as a Mac. The cases of all operations run on the mock. The tests here cover sizes, old systems, and
folders that the cases do not reach.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from harness.runtime import wait_for

MOCK = device.mock()
MOCK.mock_set_macos_version.argtypes = [ctypes.c_double]
MOCK.mock_macos_version.restype = ctypes.c_double


@pytest.fixture
def system() -> Iterator[Callable[[float], None]]:
    """Set the macOS version that the mock simulates, for one test."""
    before = MOCK.mock_macos_version()
    yield lambda version: MOCK.mock_set_macos_version(version)
    MOCK.mock_set_macos_version(before)


LIMITS = {
    "a dimension": ((2**31,), "int8", lambda g, x: g.negative(x)),
    "elements": ((2**16, 2**15), "int8", lambda g, x: g.negative(x)),
    "bytes": ((2**15, 2**15, 1), "complex64", lambda g, x: g.negative(x)),
    "a result": ((2**16, 1), "float32", lambda g, x: x + g.constant(np.zeros((1, 2**16), np.float32))),
    "a broadcast": ((1,), "float32", lambda g, x: g.broadcast_to(x, (2**16, 2**15))),
    "within a distance": (
        (2**11, 64),
        "uint64",
        lambda g, x: g.hamming_distance(x, g.constant(np.zeros((2**15, 64), np.uint64))),
    ),
    "within a product": ((2**16, 1), "float32", lambda g, x: g.matrix_multiplication(x, g.transpose(x, (1, 0)))),
}


@pytest.mark.parametrize("what", LIMITS)
def test_sizes_beyond_metal_limits_raise(what: str):
    shape, dtype, build = LIMITS[what]
    if what == "bytes":
        shape = (2**15, 2**14 + 1)
    g = mg.Graph()
    x = g.placeholder(shape, dtype)
    with pytest.raises(mg.UnsupportedError, match="exceeds Metal's limits|requires macOS"):
        g.compile({x: (shape, dtype)}, [build(g, x)])


def test_matmuls_of_long_matrices_require_macos_14_4(system: Callable[[float], None]):
    a, b = np.ones((32769, 2), np.float32), np.ones((2, 2), np.float32)

    def product() -> Any:
        g = mg.Graph()
        x = g.placeholder(a.shape)
        return g.run({x: a}, g.matrix_multiplication(x, g.constant(b)))

    system(14.0)
    with pytest.raises(mg.UnsupportedError, match="before macOS 14.4, .* wrong results"):
        product()
    system(14.4)
    assert np.array_equal(product(), a @ b)


@pytest.mark.parametrize("macos", [14.0, 26.0])
@pytest.mark.parametrize("inner", [32766, 32767, 40000])
def test_matmuls_with_more_than_32766_terms_are_split(inner: int, macos: float, system: Callable[[float], None]):
    system(macos)
    rng = np.random.default_rng(3)
    a, b = (rng.integers(1, 4, shape).astype(np.float32) for shape in ((2, 16, inner), (1, inner, 16)))
    g = mg.Graph()
    x, y = g.placeholder(a.shape), g.placeholder(b.shape)
    found = g.run({x: a, y: b}, g.matrix_multiplication(x, y))
    assert np.array_equal(found, np.matmul(a.astype(np.float64), b))


@pytest.mark.slow
def test_matmuls_with_large_results_are_computed_in_parts():
    """The mock returns zeros where (rows + 2 * inner dimension) * columns reach 2^30 bytes."""
    inner, columns = 16384, 8193
    a, b = np.ones((1, inner), np.float32), np.ones((inner, columns), np.float32)
    b[:, -1] = 2
    g = mg.Graph()
    x, y = g.placeholder(a.shape), g.placeholder(b.shape)
    found = g.run({x: a, y: b}, g.matrix_multiplication(x, y)).numpy()
    assert np.all(found[0, :-1] == inner) and found[0, -1] == 2 * inner


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(2, 1, 3, 1, 8), (1, 1, 1, 5, 8), (1, 2, 1, 3, 1, 8), (5, 1, 1, 8)])
def test_matmul_of_batch_with_several_axes_of_one_compiles(shape: tuple[int, ...], dtype: str):
    """The mock refuses a reshape, a matmul, and a reshape to more than four axes with several of 1."""
    rng = np.random.default_rng(6)
    a, b = rng.integers(-3, 4, shape).astype(dtype), rng.integers(-3, 4, (8, 4)).astype(dtype)
    g = mg.Graph()
    x, y = g.placeholder(shape, dtype), g.placeholder((8, 4), dtype)
    assert np.array_equal(g.run({x: a, y: b}, g.matrix_multiplication(x, y)), a @ b)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((2**20 + 77,), (0,)),
        ((3, 600, 610), (0, 1, 2)),
        ((2, 2**20), (1,)),
        ((2**20, 2), (0,)),
        ((2**19, 2, 3), (0, 1)),
    ],
)
def test_sums_and_moments_of_a_million_numbers_are_exact(shape: tuple[int, ...], axes: tuple[int, ...]):
    """The mock computes sums, means, and variances of 2^20 numbers or more wrongly."""
    numbers = np.random.default_rng(7).integers(-2, 5, shape).astype(np.float32)
    g = mg.Graph()
    x, whole = g.placeholder(shape), g.placeholder(shape, "int32")
    built = [g.reduction_sum(x, axes), g.reduction_sum(whole, axes), g.mean(x, axes), g.variance(x, axes=axes)]
    found = g.run({x: numbers, whole: numbers.astype(np.int32)}, built)
    wide = numbers.astype(np.float64)
    for result, function in zip(built, (np.sum, np.sum, np.mean, np.var), strict=True):
        np.testing.assert_allclose(found[result], function(wide, axis=axes, keepdims=True), rtol=2e-6)


def test_normalization_gradients_over_a_million_numbers_match_the_cpu():
    shape, axes = (2**19, 2, 2), (0, 1)
    rng = np.random.default_rng(8)
    arrays = [rng.integers(-2, 3, shape).astype(np.float32) for _ in range(2)]
    results = []
    for name in ("metal", "cpu"):
        g = mg.Graph()
        incoming, x = g.placeholder(shape), g.placeholder(shape)
        gamma, beta = g.placeholder((1, 1, 2)), g.placeholder((1, 1, 2))
        y = g.normalization(x, g.mean(x, axes), g.variance(x, axes=axes), gamma, beta, epsilon=1e-3)
        gradients = g.gradients(g.reduction_sum(y * incoming), [gamma, beta])
        feeds = {incoming: arrays[0], x: arrays[1], gamma: np.ones((1, 1, 2), np.float32)}
        feeds[beta] = np.zeros((1, 1, 2), np.float32)
        found = g.run(feeds, [gradients[gamma], gradients[beta]], device=name)
        results.append([np.asarray(found[gradients[tensor]]) for tensor in (gamma, beta)])
    for metal, cpu in zip(*results, strict=True):
        np.testing.assert_allclose(metal, cpu, rtol=1e-4, atol=0.5)


def convolution(groups: int, part: str, source: tuple[int, ...], weights: tuple[int, ...]) -> None:
    """Compile a convolution of (N, channels, y, x) with weights (out, in, y, x), or the gradient of its weights."""
    g = mg.Graph()
    x, w = g.placeholder(source), g.placeholder(weights)
    y = g.convolution2d(x, w, groups=groups, data_layout="NCHW", weights_layout="OIHW")
    if part == "weights":
        y = g.gradients(g.reduction_sum(y), [w])[w]
    g.compile({x: (source, "float32"), w: (weights, "float32")}, [y])


@pytest.mark.parametrize("groups", [1, 8])
def test_convolution_kernels_of_size_256_raise(groups: int):
    convolution(groups, "result", (1, 8, 256, 1), (8, 8 // groups, 255, 1))
    with pytest.raises(mg.UnsupportedError, match="filters of size 256 or more along an axis, got 256"):
        convolution(groups, "result", (1, 8, 256, 1), (8, 8 // groups, 256, 1))


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((1, 1, 9000, 2), {"kernel": (1, 4)}),
        ((1, 9000, 1, 2), {"kernel": (3, 1), "strides": (2, 1), "padding": ((1, 1), (0, 0))}),
        ((2, 1, 5000, 1), {"kernel": (1, 5), "strides": (1, 3), "padding": ((0, 0), (2, 1)), "ceil_mode": True}),
        ((1, 1, 9000, 1), {"kernel": (1, 1500), "strides": (1, 50)}),
        ((1, 1, 9000, 1), {"kernel": (1, 2), "strides": (1, 5), "dilations": (1, 4500)}),
    ],
    ids=["row", "column", "ceil_mode", "long_windows", "dilated"],
)
@pytest.mark.parametrize("counts", [False, True], ids=["without_padding", "with_padding"])
def test_averages_along_long_axes_keep_small_numbers_after_large_ones(
    shape: tuple[int, ...], options: dict[str, Any], counts: bool
):
    """The mock averages windows along more than 4096 elements by differences of running sums, as a Mac does."""
    rng = np.random.default_rng(9)
    numbers = rng.random(shape).astype(np.float32)
    numbers[:, : shape[1] // 2 + 1, : shape[2] // 2 + 1] *= 1e7
    incoming = None
    found = {}
    for name in ("metal", "cpu"):
        g = mg.Graph()
        x = g.placeholder(shape, "float32" if name == "metal" else "float64")
        kernel = options["kernel"]
        rest = {key: value for key, value in options.items() if key != "kernel"}
        y = g.avg_pooling2d(x, kernel, include_zero_pad_to_average=counts, **rest)
        incoming = np.ones(tuple(int(n) for n in y.shape), np.float32) if incoming is None else incoming
        gradient = g.gradients(g.reduction_sum(y), [x])[x]
        results = g.run({x: numbers.astype(str(x.dtype))}, [y, gradient], device=name)
        found[name] = [np.asarray(results[tensor]) for tensor in (y, gradient)]
    for metal, cpu in zip(found["metal"], found["cpu"], strict=True):
        np.testing.assert_allclose(metal, cpu, rtol=2e-5)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding"),
    [
        ((8, 8), (3, 3), (2, 2), ((0, 0), (0, 0))),
        ((9, 7), (2, 2), (3, 5), ((0, 0), (1, 0))),
        ((2, 3), (1, 1), (4, 5), ((3, 0), (0, 0))),
    ],
)
def test_depthwise_gradients_work_if_windows_leave_elements_unread(
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[tuple[int, int], tuple[int, int]],
):
    """The mock refuses the gradient if fewer elements of padding than unread ones are at the end of an axis."""
    rng = np.random.default_rng(10)
    source, weights = rng.random((2, *size, 3), np.float32), rng.random((*kernel, 3, 1), np.float32)
    results = []
    for name in ("metal", "cpu"):
        g = mg.Graph()
        x, w = g.placeholder(source.shape), g.placeholder(weights.shape)
        y = g.depthwise_convolution2d(x, w, strides=stride, padding=padding)
        gradients = g.gradients(g.reduction_sum(g.square(y)), [x, w])
        found = g.run({x: source, w: weights}, [gradients[x], gradients[w]], device=name)
        results.append([np.asarray(found[gradients[tensor]]) for tensor in (x, w)])
    for metal, cpu in zip(*results, strict=True):
        np.testing.assert_allclose(metal, cpu, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("channels", [(65537, 1), (1, 65537)])
def test_more_than_65536_channels_require_macos_26(channels: tuple[int, int], system: Callable[[float], None]):
    inputs, outputs = channels

    def result() -> np.ndarray:
        g = mg.Graph()
        x, w = g.placeholder((1, inputs, 2, 2)), g.placeholder((outputs, inputs, 1, 1))
        y = g.convolution2d(x, w, data_layout="NCHW", weights_layout="OIHW")
        return np.asarray(g.run({x: np.ones(x.shape, np.float32), w: np.ones(w.shape, np.float32)}, y))

    system(15.5)
    with pytest.raises(mg.UnsupportedError, match=r"requires macOS 26\.0"):
        result()
    system(26.0)
    assert np.array_equal(result(), np.full((1, outputs, 2, 2), inputs, np.float32))


def test_small_arrays_at_the_end_of_a_page_have_larger_buffers(system: Callable[[float], None]):
    """As macOS 27, the mock refuses arrays for which a buffer has fewer than 64 bytes."""
    system(27.0)
    page = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), np.float32)
    page[:] = np.arange(page.size)
    g = mg.Graph()
    for count in (1, 15, 16, 17, 33):
        x = g.placeholder((count,))
        assert np.array_equal(g.run({x: page[-count:]}, x * 2), page[-count:] * 2)


def test_program_without_results_has_buffer_of_64_bytes(system: Callable[[float], None]):
    system(27.0)
    g = mg.Graph()
    variable = g.variable(np.ones(3, np.float32))
    step = g.compile({}, [], [g.assign(variable, variable * 2)])
    assert ("an MPSGraphExecutable" in step.plan()) == bool(MOCK.mock_executables_share_variables())
    step.run([])
    step.run([])
    assert g.variable_value(variable).tolist() == [4, 4, 4]


@pytest.mark.parametrize("macos", [15.0, 26.4])
@pytest.mark.parametrize("kind", ["single_gate_rnn", "lstm"])
def test_recurrent_layers_run_a_second_time(kind: str, macos: float, system: Callable[[float], None]):
    """Since macOS 26 on M5, the mock refuses the second run of MPSGraph's recurrent layers."""
    system(macos)
    rows = 16 if kind == "lstm" else 4
    rng = np.random.default_rng(11)
    arrays = [rng.random(shape, np.float32) for shape in ((5, 2, 3), (rows, 4), (rows, 3))]
    g = mg.Graph()
    fed = [g.placeholder(array.shape) for array in arrays]
    states = getattr(g, kind)(*fed)[0]
    expected = np.asarray(g.run(dict(zip(fed, arrays, strict=True)), states, device="cpu"))
    program = g.compile({tensor: tensor.shape for tensor in fed}, [states])
    for _ in range(3):
        np.testing.assert_allclose(np.asarray(program.run(arrays)[0]), expected, rtol=1e-5)


@pytest.mark.slow
def test_sorts_of_more_than_4_million_rows_are_sorted_in_parts():
    """The mock returns zeros for the order of more than 2^22 rows."""
    rows = 2**22 + 5
    numbers = np.zeros((rows, 2), np.float32)
    numbers[::3, 0] = 1
    g = mg.Graph()
    x = g.placeholder(numbers.shape)
    found = np.asarray(g.run({x: numbers}, g.arg_sort(x, 1)))
    assert np.array_equal(found, np.argsort(numbers, 1, kind="stable"))


def test_weight_gradients_over_65536_images_raise():
    convolution(1, "weights", (65535, 1, 1, 1), (1, 1, 1, 1))
    convolution(1, "result", (65536, 1, 1, 1), (1, 1, 1, 1))
    with pytest.raises(mg.UnsupportedError, match="weight gradients for 65536 images or more, got 65536"):
        convolution(1, "weights", (65536, 1, 1, 1), (1, 1, 1, 1))


def test_inverses_of_more_than_1024_rows_raise():
    g = mg.Graph()
    x = g.placeholder((1025, 1025))
    with pytest.raises(mg.UnsupportedError, match="aborts the process for inverses of more than 1024 rows, got 1025"):
        g.compile({x: (1025, 1025)}, [g.matrix_inverse(x)])


@pytest.mark.parametrize("gamma_shape", [(1, 1, 3), (4, 5, 3)], ids=["constant", "varying"])
def test_normalization_accepts_gamma_varying_along_normalized_axes(gamma_shape: tuple[int, ...]):
    rng = np.random.default_rng(5)
    arrays = {
        "incoming": rng.standard_normal((4, 5, 3), np.float32),
        "x": rng.standard_normal((4, 5, 3), np.float32),
        "gamma": rng.standard_normal(gamma_shape, np.float32),
        "d_gamma": rng.standard_normal((1, 1, 3), np.float32),
        "d_beta": rng.standard_normal((1, 1, 3), np.float32),
    }
    results = []
    for name in ("metal", "cpu"):
        g = mg.Graph()
        fed = {key: g.placeholder(array.shape) for key, array in arrays.items()}
        mean, variance = g.mean(fed["x"], (0, 1)), g.variance(fed["x"], axes=(0, 1))
        gradient = g.normalization_gradient(
            fed["incoming"], fed["x"], mean, variance, fed["gamma"], fed["d_gamma"], fed["d_beta"], (0, 1)
        )
        results.append(g.run({fed[key]: array for key, array in arrays.items()}, gradient, device=name))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-6)


def test_serializing_package_into_missing_folder_raises(tmp_path: Path):
    g = mg.Graph()
    x = g.placeholder((2,))
    executable = g.compile({x: (2,)}, [x + 1.0])
    with pytest.raises(mg.PackageError, match="must be an existing and writable folder"):
        executable.serialize(str(tmp_path / "missing" / "model.mpsgraphpackage"))
    executable.serialize(str(tmp_path / "model.mpsgraphpackage"))
    assert (tmp_path / "model.mpsgraphpackage").is_dir()


def test_lowered_attention_is_not_replaced_by_mpsgraph_attention():
    """An addition between matmul and scale prevents MPSGraph from substituting its own attention."""
    g = mg.Graph()
    q, k, v = (g.placeholder((1, 2, 4, 8)) for _ in range(3))
    executable = g.compile(dict.fromkeys((q, k, v), (1, 2, 4, 8)), [g.scaled_dot_product_attention(q, k, v, scale=0.5)])
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal((1, 2, 4, 8), np.float32) for _ in range(3))
    (found,) = executable.run([a, b, c])
    scores = np.exp(0.5 * a @ b.swapaxes(-1, -2))
    np.testing.assert_allclose(found, scores / scores.sum(-1, keepdims=True) @ c, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_user_composed_attention_is_not_replaced_by_mpsgraph_attention(dtype: str):
    g = mg.Graph()
    q, k, v = (g.placeholder((2, 4, 8), dtype) for _ in range(3))
    mask = g.constant(np.zeros((4, 4), dtype))
    scores = g.matrix_multiplication(q, g.transpose(k, (0, 2, 1))) * 0.5 + mask
    out = g.matrix_multiplication(g.softmax(scores, -1), v)
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal((2, 4, 8)).astype(dtype) for _ in range(3))
    weights = np.exp(0.5 * a.astype(float) @ b.astype(float).swapaxes(-1, -2))
    wanted = weights / weights.sum(-1, keepdims=True) @ c.astype(float)
    tolerance = 1e-4 if dtype == "float32" else 2e-2
    np.testing.assert_allclose(g.run({q: a, k: b, v: c}, out), wanted, rtol=tolerance, atol=tolerance)


def test_transposed_attention_weights_are_not_multiplied_by_mpsgraph_attention():
    """Image models with channels first multiply the values by the transposed weights."""
    g = mg.Graph()
    q, k, v = (g.placeholder((2, 8, 4)) for _ in range(3))
    scores = g.matrix_multiplication(g.transpose(q, (0, 2, 1)), k) * 0.5
    out = g.matrix_multiplication(v, g.transpose(g.softmax(scores, -1), (0, 2, 1)))
    rng = np.random.default_rng(2)
    a, b, c = (rng.standard_normal((2, 8, 4)).astype(np.float32) for _ in range(3))
    weights = np.exp(0.5 * a.swapaxes(1, 2).astype(float) @ b)
    wanted = c @ (weights / weights.sum(-1, keepdims=True)).swapaxes(1, 2)
    np.testing.assert_allclose(g.run({q: a, k: b, v: c}, out), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("index", ["int64", "uint32", "uint64"])
def test_out_of_range_64_bit_indices_read_zeros_and_write_nothing(index: str):
    """MPSGraph gets int32 indices. Out-of-range indices, even beyond 32 bits, must read zeros and write nothing."""
    x = np.float32([[1, 2, 3]])
    far = 2**32 + 1 if index != "uint32" else 2**31 + 1
    places = np.array([[2, 1, far]], index)
    g = mg.Graph()
    fed, at = g.placeholder((1, 3)), g.placeholder((1, 3), index)
    picked = g.gather_along_axis(1, fed, at)
    put = g.scatter_along_axis(1, fed, at, data=g.constant(np.zeros((1, 3), np.float32)))
    found = g.run({fed: x, at: places}, [picked, put])
    assert found[picked].tolist() == [[3, 2, 0]]
    assert found[put].tolist() == [[0, 2, 1]]


def test_multi_axis_real_fourier_transforms_work_before_macos_14_4(system: Callable[[float], None]):
    x = np.fft.fft(np.random.default_rng(5).random((3, 4)), axis=0)[:, :3].astype(np.complex64)

    def transformed() -> Any:
        g = mg.Graph()
        p = g.placeholder(x.shape, "complex64")
        return g.run({p: x}, g.hermitean_to_real_fft(p, axes=(0, 1)))

    expected = transformed()
    assert np.any(expected != 0)
    system(14.0)
    np.testing.assert_allclose(transformed(), expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_convolution_gradients_match_the_cpu(dtype: str):
    g = mg.Graph()
    x, w = g.placeholder((2, 2, 4, 4)), g.placeholder((4, 2, 3, 3))
    halves = [g.cast(x, dtype), g.cast(w, dtype)]
    y = g.convolution2d(*halves, data_layout="NCHW", weights_layout="OIHW")
    gradients = g.gradients(g.reduction_sum(y), halves)
    feeds = {x: np.ones((2, 2, 4, 4), np.float32), w: np.ones((4, 2, 3, 3), np.float32)}
    of_x, of_w = (g.cast(gradients[half], "float32") for half in halves)
    found = g.run(feeds, [of_x, of_w])
    assert np.all(found[of_w].numpy() == 2 * 2 * 2) and found[of_x].numpy()[0, 0, 1, 1] == 4 * 4


@pytest.mark.parametrize("mode", ["constant", "zero", "reflect", "symmetric", "clamp_to_edge"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_padding_of_large_tensors_with_five_axes_keeps_their_elements(mode: str, dtype: str):
    """MPSGraph overwrites the elements if the axes after the padded one have 65536 elements or more."""
    x = np.arange(2 * 3 * 256 * 256).reshape(1, 2, 3, 256, 256).astype(dtype)
    widths = [(0, 0), (0, 0), (2, 1), (0, 1), (0, 0)]
    numpy_mode = {"zero": "constant", "clamp_to_edge": "edge"}.get(mode, mode)
    value = {"constant_values": 7 if mode == "constant" else 0} if numpy_mode == "constant" else {}
    expected = np.pad(x, widths, numpy_mode, **value)
    g = mg.Graph()
    t = g.placeholder(x.shape, dtype)
    left, right = zip(*widths, strict=True)
    options = {"value": 7} if mode == "constant" else {}
    y = g.pad(t, list(left), list(right), mode=mode, **options)
    np.testing.assert_array_equal(g.run({t: x}, y).numpy(), expected)


def test_programs_in_one_command_buffer_do_not_keep_each_others_memory():
    """An MPSCommandBuffer that is continued keeps the intermediate results of its programs until it is released."""
    g = mg.Graph()
    x = g.placeholder((2,))
    y = x + 1.0
    g.run({x: [1.0, 2.0]}, y)
    buffer = mg.CommandQueue().command_buffer()
    results = [g.encode(buffer, {x: [1.0, 2.0]}, y) for _ in range(1000)]
    MOCK.mock_live_buffer_bytes.restype = ctypes.c_size_t
    before, sizes = MOCK.mock_live_buffer_bytes(), list[int]()
    buffer.commit()
    wait_for(lambda: sizes.append(MOCK.mock_live_buffer_bytes()) or buffer.status == "completed")
    assert all(result.tolist() == [2, 3] for result in results)
    # Each program takes 16 KB in the mock, and a queue has at most 64 incomplete command buffers. The completed ones
    # release their memory a little later.
    assert 16384 <= max(sizes) - before < 500 * 16384
