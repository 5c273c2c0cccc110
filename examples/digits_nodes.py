"""The digit network of "Metal for Accelerating Machine Learning" (WWDC18), built from nodes and trained on real scans.

A training graph with gradient filters and an inference graph share their data sources. Up to two batches are in flight
at once, and each epoch ends with a test. The data sources train with Adam inside the graph or, with --python-update,
in Python, where update() encodes the optimizer. The data are scikit-learn's scanned digits, or MNIST's.
Run: python examples/digits_nodes.py [--epochs 8] [--python-update] [--data DIR]; page: docs/examples/digits_nodes.md.
"""

from __future__ import annotations

import argparse
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpsgraph as mg
import numpy as np
from mpsgraph import nngraph as ng
from mpsgraph._optional import require

BATCH, EPOCHS, RATE = 40, 8, 1e-3
KEEP = 0.7  # Keep probability of dropout, as in the talk.
LAYERS = {  # Kernel size, input channels, and output channels of each layer with weights.
    "conv1": (5, 1, 32),
    "conv2": (5, 32, 64),
    "fc1": (7, 64, 512),
    "fc2": (1, 512, 10),
}


class SelfTraining:
    """Data source that trains itself: the graph calls update() while it encodes a batch, as in the talk."""

    def __init__(self, descriptor: ng.ConvolutionDescriptor, seed: int, label: str) -> None:
        shape = descriptor.weights_shape
        drawn = np.random.default_rng(seed).standard_normal(shape, np.float32)
        # Methods without arguments may also be attributes.
        self.descriptor, self.label, self.data_type = descriptor, label, np.float32
        self.weights = drawn * np.float32(math.sqrt(2 / math.prod(shape[1:])))
        self.bias_terms = np.zeros(shape[0], np.float32)
        self.state = ng.ConvolutionWeightsAndBiasesState(self.weights, self.bias_terms)  # shares their memory
        self.momentum, self.velocity = ([np.zeros_like(a) for a in (self.weights, self.bias_terms)] for _ in range(2))
        self.optimizer = ng.Adam(RATE)

    def load(self) -> bool:
        return True

    def purge(self) -> None:
        """Do nothing: the arrays are the trained parameters."""

    def update(self, command_buffer, gradient_state, source_state):
        self.optimizer.encode(
            command_buffer,
            convolution_gradient_state=gradient_state,
            convolution_source_state=source_state,
            input_momentum_vectors=self.momentum,
            input_velocity_vectors=self.velocity,
            result_state=self.state,
        )
        return self.state


def data_sources(seed: int, python_update: bool) -> dict[str, Any]:
    """Create the data sources of both graphs, by layer name."""
    adam = ng.Adam(RATE)

    def source(name: str, seed: int, side: int, inputs: int, outputs: int) -> Any:
        descriptor = ng.ConvolutionDescriptor(side, side, inputs, outputs)
        if python_update:
            return SelfTraining(descriptor, seed, name)
        return ng.TrainableConvolution(descriptor, optimizer=adam, seed=seed, label=name)

    return {name: source(name, seed + i, *sizes) for i, (name, sizes) in enumerate(LAYERS.items())}


def network(sources: dict[str, Any], seed: int | None) -> ng.FilterNode:
    """Create the network for images of 28x28 and return its last filter; a seed of None omits dropout."""
    x = ng.ImageNode("images")
    for name in ("conv1", "conv2"):
        x = ng.NeuronReLUNode(ng.ConvolutionNode(x, sources[name], label=name).result_image).result_image
        x = ng.PoolingMaxNode(x, filter_size=2).result_image
    x = ng.NeuronReLUNode(ng.FullyConnectedNode(x, sources["fc1"], label="fc1").result_image).result_image
    if seed is not None:
        x = ng.DropoutNode(x, KEEP, seed).result_image
    return ng.FullyConnectedNode(x, sources["fc2"], label="fc2")


def training_graph(sources: dict[str, Any], seed: int) -> ng.NNGraph:
    """Create the graph with forward, loss, and gradient filters; it returns nothing and only updates the weights."""
    # Gradients are sums over the images, so this weight turns them into means.
    descriptor = ng.LossDescriptor("softmax_cross_entropy", weight=1 / BATCH)
    loss = ng.LossNode(network(sources, seed).result_image, descriptor, label="loss")
    (last,) = loss.training_graph(None)
    return ng.NNGraph(None, last.result_image, result_image_is_needed=False)


def inference_graph(sources: dict[str, Any]) -> ng.NNGraph:
    """Create the graph without dropout, with the same weights, that returns the probabilities of ten digits."""
    return ng.NNGraph(None, ng.SoftMaxNode(network(sources, None).result_image).result_image)


class Training:
    """Both graphs over the same data sources, and the talk's training loop."""

    def __init__(self, seed: int = 0, python_update: bool = False) -> None:
        self.sources, self.seed = data_sources(seed, python_update), seed
        self.training, self.inference = training_graph(self.sources, seed), inference_graph(self.sources)
        self.queue, self.double_buffering = mg.CommandQueue(self.training.device), threading.Semaphore(2)
        self.losses, self.accuracies = list[float](), dict[int, float]()  # accuracies by number of iterations

    def iteration(self, images: np.ndarray, labels: np.ndarray) -> mg.CommandBuffer:
        """Encode and commit a batch, after waiting until fewer than two are in flight."""
        self.double_buffering.acquire()
        buffer, states = self.queue.command_buffer(), ng.LossLabelsBatch(np.eye(10, dtype=np.float32)[labels])

        def completed(done: mg.CommandBuffer) -> None:
            if done.error is None:
                self.losses.append(float(states.losses.numpy().sum()))
            self.double_buffering.release()

        self.training.encode_batch(buffer, [images], [states])
        buffer.add_completed_handler(completed)
        buffer.commit()
        return buffer

    def predict(self, images: np.ndarray) -> np.ndarray:
        """Predict the digits in images (n, 28, 28, 1) with the inference graph."""
        parts = [self.inference(images[i : i + 256]).numpy() for i in range(0, len(images), 256)]
        return np.concatenate(parts).argmax(axis=-1).ravel()

    def run(self, train: mg.data.Dataset, test: mg.data.Dataset, epochs: int, tick: Callable[[str], object]) -> None:
        """Train; after each epoch, load the weights into the inference graph and test it."""
        batches = mg.data.batches(train, BATCH, shuffle=True, seed=self.seed, drop_last=True)
        for _ in range(epochs):
            for images, labels in batches:
                latest = self.iteration(images, labels)
                tick(f"loss {self.losses[-1]:.3f}" if self.losses else "")
            latest.wait_until_completed()
            self.inference.reload_from_data_sources()
            self.accuracies[len(self.losses)] = float((self.predict(test[0]) == test[1]).mean())


def draw(path: Path, training: Training, test: mg.data.Dataset) -> None:
    """Draw loss and accuracy, and test digits with their predictions, wrong ones first."""
    figure = require("matplotlib.figure", "demo", "the picture").Figure(figsize=(14, 6.2), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.2))
    above, below = left.subplots(2, 1, sharex=True)
    above.plot(range(1, len(training.losses) + 1), training.losses, color="#08519c", linewidth=1)
    above.set(ylabel="loss", ylim=(0, None))
    below.plot(*zip(*training.accuracies.items(), strict=True), "o-", color="#2e7d32")
    below.set(xlabel="iteration", ylabel="accuracy on the test set", ylim=(None, 1))
    below.grid(alpha=0.3)
    digits = training.predict(test[0])
    wrong, known = np.flatnonzero(digits != test[1])[:16], np.flatnonzero(digits == test[1])
    right.suptitle(f"{len(digits) - len(known)} of {len(digits):,} test digits are misclassified")
    shown = np.concatenate([wrong, known[:: len(known) // 40 + 1]])
    for cell in (cells := right.subplots(5, 8).ravel()):
        cell.axis("off")
    for cell, i in zip(cells, shown, strict=False):
        cell.imshow(test[0][i, :, :, 0], cmap="gray_r")
        title, color = (digits[i], "#2e7d32") if i in known else (f"{digits[i]}, is {test[1][i]}", "#c62828")
        cell.set_title(title, color=color)
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="number of passes over the training set")
    parser.add_argument("--python-update", action="store_true", help="update weights in Python, in update()")
    parser.add_argument("--data", type=Path, help="directory with MNIST's four files (default: built-in digits)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    options = parser.parse_args()
    if options.epochs < 1 or options.seed < 0:
        parser.error(f"--epochs must be at least 1 and --seed at least 0, got {options.epochs} and {options.seed}")
    train, test = mg.data.digits() if options.data is None else mg.data.read_mnist(options.data)
    if len(train[0]) < BATCH or train[0].shape[1:] != (28, 28, 1) or max(train[1].max(), test[1].max()) > 9:
        raise mg.data.DataError(f"{options.data} must contain at least {BATCH} images of 28x28 of ten digits")
    options.output.mkdir(parents=True, exist_ok=True)
    training, started = Training(options.seed, options.python_update), time.perf_counter()
    steps = options.epochs * (len(train[0]) // BATCH)
    with require("tqdm.auto", "demo", "the progress bar").tqdm(total=steps, unit="batch") as bar:
        training.run(
            train, test, options.epochs, lambda state: (bar.set_postfix_str(state, refresh=False), bar.update())
        )
    print(f"Trained {steps} batches of {BATCH} in {time.perf_counter() - started:.1f} s, including tests")
    print(f"Test    accuracy {list(training.accuracies.values())[-1]:.2%} on {len(test[0]):,} digits")
    draw(options.output / "digits_nodes.png", training, test)
    print(f"Picture {options.output / 'digits_nodes.png'}")


if __name__ == "__main__":
    try:
        main()
    except (mg.Error, ImportError, OSError) as error:
        raise SystemExit(f"digits_nodes.py: {error}") from error
