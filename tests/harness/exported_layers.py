"""Every layer of docs/layers.md for the export tests, with dynamic input shapes and the sizes to run them with."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

IMAGES = (-1, -1, -1, 4)
FEW_CHANNELS = (-1, -1, -1, 2)
SEQUENCE = (-1, -1, 4)
VOLUME = (-1, -1, -1, -1, 4)


def layer(make, *shapes, sizes=(8, 10), dtype="float32", label=""):
    return pytest.param(make, shapes, sizes, dtype, id=label or type(make()).__name__)


ACTIVATIONS = (
    "ReLU ReLU6 LeakyReLU PReLU ELU CELU SELU GELU SiLU Swish Mish Sigmoid LogSigmoid Tanh Softplus Softsign "
    "Tanhshrink GLU Softmax LogSoftmax Softmin Hardtanh Hardsigmoid Hardswish Hardshrink Softshrink Identity Dropout"
).split()

LAYERS = [
    *(layer(getattr(nn, name), SEQUENCE) for name in ACTIVATIONS),
    layer(lambda: nn.GELU("tanh"), SEQUENCE, label="GELU-tanh"),
    layer(lambda: nn.Threshold(0.1, 2.0), SEQUENCE),
    layer(lambda: nn.Linear(3), SEQUENCE),
    layer(lambda: nn.Conv1d(3, 3), SEQUENCE),
    layer(lambda: nn.Conv2d(3, 3), IMAGES),
    layer(lambda: nn.Conv2d(3, 3, strides=2, padding="TF_SAME"), (-1, 8, 8, 4), sizes=(8,), label="Conv2d-same"),
    layer(lambda: nn.Conv2d(4, 3, groups=2, dilations=2, padding=((2, 1), (0, 2))), IMAGES, label="Conv2d-groups"),
    layer(lambda: nn.Conv2d(3, 3, data_layout="NCHW"), (-1, 4, -1, -1), label="Conv2d-NCHW"),
    layer(lambda: nn.Conv3d(3, 3), VOLUME, sizes=(5, 6)),
    layer(lambda: nn.ConvTranspose1d(3, 3), SEQUENCE),
    layer(lambda: nn.ConvTranspose2d(3, 3), IMAGES),
    layer(lambda: nn.ConvTranspose2d(3, 4, strides=2, padding="TF_SAME"), IMAGES, label="ConvTranspose2d-same"),
    layer(lambda: nn.ConvTranspose2d(3, 3, strides=2), (-1, 8, 8, 4), sizes=(8,), label="ConvTranspose2d-known"),
    layer(lambda: nn.ConvTranspose3d(3, 3), VOLUME, sizes=(3, 4)),
    layer(lambda: nn.DepthwiseConv2d(3), IMAGES),
    layer(lambda: nn.SeparableConv2d(5, 3), IMAGES),
    layer(lambda: nn.Unfold(3), IMAGES),
    layer(lambda: nn.Fold((8, 8), 2), (-1, 49, 16), sizes=(8,)),
    layer(lambda: nn.MaxPool1d(2), SEQUENCE),
    layer(lambda: nn.MaxPool2d(2), IMAGES),
    layer(lambda: nn.MaxPool3d(2), VOLUME, sizes=(4, 6)),
    layer(lambda: nn.AvgPool1d(2), SEQUENCE),
    layer(lambda: nn.AvgPool2d(2), IMAGES),
    layer(lambda: nn.AvgPool3d(2), VOLUME, sizes=(4, 6)),
    layer(lambda: nn.AdaptiveAvgPool2d(3), (-1, 8, 8, 4), sizes=(8,)),
    layer(lambda: nn.GlobalAveragePooling2d(), IMAGES),
    # Small images with two channels: the run time of ONNX's reference implementation is proportional to the number of
    # input elements times the number of output elements.
    layer(lambda: nn.Upsample(scale_factor=2), (-1, 4, 4, 2), sizes=(4,)),
    layer(lambda: nn.Upsample(8), FEW_CHANNELS, sizes=(4, 5), label="Upsample-open"),
    layer(lambda: nn.Upsample(scale_factor=1.5, mode="bilinear"), (-1, 4, 4, 2), sizes=(4,), label="Upsample-factor"),
    layer(lambda: nn.Upsample(8, mode="bilinear"), FEW_CHANNELS, sizes=(4, 5), label="Upsample-bilinear"),
    layer(
        lambda: nn.Upsample(7, mode="bilinear", align_corners=True),
        FEW_CHANNELS,
        sizes=(4, 5),
        label="Upsample-corners",
    ),
    layer(lambda: nn.PixelShuffle(2), IMAGES),
    layer(lambda: nn.PixelUnshuffle(2), IMAGES),
    layer(lambda: nn.ZeroPad2d(1), IMAGES),
    layer(lambda: nn.ReflectionPad2d(1), IMAGES),
    layer(lambda: nn.ReplicationPad2d(1), IMAGES),
    layer(lambda: nn.BatchNorm(), IMAGES),
    layer(lambda: nn.LayerNorm(), SEQUENCE),
    layer(lambda: nn.RMSNorm(), SEQUENCE),
    layer(lambda: nn.GroupNorm(2), IMAGES),
    layer(lambda: nn.InstanceNorm(), IMAGES),
    layer(lambda: nn.RNN(3), SEQUENCE),
    layer(lambda: nn.LSTM(3), SEQUENCE),
    layer(lambda: nn.GRU(3), SEQUENCE),
    layer(lambda: nn.RNN(3, bidirectional=True), SEQUENCE, label="RNN-both"),
    layer(lambda: nn.LSTM(3, bidirectional=True), SEQUENCE, label="LSTM-both"),
    layer(lambda: nn.GRU(3, bidirectional=True), SEQUENCE, label="GRU-both"),
    layer(lambda: nn.Embedding(10, 4), (-1, -1), dtype="int32"),
    layer(lambda: nn.MultiheadAttention(4, 2), SEQUENCE),
    layer(lambda: nn.PositionalEncoding(20), SEQUENCE),
    layer(lambda: nn.TransformerEncoderLayer(4, 2, 16), SEQUENCE),
    layer(lambda: nn.TransformerDecoderLayer(4, 2, 16), SEQUENCE, SEQUENCE),
    layer(lambda: nn.SpatialDropout(), IMAGES),
    layer(lambda: nn.RandomFlip(), IMAGES),
    layer(lambda: nn.RandomCrop(6, 1), (-1, 8, 8, 4), sizes=(8,)),
    layer(lambda: nn.RandomRotation(9), IMAGES),
    layer(lambda: nn.ColorJitter(0.1), IMAGES),
    layer(lambda: nn.Cutout(2), IMAGES),
    layer(lambda: nn.Flatten(), (-1, 8, 8, 4), sizes=(8,)),
    layer(lambda: nn.Unflatten((2, 2)), (-1, 4)),
]


def values_like(shapes, size, dtype, batch):
    rng = np.random.default_rng(size)
    filled = [[batch if axis == 0 and n < 0 else size if n < 0 else n for axis, n in enumerate(s)] for s in shapes]
    if dtype == "int32":
        return [rng.integers(0, 10, shape).astype(np.int32) for shape in filled]
    return [rng.normal(size=shape).astype(np.float32) for shape in filled]


def built(make, shapes, dtype):
    """Build a layer and replace the initial values of its variables. Returns the layer and the new values."""
    module, graph = make().eval(), mg.Graph(seed=3)
    module(*(graph.placeholder(shape, dtype) for shape in shapes))
    rng = np.random.default_rng(1)
    state = {path: rng.uniform(0.5, 1.5, v.shape).astype(v.dtype) * 0.4 for path, v in module.state_dict().items()}
    module.load_state_dict(state)
    return module, state
