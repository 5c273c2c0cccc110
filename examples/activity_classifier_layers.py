"""The activity classifier built from nodes, converters, and a recurrent layer, each encoded separately as at WWDC18.

A convolution of nodes reduces a recording to 20 steps. ImageCopyToMatrix turns them into a sequence of 20 matrices, an
RNNMatrixTrainingLayer (an LSTM) processes it, and MatrixCopyToImage passes its outputs to nodes with the head and the
loss. Gradients flow back through all of it, and optimizers update the LSTM's matrices; each batch is one command
buffer. Recordings, sizes, and picture are those of activity_classifier.py, where the model takes four lines.
Run: python examples/activity_classifier_layers.py [--data DIR] [--recordings 600] [--epochs 20] [--output DIR];
page: docs/examples/activity_classifier_layers.md.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import mpsgraph as mg
import numpy as np
from activity_classifier import ACTIVITIES, AXES, SAMPLES, WINDOW, draw, read_csv, recordings
from mpsgraph import nngraph as ng
from mpsgraph._optional import require

PLACES, BATCH, RATE = SAMPLES // WINDOW, 64, 1e-3
FEATURES, HIDDEN, BETWEEN = 64, 200, 128  # Channels of the convolution, the LSTM, and the head's first layer.


class Sequence:
    """One matrix per time step, and the same memory as one matrix whose rows are images, for the converters."""

    def __init__(self, images: int, channels: int) -> None:
        memory = np.zeros((images, PLACES, channels), np.float32)
        # Each of shape (images, channels), in shared memory.
        self.steps = [ng.Matrix(memory[:, t]) for t in range(PLACES)]
        self.rows = ng.Matrix(memory.reshape(images, -1))


def source(width: int, inputs: int, outputs: int, adam: ng.Adam, seed: int) -> ng.TrainableConvolution:
    """Create a data source for a convolution over `width` samples in time, without overlap."""
    descriptor = ng.ConvolutionDescriptor(width, 1, inputs, outputs, stride_in_pixels_x=width)
    return ng.TrainableConvolution(descriptor, optimizer=adam, seed=seed)


def lstm_descriptor(inputs: int, hidden: int, seed: int) -> ng.LSTMDescriptor:
    """Describe the LSTM; the data source of a gate's input weights also gives its bias and activation."""
    descriptor, rng = ng.LSTMDescriptor(inputs, hidden, use_float32_weights=True), np.random.default_rng(seed)
    for gate in ("input", "forget", "output", "cell"):
        neuron = ng.NeuronDescriptor("tanh", 1, 1) if gate == "cell" else ng.NeuronDescriptor("sigmoid")
        bias = np.full(hidden, gate == "forget", np.float32)  # Little is forgotten initially.
        for kind, channels in (("input", inputs), ("recurrent", hidden)):
            sizes = ng.ConvolutionDescriptor(1, 1, channels, hidden, neuron=neuron)
            weights = rng.standard_normal(sizes.weights_shape, np.float32) / np.float32(math.sqrt(channels))
            setattr(descriptor, f"{gate}_gate_{kind}_weights", ng.TrainableConvolution(sizes, weights, bias))
    return descriptor


class Classifier:
    """The parts: graphs of nodes before and after the LSTM, the LSTM with its optimizers, and the converters."""

    def __init__(self, activities: int, features: int = FEATURES, hidden: int = HIDDEN, rate: float = RATE, seed=0):
        self.features, self.hidden, self.labels = features, hidden, np.eye(activities, dtype=np.float32)
        self.convolution = source(WINDOW, len(AXES), features, ng.Adam(rate), seed)
        adam = ng.Adam(rate)
        self.head = source(1, hidden, BETWEEN, adam, seed + 1), source(1, BETWEEN, activities, adam, seed + 2)
        self.before, self.before_gradient = self._graphs_before()
        self.behind, self.behind_gradient = self._graphs_behind()
        self.to_matrix, self.to_images = ng.ImageCopyToMatrix(None), ng.MatrixCopyToImage(None)
        self.weights, self.gradients = list[ng.Matrix](), list[ng.Matrix]()
        self.lstm = ng.RNNMatrixTrainingLayer(None, lstm_descriptor(features, hidden, seed + 3), self.weights)
        self.lstm.create_weight_gradient_matrices(self.gradients)
        # Moments of Adam, initially zero and shaped like the gradients.
        self.moments = list[ng.Matrix](), list[ng.Matrix]()
        for moment in self.moments:
            self.lstm.create_weight_gradient_matrices(moment)
        # One optimizer per matrix, because Adam counts each encode as a step.
        self.optimizers = [ng.Adam(rate) for _ in self.weights]
        self.queue = mg.CommandQueue(self.before.device)

    def _graphs_before(self) -> tuple[ng.NNGraph, ng.NNGraph]:
        """Create the graphs from recordings to features, and from the features' gradient to the update."""
        convolution = ng.ConvolutionNode(ng.ImageNode("recordings"), self.convolution, label="convolution")
        relu = ng.NeuronReLUNode(convolution.result_image)
        (last,) = relu.training_graph(ng.ImageNode("gradient"))
        gradient = ng.NNGraph(None, last.result_image, result_image_is_needed=False)
        return ng.NNGraph(None, relu.result_image), gradient

    def _graphs_behind(self) -> tuple[ng.NNGraph, ng.NNGraph]:
        """Create the graphs from the LSTM's outputs to probabilities, and through the loss to the outputs' gradient."""
        first = ng.ConvolutionNode(ng.ImageNode("outputs"), self.head[0], label="between")
        relu = ng.NeuronReLUNode(first.result_image)
        second = ng.ConvolutionNode(relu.result_image, self.head[1], label="activities")
        descriptor = ng.LossDescriptor("softmax_cross_entropy", weight=1 / (BATCH * PLACES))
        loss = ng.LossNode(second.result_image, descriptor, label="loss")
        (last,) = loss.training_graph(None)
        probabilities = ng.SoftMaxNode(second.result_image).result_image
        return ng.NNGraph(None, probabilities), ng.NNGraph(None, last.result_image)

    def _forward(self, buffer: mg.CommandBuffer, images: np.ndarray) -> tuple[np.ndarray, Sequence, list]:
        """Encode the forward pass; return the LSTM's outputs as images, and the arrays that the backward pass needs."""
        found, count, states = self.before.encode_batch(buffer, [images]), len(images), list[Any]()
        inputs, outputs = Sequence(count, self.features), Sequence(count, self.hidden)
        self.to_matrix.encode_batch(buffer, found, inputs.rows)
        self.lstm.encode_forward_sequence(buffer, inputs.steps, outputs.steps, states, self.weights)
        made = np.empty((count, 1, PLACES, self.hidden), np.float32)
        self.to_images.encode_batch(buffer, outputs.rows, made)
        return made, inputs, states

    def iteration(self, x: np.ndarray, y: np.ndarray) -> float:
        """Train on one batch of recordings (n, 2000, 6) and activities (n, 20); return the loss before the update."""
        buffer, images, labels = self.queue.command_buffer(), x[:, None], ng.LossLabelsBatch(self.labels[y][:, None])
        outputs, inputs, states = self._forward(buffer, images)
        gradient = self.behind_gradient.encode_batch(buffer, [outputs], [labels])
        of_outputs, of_inputs = Sequence(len(x), self.hidden), Sequence(len(x), self.features)
        self.to_matrix.encode_batch(buffer, gradient, of_outputs.rows)
        self.lstm.encode_gradient_sequence(
            buffer, inputs.steps, of_outputs.steps, of_inputs.steps, self.gradients, states, self.weights
        )
        of_features = np.empty((len(x), 1, PLACES, self.features), np.float32)
        self.to_images.encode_batch(buffer, of_inputs.rows, of_features)
        self.before_gradient.encode_batch(buffer, [images, of_features])
        for adam, weights, g, m, v in zip(self.optimizers, self.weights, self.gradients, *self.moments, strict=True):
            adam.encode(
                buffer,
                input_gradient_matrix=g,
                input_values_matrix=weights,
                input_momentum_vectors=m,
                input_velocity_vectors=v,
            )
        buffer.commit()
        buffer.wait_until_completed()
        self.before.reload_from_data_sources()  # Reads the trained weights; only allowed between batches.
        return float(labels.losses.numpy().sum())

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Predict the activity in each window (n, 20) of recordings (n, 2000, 6)."""
        self.behind.reload_from_data_sources()
        parts = list[np.ndarray]()
        for images in (x[i : i + BATCH, None] for i in range(0, len(x), BATCH)):
            buffer = self.queue.command_buffer()
            probabilities = self.behind.encode_batch(buffer, [self._forward(buffer, images)[0]])
            buffer.commit()
            buffer.wait_until_completed()
            parts.append(probabilities.numpy()[:, 0].argmax(axis=-1))
        return np.concatenate(parts)


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
    classifier, started = Classifier(len(names), seed=options.seed), time.perf_counter()
    batches = mg.data.batches(train, BATCH, shuffle=True, seed=options.seed)
    for _ in require("tqdm.auto", "demo", "the progress bar").tqdm(range(options.epochs), unit="epoch"):
        for x, y in batches:
            loss = classifier.iteration(x, y)
    print(f"Trained in {time.perf_counter() - started:.1f} s; the loss of the last batch is {loss:.3f}")
    predicted = classifier.predict(test[0])
    print(f"{(predicted == test[1]).mean():.1%} of {test[1].size:,} windows of {WINDOW} samples are correct")
    draw(options.output / "activity_classifier_layers.png", test[0], test[1], predicted, names)
    print(f"Picture {options.output / 'activity_classifier_layers.png'}")


if __name__ == "__main__":
    try:
        main()
    except (mg.Error, ImportError, OSError) as error:
        raise SystemExit(f"activity_classifier_layers.py: {error}") from error
