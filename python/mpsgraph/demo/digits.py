"""Demo that trains, tests, and saves Apple's digit classifier, and draws its predictions.

The network is that of Apple's MPSGraph sample: 5x5 convolution to 32 channels, pooling, 5x5 convolution to 64 channels,
pooling, dense layer of 1024 units, dropout, dense layer of 10 units. It is trained for 300 iterations with batches of
40 samples by stochastic gradient descent. Two details differ from the sample, so that every seed reaches more than 95%
accuracy: weights have He's initialization instead of uniform values within 0.2, and the learning rate rises to 0.15 in
20 steps and then decreases along a cosine, because the last steps are noisy with a constant rate. The data are
scikit-learn's 1,797 scanned digits, or MNIST's files.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import mpsgraph as mg
from mpsgraph import nn
from mpsgraph._optional import require
from mpsgraph.training.callbacks import Callback

BATCH = 40
LEARNING_RATE, WARM_UP = 0.15, 20
ROWS, COLUMNS = 6, 8
MOST_WRONG = ROWS * COLUMNS // 3
WRONG = "#c62828"


def classifier() -> nn.Sequential:
    """Create the network, which maps images (n, 28, 28, 1) to the logits of ten digits."""
    he = nn.initialisers.HeUniform()
    return nn.Sequential(
        nn.Conv2d(32, 5, padding="TF_SAME", weight_initialiser=he),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 5, padding="TF_SAME", weight_initialiser=he),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, weight_initialiser=he),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(10),
    )


def train(
    train_set: mg.data.Dataset,
    iterations: int,
    seed: int,
    progress: bool = True,
    device: mg.Device | str | None = None,
    callbacks: Sequence[Callback] = (),
) -> mg.Trainer:
    """Train the classifier for `iterations` steps with batches of 40 samples."""
    rate = mg.optim.CosineRate(LEARNING_RATE, steps=max(1, iterations - WARM_UP))
    optimizer = mg.optim.SGD(mg.optim.WarmUp(rate, WARM_UP))
    trainer = mg.Trainer(classifier(), loss="cross_entropy", optimizer=optimizer, device=device, seed=seed)
    batches = mg.data.batches(train_set, BATCH, shuffle=True, seed=seed, drop_last=True)
    trainer.fit(batches, iterations=iterations, progress=progress, callbacks=list(callbacks))
    return trainer


def main(data: Path | None, iterations: int, seed: int, output: Path) -> float:
    """Run the demo, print its progress, and return the accuracy on the test set, from 0 to 1."""
    if data is None:
        name, (train_set, test_set) = "scikit-learn's scanned digits", mg.data.digits()
    else:
        name, (train_set, test_set) = f"MNIST in {data}", mg.data.read_mnist(data)
    if max(labels.max(initial=0) for _, labels in (train_set, test_set)) > 9:
        raise mg.data.DataError(f"labels of the demo must be digits from 0 to 9, got labels above 9 in {data}")
    output.mkdir(parents=True, exist_ok=True)
    print(f"Data    {name}: {len(train_set[0]):,} for training, {len(test_set[0]):,} for testing")
    print(f"Device  {mg.Device.default().description}")

    started = time.perf_counter()
    trainer = train(train_set, iterations, seed)
    seconds = time.perf_counter() - started
    result = trainer.evaluate(test_set)
    trainer.history.append_validation(trainer.step, result)
    print(f"Trained {iterations} iterations of batch {BATCH} in {seconds:.1f} s, including compilation")
    print(f"Test    accuracy {result['accuracy']:.2%}, loss {result['loss']:.4f}")

    model, package, picture = (output / f"digits.{ending}" for ending in ("safetensors", "mpsgraph", "png"))
    trainer.save(model)
    mg.save(package, trainer)
    draw(trainer, test_set, picture, name)
    print(
        f"Model   {model}\nPackage {package}, for swift/Examples/DrawADigit and other applications\nPicture {picture}"
    )
    return result["accuracy"]


def draw(trainer: mg.Trainer, test_set: mg.data.Dataset, path: Path, name: str) -> None:
    """Draw the training curve and some test digits with the model's predictions."""
    figure = require("matplotlib.figure", "demo", "the picture").Figure(figsize=(14, 7.2), layout="constrained")
    images, labels = test_set
    predicted = trainer.predict(images).argmax(axis=1)
    wrong = int((predicted != labels).sum())
    figure.suptitle(
        f"Digits after {trainer.step} iterations: {1 - wrong / len(labels):.1%} of {len(labels):,} test digits correct",
        fontsize=16,
        fontweight="bold",
    )
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.15), wspace=0.04)
    curve = trainer.history.plot(left.subplots())
    curve.set_title("Training", loc="left", fontsize=12, color="#444444")
    marked = f"{wrong}" if wrong <= MOST_WRONG else f"{MOST_WRONG} of {wrong}"
    right.suptitle(f"{name}: predictions, {marked} wrong ones marked", fontsize=12, color="#444444")
    _draw_grid(right.subplots(ROWS, COLUMNS), images[..., 0], labels, predicted)
    figure.savefig(path, dpi=150)


def _draw_grid(cells: np.ndarray, images: np.ndarray, labels: np.ndarray, predicted: np.ndarray) -> None:
    """Draw misclassified digits in at most a third of the cells, and correctly classified digits in the others."""
    count = cells.size
    wrong = np.flatnonzero(predicted != labels)[:MOST_WRONG]
    right = np.flatnonzero(predicted == labels)
    spread = right[np.linspace(0, len(right) - 1, min(len(right), count - len(wrong))).astype(int)]
    shown = np.sort(np.concatenate([wrong, spread]))
    for cell in cells.flat:
        cell.set(xticks=[], yticks=[])
        for spine in cell.spines.values():
            spine.set(color="#dddddd", linewidth=0.8)
    for cell, index in zip(cells.flat, shown, strict=False):
        cell.imshow(images[index], cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
        if predicted[index] == labels[index]:
            cell.set_xlabel(str(predicted[index]), fontsize=11, color="#2e7d32", labelpad=2)
            continue
        cell.set_xlabel(
            f"{predicted[index]}, is {labels[index]}", fontsize=11, color=WRONG, fontweight="bold", labelpad=2
        )
        for spine in cell.spines.values():
            spine.set(color=WRONG, linewidth=2.5)
