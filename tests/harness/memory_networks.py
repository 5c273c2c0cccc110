"""Ten networks of different kinds, with batches and options of their trainers, for tests of memory estimates."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
from mpsgraph import nn

RANDOM = np.random.default_rng(1)


def numbers(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def labels(count, classes=10):
    return RANDOM.integers(0, classes, count).astype(np.int32)


def tokens(*shape):
    x = RANDOM.integers(0, 500, shape).astype(np.int32)
    return x, np.roll(x, -1, 1)


class Residual(nn.Module):
    """x + inner(x)."""

    def __init__(self, *layers):
        self.inner = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.inner(x)


def mlp():
    return nn.Sequential(nn.Linear(512), nn.ReLU(), nn.Dropout(0.2), nn.Linear(512), nn.ReLU(), nn.Linear(10))


def digits():
    return nn.Sequential(
        nn.Conv2d(16, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 3, padding="same"), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128), nn.ReLU(), nn.Linear(10),
    )  # fmt: skip


def residual_images():
    def block():
        return Residual(
            nn.Conv2d(32, 3, padding="same"),
            nn.BatchNorm(),
            nn.ReLU(),
            nn.Conv2d(32, 3, padding="same"),
            nn.BatchNorm(),
        )

    return nn.Sequential(nn.Conv2d(32, 3, padding="same"), block(), block(), nn.GlobalAveragePooling2d(), nn.Linear(10))


def autoencoder():
    return nn.Sequential(
        nn.Conv2d(16, 3, stride=2, padding="same"), nn.ReLU(),
        nn.ConvTranspose2d(16, 3, stride=2, padding="same"), nn.ReLU(),
        nn.Conv2d(3, 3, padding="same"),
    )  # fmt: skip


def language_model(layers=4, width=64):
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, activation="gelu", norm_first=True)
    return nn.Sequential(nn.Embedding(500, width), nn.TransformerEncoder(layer, layers, nn.LayerNorm()), nn.Linear(500))


def recurrent():
    return nn.Sequential(nn.LSTM(64), nn.GRU(32), nn.Flatten(), nn.Linear(10))


def series():
    return nn.Sequential(
        nn.Conv1d(32, 5), nn.GELU(), nn.Conv1d(64, 5, stride=2), nn.GELU(), nn.Flatten(), nn.Linear(10)
    )


def wide_embedding():
    return nn.Sequential(nn.Embedding(20_000, 64), nn.Flatten(), nn.Linear(10))


IMAGES = (64, 24, 24, 3)
NETWORKS = {
    "perceptron": (mlp, lambda: (numbers(256, 300), labels(256)), lambda: {"optimizer": "adam"}),
    "digits": (digits, lambda: (numbers(*IMAGES), labels(64)), lambda: {"optimizer": "sgd"}),
    "residual network": (
        residual_images, lambda: (numbers(*IMAGES), labels(64)), lambda: {"optimizer": mg.optim.SGD(0.1, momentum=0.9)}
    ),
    "autoencoder": (autoencoder, lambda: (x := numbers(*IMAGES), x), lambda: {"loss": "mse", "optimizer": "rmsprop"}),
    "language model": (language_model, lambda: tokens(4, 128), lambda: {"optimizer": "adamw"}),
    "checkpointed language model": (
        lambda: language_model(6), lambda: tokens(4, 128), lambda: {"optimizer": "adamw", "checkpoint_layers": True}
    ),
    "bfloat16 language model": (
        language_model, lambda: tokens(4, 128), lambda: {"optimizer": "adamw", "precision": "bfloat16"}
    ),
    "recurrent": (recurrent, lambda: (numbers(32, 50, 16), labels(32)), lambda: {"optimizer": "adam"}),
    "series": (
        series, lambda: (numbers(32, 200, 8), labels(32)),
        lambda: {"optimizer": mg.optim.ClipByNorm(mg.optim.AdamW(1e-3), 1.0), "ema_decay": 0.99},
    ),
    "wide embedding": (
        wide_embedding, lambda: (tokens(64, 32)[0], labels(64)),
        lambda: {"optimizer": "adam", "gradient_accumulation_steps": 2},
    ),
}  # fmt: skip
