"""A generative adversarial network (GAN) in one graph: a generator draws digits, a discriminator detects them.

It follows "Build customized ML models" (WWDC20): a generator of three stages (dense to 7x7, transposed convolutions to
14x14 and 28x28, batch normalization), a discriminator with two convolutions and dropout, and both losses and updates in
one run call. The data are scikit-learn's scanned digits or MNIST. Grids of digits are written during training.
Run: python examples/gan.py [--steps 2000] [--data DIR] [--output DIR]; page: docs/examples/gan.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import mpsgraph as mg
import numpy as np
from mpsgraph import nn
from mpsgraph._optional import require

BATCH, SEED_SIZE = 64, 100
CHANNELS = 128, 64  # Of the 7x7 and 14x14 images in both networks.
RATE, BETA1 = 2e-4, 0.5  # Adam as in Radford et al., arXiv:1511.06434, like the slope and initial weights.
SLOPE, DROPOUT = 0.2, 0.3
SHOWN = 0, 50, 200, 600, 1200, 2000  # Steps after which a grid is written.


class Network:
    """Variables trained by one loss; the other network's gradients may pass through them without changing them."""

    def __init__(self, g: mg.Graph, name: str) -> None:
        self.g, self.name, self.variables = g, name, list[mg.Tensor]()

    def variable(self, shape: tuple[int, ...], mean: float = 0.0, deviation: float = 0.0) -> mg.Tensor:
        first = self.g.generator.normal(mean, deviation, shape).astype(np.float32)
        self.variables.append(self.g.variable(first, name=f"{self.name}/{len(self.variables)}"))
        return self.variables[-1]


class Generator(Network):
    """The artist: maps seeds (batch, 100) to images (batch, 28, 28, 1) from -1 to 1."""

    def __init__(self, g: mg.Graph) -> None:
        super().__init__(g, "generator")
        small, large = CHANNELS
        self.dense = self.variable((SEED_SIZE, 7 * 7 * small), deviation=0.02)
        self.scales = [(self.variable((n,), 1.0, 0.02), self.variable((n,))) for n in (7 * 7 * small, large)]
        self.kernels = (
            self.variable((4, 4, large, small), deviation=0.02),
            self.variable((4, 4, 1, large), deviation=0.02),
        )
        self.bias = self.variable((1,))

    def __call__(self, seeds: mg.Tensor) -> mg.Tensor:
        g, (small, large), batch = self.g, CHANNELS, seeds.shape[0]
        x = g.relu(self.normalized(seeds @ self.dense, *self.scales[0]))
        x = g.reshape(x, (batch, 7, 7, small))
        x = g.convolution_transpose2d(x, self.kernels[0], (batch, 14, 14, large), strides=2, padding="TF_SAME")
        x = g.relu(self.normalized(x, *self.scales[1]))
        x = g.convolution_transpose2d(x, self.kernels[1], (batch, 28, 28, 1), strides=2, padding="TF_SAME")
        return g.tanh(x + self.bias)

    def normalized(self, x: mg.Tensor, gamma: mg.Tensor, beta: mg.Tensor) -> mg.Tensor:
        """Apply batch normalization over the batch and, for images, height and width."""
        axes = list(range(len(x.shape) - 1))
        mean = self.g.mean(x, axes)
        return self.g.normalization(x, mean, self.g.variance(x, mean, axes), gamma, beta, epsilon=1e-5)


class Discriminator(Network):
    """The detective: maps images to logits (batch, 1) of being a scan."""

    def __init__(self, g: mg.Graph) -> None:
        super().__init__(g, "discriminator")
        small, large = CHANNELS
        shapes = (4, 4, 1, large), (4, 4, large, small)
        self.convolutions = [(self.variable(s, deviation=0.02), self.variable(s[-1:])) for s in shapes]
        self.dense = self.variable((7 * 7 * small, 1), deviation=0.02), self.variable((1,))

    def __call__(self, images: mg.Tensor) -> mg.Tensor:
        g, x = self.g, images
        for kernel, bias in self.convolutions:
            x = g.leaky_relu(g.convolution2d(x, kernel, strides=2, padding="TF_SAME") + bias, SLOPE)
        weight, bias = self.dense
        return g.dropout(g.flatten2d(x, 1), DROPOUT) @ weight + bias


class Gan:
    """Both networks in one graph: inputs, losses, and the updates of one step."""

    def __init__(self, batch: int = BATCH, seed: int = 0) -> None:
        self.g = g = mg.Graph(seed)
        self.generator, self.discriminator = Generator(g), Discriminator(g)
        self.seeds = g.placeholder((batch, SEED_SIZE), name="seeds")
        self.scans = g.placeholder((batch, 28, 28, 1), name="scans")
        self.images = self.generator(self.seeds)
        of_scans, of_images = self.discriminator(self.scans), self.discriminator(self.images)

        def cross_entropy(logits: mg.Tensor, wanted: float) -> mg.Tensor:
            return nn.losses.binary_cross_entropy_with_logits(logits, g.constant(wanted, logits.shape))

        # The detective should output 1 for scans and 0 for images; the artist should make it output 1 for images.
        self.discriminator_loss = cross_entropy(of_scans, 1.0) + cross_entropy(of_images, 0.0)
        self.generator_loss = cross_entropy(of_images, 1.0)
        self.losses = [self.generator_loss, self.discriminator_loss]
        self.generator_updates = self.updates_of(self.generator, self.generator_loss)
        self.discriminator_updates = self.updates_of(self.discriminator, self.discriminator_loss)
        self.updates = self.generator_updates + self.discriminator_updates

    def updates_of(self, network: Network, loss: mg.Tensor) -> list[mg.Operation]:
        """Create updates of this network's own variables; its gradients may pass through both networks."""
        gradients = self.g.gradients(loss, network.variables)
        return mg.optim.Adam(RATE, BETA1).updates(gradients, self.g.constant(RATE))

    def step(self, seeds: np.ndarray, scans: np.ndarray) -> tuple[float, float]:
        """Compute both losses and update both networks in one run call; return the losses."""
        results = self.g.run({self.seeds: seeds, self.scans: scans}, self.losses, self.updates)
        return float(results[self.generator_loss]), float(results[self.discriminator_loss])

    def draw(self, seeds: np.ndarray) -> np.ndarray:
        """Generate images (batch, 28, 28, 1) from -1 to 1 for these seeds."""
        return self.g.run({self.seeds: seeds}, self.images).numpy()


def scanned_digits(data: Path | None) -> np.ndarray:
    """Read all images (n, 28, 28, 1) of MNIST in a directory or of scikit-learn's digits, from -1 to 1 like tanh."""
    parts = mg.data.digits() if data is None else mg.data.read_mnist(data)
    scans = np.concatenate([images for images, _ in parts])
    if len(scans) < BATCH or scans.shape[1:] != (28, 28, 1):
        raise mg.data.DataError(f"{data}: expected {BATCH} images of 28x28, got {len(scans)} of {scans.shape[1:3]}")
    return scans * 2 - 1


def grid(images: np.ndarray) -> np.ndarray:
    """Arrange images in a square, dark on white with white lines between them; 0 is black."""
    side = int(len(images) ** 0.5)
    framed = np.pad(images[: side * side, :, :, 0], ((0, 0), (2, 2), (2, 2)), constant_values=-1)
    return -np.block([list(row) for row in framed.reshape(side, side, *framed.shape[1:])])


def train(gan: Gan, scans: np.ndarray, steps: int, seed: int, output: Path) -> tuple[list, dict[int, np.ndarray]]:
    """Train; return the losses of all steps, and grids by step, always generated from the same seeds."""
    imsave = require("matplotlib.image", "demo", "the pictures").imsave
    rng, batch = np.random.default_rng(seed), gan.scans.shape[0]
    always = rng.standard_normal((batch, SEED_SIZE), np.float32)
    batches = mg.data.batches((scans,), batch, shuffle=True, seed=seed, drop_last=True)
    losses, grids = list[tuple[float, float]](), dict[int, np.ndarray]()
    epoch: Iterator[tuple[np.ndarray, ...]] = iter(())
    for step in require("tqdm.auto", "demo", "the progress bar").trange(steps + 1, unit="step"):
        if step in SHOWN or step == steps:
            grids[step] = grid(gan.draw(always))
            imsave(output / f"gan_{step:05}.png", grids[step], cmap="gray", vmin=-1, vmax=1)
        if step < steps:
            images = next(epoch, None)
            if images is None:
                epoch = iter(batches)
                images = next(epoch)
            losses.append(gan.step(rng.standard_normal(always.shape, np.float32), images[0]))
    return losses, grids


def draw(path: Path, losses: list[tuple[float, float]], grids: dict[int, np.ndarray], scans: np.ndarray) -> None:
    """Draw the grids over time, scans for comparison, and both losses smoothed over 100 steps."""
    figure = require("matplotlib.figure", "demo", "the picture").Figure(figsize=(14, 7.3), layout="constrained")
    *cells, axes = figure.subplots(2, 4).flat
    pictures = {f"after {step:,} steps": picture for step, picture in grids.items()} | {"scans": grid(scans[:BATCH])}
    for cell, (title, picture) in zip(cells, list(pictures.items())[-len(cells) :], strict=False):
        cell.imshow(picture, cmap="gray", vmin=-1, vmax=1)
        cell.set_title(title)
    for cell in cells:
        cell.axis("off")
    width = min(100, len(losses))
    for name, values in zip(("generator", "discriminator"), zip(*losses, strict=True), strict=True):
        axes.plot(np.convolve(values, np.full(width, 1 / width), "valid"), label=name)
    axes.set(title="losses", xlabel="step", ylim=(0, None))
    axes.legend(frameon=False)
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=SHOWN[-1], help="training steps, of 64 scans and 64 images each")
    parser.add_argument("--data", type=Path, help="directory with MNIST's four files (default: built-in digits)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    options = parser.parse_args()
    if options.steps < 1 or options.seed < 0:
        parser.error(f"--steps must be at least 1 and --seed at least 0, got {options.steps} and {options.seed}")
    scans = scanned_digits(options.data)
    options.output.mkdir(parents=True, exist_ok=True)
    losses, grids = train(Gan(seed=options.seed), scans, options.steps, options.seed, options.output)
    draw(options.output / "gan.png", losses, grids, scans)
    print(f"Pictures {options.output / 'gan_*.png'}, all in {options.output / 'gan.png'}")


if __name__ == "__main__":
    try:
        main()
    except (mg.Error, ImportError, OSError) as error:
        raise SystemExit(f"gan.py: {error}") from error
