"""The sizes of the workloads: what ours and every peer must agree on. No framework is imported here.

W1 is Apple's digit classifier, W5 GeLU written with basic operations, W6 a small multilayer perceptron with Adam.
"""

CLASSES = 10

W1_BATCH = 64
W1_IMAGE = 28
W1_CHANNELS = (32, 64)  # two convolutions 5x5 at stride 1, each with its input's size, each followed by 2x2 pooling
W1_HIDDEN = 1024
W1_DROPOUT = 0.5
W1_RATE = 0.01  # stochastic gradient descent
W1_FLAT = (W1_IMAGE // 4) ** 2 * W1_CHANNELS[1]

W5_SHAPE = (4096, 4096)

W6_BATCH = 32
W6_SIZES = (784, 512, 512, CLASSES)
W6_RATE = 1e-3  # Adam

Input = tuple[tuple[int, ...], int]
"""A shape, and for integers the bound below which they lie (0: floats)."""

_MILLION: Input = ((1 << 20,), 0)
_MATRIX: Input = ((1024, 1024), 0)
_IMAGES: Input = ((32, 56, 56, 64), 0)

OPERATIONS: dict[str, list[Input]] = {
    "sine": [_MILLION],
    "tangent": [_MILLION],
    "arc_tangent": [_MILLION],
    "hyperbolic_sine": [_MILLION],
    "power": [_MILLION, _MILLION],
    "logarithm_base2": [_MILLION],
    "floor_modulo": [_MILLION, _MILLION],
    "softmax": [((4096, 1000), 0)],
    "softmax_gradient": [((4096, 1000), 0)],
    "sum_of_rows": [((4096, 1000), 0)],
    "sum_of_columns": [((4096, 1000), 0)],
    "maximum_of_rows": [((4096, 1000), 0)],
    "product_of_rows": [((4096, 1000), 0)],
    "argument_of_maximum": [((4096, 1000), 0)],
    "variance": [((4096, 1000), 0)],
    "transpose": [((2048, 2048), 0)],
    "transpose_images": [_IMAGES],
    "concatenate": [_MATRIX, _MATRIX],
    "gather_rows": [((50000, 128), 0), ((8192,), 50000)],
    "gather_rows_gradient": [((50000, 128), 0), ((8192,), 50000)],
    "one_hot": [((8192,), 100)],
    "pad": [_IMAGES],
    "pad_reflecting": [_IMAGES],
    "matrix_multiplication": [_MATRIX, _MATRIX],
    "batched_matrix_multiplication": [((64, 128, 64), 0), ((64, 64, 128), 0)],
    "convolution": [_IMAGES, ((3, 3, 64, 64), 0)],
    "convolution_gradient": [_IMAGES, ((3, 3, 64, 64), 0)],
    "convolution_1x1": [_IMAGES, ((1, 1, 64, 256), 0)],
    "max_pooling": [_IMAGES],
    "max_pooling_gradient": [_IMAGES],
    "average_pooling": [_IMAGES],
    "uniform": [],
    "normal": [],
    "cast_to_half": [_MILLION],
}
"""Single operations: their inputs. Images are NHWC; PyTorch gets them in its channels-last format."""
