"""A neural radiance field: learns a scene from pictures and renders it from other viewpoints.

Each ray of a picture is sampled at several points. At each point, one perceptron predicts the density and another the
color, and the graph composes them (Mildenhall et al., arXiv:2003.08934). Two such networks are trained in turns for the
same time. One is deep and encodes positions as sines and cosines. The other is small and uses trained tables, which a
custom operation with C++ and Metal kernels looks up (Müller et al., arXiv:2201.05989). Scene and operation are in
radiance_field/.
Run: python examples/nerf.py [--minutes 6] [--size 128] [--views 60] [--quick] [--seed 0] [--output DIR]; page:
docs/examples/nerf.md.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import mpsgraph as mg
import numpy as np
from mpsgraph import nn
from mpsgraph._optional import require
from radiance_field import scene
from radiance_field.hash_encoding import HashEncoding

RAYS, SAMPLES = 512, 40  # Rays per training step, and samples per ray.
LEVELS, ROWS, COARSEST, FINEST = 10, 2**15, 16, 256  # Size of the tables; cells along an edge.
FALL = 0.05  # Final learning rate, relative to the initial one.
TURN = 20.0  # Seconds after which the other network is trained.
HELD_OUT = [(1.0, 0.6), (2.9, 0.35), (4.4, 0.9), (5.7, 0.5)]  # Angles of the held-out views; the first one is drawn.


# --- the field --------------------------------------------------------------------------------------------------------
class Waves(nn.Module):
    """Encodes positions (n, 3) as sines and cosines of ten frequencies, (n, 60)."""

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        g: mg.Graph = x.graph  # type: ignore[assignment]
        angles = g.expand_dims(x, -1) * g.constant(np.float32(np.pi * 2.0 ** np.arange(10)))
        return g.reshape(g.concat((g.sin(angles), g.cos(angles)), -1), (-1, 60))


class Field(nn.Module):
    """Maps rays (n, 2, 3), given by their ends, to colors (n, 3), composed front to back over white."""

    def __init__(self, encoding: nn.Module, width: int, depth: int) -> None:
        self.encoding, self.width = encoding, width
        hidden = [layer for _ in range(depth) for layer in (nn.Linear(width), nn.ReLU())]
        self.density = nn.Sequential(*hidden, nn.Linear(1 + width))
        self.here, self.facing = nn.Linear(width), nn.Linear(width)
        self.colour = nn.Sequential(nn.ReLU(), nn.Linear(3), nn.Sigmoid())

    def forward(self, rays: mg.Tensor) -> mg.Tensor:
        g: mg.Graph = rays.graph  # type: ignore[assignment]
        first, whole = rays[:, :1], rays[:, 1:] - rays[:, :1]  # (n, 1, 3)
        length = g.square_root(g.reduction_sum(whole * whole, 2) + 1e-12)  # (n, 1, 1)
        middles = (np.arange(SAMPLES, dtype=np.float32)[:, None] + 0.5) / SAMPLES
        even = length * 0.0 + g.constant(middles)  # (n, SAMPLES, 1)
        share = self.when_training(
            rays, lambda: even + (g.random_uniform(g.shape_of(even)) - 0.5) / SAMPLES, lambda: even
        )
        told = self.density(self.encoding(g.reshape(first + whole * share, (-1, 3))))
        told = g.reshape(told, (-1, SAMPLES, 1 + self.width))
        thickness = g.exponent(g.clamp(told[..., :1], -15.0, 12.0)) * length / SAMPLES
        colours = self.colour(self.here(told[..., 1:]) + self.facing(whole / length))
        arriving = g.exponent(-g.cumulative_sum(thickness, 1, exclusive=True))  # light that is not absorbed in front
        seen = arriving * (1.0 - g.exponent(-thickness))
        return g.reduction_sum(seen * (colours - 1.0), 1)[:, 0] + 1.0


# --- training ---------------------------------------------------------------------------------------------------------
class Learner:
    """A field in training, and its quality on one view after each turn, as (seconds of training, decibels)."""

    def __init__(self, field: Field, rate: float, seconds: float, seed: int) -> None:
        self.spent = 0.0
        self.curve: list[tuple[float, float]] = []
        optimizer = mg.optim.Adam(lambda step: rate * FALL ** min(self.spent / seconds, 1.0), 0.9, 0.99, 1e-15)
        self.trainer = mg.Trainer(field, "mse", optimizer, (), seed=seed)
        self.rng = np.random.default_rng(seed)

    def learn(self, rays: np.ndarray, colours: np.ndarray, until: float) -> None:
        """Train on randomly drawn rays and their colors until this many seconds have been spent in total."""
        start = time.perf_counter() - self.spent

        def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            while self.spent < until:
                drawn = self.rng.integers(len(rays), size=RAYS)
                yield rays[drawn], colours[drawn]
                self.spent = time.perf_counter() - start

        self.trainer.fit(batches(), progress=False, copy=False)
        self.spent = time.perf_counter() - start

    def shown(self, rays: np.ndarray) -> np.ndarray:
        return self.trainer.predict(rays, 2 * RAYS)


def decibels(found: np.ndarray, true: np.ndarray) -> float:
    """Return the peak signal-to-noise ratio: 10 log10(1 / mean squared error)."""
    return -10 * math.log10(max(float(np.mean((found - true) ** 2)), 1e-12))


def train(learners: dict[str, Learner], views: list, held_out: list, seconds: float) -> None:
    """Train all learners for this long, in turns, so that other load on the machine affects them equally."""
    rays, colours = (np.concatenate(arrays) for arrays in zip(*views, strict=True))
    meets = (rays[:, 0] != rays[:, 1]).any(1)  # the other rays miss the room
    rays, colours = rays[meets], colours[meets]
    for learner in learners.values():
        learner.trainer.train_step(rays[:RAYS], colours[:RAYS]).wait()  # compiles before the time is measured
    turns = math.ceil(seconds / TURN)
    for turn in range(1, turns + 1):
        for learner in learners.values():
            learner.learn(rays, colours, seconds * turn / turns)
            learner.curve.append((learner.spent, decibels(learner.shown(held_out[0][0]), held_out[0][1])))
        told = (f"{name} {learner.curve[-1][1]:.1f} dB" for name, learner in learners.items())
        print(f"{learner.spent:.0f} of {seconds:.0f} s: {', '.join(told)}", file=sys.stderr)


def draw(path: Path, pictures: dict[str, np.ndarray], learners: dict[str, Learner]) -> None:
    """Draw renderings of a view side by side, enlarged centers below, and the quality over time."""
    figure = require("matplotlib.figure", "demo", "the picture").Figure(figsize=(15, 6.4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(2.2, 1))
    for column, (title, picture) in zip(left.subplots(2, len(pictures)).T, pictures.items(), strict=True):
        middle = slice(round(len(picture) * 0.32), round(len(picture) * 0.68))
        for axes, part in zip(column, (picture, picture[middle, middle]), strict=True):
            axes.imshow(np.clip(part, 0, 1), interpolation="nearest")
            axes.set(xticks=[], yticks=[])
        column[0].set_title(title)
    axes = right.subplots()
    for name, learner in learners.items():
        axes.plot(*zip(*learner.curve, strict=True), "o-", markersize=3, label=name)
    axes.set(xlabel="seconds of training", ylabel="dB, this view")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=6.0, help="training time of each network")
    parser.add_argument("--size", type=int, default=128, help="size of the pictures, in pixels")
    parser.add_argument("--views", type=int, default=60, help="number of training views")
    parser.add_argument("--quick", action="store_true", help="train for seconds on few small pictures, as a test")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    options = parser.parse_args()
    if options.quick:
        options.minutes, options.size, options.views = 0.04, 32, 12
    if not 0 < options.minutes < math.inf or min(options.size, options.views) < 8 or options.seed < 0:
        parser.error(f"--minutes must be above 0, --size and --views at least 8, --seed at least 0, got {options}")
    views = [scene.view(2.4 * i, 0.25 + 0.95 * (0.618 * i % 1), options.size) for i in range(options.views)]
    held_out = [scene.view(*angles, options.size) for angles in HELD_OUT]
    seconds = 60 * options.minutes
    learners = {
        "two perceptrons": Learner(Field(Waves(), 128, 4), 1e-3, seconds, options.seed),
        "hash tables": Learner(Field(HashEncoding(LEVELS, ROWS, COARSEST, FINEST), 64, 1), 1e-2, seconds, options.seed),
    }
    train(learners, views, held_out, seconds)
    pictures = {"ground truth": held_out[0][1]}
    for name, learner in learners.items():
        found = [learner.shown(rays) for rays, _ in held_out]
        mean = np.mean([decibels(one, true) for one, (_, true) in zip(found, held_out, strict=True)])
        pictures[f"{name}: {decibels(found[0], held_out[0][1]):.1f} dB"] = found[0]
        print(f"{name}: {learner.trainer.step} steps, {mean:.1f} dB on {len(held_out)} held-out views")
    options.output.mkdir(parents=True, exist_ok=True)
    squares = {title: picture.reshape(options.size, options.size, 3) for title, picture in pictures.items()}
    draw(options.output / "nerf.png", squares, learners)
    print(f"pictures in {options.output / 'nerf.png'}")


if __name__ == "__main__":
    try:
        main()
    except (mg.Error, ImportError, OSError) as error:
        raise SystemExit(f"nerf.py: {error}") from error
