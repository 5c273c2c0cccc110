"""W2: one training step of ResNet-50 on 32 x 32 images at batch 64, in float32 and bfloat16, in mpsgraph and its peers.

As in Keras, the first convolution of a block has its stride. Training uses batch normalization with moving averages,
cross-entropy, and SGD. In bfloat16, weights stay float32 on both sides. W8 uses the same network. first_step.py
measures the training step as a package that one process saves and the next one loads.
"""

from typing import Any

import mpsgraph as mg
import numpy as np
import workloads as sizes
from measuring import BENCH
from measuring.compare import Workload, compare
from measuring.options import Options, main
from measuring.protocol import Step
from measuring.report import Row
from measuring.sides import ours
from mpsgraph import nn

TORCH_MODES = ("eager", "eager channels_last", "compile", "compile channels_last")
WORKLOAD = Workload(
    "W2 float32", "ResNet-50 on 32 x 32 images, training step, batch 64", target=0.5, peers={"PyTorch": TORCH_MODES}
)
BFLOAT16 = Workload(
    "W2 bfloat16",
    "ResNet-50 on 32 x 32 images in bfloat16, training step, batch 64",
    target=0.4,
    peers={"PyTorch": tuple(f"bfloat16 {mode}" for mode in TORCH_MODES)},
)

PACKAGE = BENCH.parent / "build" / "bench" / "resnet50.mpsgraph"


def convolution(channels: int, kernel: int, strides: int = 1) -> list[nn.Module]:
    """Return a convolution followed by batch normalization."""
    padding = "TF_SAME" if kernel == 3 else "TF_VALID"
    return [
        nn.Conv2d(channels, kernel, strides=strides, padding=padding, bias=False),
        nn.BatchNorm(momentum=sizes.MOMENTUM, epsilon=sizes.EPSILON),
    ]


class Block(nn.Module):
    """A residual block of three convolutions, with a projection where the shape changes."""

    def __init__(self, within: int, behind: int, strides: int, projected: bool) -> None:
        self.convolutions = nn.Sequential(
            *convolution(within, 1, strides), nn.ReLU(), *convolution(within, 3), nn.ReLU(), *convolution(behind, 1)
        )
        self.projection = nn.Sequential(*convolution(behind, 1, strides)) if projected else nn.Identity()

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        return nn.ReLU()(self.convolutions(x) + self.projection(x))


def network() -> nn.Sequential:
    """Build ResNet-50 for images (batch, 32, 32, 3); its outputs are the logits of ten classes."""
    blocks = [
        Block(within, behind, strides if first else 1, first)
        for within, behind, count, strides in sizes.W2_STAGES
        for first in [True] + [False] * (count - 1)
    ]
    return nn.Sequential(
        *convolution(sizes.W2_STEM, 7, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, strides=2),
        *blocks,
        nn.GlobalAveragePooling2d(),
        nn.Linear(sizes.CLASSES),
    )


def images(batch: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.standard_normal((batch, sizes.W2_IMAGE, sizes.W2_IMAGE, 3), np.float32)


def batch() -> tuple[np.ndarray, np.ndarray]:
    return images(sizes.W2_BATCH), np.random.default_rng(1).integers(sizes.CLASSES, size=sizes.W2_BATCH, dtype=np.int32)


def trainer(**options: Any) -> Step:
    optimizer = mg.optim.SGD(sizes.W2_RATE)
    training = mg.Trainer(network(), loss="cross_entropy", optimizer=optimizer, metrics=(), **options)
    inputs, labels = batch()
    return lambda: float(training.train_step(inputs, labels))


def save() -> Step:
    """Save the training step as a package, whose loss depends on the updates; the returned step does nothing."""
    g = mg.Graph()
    inputs, labels = batch()
    x = g.placeholder((-1, *inputs.shape[1:]), name="images")
    y = g.placeholder((-1,), mg.int32, name="labels")
    model = network()
    loss = nn.losses.cross_entropy(model(x), y)
    updates = mg.optim.SGD(sizes.W2_RATE).updates(g.gradients(loss, model.parameters()), g.constant(sizes.W2_RATE))
    PACKAGE.parent.mkdir(parents=True, exist_ok=True)
    mg.save(PACKAGE, g, [x, y], {"loss": g.control_dependency(updates, lambda: loss * 1)})
    return lambda: None


def package() -> Step:
    model = mg.load(PACKAGE, verify=False)
    inputs, labels = batch()
    return lambda: float(model(inputs, labels))


BUILDERS = {
    "Trainer": trainer,
    "Trainer bfloat16": lambda: trainer(precision="bfloat16"),
    "Trainer auto": lambda: trainer(precision="auto"),
    "save": save,
    "package": package,
}


def measure(options: Options) -> list[Row]:
    rows = compare(WORKLOAD, [ours(__file__, "Trainer")], options)
    mixed = [ours(__file__, mode) for mode in ("Trainer bfloat16", "Trainer auto")]
    return rows + compare(BFLOAT16, mixed, options)


if __name__ == "__main__":
    main(measure, BUILDERS)
