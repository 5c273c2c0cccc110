"""Sizes of the workloads, shared by mpsgraph and all peers. Imports no framework.

W1   Apple's digit classifier, training
W2   ResNet-50, training
W3   activity classifier with convolution and LSTM, training
W4   GAN, training
W5   GELU written with basic operations
W6   small MLP with Adam, training
W7   one character from an LSTM that generates text
W8   ResNet-50, inference
W9   single operations
W10  one token from a GPT with a key/value cache
W11  attention with its gradients
W12  language models with an embedding and an LSTM, training
W13  an adapter of a transformer of 98M parameters, training
"""

from typing import Any

import numpy as np

CLASSES = 10

W1_BATCH = 64
W1_IMAGE = 28
W1_CHANNELS = (32, 64)  # Two 5x5 convolutions with stride 1 and "same" padding, each followed by 2x2 pooling.
W1_HIDDEN = 1024
W1_DROPOUT = 0.5
W1_RATE = 0.01  # Learning rate of SGD.
W1_FLAT = (W1_IMAGE // 4) ** 2 * W1_CHANNELS[1]

W2_BATCH = 64
W2_IMAGE = 32
# Channels of a 7x7 convolution with stride 2, followed by 3x3 pooling with stride 2, both without padding.
W2_STEM = 64
# For each stage: channels inside a block, channels of its output, number of blocks, stride of the first block.
W2_STAGES = ((64, 256, 3, 1), (128, 512, 4, 2), (256, 1024, 6, 2), (512, 2048, 3, 2))
W2_RATE = 0.01  # Learning rate of SGD.
# Parameters of batch normalization; as in Keras, the momentum is the weight of the old moving average.
MOMENTUM, EPSILON = 0.99, 1e-3

W3_BATCH = 64
W3_SAMPLES, W3_AXES = 2000, 6
W3_KERNEL = 100  # Kernel size and stride, for a sequence of 20.
W3_FEATURES = 64
W3_HIDDEN = 200  # Units of the LSTM.
W3_DENSE = 128
W3_CLASSES = 6
W3_RATE = 1e-3  # Learning rate of Adam.
W3_STEPS = W3_SAMPLES // W3_KERNEL

W4_BATCH = 64
W4_LATENT = 100
W4_IMAGE = 28
# Generator channels at a quarter and half of the image size; the discriminator has the reverse.
W4_CHANNELS = (128, 64)
W4_KERNEL = 4  # Kernel size of all convolutions; their stride is 2.
W4_SLOPE = 0.2  # Negative slope of the leaky ReLU.
W4_DROPOUT = 0.3
W4_RATE, W4_BETA1 = 2e-4, 0.5  # Learning rate and beta1 of Adam.
W4_SMALL = W4_IMAGE // 4
W4_FLAT = W4_SMALL**2 * W4_CHANNELS[0]

W5_SHAPE = (4096, 4096)

W6_BATCH = 32
W6_SIZES = (784, 512, 512, CLASSES)
W6_RATE = 1e-3  # Learning rate of Adam.

W7_CHARACTERS = 96
W7_EMBEDDING = 256
W7_HIDDEN = 1024
W7_TEMPERATURE = 0.8

W8_BATCHES = (1, 64)  # With the network and images of W2.

W9_SORT = 1 << 20
W9_SUMS = (1024, 4096)  # Cumulative along the rows.
W9_WAVES = (256, 4096)  # Complex, transformed along the rows.
W9_PLANE = (1024, 1024)  # Complex, transformed along both axes.
# Images, rows, columns, channels; each is sampled at as many random positions as it has pixels.
W9_IMAGES = (8, 64, 64, 64)

W10_VOCABULARY = 65
W10_LAYERS, W10_HEADS, W10_WIDTH = 4, 4, 128
W10_POSITIONS = 1024  # Length of the key/value cache.

W11_BATCHES = {256: 16, 1024: 4, 4096: 1}  # Batch size by number of positions.
W11_HEADS, W11_FEATURES = 8, 64
W11_KINDS = ("", "causal", "masked", "dropped", "bfloat16")
W11_DROPOUT = 0.1

W12_BATCH, W12_STEPS = 32, 64
W12_MODELS = {"words": (1000, 512, 512), "characters": (96, 64, 384)}  # Number of tokens, embedding size, hidden units.
W12_RATE = 1e-3  # Learning rate of Adam.

W13_BATCH, W13_STEPS, W13_RANK = 4, 512, 8
W13_MODEL: dict[str, Any] = {
    "model_type": "llama", "vocab_size": 16384, "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12,
    "num_attention_heads": 12, "max_position_embeddings": 1024, "tie_word_embeddings": True,
}  # fmt: skip
W13_RATE = 1e-3  # Learning rate of AdamW.


def w11_mask(positions: int) -> np.ndarray:
    """Return the mask to add to the scores of all heads; the last eighth of the keys is padding."""
    mask = np.zeros((1, 1, 1, positions), np.float32)
    mask[..., -positions // 8 :] = -np.inf
    return mask


# MobileNetV3 small without squeeze-and-excite blocks, for busy_machine.py (Howard et al., "Searching for MobileNetV3",
# arXiv:1905.02244, table 2): kernel size, expanded channels, output channels, stride, whether the activation is
# hardswish.
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
# MobileNetV2 (Sandler et al., arXiv:1801.04381, table 2): expansion, channels, number of blocks, stride of the first.
MOBILE_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
# Networks of networks.py, each with the function that builds it and the function's arguments.
NETWORKS: dict[str, tuple[str, dict[str, int]]] = {
    "GPT 4 x 256": ("gpt", {"layers": 4, "width": 256, "heads": 4, "batch": 8, "positions": 128, "words": 512}),
    "GPT 6 x 768": ("gpt", {"layers": 6, "width": 768, "heads": 12, "batch": 4, "positions": 128, "words": 8192}),
    "encoder 4 x 512": ("encoder", {"layers": 4, "width": 512, "heads": 8, "batch": 8, "positions": 64}),
    "MobileNetV2": ("mobile", {"batch": 8, "image": 128}),
    "grouped convolutions": ("grouped", {"batch": 8, "image": 112}),
    "ResNet-50": ("resnet", {"batch": 4, "image": 224}),
    "LSTM 2 x 256": ("lstm", {"batch": 32, "steps": 50, "width": 256}),
    "perceptron 2048": ("perceptron", {"batch": 256, "width": 2048}),
}
NETWORK_CLASSES = 10
NETWORK_RATE = 1e-4  # Learning rate of SGD.

BUSY_STEM, BUSY_HEAD, BUSY_IMAGE, BUSY_CLASSES = 16, 576, 224, 1000
BUSY_WORDS, BUSY_WIDTH, BUSY_HEADS, BUSY_LAYERS = 128, 256, 4, 4
BUSY_TABULAR, BUSY_BATCH, BUSY_RATE = (32, 128, 64, 2), 32, 1e-3  # Layer sizes, batch size, and learning rate of Adam.
