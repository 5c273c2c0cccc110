"""Training steps of well-known networks with SGD, in mpsgraph and PyTorch.

Weights and inputs are random, and dropout is off. Sizes are in workloads.py.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import mpsgraph as mg
import numpy as np
import w2_resnet50
import workloads as sizes
from measuring.compare import Workload, compare
from measuring.options import Options, main
from measuring.protocol import Step
from measuring.report import Row
from measuring.sides import ours
from mpsgraph import nn

TARGET = 0.85
RNG = np.random.default_rng(0)


def trained(model: nn.Module, x: np.ndarray, y: np.ndarray) -> Step:
    trainer = mg.Trainer(model, loss="cross_entropy", optimizer=mg.optim.SGD(sizes.NETWORK_RATE), metrics=())
    return lambda: float(trainer.train_step(x, y))


class CausalLayer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, norm_first=True)

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        return self.layer(x, is_causal=True)


def gpt(layers: int, width: int, heads: int, batch: int, positions: int, words: int) -> Step:
    blocks = [CausalLayer(width, heads) for _ in range(layers)]
    model = nn.Sequential(nn.Embedding(words, width), *blocks, nn.LayerNorm(), nn.Linear(words))
    tokens = RNG.integers(words, size=(2, batch, positions), dtype=np.int32)
    return trained(model, tokens[0], tokens[1])


def encoder(layers: int, width: int, heads: int, batch: int, positions: int) -> Step:
    blocks = [nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0) for _ in range(layers)]
    model = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(sizes.NETWORK_CLASSES))
    x = RNG.standard_normal((batch, positions, width), np.float32)
    return trained(model, x, labels(batch))


class Inverted(nn.Module):
    """The inverted residual block of MobileNetV2."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int) -> None:
        super().__init__()
        how: dict[str, Any] = {"padding": "TF_SAME", "bias": False}
        hidden = expansion * inputs
        layers: list[nn.Module] = []
        if expansion > 1:
            layers += [nn.Conv2d(hidden, 1, **how), nn.BatchNorm(), nn.ReLU6()]
        layers += [nn.Conv2d(hidden, 3, strides=stride, groups=hidden, **how), nn.BatchNorm(), nn.ReLU6()]
        layers += [nn.Conv2d(outputs, 1, **how), nn.BatchNorm()]
        self.layers = nn.Sequential(*layers)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


def mobile(batch: int, image: int) -> Step:
    how: dict[str, Any] = {"padding": "TF_SAME", "bias": False}
    layers: list[nn.Module] = [nn.Conv2d(32, 3, strides=2, **how), nn.BatchNorm(), nn.ReLU6()]
    inputs = 32
    for expansion, channels, count, stride in sizes.MOBILE_V2:
        for i in range(count):
            layers.append(Inverted(inputs, channels, expansion, stride if i == 0 else 1))
            inputs = channels
    layers += [nn.Conv2d(1280, 1, **how), nn.BatchNorm(), nn.ReLU6()]
    layers += [nn.GlobalAveragePooling2d(), nn.Linear(sizes.NETWORK_CLASSES)]
    return images(nn.Sequential(*layers), batch, image)


def grouped(batch: int, image: int) -> Step:
    """A stage of ResNeXt: 3x3 convolutions of 32 groups (Xie et al., arXiv:1611.05431)."""
    how: dict[str, Any] = {"padding": "TF_SAME", "bias": False}
    layers: list[nn.Module] = [nn.Conv2d(128, 3, strides=2, **how), nn.BatchNorm(), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Conv2d(128, 3, groups=32, **how), nn.BatchNorm(), nn.ReLU()]
        layers += [nn.Conv2d(128, 1, **how), nn.BatchNorm(), nn.ReLU()]
    return images(nn.Sequential(*layers, nn.GlobalAveragePooling2d(), nn.Linear(sizes.NETWORK_CLASSES)), batch, image)


def resnet(batch: int, image: int) -> Step:
    return images(w2_resnet50.network(), batch, image)


def images(model: nn.Module, batch: int, image: int) -> Step:
    x = RNG.standard_normal((batch, image, image, 3), np.float32)
    return trained(model, x, labels(batch))


def labels(batch: int) -> np.ndarray:
    return RNG.integers(sizes.NETWORK_CLASSES, size=batch, dtype=np.int32)


def lstm(batch: int, steps: int, width: int) -> Step:
    model = nn.Sequential(nn.LSTM(width, num_layers=2), nn.Flatten(), nn.Linear(sizes.NETWORK_CLASSES))
    return trained(model, RNG.standard_normal((batch, steps, width), np.float32), labels(batch))


def perceptron(batch: int, width: int) -> Step:
    model = nn.Sequential(nn.Linear(width), nn.ReLU(), nn.Linear(width), nn.ReLU(), nn.Linear(sizes.NETWORK_CLASSES))
    return trained(model, RNG.standard_normal((batch, width // 2), np.float32), labels(batch))


KINDS: dict[str, Callable[..., Step]] = {
    kind.__name__: kind for kind in (gpt, encoder, mobile, grouped, resnet, lstm, perceptron)
}
BUILDERS = {name: partial(KINDS[kind], **arguments) for name, (kind, arguments) in sizes.NETWORKS.items()}


def measure(options: Options) -> list[Row]:
    rows = []
    for name, (_, arguments) in sizes.NETWORKS.items():
        title = f"{name}, training step, " + ", ".join(f"{key} {value}" for key, value in arguments.items())
        workload = Workload(name, title, TARGET, peers={"PyTorch": ("eager", "eager channels_last")})
        rows += compare(workload, [ours(__file__, name, "Trainer")], options)
    return rows


if __name__ == "__main__":
    main(measure, BUILDERS)
