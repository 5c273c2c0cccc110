"""What is somebody doing? A network tells it every two seconds from a phone's motion sensors.

The talk's "Metal for Accelerating Machine Learning" (WWDC18): a convolution makes a sequence of 20 of 2,000 samples on
six axes, an LSTM goes over the sequence, a convolution head says the activity at each of its places.
Recordings are generated: a phone in a trouser pocket, so on a thigh that swings, while its bearer sits, stands, walks,
runs, climbs stairs or cycles. With --data, a directory of CSV files, one a recording: a header line
ax,ay,az,gx,gy,gz,activity, then a line for each of evenly spaced samples, in g and rad/s, the activity by name.
Run: python examples/activity_classifier.py [--data DIR] [--recordings 600] [--epochs 20] [--output DIR];
page: docs/examples/activity_classifier.md.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import mpsgraph as mg
import numpy as np
from mpsgraph import nn
from mpsgraph._optional import require

SAMPLES, WINDOW, RATE = 2000, 100, 50  # of a recording, of what one prediction is for, and a second
AXES = (
    "ax",
    "ay",
    "az",
    "gx",
    "gy",
    "gz",
)  # forward, along the thigh and to the side: acceleration in g, turning in rad/s
ACTIVITIES = "sitting", "standing", "walking", "running", "stairs", "cycling"
# Of each: strides a second, mean angle of the thigh to the vertical and swing in degrees, and of the body's own
# acceleration in g: up and down with each step, forward and back, and the impact of the foot.
GAITS = {
    "sitting": (0.0, 82, 0, 0.0, 0.0, 0.0),
    "standing": (0.0, 3, 0, 0.0, 0.0, 0.0),
    "walking": (0.93, 2, 22, 0.25, 0.12, 0.35),
    "running": (1.35, 12, 36, 1.1, 0.35, 0.8),
    "stairs": (0.72, 22, 27, 0.18, 0.08, 0.2),
    "cycling": (1.15, 52, 25, 0.05, 0.03, 0.0),
}


class Classifier(nn.Module):
    """From recordings (batch, 2000, 6) to logits (batch, 20, activities)."""

    def __init__(self, activities: int, features: int = 64, hidden: int = 200) -> None:
        self.convolution = nn.Conv1d(features, WINDOW, strides=WINDOW)
        self.lstm = nn.LSTM(hidden)
        self.head = nn.Sequential(nn.Conv1d(128, 1), nn.ReLU(), nn.Conv1d(activities, 1))

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        return self.head(self.lstm(nn.ReLU()(self.convolution(x))))


def motion(activity: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Samples (count, 6) of one bearer at one activity.

    The thigh is at the angle a from the vertical. The sensor turns with it, so it feels the body's acceleration and
    gravity turned by a, and da/dt about the side's axis; the rest is small sway, the mounting's tilt, and noise.
    """
    strides, mean, swing, bounce, push, impact = GAITS[activity]
    pace, strength = rng.uniform(0.88, 1.12), rng.uniform(0.75, 1.25)
    phase = rng.uniform() + np.cumsum(strides * pace * (1 + 0.03 * rng.standard_normal(count)) / RATE)
    turns = 2 * np.pi * phase
    swung = np.sin(turns) + (0.25 * np.sin(2 * turns + 0.6) if impact else 0)
    a = np.radians(mean + rng.normal(0, 5) + strength * swing * swung) + sway(count, rng, 0.02)
    if activity == "running":  # in the air there is no weight; the ground gives it back in half the time
        up = bounce * strength * (np.pi * np.maximum(np.cos(2 * turns), 0) - 1)
    else:
        up = bounce * strength * np.cos(2 * turns)
    since_impact = (phase % 1) / (strides * pace or 1)  # seconds since this leg's foot came down
    up += impact * strength * np.exp(-since_impact / 0.04) * np.cos(2 * np.pi * 14 * since_impact)
    forward = push * strength * np.sin(2 * turns + 0.4) + sway(count, rng, 0.01)
    side = 0.4 * push * np.sin(turns + 0.9) + sway(count, rng, 0.01)
    up = up + 1  # gravity
    acceleration = np.stack([forward * np.cos(a) - up * np.sin(a), forward * np.sin(a) + up * np.cos(a), side], 1)
    turning = np.stack([sway(count, rng, 0.05), 0.15 * swing / 22 * np.sin(turns + 1), np.gradient(a) * RATE], 1)
    tilt = tilted(rng.normal(0, 0.1, 3))
    noise = rng.standard_normal((count, 6)) * ([0.015] * 3 + [0.02] * 3)
    return (np.concatenate([acceleration @ tilt, turning @ tilt], 1) + noise).astype(np.float32)


def sway(count: int, rng: np.random.Generator, size: float) -> np.ndarray:
    """A slow wandering of about this size."""
    knots = rng.normal(0, size, count // (2 * RATE) + 3)
    return np.interp(np.arange(count) / (2 * RATE), np.arange(len(knots)), knots)


def tilted(angles: np.ndarray) -> np.ndarray:
    """The rotation by small angles about three axes."""
    x, y, z = angles
    q, r = np.linalg.qr(np.array([[1, -z, y], [z, 1, -x], [-y, x, 1]]))
    return q * np.sign(np.diag(r))


def recordings(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Recordings (count, 2000, 6), each of some activities in turn, and what most of every window is (count, 20)."""
    rng = np.random.default_rng(seed)
    x = np.empty((count, SAMPLES, 6), np.float32)
    y = np.empty((count, SAMPLES), np.int32)
    for i in range(count):
        at = 0
        while at < SAMPLES:
            length, label = int(rng.uniform(6, 18) * RATE), int(rng.integers(len(ACTIVITIES)))
            x[i, at : at + length] = motion(ACTIVITIES[label], length, rng)[: SAMPLES - at]
            y[i, at : at + length] = label
            at += length
    return x, most(y, len(ACTIVITIES))


def most(labels: np.ndarray, activities: int) -> np.ndarray:
    """Of the labels of samples (n, 2000), the commonest in each window (n, 20)."""
    windows = labels.reshape(len(labels), -1, WINDOW)
    return np.stack([(windows == label).sum(-1) for label in range(activities)], -1).argmax(-1).astype(np.int32)


def read_csv(directory: Path) -> tuple[list[tuple[np.ndarray, np.ndarray]], list[str]]:
    """For each file its recordings (n, 2000, 6) and windows' labels (n, 20), and the activities' names."""
    read, names = [], set()
    for path in sorted(directory.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            lines = csv.DictReader(file)
            if not {*AXES, "activity"} <= set(lines.fieldnames or ()):
                raise SystemExit(f"{path} begins with {lines.fieldnames}, it needs the columns {[*AXES, 'activity']}")
            rows = list(lines)
        try:
            read.append(([[float(row[axis]) for axis in AXES] for row in rows], [row["activity"] for row in rows]))
        except (TypeError, ValueError) as error:
            raise SystemExit(f"{path} holds a line without seven values: {error}") from error
        names.update(read[-1][1])
    files, known = [], sorted(names)
    for values, labels in read:
        whole = len(values) // SAMPLES * SAMPLES
        codes = np.array([known.index(label) for label in labels[:whole]], np.int32).reshape(-1, SAMPLES)
        if whole:
            files.append((np.array(values[:whole], np.float32).reshape(-1, SAMPLES, 6), most(codes, len(known))))
    if len(files) < 2:
        raise SystemExit(f"{directory} needs two CSV files of {SAMPLES} samples at least: one to learn, one to test")
    return files, known


def confusion(labels: np.ndarray, predicted: np.ndarray, activities: int) -> np.ndarray:
    """How often windows of each activity (rows) were taken for each (columns)."""
    return np.bincount(labels.ravel() * activities + predicted.ravel(), minlength=activities**2).reshape(activities, -1)


def draw(path: Path, x: np.ndarray, labels: np.ndarray, predicted: np.ndarray, names: list[str]) -> None:
    """One recording with what it is and what was predicted, and the confusion of all."""
    figure = require("matplotlib.figure", "demo", "the picture").Figure(figsize=(14, 5.5), layout="constrained")
    signals, matrix = figure.subplots(1, 2, width_ratios=(2.2, 1))
    shown = int(np.argmax([len(set(row)) for row in labels]))  # the one with the most activities
    seconds = np.arange(SAMPLES) / RATE
    for i in range(len(AXES)):
        signals.plot(seconds, x[shown, :, i] / (1 if i < 3 else 4) - 3 * i, linewidth=0.6)
    for window, (label, guess) in enumerate(zip(labels[shown], predicted[shown], strict=True)):
        left, right = window * WINDOW / RATE, (window + 1) * WINDOW / RATE
        signals.axvspan(left, right, color=f"C{label}", alpha=0.15, linewidth=0)
        signals.text((left + right) / 2, 2.6, names[guess], color=f"C{guess}", rotation=90, ha="center", va="bottom")
    signals.set(xlabel="seconds", yticks=[-3 * i for i in range(6)], yticklabels=AXES, ylim=(-18, 7), xlim=(0, 40))
    signals.set_title("above: what was predicted; behind: what it is")
    counts = confusion(labels, predicted, len(names))
    matrix.imshow(counts / np.maximum(counts.sum(1, keepdims=True), 1), cmap="Blues")
    for row, column in np.ndindex(counts.shape):
        dark = counts[row, column] > counts[row].sum() / 2
        matrix.text(column, row, counts[row, column], ha="center", va="center", color="white" if dark else "black")
    matrix.set(xlabel="predicted", ylabel="windows of", xticks=range(len(names)), yticks=range(len(names)))
    matrix.set_xticklabels(names, rotation=45, ha="right")
    matrix.set_yticklabels(names)
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a directory of CSV files, of which a fifth is for the test")
    parser.add_argument("--recordings", type=int, default=600, help="to generate, of 40 seconds each")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    options = parser.parse_args()
    if options.data:
        files, names = read_csv(options.data)
        cut = max(len(files) // 5, 1)
        train, test = (tuple(map(np.concatenate, zip(*part, strict=True))) for part in (files[cut:], files[:cut]))
    else:
        names = list(ACTIVITIES)
        train, test = recordings(options.recordings, options.seed), recordings(200, options.seed + 1)
    trainer = mg.Trainer(Classifier(len(names)), optimizer=mg.optim.Adam(1e-3), seed=options.seed)
    trainer.fit(train, epochs=options.epochs, batch_size=64)
    predicted = trainer.predict(test[0]).argmax(-1)
    print(f"{(predicted == test[1]).mean():.1%} of {test[1].size:,} windows of {WINDOW} samples are told right")
    options.output.mkdir(parents=True, exist_ok=True)
    draw(options.output / "activity_classifier.png", test[0], test[1], predicted, names)
    print(f"Picture {options.output / 'activity_classifier.png'}")


if __name__ == "__main__":
    main()
