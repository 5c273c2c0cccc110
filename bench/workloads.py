"""The sizes of the workloads: what ours and every peer must agree on. No framework is imported here.

W1 is Apple's digit classifier, W2 ResNet-50 in training, W3 the activity classifier of convolution and LSTM, W4 two
adversarial networks, W5 GeLU written with basic operations, W6 a small multilayer perceptron with Adam, W7 a character
of an LSTM that writes text, W8 ResNet-50 in inference, W9 single operations, W10 a token of a GPT with a cache,
W11 attention with its gradients, W12 language models of an embedding and an LSTM in training.
"""

import numpy as np

CLASSES = 10

W1_BATCH = 64
W1_IMAGE = 28
W1_CHANNELS = (32, 64)  # two convolutions 5x5 at stride 1, each with its input's size, each followed by 2x2 pooling
W1_HIDDEN = 1024
W1_DROPOUT = 0.5
W1_RATE = 0.01  # stochastic gradient descent
W1_FLAT = (W1_IMAGE // 4) ** 2 * W1_CHANNELS[1]

W2_BATCH = 64
W2_IMAGE = 32
W2_STEM = 64  # channels of a convolution 7x7 at stride 2, followed by 3x3 pooling at stride 2, both without padding
# Of each stage: channels within and behind a block, blocks, stride of the first block's first convolution
W2_STAGES = ((64, 256, 3, 1), (128, 512, 4, 2), (256, 1024, 6, 2), (512, 2048, 3, 2))
W2_RATE = 0.01  # stochastic gradient descent
MOMENTUM, EPSILON = 0.99, 1e-3  # of batch normalization: of the moving average's old value, as in Keras

W3_BATCH = 64
W3_SAMPLES, W3_AXES = 2000, 6
W3_KERNEL = 100  # and stride: a sequence of 20
W3_FEATURES = 64
W3_HIDDEN = 200  # of the LSTM
W3_DENSE = 128
W3_CLASSES = 6
W3_RATE = 1e-3  # Adam
W3_STEPS = W3_SAMPLES // W3_KERNEL

W4_BATCH = 64
W4_LATENT = 100
W4_IMAGE = 28
W4_CHANNELS = (128, 64)  # the generator's, at a fourth and at half of the image; the discriminator's the other way
W4_KERNEL = 4  # of all convolutions, at stride 2
W4_SLOPE = 0.2  # of leaky ReLU
W4_DROPOUT = 0.3
W4_RATE, W4_BETA1 = 2e-4, 0.5  # Adam
W4_SMALL = W4_IMAGE // 4
W4_FLAT = W4_SMALL**2 * W4_CHANNELS[0]

W5_SHAPE = (4096, 4096)

W6_BATCH = 32
W6_SIZES = (784, 512, 512, CLASSES)
W6_RATE = 1e-3  # Adam

W7_CHARACTERS = 96
W7_EMBEDDING = 256
W7_HIDDEN = 1024
W7_TEMPERATURE = 0.8

W8_BATCHES = (1, 64)  # of W2's network and images

W9_SORT = 1 << 20
W9_SUMS = (1024, 4096)  # cumulative along the rows
W9_WAVES = (256, 4096)  # complex; transformed along the rows
W9_PLANE = (1024, 1024)  # complex; transformed along both axes
W9_IMAGES = (8, 64, 64, 64)  # images, rows, columns, channels; sampled at as many random places of each

W10_VOCABULARY = 65
W10_LAYERS, W10_HEADS, W10_WIDTH = 4, 4, 128
W10_POSITIONS = 1024  # of keys and values that are cached

W11_BATCHES = {256: 16, 1024: 4, 4096: 1}  # by positions
W11_HEADS, W11_FEATURES = 8, 64
W11_KINDS = ("", "causal", "masked", "dropped", "bfloat16")
W11_DROPOUT = 0.1

W12_BATCH, W12_STEPS = 32, 64
W12_MODELS = {"words": (1000, 512, 512), "characters": (96, 64, 384)}  # how many there are, embedding, hidden units
W12_RATE = 1e-3  # Adam


def w11_mask(positions: int) -> np.ndarray:
    """What is added to the scores of all heads: the last eighth of the keys is padding."""
    mask = np.zeros((1, 1, 1, positions), np.float32)
    mask[..., -positions // 8 :] = -np.inf
    return mask


# Beside busy processes. Kernel, expanded and final channels, stride, whether the activation is hardswish: MobileNetV3
# small without its squeeze-and-excite blocks. Howard et al., "Searching for MobileNetV3", arXiv:1905.02244, table 2.
BUSY_MOBILE = (
    (3, 16, 16, 2, False),
    (3, 72, 24, 2, False),
    (3, 88, 24, 1, False),
    (5, 96, 40, 2, True),
    (5, 240, 40, 1, True),
    (5, 240, 40, 1, True),
    (5, 120, 48, 1, True),
    (5, 144, 48, 1, True),
    (5, 288, 96, 2, True),
    (5, 576, 96, 1, True),
    (5, 576, 96, 1, True),
)
BUSY_STEM, BUSY_HEAD, BUSY_IMAGE, BUSY_CLASSES = 16, 576, 224, 1000
BUSY_WORDS, BUSY_WIDTH, BUSY_HEADS, BUSY_LAYERS = 128, 256, 4, 4
BUSY_TABULAR, BUSY_BATCH, BUSY_RATE = (32, 128, 64, 2), 32, 1e-3  # Adam
