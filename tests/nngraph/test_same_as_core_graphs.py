"""Compare the losses of node graphs with those of equal core graphs over 20 training steps.

Both start from the same weights and use equal optimizers and batches. The core graphs are written only with operations
of `Graph` and share nothing but the initial arrays. Biases are not zero because the two APIs define the derivative of
ReLU at 0 differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import activity_classifier_layers as activity
import digits_nodes
import mpsgraph as mg
import numpy as np
import pytest
from activity_classifier import recordings
from harness import device
from harness.nodes import graph_of, queue
from mpsgraph import nngraph as nn

# These tests are slow on the mock of Apple's frameworks, so they begin early.
pytestmark = [pytest.mark.both_devices, pytest.mark.begins_early]

Array = np.ndarray
STEPS = 20
RELATIVE = {"cpu": 1e-5, "metal": 1e-3}[device.NAME]  # Device metal may compute in half precision.
# Adam divides by values that may be pure rounding error, so a large rate would drive equal networks apart.
ADAM_RATE, BETA1, BETA2, EPSILON = 2e-4, 0.9, 0.999, 1e-8
RATE, MOMENTUM = 2e-3, 0.9


# --- the core graphs --------------------------------------------------------------------------------------------------


class Core:
    """A core graph under construction, and its training loop."""

    def __init__(self) -> None:
        self.graph, self.feeds = mg.Graph(), dict[str, mg.Tensor]()

    def feed(self, name: str, shape: Sequence[int]) -> mg.Tensor:
        self.feeds[name] = self.graph.placeholder(tuple(shape), name=name)
        return self.feeds[name]

    def convolution(self, x: mg.Tensor, source: nn.TrainableConvolution, strides: Any = 1) -> mg.Tensor:
        """Add a convolution with "same" padding, for an odd kernel or one as wide as its stride."""
        weights = self.graph.variable(np.ascontiguousarray(source.weights().transpose(1, 2, 3, 0)))
        y = self.graph.convolution2d(x, weights, strides=strides, padding="TF_SAME")
        return y + self.graph.variable(source.bias_terms().copy())

    def fully_connected(self, x: mg.Tensor, source: nn.TrainableConvolution) -> mg.Tensor:
        """Add a matmul over the flattened images, in memory order."""
        outputs = len(source.weights())
        weights = self.graph.variable(np.ascontiguousarray(source.weights().reshape(outputs, -1).T))
        y = self.graph.matrix_multiplication(self.graph.reshape(x, (x.shape[0], -1)), weights)
        return self.graph.reshape(y + self.graph.variable(source.bias_terms().copy()), (x.shape[0], 1, 1, outputs))

    def losses(self, logits: mg.Tensor, weight: float, optimizer: str, batches: Batches) -> list[float]:
        """Train on the batches and return their losses; labels are one-hot and reshaped to the logits."""
        g = self.graph
        loss = g.softmax_cross_entropy(logits, self.feed("labels", logits.shape)) * weight
        rate, updates = self.feed("rate", ()), list[mg.Operation]()
        for variable, gradient in g.gradients(loss, g.trainable_variables).items():
            zeros = np.zeros(variable.shape, np.float32)
            m, v = (g.variable(zeros, trainable=False) for _ in range(2))
            if optimizer == "adam":
                new = g.adam_with_current_learning_rate(rate, BETA1, BETA2, EPSILON, variable, m, v, gradient)
                updates += [g.assign(kept, value) for kept, value in zip((variable, m, v), new, strict=True)]
            else:  # The learning rate is part of the momentum.
                moved = g.read(m) * MOMENTUM + gradient * rate
                updates += [g.assign(m, moved), g.assign(variable, g.read(variable) - moved)]
        found = list[float]()
        for t, (images, labels) in enumerate(batches, 1):
            now = ADAM_RATE * np.sqrt(1 - BETA2**t) / (1 - BETA1**t) if optimizer == "adam" else RATE
            arrays = {"images": images, "labels": labels.reshape(logits.shape), "rate": np.float32(now)}
            results = g.run({self.feeds[name]: arrays[name] for name in self.feeds}, [loss], updates)
            found.append(float(results[loss]))
        return found


Batches = Sequence[tuple[Array, Array]]  # Pairs of images and one-hot labels.


def in_turn(images: Array, labels: Array, classes: int, batch: int) -> Iterator[tuple[Array, Array]]:
    """Yield STEPS batches, starting over at the end of the data."""
    for i in range(STEPS):
        at = np.arange(i * batch, (i + 1) * batch) % len(images)
        yield images[at], np.eye(classes, dtype=np.float32)[labels[at]]


# --- the same networks as nodes
# -----------------------------------------------------------------------------------------


def source(shape: Sequence[int], optimizer: Any, seed: int) -> nn.TrainableConvolution:
    """Return a source with weights of shape (out, height, width, in) and biases that are not zero."""
    outputs, height, width, inputs = shape
    biases = np.random.default_rng(seed).uniform(0.05, 0.2, outputs).astype(np.float32)
    descriptor = nn.ConvolutionDescriptor(width, height, inputs, outputs)
    return nn.TrainableConvolution(descriptor, None, biases, optimizer=optimizer, seed=seed)


def losses_of_nodes(last: nn.FilterNode, weight: float, batches: Batches) -> list[float]:
    loss = nn.LossNode(last.result_image, nn.LossDescriptor("softmax_cross_entropy", weight=weight))
    (end,) = loss.training_graph(None)
    graph, on, found = graph_of(end.result_image, False), queue(), list[float]()
    for images, labels in batches:
        buffer, states = on.command_buffer(), nn.LossLabelsBatch(labels)
        graph.encode_batch(buffer, [images], [states])
        buffer.commit()
        buffer.wait_until_completed()
        found.append(float(states.losses.numpy().sum()))
    return found


def check(by_nodes: list[float], by_core: list[float]) -> None:
    assert len(by_nodes) == len(by_core) == STEPS
    assert np.ptp(by_nodes) > 0.05 * by_nodes[0], "the losses must change, so that the updates are compared, too"
    np.testing.assert_allclose(by_nodes, by_core, rtol=RELATIVE)


# --- the networks -----------------------------------------------------------------------------------------------------


def test_digit_network_of_nodes_equals_core_graph():
    batch, sgd = 40, nn.StochasticGradientDescent(RATE, momentum_scale=MOMENTUM)
    sources = {
        name: source((outputs, side, side, inputs), sgd, seed)
        for seed, (name, (side, inputs, outputs)) in enumerate(digits_nodes.LAYERS.items())
    }
    core = Core()
    x = core.feed("images", (batch, 28, 28, 1))
    for name in ("conv1", "conv2"):
        x = core.graph.max_pooling2d(core.graph.relu(core.convolution(x, sources[name])), 2)
    x = core.graph.relu(core.fully_connected(x, sources["fc1"]))
    logits = core.fully_connected(x, sources["fc2"])
    images, labels = mg.data.digits()[0]
    batches = list(in_turn(images, labels, 10, batch))
    by_core = core.losses(logits, 1 / batch, "sgd", batches)
    check(losses_of_nodes(digits_nodes.network(sources, None), 1 / batch, batches), by_core)


def test_inception_block_of_nodes_equals_core_graph():
    """Four parallel branches: 1x1; 1x1 then 3x3; 1x1 then 5x5; pooling then 1x1."""
    batch, sgd = 24, nn.StochasticGradientDescent(RATE, momentum_scale=MOMENTUM)
    names = {
        "stem": (8, 3, 3, 1), "one": (4, 1, 1, 8), "three_before": (4, 1, 1, 8), "three": (8, 3, 3, 4),
        "five_before": (4, 1, 1, 8), "five": (4, 5, 5, 4), "pooled": (4, 1, 1, 8), "classes": (10, 14, 14, 20),
    }  # fmt: skip
    sources = {name: source(shape, sgd, seed) for seed, (name, shape) in enumerate(names.items())}

    def block(x: Any, convolution: Callable, relu: Callable, pooling: Callable, concat: Callable) -> Any:
        x = pooling(relu(convolution(x, "stem")), 2, 2)
        three = relu(convolution(relu(convolution(x, "three_before")), "three"))
        five = relu(convolution(relu(convolution(x, "five_before")), "five"))
        pooled = relu(convolution(pooling(x, 3, 1), "pooled"))
        return concat([relu(convolution(x, "one")), three, five, pooled])

    core = Core()
    g, images = core.graph, core.feed("images", (batch, 28, 28, 1))
    joined = block(
        images,
        lambda x, name: core.convolution(x, sources[name]),
        g.relu,
        lambda x, size, stride: g.max_pooling2d(x, size, stride, padding="TF_SAME"),
        lambda parts: g.concat(parts, -1),
    )
    arrays, labels = mg.data.digits()[0]
    batches = list(in_turn(arrays, labels, 10, batch))
    by_core = core.losses(core.fully_connected(joined, sources["classes"]), 1 / batch, "sgd", batches)

    joined = block(
        nn.ImageNode("images"),
        lambda x, name: nn.ConvolutionNode(x, sources[name]).result_image,
        lambda x: nn.NeuronReLUNode(x).result_image,
        lambda x, size, stride: nn.PoolingMaxNode(x, size, stride).result_image,
        lambda parts: nn.ConcatenationNode(parts).result_image,
    )
    check(losses_of_nodes(nn.FullyConnectedNode(joined, sources["classes"]), 1 / batch, batches), by_core)


def core_activity_classifier(core: Core, classifier: activity.Classifier, batch: int, features: int, hidden: int):
    """Return the logits of the classifier as a core graph. The LSTM's gates are ordered input, forget, cell, output."""
    g, seed = core.graph, 0
    x = core.feed("images", (batch, 1, activity.SAMPLES, len(activity.AXES)))
    x = g.relu(core.convolution(x, classifier.convolution, strides=(1, activity.WINDOW)))
    steps = g.transpose(g.reshape(x, (batch, activity.PLACES, features)), (1, 0, 2))
    lstm = activity.lstm_descriptor(features, hidden, seed + 3)
    gates = [
        [getattr(lstm, f"{gate}_gate_{kind}_weights") for gate in ("input", "forget", "cell", "output")]
        for kind in ("input", "recurrent")
    ]
    w, r = (g.variable(np.concatenate([s.weights()[:, 0, 0] for s in sources])) for sources in gates)
    bias = g.variable(np.concatenate([s.bias_terms() for s in gates[0]]))
    (outputs,) = g.lstm(steps, r, w, bias)
    x = g.reshape(g.transpose(outputs, (1, 0, 2)), (batch, 1, activity.PLACES, hidden))
    return core.convolution(g.relu(core.convolution(x, classifier.head[0])), classifier.head[1])


def test_activity_classifier_of_nodes_equals_core_graph():
    """The example runs two node graphs with a recurrent layer between them; the core version is a single graph."""
    batch, features, hidden = 16, 12, 20
    classifier, core = activity.Classifier(6, features=features, hidden=hidden, rate=ADAM_RATE), Core()
    logits = core_activity_classifier(core, classifier, batch, features, hidden)
    x, y = recordings(64)
    weight = 1 / (activity.BATCH * activity.PLACES)
    batches = [(images[:, None], labels) for images, labels in in_turn(x, y, 6, batch)]
    by_core = core.losses(logits, weight, "adam", batches)
    check([classifier.iteration(images[:, 0], labels.argmax(-1)) for images, labels in batches], by_core)
