"""Human activity recognition: a network predicts every two seconds what a person does, from a phone's motion sensors.

The network is that of "Metal for Accelerating Machine Learning" (WWDC18): a convolution reduces 2,000 samples on six
axes to a sequence of 20 steps, an LSTM processes it, and a convolution head predicts the activity at each step.
The recordings are generated: a phone in a trouser pocket, on the swinging thigh of a person who sits, stands, walks,
runs, climbs stairs, or cycles. --data reads a directory of CSV files instead, one recording per file: a header line
ax,ay,az,gx,gy,gz,activity, then evenly spaced samples in g, rad/s, and the activity's name. More options and results:
docs/examples/activity_classifier.md. Run: python examples/activity_classifier.py [--epochs 20]
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import mpsgraph as mg
import numpy as np
from mpsgraph import nn
from mpsgraph._optional import require
from mpsgraph.data import DataError

SAMPLES, WINDOW, RATE = 2000, 100, 50  # Samples per recording, per prediction, and per second.
AXES = "ax", "ay", "az", "gx", "gy", "gz"  # Forward, along the thigh, sideways: acceleration in g, rotation in rad/s.
ACTIVITIES = "sitting", "standing", "walking", "running", "stairs", "cycling"
# For each activity: strides per second; mean angle of the thigh to the vertical and its swing, in degrees; and
# acceleration of the body in g: vertical with each step, forward and back, and at the impact of the foot.
GAITS = {
    "sitting": (0.0, 82, 0, 0.0, 0.0, 0.0),
    "standing": (0.0, 3, 0, 0.0, 0.0, 0.0),
    "walking": (0.93, 2, 22, 0.25, 0.12, 0.35),
    "running": (1.35, 12, 36, 1.1, 0.35, 0.8),
    "stairs": (0.72, 22, 27, 0.18, 0.08, 0.2),
    "cycling": (1.15, 52, 25, 0.05, 0.03, 0.0),
}


class Classifier(nn.Module):
    """Maps recordings (batch, 2000, 6) to logits (batch, 20, activities)."""

    def __init__(self, activities: int, features: int = 64, hidden: int = 200) -> None:
        self.convolution = nn.Conv1d(features, WINDOW, strides=WINDOW)
        self.lstm = nn.LSTM(hidden)
        self.head = nn.Sequential(nn.Conv1d(128, 1), nn.ReLU(), nn.Conv1d(activities, 1))

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        return self.head(self.lstm(nn.ReLU()(self.convolution(x))))


def motion(activity: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Generate samples (count, 6) of one person during one activity.

    The thigh is at an angle a to the vertical. The sensor turns with the thigh, so it measures gravity and the body's
    acceleration rotated by a, and the rotation da/dt about the lateral axis, plus some sway, the tilt of its mounting,
    and noise.
    """
    strides, mean, swing, bounce, push, impact = GAITS[activity]
    pace, strength = rng.uniform(0.88, 1.12), rng.uniform(0.75, 1.25)
    phase = rng.uniform() + np.cumsum(strides * pace * (1 + 0.03 * rng.standard_normal(count)) / RATE)
    turns = 2 * np.pi * phase
    swung = np.sin(turns) + (0.25 * np.sin(2 * turns + 0.6) if impact else 0)
    a = np.radians(mean + rng.normal(0, 5) + strength * swing * swung) + sway(count, rng, 0.02)
    if activity == "running":  # Weightless in the air; the ground returns the momentum in half the time.
        up = bounce * strength * (np.pi * np.maximum(np.cos(2 * turns), 0) - 1)
    else:
        up = bounce * strength * np.cos(2 * turns)
    since_impact = (phase % 1) / (strides * pace or 1)  # Seconds since this foot touched the ground.
    up += impact * strength * np.exp(-since_impact / 0.04) * np.cos(2 * np.pi * 14 * since_impact)
    forward = push * strength * np.sin(2 * turns + 0.4) + sway(count, rng, 0.01)
    side = 0.4 * push * np.sin(turns + 0.9) + sway(count, rng, 0.01)
    up = up + 1  # Gravity.
    acceleration = np.stack([forward * np.cos(a) - up * np.sin(a), forward * np.sin(a) + up * np.cos(a), side], 1)
    turning = np.stack([sway(count, rng, 0.05), 0.15 * swing / 22 * np.sin(turns + 1), np.gradient(a) * RATE], 1)
    tilt = tilted(*rng.normal(0, 0.1, 3))
    noise = rng.standard_normal((count, 6)) * ([0.015] * 3 + [0.02] * 3)
    return (np.concatenate([acceleration @ tilt, turning @ tilt], 1) + noise).astype(np.float32)


def sway(count: int, rng: np.random.Generator, size: float) -> np.ndarray:
    """Return a slow random drift of about the given size."""
    knots = rng.normal(0, size, count // (2 * RATE) + 3)
    return np.interp(np.arange(count) / (2 * RATE), np.arange(len(knots)), knots)


def tilted(x: float, y: float, z: float) -> np.ndarray:
    """Return a rotation by small angles about three axes."""
    q, r = np.linalg.qr(np.array([[1, -z, y], [z, 1, -x], [-y, x, 1]]))
    return q * np.sign(np.diag(r))


def recordings(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Generate recordings (count, 2000, 6) of successive activities, and each window's main activity (count, 20)."""
    rng = np.random.default_rng(seed)
    x, y = np.empty((count, SAMPLES, 6), np.float32), np.empty((count, SAMPLES), np.int32)
    for i in range(count):
        at = 0
        while at < SAMPLES:
            length, label = int(rng.uniform(6, 18) * RATE), int(rng.integers(len(ACTIVITIES)))
            x[i, at : at + length] = motion(ACTIVITIES[label], length, rng)[: SAMPLES - at]
            y[i, at : at + length] = label
            at += length
    return x, most(y, len(ACTIVITIES))


def most(labels: np.ndarray, activities: int) -> np.ndarray:
    """Return the most frequent label in each window (n, 20), given the labels of samples (n, 2000)."""
    windows = labels.reshape(len(labels), -1, WINDOW)
    return np.stack([(windows == label).sum(-1) for label in range(activities)], -1).argmax(-1).astype(np.int32)


def read_csv(directory: Path) -> tuple[list[tuple[np.ndarray, np.ndarray]], list[str]]:
    """Read recordings (n, 2000, 6) and window labels (n, 20) of each file, and the names of the activities."""
    read: list[list[tuple[list[float], str]]] = []
    for path in sorted(directory.glob("*.csv")):
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines, rows = csv.DictReader(file, skipinitialspace=True), list[tuple[list[float], str]]()
            try:
                if {*AXES, "activity"} - set(lines.fieldnames or ()):
                    raise ValueError(f"expected the columns {[*AXES, 'activity']}, got {lines.fieldnames}")
                for row in lines:
                    rows.append(([float(row[a]) for a in AXES], str.strip(row["activity"])))
                    if not rows[-1][1] or not all(abs(number) < 1e30 for number in rows[-1][0]):
                        raise ValueError("expected six finite numbers and an activity")
            except (TypeError, ValueError) as error:
                raise DataError(f"{path}, line {lines.line_num}: {error}") from error
        if whole := len(rows) // SAMPLES * SAMPLES:
            read.append(rows[:whole])
    if len(read) < 2:
        raise DataError(f"{directory} must contain at least two CSV files of {SAMPLES} samples, for training and test")
    files, known = [], sorted({activity for rows in read for _, activity in rows})
    for rows in read:
        x = np.array([numbers for numbers, _ in rows], np.float32)
        y = np.array([known.index(activity) for _, activity in rows], np.int32)
        files.append((x.reshape(-1, SAMPLES, len(AXES)), most(y.reshape(-1, SAMPLES), len(known))))
    return files, known


def confusion(labels: np.ndarray, predicted: np.ndarray, activities: int) -> np.ndarray:
    """Count the windows of each activity (rows) by predicted activity (columns)."""
    return np.bincount(labels.ravel() * activities + predicted.ravel(), minlength=activities**2).reshape(activities, -1)


def draw(path: Path, x: np.ndarray, labels: np.ndarray, predicted: np.ndarray, names: list[str]) -> None:
    """Draw one recording with its true and predicted activities, and the confusion matrix of all recordings."""
    figure = require("matplotlib.figure", "demo", "the picture").Figure(figsize=(14, 5.5), layout="constrained")
    signals, matrix = figure.subplots(1, 2, width_ratios=(2.2, 1))
    shown = int(np.argmax([len(set(row)) for row in labels]))  # The recording with the most activities.
    lines = x[shown] / [1, 1, 1, 3, 3, 3] - 4 * np.arange(6)
    signals.plot(np.arange(SAMPLES) / RATE, lines, color="#333333", linewidth=0.6)
    for height, row in ((8, labels[shown]), (5, predicted[shown])):
        changes = np.flatnonzero(np.diff(row, prepend=-1, append=-1))  # Where the activity changes.
        for left, right in zip(changes[:-1], changes[1:], strict=True):
            begin, end = left * WINDOW / RATE, right * WINDOW / RATE
            signals.barh(height, end - begin, 2.4, begin, color=f"C{row[left]}", alpha=0.35, edgecolor="white")
            signals.text((begin + end) / 2, height, names[row[left]], ha="center", va="center", fontsize=8)
    signals.set(xlabel="seconds", ylim=(-23, 10), xlim=(0, SAMPLES / RATE), yticks=[8, 5, *range(0, -24, -4)])
    signals.set_yticklabels(["true", "predicted", *(f"{a}, {'g' if a[0] == 'a' else 'rad/s'}" for a in AXES)])
    signals.set_title("One recording; the axes are 4 g or 12 rad/s apart")
    counts = confusion(labels, predicted, len(names))
    matrix.imshow(counts / np.maximum(counts.sum(1, keepdims=True), 1), cmap="Blues")
    for (row, column), n in np.ndenumerate(counts):
        matrix.text(column, row, n, ha="center", va="center", color="kw"[int(2 * n > counts[row].sum())])
    matrix.set(title="Windows of all recordings", xlabel="predicted", ylabel="true")
    matrix.set_xticks(range(len(names)), names, rotation=45, ha="right")
    matrix.set_yticks(range(len(names)), names)
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="directory of CSV files, a fifth of which are used for testing")
    parser.add_argument("--recordings", type=int, default=600, help="number of recordings to generate, 40 seconds each")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    options = parser.parse_args()
    if options.recordings < 1 or options.epochs < 1 or options.seed < 0:
        parser.error("--recordings and --epochs must be at least 1, --seed at least 0")
    if options.data:
        files, names = read_csv(options.data)
        cut = max(len(files) // 5, 1)
        train, test = (tuple(map(np.concatenate, zip(*part, strict=True))) for part in (files[cut:], files[:cut]))
    else:
        names, train = list(ACTIVITIES), recordings(options.recordings, options.seed)
        test = recordings(200, options.seed + 1)
    options.output.mkdir(parents=True, exist_ok=True)
    trainer = mg.Trainer(Classifier(len(names)), optimizer=mg.optim.Adam(1e-3), seed=options.seed)
    trainer.fit(train, epochs=options.epochs, batch_size=64)
    predicted = trainer.predict(test[0]).argmax(-1)
    print(f"{(predicted == test[1]).mean():.1%} of {test[1].size:,} windows of {WINDOW} samples are correct")
    draw(options.output / "activity_classifier.png", test[0], test[1], predicted, names)
    print(f"Picture {options.output / 'activity_classifier.png'}")


if __name__ == "__main__":
    try:
        main()
    except (mg.Error, ImportError, OSError) as error:
        raise SystemExit(f"activity_classifier.py: {error}") from error
