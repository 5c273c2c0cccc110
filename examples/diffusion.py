"""A small diffusion model that learns to remove noise from digits, and then generates digits from pure noise.

`Diffusion` is a `Trainer` with a custom step. Times and noise are drawn in the graph, and a small U-Net is trained to
predict the velocity between picture and noise. The requested digit is an input, which is sometimes dropped in training
so that the network also learns an unconditional prediction. Sampling is one run of 40 steps in a loop of the graph,
with averaged weights.
Run: python examples/diffusion.py [--steps 1500] [--guidance 2] [--seed 0] [--output DIR]; page:
docs/examples/diffusion.md.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import mpsgraph as mg
import numpy as np
from mpsgraph import nn
from mpsgraph._optional import require

SIZE, BATCH = 8, 64  # The original size of the scans.
CHANNELS, FEATURES = 32, 64  # Of the U-Net at full size, and of the time and digit embeddings.
ANY = 10  # Class index for "no digit requested".
NO_WISH = 0.1  # Fraction of training samples without a requested digit.
MOVES = 40  # Denoising steps from noise to a picture.
RATE = 2e-3


def graph_of(x: mg.Tensor) -> mg.Graph:
    return x.graph  # type: ignore[return-value]


class Block(nn.Module):
    """Residual block of two convolutions; time and digit are added to each channel between them."""

    def __init__(self, channels: int) -> None:
        self.first, self.second = nn.GroupNorm(8), nn.GroupNorm(8)
        self.into, self.out = (nn.Conv2d(channels, 3, padding="TF_SAME") for _ in range(2))
        self.told, self.beside = nn.Linear(channels), nn.Conv2d(channels, 1)
        self.silu = nn.SiLU()

    def forward(self, x: mg.Tensor, condition: mg.Tensor) -> mg.Tensor:  # type: ignore[override]
        told = self.told(condition)
        y = self.into(self.silu(self.first(x))) + graph_of(x).expand_dims(told, (1, 2))
        return self.beside(x) + self.out(self.silu(self.second(y)))


class UNet(nn.Module):
    """Maps noisy pictures (n, 8, 8, 1), times (n, 1) from 0 to 1, and digits (n,) to velocities (n, 8, 8, 1)."""

    def __init__(self, channels: int = CHANNELS) -> None:
        self.digit = nn.Embedding(ANY + 1, FEATURES)
        self.time, self.both = nn.Linear(FEATURES), nn.Linear(FEATURES)
        self.enter, self.leave = nn.Conv2d(channels, 3, padding="TF_SAME"), nn.Conv2d(1, 3, padding="TF_SAME")
        self.down = [Block(channels), Block(2 * channels)]
        self.middle = Block(2 * channels)
        self.up = [Block(2 * channels), Block(channels)]
        self.smaller, self.larger, self.silu = nn.AvgPool2d(2), nn.Upsample(scale_factor=2), nn.SiLU()

    def forward(self, x: mg.Tensor, time: mg.Tensor, digit: mg.Tensor) -> mg.Tensor:  # type: ignore[override]
        g = graph_of(x)
        waves = time * g.constant(np.float32(2 * math.pi * 2.0 ** np.arange(FEATURES // 8)))
        told = g.concat((g.sin(waves), g.cos(waves)), -1)
        told = self.silu(self.both(self.silu(self.time(told) + self.digit(digit))))
        large = self.down[0](self.enter(x), told)
        small = self.down[1](self.smaller(large), told)
        x = self.middle(self.smaller(small), told)
        x = self.up[0](g.concat((self.larger(x), small), -1), told)
        x = self.up[1](g.concat((self.larger(x), large), -1), told)
        return self.leave(self.silu(x))


class Diffusion(mg.Trainer):
    """Learns velocities v = cos * noise - sin * picture of mixtures cos * picture + sin * noise, at angles 0 to pi/2.

    See Salimans and Ho, arXiv:2202.00512. Batches are pictures (n, 8, 8, 1) from -1 to 1 and digits (n,), int32.
    """

    def training_step(self, inputs: mg.Tensor, labels: mg.Tensor, weights: mg.Tensor | None = None) -> dict:
        g, count = self.graph, self.graph.shape_of(labels)
        time = g.reshape(g.random_uniform(count), (-1, 1))
        digit = g.select(g.random_uniform(count) < NO_WISH, ANY, labels)
        angle = g.expand_dims(time, (2, 3)) * (math.pi / 2)
        noise = g.random_normal(g.shape_of(inputs))
        mixture = g.cos(angle) * inputs + g.sin(angle) * noise
        velocity = g.cos(angle) * noise - g.sin(angle) * inputs
        loss = nn.losses.mean_squared_error(self.forward((mixture, time, digit)), velocity)
        self.minimize(loss)
        return {"loss": loss}

    def sample(self, digits: np.ndarray, guidance: float, seed: int, moves: int = MOVES) -> np.ndarray:
        """Return pictures (moves + 1, n, size, size, 1) from noise to digits; see Song et al., arXiv:2010.02502.

        Args:
            digits: Requested digits (n,), int32.
            guidance: Weight of the conditional prediction against the unconditional one; 1 uses the conditional
                prediction alone.
            seed: Seed of the noise.
            moves: Number of denoising steps.
        """
        assert isinstance(self.model, nn.Module)
        g, model = self.graph, self.model.eval()
        shape = (len(digits), SIZE, SIZE, 1)
        wanted, first = g.constant(digits), g.placeholder(shape)
        nobody = g.constant(np.full(len(digits), ANY, np.int32))

        def moved(i: mg.Tensor, x: mg.Tensor, way: mg.Tensor) -> tuple[mg.Tensor, mg.Tensor]:
            time = 1.0 - g.cast(i, "float32") / moves
            both = g.concat((x, x), 0), g.broadcast_to(time, (2 * len(digits), 1)), g.concat((wanted, nobody), 0)
            answer = model(*both)
            plain = answer[len(digits) :]
            v = plain + (answer[: len(digits)] - plain) * guidance
            now, then = time * (math.pi / 2), (time - 1 / moves) * (math.pi / 2)
            picture, noise = g.cos(now) * x - g.sin(now) * v, g.sin(now) * x + g.cos(now) * v
            x = g.cos(then) * g.clamp(picture, -1.0, 1.0) + g.sin(then) * noise
            return x, g.concat((way[1:], g.expand_dims(x, 0)), 0)

        start = np.random.default_rng(seed).standard_normal(shape, np.float32)
        way = g.broadcast_to(first, (moves + 1, *shape))
        with self.averaged_weights():
            return g.run({first: start}, g.for_(moves, initial=[first, way], body=moved)[1]).numpy()


def draw(path: Path, way: np.ndarray, history: mg.History) -> None:
    """Draw one of each digit at several steps, more finished digits, and the loss."""
    figure = require("matplotlib.figure", "demo", "the picture").Figure(figsize=(14, 6.2), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(2.1, 1))
    shown = [0, *(round(len(way) * share) for share in (0.4, 0.6, 0.75, 0.9)), len(way) - 1]
    rows = [way[i][:10] for i in shown] + [way[-1][n : n + 10] for n in range(10, len(way[0]), 10)]
    axes = left.subplots()
    framed = [[np.pad(image[..., 0], 1, constant_values=-1) for image in row] for row in rows]
    axes.imshow(-np.block(framed), cmap="gray", vmin=-1, vmax=1)
    height = SIZE + 2
    axes.set(xticks=[], yticks=[(i + 0.5) * height for i in range(len(shown))])
    axes.set_yticklabels([f"{i}" for i in shown])
    axes.set(title="from noise to digits", ylabel="moves")
    axes = history.plot(right.subplots(), smoothing=0.98)
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500, help="number of training steps, each with 64 digits")
    parser.add_argument("--guidance", type=float, default=2.0, help="guidance scale; 1: none, more: clearer digits")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    options = parser.parse_args()
    if options.steps < 1 or options.seed < 0 or not math.isfinite(options.guidance):
        parser.error(f"--steps must be at least 1, --seed at least 0, and --guidance finite, got {options}")
    parts = mg.data.digits(SIZE)
    images, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    rate = mg.optim.WarmUp(mg.optim.CosineRate(RATE, options.steps), min(100, options.steps))
    trainer = Diffusion(UNet(), optimizer=mg.optim.AdamW(rate), metrics=(), ema_decay=0.995, seed=options.seed)
    history = trainer.fit(images * 2 - 1, labels, iterations=options.steps, batch_size=BATCH)
    way = trainer.sample(np.tile(np.arange(10, dtype=np.int32), 5), options.guidance, options.seed)
    options.output.mkdir(parents=True, exist_ok=True)
    draw(options.output / "diffusion.png", way, history)
    print(f"loss {np.mean(history.loss[-100:]):.3f}; pictures in {options.output / 'diffusion.png'}")


if __name__ == "__main__":
    try:
        main()
    except (mg.Error, ImportError, OSError) as error:
        raise SystemExit(f"diffusion.py: {error}") from error
