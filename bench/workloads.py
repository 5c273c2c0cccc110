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
