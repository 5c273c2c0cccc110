"""W4: one training step of a GAN for 28 x 28 images at batch 64, with both losses and both updates in one run.

The generator makes images from 100 random numbers with transposed convolutions and batch normalization. The
discriminator classifies images as real or generated with convolutions and dropout. Losses are binary cross-entropy, and
each network has an Adam optimizer. A step has one forward pass of the generator and two of the discriminator.
"""

from typing import Any

import mpsgraph as mg
import numpy as np
import workloads as sizes
from measuring.compare import Workload, compare
from measuring.options import Options, main
from measuring.protocol import Step
from measuring.report import Row
from measuring.sides import ours
from mpsgraph import nn

WORKLOAD = Workload(
    "W4",
    "GAN, training step of both networks, batch 64",
    target=0.65,
    trains=False,
    peers={
        "PyTorch": ("eager", "eager channels_last", "compile", "compile channels_last"),
        "JAX": ("jit",),
    },
)


def generator() -> nn.Module:
    first, second = sizes.W4_CHANNELS
    how: dict[str, Any] = {"strides": 2, "padding": "TF_SAME"}
    return nn.Sequential(
        nn.Linear(sizes.W4_FLAT, bias=False),
        nn.BatchNorm(),
        nn.ReLU(),
        nn.Unflatten((sizes.W4_SMALL, sizes.W4_SMALL, first)),
        nn.ConvTranspose2d(second, sizes.W4_KERNEL, bias=False, **how),
        nn.BatchNorm(),
        nn.ReLU(),
        nn.ConvTranspose2d(1, sizes.W4_KERNEL, **how),
        nn.Tanh(),
    )


def discriminator() -> nn.Module:
    second, first = sizes.W4_CHANNELS
    how: dict[str, Any] = {"strides": 2, "padding": "TF_SAME"}
    return nn.Sequential(
        nn.Conv2d(first, sizes.W4_KERNEL, **how),
        nn.LeakyReLU(sizes.W4_SLOPE),
        nn.Conv2d(second, sizes.W4_KERNEL, **how),
        nn.LeakyReLU(sizes.W4_SLOPE),
        nn.Flatten(),
        nn.Dropout(sizes.W4_DROPOUT),
        nn.Linear(1),
    )


def graph() -> Step:
    g = mg.Graph()
    real = g.placeholder((-1, sizes.W4_IMAGE, sizes.W4_IMAGE, 1), name="real")
    makes, tells = generator(), discriminator()
    fake = makes(g.random_normal((sizes.W4_BATCH, sizes.W4_LATENT)))
    of_real, of_fake = tells(real), tells(fake)

    def loss(logits: mg.Tensor, is_real: float) -> mg.Tensor:
        labels = g.constant(np.full((sizes.W4_BATCH, 1), is_real, np.float32))
        return nn.losses.binary_cross_entropy_with_logits(logits, labels)

    makes_loss, tells_loss = loss(of_fake, 1.0), loss(of_real, 1.0) + loss(of_fake, 0.0)
    updates = []
    for model, of in ((makes, makes_loss), (tells, tells_loss)):
        optimizer = mg.optim.Adam(sizes.W4_RATE, beta1=sizes.W4_BETA1)
        updates += optimizer.updates(g.gradients(of, model.parameters()), g.constant(sizes.W4_RATE))

    shape = (sizes.W4_BATCH, sizes.W4_IMAGE, sizes.W4_IMAGE, 1)
    images = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    executable = g.compile({real: images}, [makes_loss, tells_loss], updates)
    return lambda: float(executable.run([images])[0])


BUILDERS = {"graph": graph}


def measure(options: Options) -> list[Row]:
    return compare(WORKLOAD, [ours(__file__, "graph")], options)


if __name__ == "__main__":
    main(measure, BUILDERS)
