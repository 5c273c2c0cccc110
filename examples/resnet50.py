"""ResNet-50 for images of 32x32 pixels, built and trained as in the talk "Training DNNs on iOS with MPSGraph".

It is built block by block from the graph's operations. Batch normalization selects its statistics in the graph with
`if_` on the placeholder `is_training`: those of the batch, with control dependencies that update the moving averages,
or the moving averages. mg.nn.BatchNorm trains to the same losses. The data are CIFAR-10 or enlarged digits.
Run: python examples/resnet50.py [--data DIR] [--batch-norm both|graph|layer]; page: docs/examples/resnet50.md.
"""

import argparse
import time
from pathlib import Path

import mpsgraph as mg
import numpy as np
from mpsgraph._optional import require

STAGES = ((64, 256, 3, 1), (128, 512, 4, 2), (256, 1024, 6, 2), (512, 2048, 3, 2))  # f1, f2, blocks, stride
CLASSES = 10
BATCH_NORMS = {"graph": "the graph's operations", "layer": "mg.nn.BatchNorm"}
EPSILON, MOMENTUM = 1e-3, 0.99  # Keras's defaults, as in the talk.
LEARNING_RATE = 0.01
glorot = mg.nn.initialisers.GlorotUniform()


class ResNet50:
    """The network, its loss, and its update in one graph. `narrow` divides the numbers of filters.

    is_training: None makes it a placeholder that is set in each run; True or False builds a graph without `if_`.
    """

    def __init__(self, batch_norm: str = "graph", seed: int = 0, narrow: int = 1, is_training: bool | None = None):
        self.graph = g = mg.Graph(seed=seed)
        self.batch_norm, self.narrow = batch_norm, narrow
        self.images = g.placeholder((-1, 32, 32, 3), name="images")
        self.labels = g.placeholder((-1, CLASSES), name="labels")
        self.is_training = g.placeholder((1,), mg.bool_, name="is_training") if is_training is None else is_training
        self.weights: list[mg.Tensor] = []
        logits = self.network(self.images)
        self.loss = g.softmax_cross_entropy(logits, self.labels, axis=-1, reduction="mean")
        self.probabilities = g.softmax(logits, axis=-1)
        gradients = g.gradients(self.loss, self.weights)
        descended = ((w, g.stochastic_gradient_descent(LEARNING_RATE, w, slope)) for w, slope in gradients.items())
        self.updates = [g.assign(weight, value) for weight, value in descended]

    def network(self, x: mg.Tensor) -> mg.Tensor:
        """Map images (n, 32, 32, 3) to logits (n, 10)."""
        x = self.convolution_and_norm(x, 64 // self.narrow, 7, strides=2)
        x = self.graph.max_pooling2d(self.graph.relu(x), 3, 2)
        for f1, f2, blocks, stride in STAGES:
            filters = (f1 // self.narrow, f2 // self.narrow)
            x = self.convolution_block(x, filters, stride)
            for _ in range(blocks - 1):
                x = self.identity_block(x, filters)
        x = self.graph.avg_pooling2d(x, 2, padding="TF_SAME")
        return self.fully_connected(self.graph.reshape(x, (-1, int(np.prod(x.shape[1:])))), CLASSES)

    def identity_block(self, x: mg.Tensor, filters: tuple[int, int]) -> mg.Tensor:
        """Add a residual block whose input and output have the same size."""
        return self.graph.relu(self.three_convolutions(x, filters, 1) + x)

    def convolution_block(self, x: mg.Tensor, filters: tuple[int, int], stride: int) -> mg.Tensor:
        """Add a residual block that changes the size, with a convolution as its shortcut."""
        y = self.three_convolutions(x, filters, stride)
        return self.graph.relu(y + self.convolution_and_norm(x, filters[1], 1, strides=stride))

    def three_convolutions(self, x: mg.Tensor, filters: tuple[int, int], stride: int) -> mg.Tensor:
        x = self.graph.relu(self.convolution_and_norm(x, filters[0], 1, strides=stride))
        x = self.graph.relu(self.convolution_and_norm(x, filters[0], 3, padding="TF_SAME"))
        return self.convolution_and_norm(x, filters[1], 1)

    def convolution_and_norm(
        self, x: mg.Tensor, filters: int, kernel: int, strides: int = 1, padding: str = "TF_VALID"
    ) -> mg.Tensor:
        weights = self.weight(glorot((kernel, kernel, x.shape[-1], filters), self.graph.generator))
        return self.batch_normalization(self.graph.convolution2d(x, weights, strides=strides, padding=padding))

    def batch_normalization(self, x: mg.Tensor) -> mg.Tensor:
        """Normalize each channel, in training with statistics of the batch, then scale and shift it."""
        if self.batch_norm == "layer":
            norm = mg.nn.BatchNorm(epsilon=EPSILON, momentum=MOMENTUM).train(self.is_training)
            y = norm(x)
            self.weights += norm.parameters()
            return y
        g, channels = self.graph, x.shape[-1]
        gamma = self.weight(np.ones((1, 1, 1, channels), np.float32))
        beta = self.weight(np.zeros((1, 1, 1, channels), np.float32))
        moving_mean = g.variable(np.zeros((1, 1, 1, channels), np.float32), trainable=False)
        moving_variance = g.variable(np.ones((1, 1, 1, channels), np.float32), trainable=False)

        def by_batch() -> mg.Tensor:
            mean = g.mean(x, axes=(0, 1, 2))
            variance = g.variance(x, mean, axes=(0, 1, 2))
            assigns = [
                g.assign(moving, MOMENTUM * moving + (1 - MOMENTUM) * batch)
                for moving, batch in ((moving_mean, mean), (moving_variance, variance))
            ]
            return g.control_dependency(assigns, lambda: g.normalization(x, mean, variance, gamma, beta, EPSILON))

        def by_moving_averages() -> mg.Tensor:
            return g.normalization(x, moving_mean, moving_variance, gamma, beta, EPSILON)

        if isinstance(self.is_training, bool):
            return by_batch() if self.is_training else by_moving_averages()
        return g.if_(self.is_training, by_batch, by_moving_averages)[0]

    def fully_connected(self, x: mg.Tensor, features: int) -> mg.Tensor:
        weights = self.weight(glorot((x.shape[-1], features), self.graph.generator))
        return self.graph.matrix_multiplication(x, weights) + self.weight(np.zeros(features, np.float32))

    def weight(self, value: np.ndarray) -> mg.Tensor:
        self.weights.append(self.graph.variable(value))
        return self.weights[-1]

    def feeds(self, images: np.ndarray, labels: np.ndarray, is_training: bool) -> dict[mg.Tensor, np.ndarray]:
        feeds = {self.images: images, self.labels: np.eye(CLASSES, dtype=np.float32)[labels]}
        return feeds if isinstance(self.is_training, bool) else feeds | {self.is_training: np.array([is_training])}

    def train_step(self, images: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
        """Train on a batch of images from 0 to 1 and labels 0 to 9; return loss and accuracy before the update."""
        feeds = self.feeds(images, labels, True)
        found = self.graph.run(feeds, [self.loss, self.probabilities], self.updates)
        return found[self.loss].item(), float((found[self.probabilities].numpy().argmax(axis=1) == labels).mean())

    def evaluate(self, images: np.ndarray, labels: np.ndarray, batch: int = 256) -> tuple[float, float]:
        """Return loss and accuracy with the moving averages."""
        loss = right = 0.0
        for x, y in mg.data.batches((images, labels), batch, shuffle=False):
            found = self.graph.run(self.feeds(x, y, False), [self.loss, self.probabilities])
            loss += found[self.loss].item() * len(x)
            right += (found[self.probabilities].numpy().argmax(axis=1) == y).sum()
        return loss / len(images), right / len(images)


def read_data(directory: Path | None) -> tuple[str, mg.data.Dataset, mg.data.Dataset]:
    """Return the name of the data, and (images, labels) for training and test."""
    if directory is not None:
        return f"CIFAR-10 in {directory}", *mg.data.read_cifar10(directory)
    train, test = ((np.repeat(images, 3, axis=3), labels) for images, labels in mg.data.digits(32))
    return "scikit-learn's scanned digits", train, test


def train(net: ResNet50, train_set: mg.data.Dataset, test_set: mg.data.Dataset, epochs: int, batch: int) -> mg.History:
    history = mg.History()
    batches = mg.data.batches(train_set, batch, drop_last=True)
    for _ in require("tqdm.auto", "demo", "the progress bar").trange(epochs, unit="epoch"):
        for images, labels in batches:
            loss, accuracy = net.train_step(images, labels)
            history.append({"loss": loss, "accuracy": accuracy})
        loss, accuracy = net.evaluate(test_set[0], test_set[1])
        history.append_validation(len(history.loss), {"loss": loss, "accuracy": accuracy})
    return history


def draw(path: Path, name: str, histories: dict[str, mg.History]) -> None:
    """Draw loss and accuracy over the steps for each kind of batch normalization."""
    figure = require("matplotlib.figure", "demo", "the picture").Figure(figsize=(13, 4.5), layout="constrained")
    figure.suptitle(f"ResNet-50 on {name}", fontweight="bold")
    for i, (kind, history) in enumerate(histories.items()):
        axes = history.plot(figure.add_subplot(1, len(histories), i + 1))
        axes.set_title(f"{BATCH_NORMS[kind]}: {history.validation[-1][1]['accuracy']:.1%} of the test set correct")
        (legend := axes.get_legend()).remove()
    labels = [text.get_text() for text in legend.get_texts()]
    figure.legend(legend.legend_handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.savefig(path, dpi=100)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train ResNet-50 on images of 32x32 pixels.")
    parser.add_argument("--data", type=Path, help="directory with CIFAR-10's files (default: built-in digits)")
    parser.add_argument("--batch-norm", choices=("both", *BATCH_NORMS), default="both", help="default: both, in turn")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--narrow", type=int, default=1, choices=(1, 2, 4, 8, 16), help="divisor of filter counts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    options = parser.parse_args(arguments)
    name, train_set, test_set = read_data(options.data)
    if options.epochs < 1 or options.seed < 0 or not 1 < options.batch <= len(train_set[0]):
        parser.error(f"--epochs must be 1 or more, --seed 0 or more, --batch from 2 to the {len(train_set[0])} images")
    options.output.mkdir(parents=True, exist_ok=True)
    print(f"Data    {name}: {len(train_set[0]):,} for training, {len(test_set[0]):,} for testing")
    histories = {}
    for kind in BATCH_NORMS if options.batch_norm == "both" else (options.batch_norm,):
        net = ResNet50(kind, options.seed, options.narrow)
        print(f"Network {sum(np.prod(w.shape) for w in net.weights):,} weights, normalized by {BATCH_NORMS[kind]}")
        started = time.perf_counter()
        history = histories[kind] = train(net, train_set, test_set, options.epochs, options.batch)
        seconds, result = time.perf_counter() - started, history.validation[-1][1]
        print(f"Trained {len(history.loss)} steps of batch {options.batch} in {seconds:.1f} s, including compilation")
        print(f"Test    accuracy {result['accuracy']:.2%}, loss {result['loss']:.4f}")
    draw(options.output / "resnet50.png", name, histories)
    print(f"Picture {options.output / 'resnet50.png'}")


if __name__ == "__main__":
    try:
        main()
    except (mg.Error, ImportError, OSError) as error:
        raise SystemExit(f"resnet50.py: {error}") from error
