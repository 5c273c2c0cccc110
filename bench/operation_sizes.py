"""Inputs of the operations in bench/operations.py, by family, shared by our side and the peer. Imports no framework.

The sizes are typical of training and preprocessing steps. A name that ends in `_gradient` stands for the operation and
its gradients with respect to all floating-point inputs, given an incoming gradient.
"""

from typing import NamedTuple


class Input(NamedTuple):
    """An input array: floats between low and high, or integers from 0 to high - 1."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float = 0.5
    high: float = 1.5


def integers(shape: tuple[int, ...], below: int, dtype: str = "int32") -> Input:
    return Input(shape, dtype, 0, below)


def signed(*shape: int) -> Input:
    """Return an input of floats on both sides of zero."""
    return Input(shape, low=-1.0, high=1.0)


def bools(*shape: int) -> Input:
    return integers(shape, 2, "bool")


M = Input((1 << 20,))
HALVES = Input((1 << 20,), "float16")
INTEGERS = integers((1 << 20,), 1000)
COMPLEX = Input((1 << 20,), "complex64")
ROWS = Input((4096, 1000))
MATRIX = Input((1024, 1024))
IMAGES = Input((32, 56, 56, 64))  # NHWC.
PLANES = Input((32, 64, 56, 56))  # The same images in NCHW.
VOLUMES = Input((4, 16, 28, 28, 32))
DOUBLES = Input((1 << 20,), "float64")
LONG = integers((1 << 20,), 1000, "int64")
LONG_ROWS = integers((4096, 1000), 1 << 40, "int64")
ALIGNED_ROWS = (1024, 1024)  # The distance between rows is a large power of two.
TALL = Input((200_000, 5))
WAVES = Input((256, 4096), "complex64")
LSTM = [signed(20, 64, 256), signed(1024, 256), signed(1024, 256), signed(1024)]
LSTM_SMALL = [signed(200, 1, 32), signed(128, 32), signed(128, 32), signed(128)]
GRU = [signed(20, 64, 256), signed(768, 256), signed(768, 256), signed(768), signed(256)]

FAMILIES: dict[str, dict[str, list[Input]]] = {
    "Arithmetic": {
        "addition": [M, M],
        "addition_of_integers": [INTEGERS, INTEGERS],
        "addition_of_halves": [HALVES, HALVES],
        "addition_of_bias": [ROWS, Input((1000,))],
        "addition_of_bias_gradient": [ROWS, Input((1000,))],
        "division_gradient": [M, M],
        "sine": [M],
        "tangent": [M],
        "arc_tangent": [M],
        "hyperbolic_sine": [M],
        "hyperbolic_tangent": [M],
        "hyperbolic_tangent_gradient": [M],
        "exponent": [M],
        "logarithm_base2": [M],
        "square_root": [M],
        "error_function": [M],
        "power": [M, M],
        "floor_modulo": [M, M],
        "maximum": [M, M],
        "less_than": [M, M],
        "select": [bools(1 << 20), M, M],
        "clamp": [M],
        "bitwise_and": [INTEGERS, INTEGERS],
        "multiplication_of_complex": [COMPLEX, COMPLEX],
        "exponent_of_complex": [COMPLEX],
        "absolute_of_complex": [COMPLEX],
        "real_part": [COMPLEX],
        "conjugate": [COMPLEX],
        "complex_tensor": [M, M],
    },
    "Activation": {
        "relu_gradient": [signed(1 << 20)],
        "leaky_relu": [signed(1 << 20)],
        "sigmoid": [signed(1 << 20)],
        "softmax": [ROWS],
        "softmax_gradient": [ROWS],
        "softmax_of_channels": [PLANES],
        "softmax_of_few_columns": [TALL],
        "log_softmax": [ROWS],
    },
    "Loss": {"softmax_cross_entropy_gradient": [ROWS, integers((4096,), 1000)]},
    "Reduction": {
        "sum_of_all": [ROWS],
        "sum_of_rows": [ROWS],
        "sum_of_columns": [ROWS],
        "sum_of_pixels": [IMAGES],
        "sum_of_planes": [PLANES],
        "sum_of_halves": [Input((4096, 1000), "float16")],
        "maximum_of_rows": [ROWS],
        "maximum_of_rows_gradient": [ROWS],
        "product_of_rows": [ROWS],
        "argument_of_maximum": [ROWS],
        "maximum_of_pairs": [Input((1 << 19, 2))],
        "sum_of_short_rows": [Input((1 << 18, 4))],
        "argument_of_maximum_of_short_rows": [Input((1 << 17, 8))],
        "argument_of_maximum_of_integers": [integers((4096, 1000), 1000)],
        "all_of_rows": [bools(4096, 1000)],
    },
    "Normalization": {
        "variance": [ROWS],
        "layer_normalization": [Input((2048, 768)), Input((768,)), Input((768,))],
        "layer_normalization_gradient": [Input((2048, 768)), Input((768,)), Input((768,))],
        "batch_normalization": [IMAGES, Input((64,)), Input((64,))],
        "batch_normalization_gradient": [IMAGES, Input((64,)), Input((64,))],
        "batch_normalization_nchw_gradient": [PLANES, Input((64,)), Input((64,))],
    },
    "Matrix": {
        "matrix_multiplication": [MATRIX, MATRIX],
        "matrix_multiplication_gradient": [MATRIX, MATRIX],
        "matrix_multiplication_transposed": [MATRIX, MATRIX],
        "matrix_multiplication_small": [Input((32, 784)), Input((784, 512))],
        "matrix_multiplication_of_bytes": [integers((128, 768), 100, "int8"), integers((768, 768), 100, "int8")],
        "matrix_multiplication_of_integers": [integers((256, 256), 1000), integers((256, 256), 1000)],
        "matrix_multiplication_of_halves": [Input((128, 768), "float16"), Input((768, 768), "float16")],
        "matrix_times_vector": [Input((2048, 2048)), Input((2048, 1))],
        "batched_matrix_multiplication": [Input((64, 128, 64)), Input((64, 64, 128))],
        "matrix_multiplication_of_complex": [Input((512, 512), "complex64"), Input((512, 512), "complex64")],
        "matrix_inverse": [Input((512, 512))],
        "matrix_inverse_of_many": [Input((512, 16, 16))],
        "band_part": [Input((64, 256, 256))],
    },
    "Float64": {
        "exponent_of_doubles": [DOUBLES],
        "sine_of_doubles": [DOUBLES],
        "hyperbolic_tangent_of_doubles": [DOUBLES],
        "error_function_of_doubles": [DOUBLES],
        "logarithm_of_doubles": [DOUBLES],
        "power_of_doubles": [DOUBLES, DOUBLES],
        "hyperbolic_sine_of_doubles": [DOUBLES],
        "gelu_of_doubles": [DOUBLES],
        "maximum_of_rows_of_doubles": [Input((4096, 1000), "float64")],
        "cumulative_sum_of_doubles": [Input(ALIGNED_ROWS, "float64")],
        "softmax_of_doubles": [Input((4096, 1000), "float64")],
        "layer_normalization_of_doubles": [Input(shape, "float64") for shape in ((2048, 768), (768,), (768,))],
        "matrix_multiplication_of_doubles": [Input((512, 512), "float64"), Input((512, 512), "float64")],
        "matrix_times_vector_of_doubles": [Input((2048, 2048), "float64"), Input((2048, 1), "float64")],
        "matrix_inverse_of_doubles": [Input((512, 512), "float64")],
        "convolution_of_doubles": [Input((8, 28, 28, 64), "float64"), Input((3, 3, 64, 64), "float64")],
    },
    "Integers": {
        "absolute_of_long_integers": [LONG],
        "clamp_of_long_integers": [LONG],
        "maximum_of_rows_of_long_integers": [LONG_ROWS],
        "argument_of_maximum_of_long_integers": [LONG_ROWS],
        "cumulative_sum_of_long_integers": [integers(ALIGNED_ROWS, 1000, "int64")],
        "sum_of_columns_of_integers": [integers((4096, 1000), 1000)],
        "cast_to_integers": [M],
        "cast_to_long_integers": [M],
    },
    "Convolution": {
        "convolution": [IMAGES, Input((3, 3, 64, 64))],
        "convolution_gradient": [IMAGES, Input((3, 3, 64, 64))],
        "convolution_nchw": [PLANES, Input((64, 64, 3, 3))],
        "convolution_nchw_gradient": [PLANES, Input((64, 64, 3, 3))],
        "convolution_1x1": [IMAGES, Input((1, 1, 64, 256))],
        "convolution_of_three_channels": [Input((8, 224, 224, 3)), Input((7, 7, 3, 64))],
        "convolution_in_groups": [IMAGES, Input((3, 3, 8, 64))],
        "convolution_depthwise": [IMAGES, Input((3, 3, 64, 1))],
        "convolution_depthwise_gradient": [IMAGES, Input((3, 3, 64, 1))],
        "convolution_depthwise_nchw": [PLANES, Input((1, 64, 3, 3))],
        "convolution_depthwise_nchw_gradient": [PLANES, Input((1, 64, 3, 3))],
        "convolution_depthwise_dilated": [Input((8, 56, 56, 64)), Input((3, 3, 64, 1))],
        "convolution_of_halves_nchw": [Input((8, 64, 56, 56), "float16"), Input((64, 64, 3, 3), "float16")],
        "convolution_of_volumes": [VOLUMES, Input((3, 3, 3, 32, 32))],
        "convolution_of_volumes_gradient": [VOLUMES, Input((3, 3, 3, 32, 32))],
        "convolution_of_volumes_ncdhw": [Input((4, 32, 16, 28, 28)), Input((32, 32, 3, 3, 3))],
        "convolution_of_volumes_ncdhw_gradient": [Input((4, 32, 16, 28, 28)), Input((32, 32, 3, 3, 3))],
        "convolution_transposed": [Input((16, 28, 28, 64)), Input((4, 4, 32, 64))],
        "convolution_transposed_gradient": [Input((16, 28, 28, 64)), Input((4, 4, 32, 64))],
        "im_to_col": [Input((8, 64, 56, 56))],
        "col_to_im": [Input((8, 576, 3136))],
    },
    "Pooling": {
        "max_pooling": [IMAGES],
        "max_pooling_gradient": [IMAGES],
        "max_pooling_nchw": [PLANES],
        "max_pooling_nchw_gradient": [PLANES],
        "max_pooling_overlapping": [PLANES],
        "average_pooling": [IMAGES],
        "average_pooling_gradient": [IMAGES],
        "average_pooling_nchw": [PLANES],
        "average_pooling_nchw_gradient": [PLANES],
        "average_pooling_by_two_nchw": [PLANES],
        "average_pooling_of_everything": [PLANES],
        "max_pooling_with_indices": [PLANES],
        "max_pooling_derivative_from_indices": [Input((32, 64, 28, 28)), PLANES],
        "max_pooling_derivative_recomputed": [Input((32, 64, 28, 28)), PLANES],
        "max_pooling_of_volumes": [Input((4, 32, 16, 28, 28))],
        "norm_pooling": [PLANES],
    },
    "Stencil": {"stencil": [Input((1, 1, 1024, 1024)), Input((1, 1, 3, 3))]},
    "Shape": {
        "transpose": [Input((2048, 2048))],
        "transpose_halves": [Input((2048, 2048), "float16")],
        "transpose_images": [IMAGES],
        "transpose_planes": [PLANES],
        "transpose_heads": [Input((16, 256, 8, 64))],
        "concatenate": [MATRIX, MATRIX],
        "concatenate_channels": [IMAGES, IMAGES],
        "concatenate_gradient": [MATRIX, MATRIX],
        "stack_last": [M, M],
        "split": [Input((1024, 3072))],
        "slice": [IMAGES],
        "slice_strided": [Input((2048, 2048))],
        "slice_strided_gradient": [Input((2048, 2048))],
        "slice_update": [MATRIX, Input((512, 512))],
        "reverse_rows": [Input((2048, 2048))],
        "reverse_columns": [Input((2048, 2048))],
        "reverse_bytes": [integers((32, 3, 224, 224), 256, "uint8")],
        "transpose_bytes": [integers((2048, 2048), 256, "uint8")],
        "transpose_doubles": [Input((2048, 2048), "float64")],
        "tile": [Input((256, 256))],
        "tile_gradient": [Input((256, 256))],
        "broadcast": [Input((1024, 1))],
        "pad": [IMAGES],
        "pad_planes": [PLANES],
        "pad_short_rows": [TALL],
        "pad_reflecting": [IMAGES],
        "pad_reflecting_planes": [PLANES],
        "pad_reflecting_planes_gradient": [PLANES],
        "pad_clamped_planes": [PLANES],
        "pad_periodic_planes": [PLANES],
        "depth_to_space": [Input((16, 64, 64, 64))],
        "pixel_shuffle": [Input((16, 64, 64, 64))],
        "space_to_depth": [Input((16, 16, 128, 128))],
        "coordinate_along_axis": [],
        "cast_to_half": [M],
        "cast_from_half": [HALVES],
        "cast_from_integers": [INTEGERS],
    },
    "Gather and scatter": {
        "gather_rows": [Input((50000, 128)), integers((8192,), 50000)],
        "gather_rows_gradient": [Input((50000, 128)), integers((8192,), 50000)],
        "gather_elements": [Input((1024, 1024)), integers((1 << 18, 2), 1024)],
        "gather_elements_gradient": [Input((1024, 1024)), integers((1 << 18, 2), 1024)],
        "gather_along_axis": [ROWS, integers((4096, 100), 1000, "int64")],
        "gather_along_axis_gradient": [ROWS, integers((4096, 100), 1000, "int64")],
        "scatter_rows": [Input((50000, 128)), Input((8192, 128)), integers((8192,), 50000)],
        "scatter_elements": [MATRIX, Input((1 << 18,)), integers((1 << 18, 2), 1024)],
        "scatter_along_axis": [ROWS, Input((4096, 100)), integers((4096, 100), 1000, "int64")],
        "scatter_maximum": [ROWS, Input((4096, 100)), integers((4096, 100), 1000, "int64")],
        "one_hot": [integers((8192,), 100)],
        "non_zero": [integers((1024, 1024), 2)],
    },
    "Sort": {
        "sort": [M],
        "sort_of_integers": [integers((1 << 20,), 1 << 30)],
        "sort_of_rows": [ROWS],
        "sort_of_short_rows": [Input((65536, 16))],
        "sort_of_few_elements": [TALL],
        "arg_sort": [M],
        "arg_sort_of_integers": [integers((1 << 20,), 1 << 30)],
        "arg_sort_of_rows": [ROWS],
        "sort_gradient": [ROWS],
        "top_k": [ROWS],
        "top_k_long": [M],
        "top_k_gradient": [ROWS],
    },
    "Cumulative": {
        "cumulative_sum": [ROWS],
        "cumulative_sum_long": [M],
        "cumulative_sum_of_columns": [ROWS],
        "cumulative_sum_gradient": [ROWS],
        "cumulative_product": [ROWS],
        "cumulative_product_of_aligned_rows": [Input(ALIGNED_ROWS)],
        "cumulative_product_gradient": [Input(ALIGNED_ROWS)],
        "cumulative_maximum": [ROWS],
    },
    "Fourier transform": {
        "fourier": [WAVES],
        "fourier_of_images": [Input((1024, 1024), "complex64")],
        "fourier_of_odd_length": [Input((256, 3000), "complex64")],
        "fourier_real": [Input((256, 4096))],
        "fourier_to_real": [Input((256, 2049), "complex64")],
        "fourier_real_gradient": [Input((256, 4096))],
    },
    "Resize and sample grid": {
        "resize_bilinear": [Input((16, 64, 64, 32))],
        "resize_bilinear_planes": [Input((16, 32, 64, 64))],
        "resize_bilinear_planes_gradient": [Input((16, 32, 64, 64))],
        "resize_nearest": [Input((16, 64, 64, 32))],
        "resize_nearest_planes": [Input((16, 32, 64, 64))],
        "sample_grid": [Input((8, 64, 64, 32)), signed(8, 64, 64, 2)],
        "sample_grid_planes": [Input((8, 32, 64, 64)), signed(8, 64, 64, 2)],
        "sample_grid_planes_gradient": [Input((8, 32, 64, 64)), signed(8, 64, 64, 2)],
    },
    "Recurrent": {
        "lstm": LSTM,
        "lstm_gradient": LSTM,
        "lstm_small": LSTM_SMALL,
        "lstm_small_loop": LSTM_SMALL,
        "lstm_small_gradient": LSTM_SMALL,
        "lstm_small_loop_gradient": LSTM_SMALL,
        "gru": GRU,
        "gru_gradient": GRU,
        "single_gate": [signed(20, 64, 256), signed(256, 256), signed(256, 256), signed(256)],
    },
    "Control flow": {"for_loop": [Input((64, 64)), Input((64, 64))]},
    "Quantization": {
        "quantize": [signed(1 << 20)],
        "quantize_channels": [signed(1024, 1024), Input((1024,))],
        "dequantize": [integers((1 << 20,), 100, "int8")],
        "dequantize_lookup_table": [integers((1 << 20,), 256, "uint8"), Input((256,))],
        "fake_quantize_gradient": [signed(1 << 20)],
    },
    "Sparse": {
        "sparse_multiplication": [
            Input((100000,)),
            integers((100000,), 4096),
            integers((100000,), 4096),
            Input((4096, 64)),
        ],
    },
    "Random": {
        "uniform": [],
        "normal": [],
        "truncated_normal": [],
        "random_integers": [],
        "dropout": [M],
    },
    "Suppression": {"non_maximum_suppression": [Input((1, 1000, 2), low=0, high=100), Input((1, 1000, 1))]},
    "Optimizers": {"gradient_descent": [M], "adam": [M]},
}

OPERATIONS: dict[str, list[Input]] = {name: inputs for family in FAMILIES.values() for name, inputs in family.items()}
FAMILY_OF: dict[str, str] = {name: family for family, members in FAMILIES.items() for name in members}
