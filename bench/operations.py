"""Single operations of every family, forward or with gradients, in mpsgraph and PyTorch, each in one process.

A call takes from tenths of a millisecond to tens of milliseconds. The goal is at most 1.2 times PyTorch's time; REASONS
explains operations that exceed it. `--only REGEX` selects by family or name. `run.py operations` adds the rows to the
results and updates the table in docs/measurements.md.
"""

import argparse
import contextlib
import itertools
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import mpsgraph as mg
import numpy as np
from measuring.compare import Contender, Workload, rows_of, take_turns
from measuring.options import Options, progress
from measuring.protocol import Step, serve
from measuring.report import OURS as OURS_NAME
from measuring.report import Row, print_rows
from measuring.sides import Running, Side, SideFailed, ours, torch_operations
from operation_sizes import FAMILIES, FAMILY_OF, OPERATIONS, Input

TARGET = 1.2

HAND_OVER = "a short call, of which feeding, fetching, and passing the work to the queue take 0.01 to 0.03 ms"
OWN_ARRAYS = "PyTorch returns the incoming gradient itself or views of it, while mpsgraph writes new arrays"
UNEXPLAINED = "unexplained"
FOR_COMPARISON = "a loop in the graph, compared with PyTorch's built-in LSTM; `lstm_small` measures the LSTM operation"

REASONS: dict[str, str] = {
    "addition_of_bias_gradient": OWN_ARRAYS + "; the copy of 16 MB takes a quarter of the time",
    "concatenate_gradient": OWN_ARRAYS + "; the two copies of 4 MB take half of the time",
    "concatenate": "memory-bound; 1.1 to 1.5 in different runs",
    "broadcast": HAND_OVER,
    "coordinate_along_axis": HAND_OVER,
    "cast_to_half": HAND_OVER,
    "cast_from_half": HAND_OVER,
    "cast_from_integers": HAND_OVER,
    "leaky_relu": HAND_OVER,
    "maximum_of_rows": HAND_OVER + "; the rest is unexplained",
    "sum_of_columns": HAND_OVER + ", and blocks of rows are summed in double precision",
    "quantize": "divides by the scale, as ONNX specifies, while PyTorch multiplies by its reciprocal; 1.00 and 1.12 in "
    "two other runs",
    "matrix_multiplication_of_complex": "one real matmul, for which the second operand is first rewritten at twice its "
    "size; 1.02 and 1.10 in two other runs",
    "matrix_multiplication_of_bytes": "packing the second operand takes an eighth of its time (constants are packed "
    "only once); 0.78 on two Intel cores with AMX since packing is vectorized",
    "matrix_multiplication_of_halves": "the second operand is first converted to float32, 590,000 numbers for 75 "
    "million products; 1.17 to 1.28 in four runs",
    "convolution_in_groups": "groups are merged until their channels fill a vector, so many of the products are with "
    "zeros",
    "matrix_multiplication_small": "one matmul of 32 rows with our own kernels, compared with MKL on one thread; with "
    "two threads they are equally fast",
    "reverse_rows": "memory-bound; 1.25 in another run, 1.00 to 1.21 in three runs on two AMD cores",
    "reverse_bytes": HAND_OVER,
    "depth_to_space": "memory-bound; 1.07 to 1.41 in seven runs on two AMD cores",
    "addition_of_bias": "memory-bound; 0.90 in another run on two AMD cores",
    "gather_along_axis": "memory-bound, a fifth faster with prefetching; 1.05 to 1.41 in six runs on two AMD cores",
    "sine_of_doubles": "our own vectorized sine, compared with MKL's; 1.10 to 1.30 in three runs, 0.36 on AMD",
    "matrix_multiplication_of_doubles": "our own kernels, compared with MKL's: 73 and 78 GFLOP/s on one thread; with "
    "two threads 1.13 to 1.30 in different runs; 0.48 on AMD",
    "matrix_inverse_of_doubles": "matmuls with the same kernels; 1.12 in another run, 0.62 on AMD",
    "matrix_times_vector_of_doubles": "memory-bound; 1.10 in another run, 0.70 on AMD",
    "lstm_small_loop": FOR_COMPARISON,
    "lstm_small_loop_gradient": FOR_COMPARISON,
}
"""Why an operation takes more than TARGET times as long as in PyTorch."""

WITHIN = {
    "max_pooling_derivative_from_indices": ("max_pooling_derivative_recomputed", 1.0),
    "lstm_small": ("lstm_small_loop", 0.2),
    "lstm_small_gradient": ("lstm_small_loop_gradient", 0.2),
}
"""Comparisons within mpsgraph: an operation, another way to compute the same, and the largest allowed ratio of times.
"""

Build = Callable[..., mg.Tensor | list[mg.Tensor] | mg.Operation | list[mg.Operation]]
"""A function of a graph and its inputs that returns the outputs to compute."""


def simple(name: str, **arguments: object) -> Build:
    """Return a builder that calls the graph's method of this name with these keyword arguments."""
    return lambda g, *inputs: getattr(g, name)(*inputs, **arguments)


def gate(x: mg.Tensor, index: int) -> mg.Tensor:
    """Return one of the four gates that are stored next to each other."""
    size = x.shape[-1] // 4
    return x[:, index * size : (index + 1) * size]


def lstm_loop(g: mg.Graph, x: mg.Tensor, recurrent: mg.Tensor, weights: mg.Tensor, bias: mg.Tensor) -> mg.Tensor:
    """Build an LSTM step by step in a loop and return its last state."""
    steps, batch, _ = x.shape
    size = recurrent.shape[1]
    zeros = g.constant(np.zeros((batch, size), np.float32))

    def step(index: mg.Tensor, h: mg.Tensor, c: mg.Tensor) -> list[mg.Tensor]:
        now = g.gather(x, index, axis=0)
        gates = now @ g.transpose(weights, [1, 0]) + h @ g.transpose(recurrent, [1, 0]) + bias
        c = g.sigmoid(gate(gates, 1)) * c + g.sigmoid(gate(gates, 0)) * g.tanh(gate(gates, 2))
        return [g.sigmoid(gate(gates, 3)) * g.tanh(c), c]

    return g.for_(steps, initial=[zeros, zeros], body=step)[0]


def last_state(states: list[mg.Tensor]) -> mg.Tensor:
    return states[0][-1]


def batch_normalization(axes: list[int]) -> Build:
    def build(g: mg.Graph, x: mg.Tensor, gamma: mg.Tensor, beta: mg.Tensor) -> mg.Tensor:
        shape = [1 if i in axes else n for i, n in enumerate(x.shape)]
        mean, variance = g.mean(x, axes), g.variance(x, axes=axes)
        return g.normalization(x, mean, variance, g.reshape(gamma, shape), g.reshape(beta, shape))

    return build


def layer_normalization(g: mg.Graph, x: mg.Tensor, gamma: mg.Tensor, beta: mg.Tensor) -> mg.Tensor:
    return g.normalization(x, g.mean(x, -1), g.variance(x, axes=-1), gamma, beta)


def boxes(g: mg.Graph, corners: mg.Tensor, scores: mg.Tensor) -> mg.Tensor:
    both = g.concat([corners, corners + 20.0], -1)
    return g.non_maximum_suppression(both, scores, iou_threshold=0.5, score_threshold=0.0)


def gradient_descent(g: mg.Graph, gradient: mg.Tensor) -> mg.Operation:
    values = g.variable(np.zeros(gradient.shape, np.float32))
    return g.assign(values, g.stochastic_gradient_descent(0.01, values, gradient))


def adam(g: mg.Graph, gradient: mg.Tensor) -> list[mg.Operation]:
    values, momentum, velocity = (g.variable(np.zeros(gradient.shape, np.float32)) for _ in range(3))
    updated = g.adam(1e-3, 0.9, 0.999, 1e-8, 0.9, 0.999, values, momentum, velocity, gradient)
    return [g.assign(*pair) for pair in zip((values, momentum, velocity), updated, strict=True)]


def same(name: str, **arguments: object) -> Build:
    return simple(name, padding="TF_SAME", **arguments)


NCHW = {"data_layout": "NCHW", "weights_layout": "OIHW"}
HALF_WINDOW: dict[str, Any] = {"kernel": 2, "data_layout": "NCHW"}
PIXEL = [0, 0, 2, 2]

OURS: dict[str, Build] = {
    "addition": simple("addition"),
    "addition_of_integers": simple("addition"),
    "addition_of_halves": simple("addition"),
    "addition_of_bias": simple("addition"),
    "division": simple("division"),
    "sine": simple("sin"),
    "tangent": simple("tan"),
    "arc_tangent": simple("atan"),
    "hyperbolic_sine": simple("sinh"),
    "hyperbolic_tangent": simple("tanh"),
    "exponent": simple("exponent"),
    "logarithm_base2": simple("logarithm_base2"),
    "square_root": simple("square_root"),
    "error_function": simple("erf"),
    "power": simple("power"),
    "floor_modulo": simple("floor_modulo"),
    "maximum": simple("maximum_with_nan_propagation"),
    "less_than": simple("less_than"),
    "select": simple("select"),
    "clamp": simple("clamp", minimum=0.75, maximum=1.25),
    "bitwise_and": simple("bitwise_and"),
    "multiplication_of_complex": simple("multiplication"),
    "exponent_of_complex": simple("exponent"),
    "absolute_of_complex": simple("absolute"),
    "real_part": simple("real_part"),
    "conjugate": simple("conjugate"),
    "complex_tensor": simple("complex_tensor"),
    "relu": simple("relu"),
    "leaky_relu": simple("leaky_relu", alpha=0.1),
    "sigmoid": simple("sigmoid"),
    "softmax": simple("softmax", axis=-1),
    "softmax_of_channels": simple("softmax", axis=1),
    "softmax_of_few_columns": simple("softmax", axis=0),
    "log_softmax": simple("log_softmax", axis=-1),
    "softmax_cross_entropy": lambda g, x, i: g.softmax_cross_entropy(x, g.one_hot(i, 1000), reduction="mean"),
    "sum_of_all": simple("reduction_sum"),
    "sum_of_rows": simple("reduction_sum", axes=1),
    "sum_of_columns": simple("reduction_sum", axes=0),
    "sum_of_pixels": simple("reduction_sum", axes=[0, 1, 2]),
    "sum_of_planes": simple("reduction_sum", axes=[0, 2, 3]),
    "sum_of_halves": simple("reduction_sum", axes=1),
    "maximum_of_rows": simple("reduction_maximum_propagate_nan", axes=1),
    "product_of_rows": simple("reduction_product", axes=1),
    "argument_of_maximum": simple("reduction_arg_maximum", axis=1),
    "maximum_of_pairs": simple("reduction_maximum_propagate_nan", axes=1),
    "sum_of_short_rows": simple("reduction_sum", axes=1),
    "argument_of_maximum_of_short_rows": simple("reduction_arg_maximum", axis=1),
    "argument_of_maximum_of_integers": simple("reduction_arg_maximum", axis=1),
    "all_of_rows": simple("reduction_and", axes=1),
    "variance": simple("variance", axes=[1]),
    "layer_normalization": layer_normalization,
    "batch_normalization": batch_normalization([0, 1, 2]),
    "batch_normalization_nchw": batch_normalization([0, 2, 3]),
    "matrix_multiplication": simple("matrix_multiplication"),
    "matrix_multiplication_transposed": lambda g, a, b: a @ g.transpose(b, [1, 0]),
    "matrix_multiplication_small": simple("matrix_multiplication"),
    "matrix_multiplication_of_bytes": simple("integer_matrix_multiplication"),
    "matrix_multiplication_of_integers": simple("matrix_multiplication"),
    "matrix_multiplication_of_halves": simple("matrix_multiplication"),
    "matrix_times_vector": simple("matrix_multiplication"),
    "batched_matrix_multiplication": simple("matrix_multiplication"),
    "matrix_multiplication_of_complex": simple("matrix_multiplication"),
    "matrix_inverse": lambda g, x: g.matrix_inverse(x + g.constant(np.eye(512, dtype=np.float32) * 600)),
    "matrix_inverse_of_many": lambda g, x: g.matrix_inverse(x + g.constant(np.eye(16, dtype=np.float32) * 20)),
    "band_part": simple("band_part", num_lower=-1, num_upper=0),
    "exponent_of_doubles": simple("exponent"),
    "sine_of_doubles": simple("sin"),
    "hyperbolic_tangent_of_doubles": simple("tanh"),
    "error_function_of_doubles": simple("erf"),
    "logarithm_of_doubles": simple("logarithm"),
    "power_of_doubles": simple("power"),
    "hyperbolic_sine_of_doubles": simple("sinh"),
    "gelu_of_doubles": lambda g, x: x * 0.5 * (g.erf(x * 0.5**0.5) + 1.0),
    "maximum_of_rows_of_doubles": simple("reduction_maximum_propagate_nan", axes=1),
    "cumulative_sum_of_doubles": simple("cumulative_sum", axis=1),
    "absolute_of_long_integers": simple("absolute"),
    "clamp_of_long_integers": simple("clamp", minimum=100, maximum=900),
    "maximum_of_rows_of_long_integers": simple("reduction_maximum", axes=1),
    "argument_of_maximum_of_long_integers": simple("reduction_arg_maximum", axis=1),
    "cumulative_sum_of_long_integers": simple("cumulative_sum", axis=1),
    "sum_of_columns_of_integers": simple("reduction_sum", axes=0),
    "cast_to_integers": simple("cast", dtype=mg.int32),
    "cast_to_long_integers": simple("cast", dtype=mg.int64),
    "softmax_of_doubles": simple("softmax", axis=-1),
    "layer_normalization_of_doubles": layer_normalization,
    "matrix_multiplication_of_doubles": simple("matrix_multiplication"),
    "matrix_times_vector_of_doubles": simple("matrix_multiplication"),
    "matrix_inverse_of_doubles": lambda g, x: g.matrix_inverse(x + g.constant(np.eye(512) * 600)),
    "convolution_of_doubles": same("convolution2d"),
    "convolution": same("convolution2d"),
    "convolution_nchw": same("convolution2d", **NCHW),
    "convolution_1x1": simple("convolution2d"),
    "convolution_of_three_channels": simple("convolution2d", strides=2, padding=((3, 3), (3, 3))),
    "convolution_in_groups": same("convolution2d", groups=8),
    "convolution_depthwise": same("depthwise_convolution2d"),
    "convolution_depthwise_nchw": same("depthwise_convolution2d", **NCHW),
    "convolution_depthwise_dilated": same("depthwise_convolution2d", dilations=8),
    "convolution_of_halves_nchw": same("convolution2d", **NCHW),
    "convolution_of_volumes": same("convolution3d"),
    "convolution_of_volumes_ncdhw": same("convolution3d", data_layout="NCDHW", weights_layout="OIDHW"),
    "convolution_transposed": same("convolution_transpose2d", output_shape=(16, 56, 56, 32), strides=2),
    "im_to_col": simple("im_to_col", kernel=3, padding=((1, 1), (1, 1)), data_layout="NCHW"),
    "col_to_im": simple(
        "col_to_im", output_shape=(8, 64, 56, 56), kernel=3, padding=((1, 1), (1, 1)), data_layout="NCHW"
    ),
    "max_pooling": simple("max_pooling2d", kernel=2),
    "max_pooling_nchw": simple("max_pooling2d", **HALF_WINDOW),
    "max_pooling_overlapping": simple("max_pooling2d", kernel=3, strides=2, data_layout="NCHW"),
    "average_pooling": same("avg_pooling2d", kernel=3, strides=1, include_zero_pad_to_average=True),
    "average_pooling_nchw": same(
        "avg_pooling2d", kernel=3, strides=1, include_zero_pad_to_average=True, data_layout="NCHW"
    ),
    "average_pooling_by_two_nchw": simple("avg_pooling2d", **HALF_WINDOW),
    "average_pooling_of_everything": simple("avg_pooling2d", kernel=56, data_layout="NCHW"),
    "max_pooling_with_indices": lambda g, x: list(
        g.max_pooling2d_return_indices(x, return_indices_mode="global_flatten_2d", **HALF_WINDOW)
    ),
    "max_pooling_derivative_recomputed": simple("max_pooling2d_gradient", **HALF_WINDOW),
    "max_pooling_of_volumes": simple("max_pooling4d", kernel=(1, 2, 2, 2)),
    "norm_pooling": simple("l2_norm_pooling4d", kernel=(1, 1, 2, 2)),
    "stencil": simple("stencil", padding="TF_SAME"),
    "transpose": simple("transpose", permutation=[1, 0]),
    "transpose_halves": simple("transpose", permutation=[1, 0]),
    "transpose_images": simple("transpose", permutation=[0, 3, 1, 2]),
    "transpose_planes": simple("transpose", permutation=[0, 2, 3, 1]),
    "transpose_heads": simple("transpose", permutation=[0, 2, 1, 3]),
    "concatenate": lambda g, a, b: g.concat([a, b], 1),
    "concatenate_channels": lambda g, a, b: g.concat([a, b], 3),
    "stack_last": lambda g, a, b: g.stack([a, b], -1),
    "split": simple("split", sizes_or_count=3, axis=1),
    "slice": lambda g, x: x[:, 4:-4, 4:-4],
    "slice_strided": lambda g, x: x[::2, ::2],
    "slice_update": lambda g, x, u: g.slice_update_data(x, u, [256, 256], [768, 768], [1, 1]),
    "reverse_rows": simple("reverse", axes=[0]),
    "reverse_columns": simple("reverse", axes=[1]),
    "reverse_bytes": simple("reverse", axes=[3]),
    "transpose_bytes": simple("transpose", permutation=[1, 0]),
    "transpose_doubles": simple("transpose", permutation=[1, 0]),
    "tile": simple("tile", multiplier=[4, 4]),
    "broadcast": simple("broadcast_to", shape=(1024, 1024)),
    "pad": simple("pad", left=[0, 2, 2, 0], right=[0, 2, 2, 0]),
    "pad_planes": simple("pad", left=PIXEL, right=PIXEL),
    "pad_short_rows": simple("pad", left=[1, 1], right=[2, 2]),
    "pad_reflecting": simple("pad", left=[0, 2, 2, 0], right=[0, 2, 2, 0], mode="reflect"),
    "pad_reflecting_planes": simple("pad", left=PIXEL, right=PIXEL, mode="reflect"),
    "pad_clamped_planes": simple("pad", left=PIXEL, right=PIXEL, mode="clamp_to_edge"),
    "pad_periodic_planes": simple("pad", left=PIXEL, right=PIXEL, mode="periodic"),
    "depth_to_space": simple("depth_to_space2d", width_axis=2, height_axis=1, depth_axis=3, block_size=2),
    "pixel_shuffle": simple(
        "depth_to_space2d", width_axis=3, height_axis=2, depth_axis=1, block_size=2, use_pixel_shuffle_order=True
    ),
    "space_to_depth": simple(
        "space_to_depth2d", width_axis=3, height_axis=2, depth_axis=1, block_size=2, use_pixel_shuffle_order=True
    ),
    "coordinate_along_axis": simple("coordinate_along_axis", axis=0, shape=(1024, 1024)),
    "cast_to_half": simple("cast", dtype=mg.float16),
    "cast_from_half": simple("cast", dtype=mg.float32),
    "cast_from_integers": simple("cast", dtype=mg.float32),
    "gather_rows": simple("gather", axis=0),
    "gather_elements": simple("gather_nd"),
    "gather_along_axis": lambda g, x, i: g.gather_along_axis(1, x, i),
    "scatter_rows": lambda g, x, u, i: g.scatter(u, i, 0, data=x),
    "scatter_elements": lambda g, x, u, i: g.scatter_nd(u, i, data=x),
    "scatter_along_axis": lambda g, x, u, i: g.scatter_along_axis(1, u, i, data=x),
    "scatter_maximum": lambda g, x, u, i: g.scatter_along_axis(1, u, i, "max", data=x),
    "one_hot": simple("one_hot", depth=100),
    "non_zero": simple("non_zero_indices"),
    "sort": simple("sort"),
    "sort_of_integers": simple("sort"),
    "sort_of_rows": simple("sort"),
    "sort_of_short_rows": simple("sort"),
    "sort_of_few_elements": simple("sort"),
    "arg_sort": simple("arg_sort"),
    "arg_sort_of_integers": simple("arg_sort"),
    "arg_sort_of_rows": simple("arg_sort"),
    "top_k": simple("top_k", k=5),
    "top_k_long": simple("top_k", k=100),
    "cumulative_sum": simple("cumulative_sum", axis=1),
    "cumulative_sum_long": simple("cumulative_sum", axis=0),
    "cumulative_sum_of_columns": simple("cumulative_sum", axis=0),
    "cumulative_product": simple("cumulative_product", axis=1),
    "cumulative_product_of_aligned_rows": simple("cumulative_product", axis=1),
    "cumulative_maximum": simple("cumulative_maximum", axis=1),
    "fourier": simple("fast_fourier_transform", axes=1),
    "fourier_of_images": simple("fast_fourier_transform", axes=[0, 1]),
    "fourier_of_odd_length": simple("fast_fourier_transform", axes=1),
    "fourier_real": simple("real_to_hermitean_fft", axes=1),
    "fourier_to_real": simple("hermitean_to_real_fft", axes=1),
    "resize_bilinear": simple("resize_bilinear", size=(128, 128), layout="NHWC"),
    "resize_bilinear_planes": simple("resize_bilinear", size=(128, 128), layout="NCHW"),
    "resize_nearest": simple("resize_nearest", size=(128, 128), layout="NHWC"),
    "resize_nearest_planes": simple("resize_nearest", size=(128, 128), layout="NCHW"),
    "sample_grid": simple("sample_grid"),
    "sample_grid_planes": simple("sample_grid", layout="NCHW"),
    "lstm": lambda g, x, r, w, b: g.lstm(x, r, w, b)[0],
    "lstm_small": lambda g, x, r, w, b: last_state(g.lstm(x, r, w, b)),
    "lstm_small_loop": lstm_loop,
    "gru": lambda g, x, r, w, b, b2: g.gru(x, r, w, b, secondary_bias=b2, reset_after=True)[0],
    "single_gate": lambda g, x, r, w, b: g.single_gate_rnn(x, r, w, b, activation="tanh")[0],
    "for_loop": lambda g, x, w: g.for_(100, initial=[x], body=lambda i, h: [g.tanh(h @ w)])[0],
    "quantize": simple("quantize", scale=0.01),
    "quantize_channels": simple("quantize", axis=0),
    "dequantize": simple("dequantize", scale=0.01),
    "dequantize_lookup_table": simple("dequantize_lookup_table"),
    "fake_quantize": simple("fake_quantize", scale=0.01),
    "sparse_multiplication": lambda g, v, i, j, x: g.sparse_tensor(v, i, j, (4096, 4096)) @ x,
    "uniform": lambda g: g.random_uniform((1 << 20,)),
    "normal": lambda g: g.random_normal((1 << 20,)),
    "truncated_normal": lambda g: g.random_truncated_normal((1 << 20,)),
    "random_integers": lambda g: g.random_uniform((1 << 20,), 0, 1000, mg.int32),
    "dropout": simple("dropout", rate=0.5),
    "non_maximum_suppression": boxes,
    "gradient_descent": gradient_descent,
    "adam": adam,
}


def array(given: Input, rng: np.random.Generator) -> np.ndarray:
    if given.dtype == "complex64":
        parts = rng.random((*given.shape, 2), np.float32)
        return parts.view(np.complex64)[..., 0]
    if np.dtype(given.dtype).kind in "iub":
        return rng.integers(int(given.low), int(given.high), given.shape).astype(given.dtype)
    return (given.low + (given.high - given.low) * rng.random(given.shape, np.float32)).astype(given.dtype)


def build(name: str) -> Step:
    g = mg.Graph()
    rng = np.random.default_rng(0)
    values = [array(given, rng) for given in OPERATIONS[name]]
    inputs = [g.placeholder(v.shape, v.dtype) for v in values]
    feeds = dict(zip(inputs, values, strict=True))
    made: Any
    if name == "max_pooling_derivative_from_indices":
        made = from_indices(g, inputs, feeds)
    elif name in OURS:
        made = OURS[name](g, *inputs)
    else:  # The operation and its gradients, given an incoming gradient.
        forward: Any = OURS[name.removesuffix("_gradient")](g, *inputs)
        result = forward[0] if isinstance(forward, list) else forward
        start = g.placeholder(result.shape, result.dtype)
        feeds[start] = array(Input(tuple(result.shape), str(result.dtype)), rng)
        of = [x for x, v in zip(inputs, values, strict=True) if v.dtype.kind in "fc"]
        found = g.gradients(result, of, start)
        made = [*(forward if isinstance(forward, list) else [forward]), *(found[x] for x in of)]
    made = made if isinstance(made, list) else [made]
    tensors = [x for x in made if isinstance(x, mg.Tensor)]
    operations = [x for x in made if not isinstance(x, mg.Tensor)]

    def step() -> None:
        g.run(feeds, tensors, operations)

    return step


def from_indices(g: mg.Graph, inputs: list[mg.Tensor], feeds: dict[mg.Tensor, np.ndarray]) -> mg.Tensor:
    """Build the pooling gradient from indices that are computed in advance and fed."""
    incoming, source = inputs
    mode: dict[str, Any] = {"return_indices_mode": "global_flatten_2d"}
    _, indices = g.max_pooling2d_return_indices(source, **mode, **HALF_WINDOW)
    found = g.run({source: feeds.pop(source)}, indices).numpy()
    fed = g.placeholder(found.shape, found.dtype)
    feeds[fed] = found
    return g.max_pooling2d_gradient_from_indices(incoming, fed, source.shape, **mode, **HALF_WINDOW)


def measure(options: Options) -> list[Row]:
    rows: list[list[Row]] = []
    sides: list[Side] = [ours(__file__, "operations"), *(torch_operations() if options.peers else [])]
    short = Options(
        rounds=min(options.rounds, 5), turn_seconds=options.turn_seconds / 8, patience=options.patience / 60
    )
    with contextlib.ExitStack() as stack, progress("operations") as say:
        running = [stack.enter_context(Running(side)) for side in sides]
        for name, inputs in OPERATIONS.items():
            if not re.search(options.workloads, f"{FAMILY_OF[name]}: {name}"):
                continue
            contenders = [Contender(process, name) for process in running]
            try:
                for contender in contenders:
                    contender.prepare(short.turn_seconds)
            except SideFailed as failure:
                raise SideFailed(f"{name}: {failure}") from failure

            def tell(what: str, name: str = name) -> None:
                say(f"{name}: {what}")

            take_turns(contenders, short, tell)
            sizes = ", ".join("x".join(map(str, x.shape)) + f" {x.dtype}" * (x.dtype != "float32") for x in inputs)
            rows.append(rows_of(Workload(name, f"{FAMILY_OF[name]}, {sizes}", TARGET, False), contenders))
    rows.sort(key=lambda of_one: of_one[0].ratio.median if of_one[0].ratio else 0.0)
    return list(itertools.chain.from_iterable(rows))


def table(rows: Sequence[Row]) -> list[str]:
    """Return Markdown: a line per family, then slow operations with reasons, then comparisons within mpsgraph."""
    own = {row.workload: row for row in rows if row.side == OURS_NAME and row.workload in OPERATIONS and row.ratio}
    ratios = {name: row.ratio.median for name, row in own.items()}
    text = ["| family | operations | median ratio | slowest operations |", "|---|---|---|---|"]
    for family, members in FAMILIES.items():
        measured = sorted((ratios[name], name) for name in members if name in ratios)
        if measured:
            worst = ", ".join(f"`{name}` {ratio:.2f}" for ratio, name in reversed(measured[-2:]))
            middle = measured[len(measured) // 2][0]
            text.append(f"| {family} | {len(measured)} | {middle:.2f} | {worst} |")
    text += ["", f"More than {TARGET} times PyTorch's time:", ""]
    for name, ratio in sorted(ratios.items(), key=lambda item: -item[1]):
        if ratio > TARGET:
            text.append(f"- `{name}` {ratio:.2f}: {REASONS.get(name, UNEXPLAINED)}")
    text += ["", "Comparisons within mpsgraph:", ""]
    for name, (other, share) in WITHIN.items():
        if name in own and other in own:
            text.append(
                f"- `{name}` takes {own[name].value.median / own[other].value.median:.2f} times as long as `{other}` "
                f"(target: at most {share:g})."
            )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    Options.add_to(parser)
    parser.add_argument("--serve", choices=["operations"], help="act as the measured process")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(build, OURS_NAME)
        return
    rows = measure(Options.of(arguments))
    print_rows(rows)
    late = [row for row in rows if row.ratio and row.target and row.ratio.median > row.target]
    print(
        f"\n{len(late)} of {len({row.workload for row in rows})} operations take more than {TARGET} times "
        "as long as in PyTorch:",
        file=sys.stderr,
    )
    for row in late:
        print(f"  {row.workload} {row.ratio.median:.2f}", file=sys.stderr)


if __name__ == "__main__":
    main()
