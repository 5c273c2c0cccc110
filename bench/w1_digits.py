"""W1: one training step of the digit network at batch 64, in mpsgraph and its peers.

The network has two 5x5 convolutions with ReLU and pooling, a dense layer of 1024 with dropout, and a dense layer of 10;
it trains with cross-entropy and SGD. The batch is in memory, and the loss is read after each step. mpsgraph runs it in
three ways: as a model with Trainer, as a compiled graph, and as nodes of mpsgraph.nngraph, which may take 1.1 times as
long as the graph.
"""

from typing import Any

import mpsgraph as mg
import numpy as np
import workloads as sizes
from measuring.compare import Workload, compare
from measuring.options import Options, main
from measuring.protocol import Step
from measuring.report import Row
from measuring.sides import ours
from mpsgraph import nngraph as ng

TORCH_MODES = ("eager", "eager channels_last", "compile", "compile channels_last", "compile step")
WORKLOAD = Workload(
    "W1",
    "CNN digit classifier, training step, batch 64",
    target=0.65,
    peers={"PyTorch": TORCH_MODES, "JAX": ("jit",)},
)


def batch() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    images = rng.standard_normal((sizes.W1_BATCH, sizes.W1_IMAGE, sizes.W1_IMAGE, 1), np.float32)
    return images, rng.integers(sizes.CLASSES, size=sizes.W1_BATCH, dtype=np.int32)


def training(**options: Any) -> mg.Trainer:
    nn = mg.nn
    first, second = sizes.W1_CHANNELS
    model = nn.Sequential(
        nn.Conv2d(first, 5, padding="TF_SAME"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(second, 5, padding="TF_SAME"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(sizes.W1_HIDDEN),
        nn.ReLU(),
        nn.Dropout(sizes.W1_DROPOUT),
        nn.Linear(sizes.CLASSES),
    )
    return mg.Trainer(model, loss="cross_entropy", optimizer=mg.optim.SGD(sizes.W1_RATE), metrics=(), **options)


def trainer() -> Step:
    made = training()
    images, labels = batch()
    return lambda: float(made.train_step(images, labels))


def graph() -> Step:
    g = mg.Graph()
    first, second = sizes.W1_CHANNELS
    glorot = mg.nn.initialisers.GlorotUniform()

    def weights(*shape: int) -> mg.Tensor:
        window = int(np.prod(shape[:-2]))
        return g.variable(glorot(shape, g.generator, (window * shape[-2], window * shape[-1])))

    def convolution(x: mg.Tensor, channels: int) -> mg.Tensor:
        y = g.convolution2d(x, weights(5, 5, x.shape[-1], channels), padding="TF_SAME")
        return g.max_pooling2d(g.relu(y + g.variable(np.zeros(channels, np.float32))), 2)

    def dense(x: mg.Tensor, outputs: int) -> mg.Tensor:
        return x @ weights(x.shape[-1], outputs) + g.variable(np.zeros(outputs, np.float32))

    images, labels = batch()
    x = g.placeholder((-1, *images.shape[1:]), name="images")
    y = g.placeholder((-1,), mg.int32, name="labels")
    h = convolution(convolution(x, first), second)
    h = g.relu(dense(g.flatten2d(h, 1), sizes.W1_HIDDEN))
    logits = dense(g.dropout(h, sizes.W1_DROPOUT), sizes.CLASSES)
    loss = g.softmax_cross_entropy(logits, g.one_hot(y, sizes.CLASSES), reduction="mean")
    gradients = g.gradients(loss, g.trainable_variables)
    updates = [g.apply_stochastic_gradient_descent(sizes.W1_RATE, v, d) for v, d in gradients.items()]

    feeds = {x: images, y: labels}
    executable = g.compile(feeds, [loss], updates)
    inputs = [feeds[placeholder] for placeholder in executable.feeds]
    return lambda: float(executable.run(inputs)[0])


def nodes() -> Step:
    optimizer, x = ng.StochasticGradientDescent(sizes.W1_RATE), ng.ImageNode("images")
    first, second = sizes.W1_CHANNELS

    def weights(side: int, inputs: int, outputs: int) -> ng.TrainableConvolution:
        return ng.TrainableConvolution(ng.ConvolutionDescriptor(side, side, inputs, outputs), optimizer=optimizer)

    for inputs, outputs in ((1, first), (first, second)):
        x = ng.NeuronReLUNode(ng.ConvolutionNode(x, weights(5, inputs, outputs)).result_image).result_image
        x = ng.PoolingMaxNode(x, 2).result_image
    hidden = ng.FullyConnectedNode(x, weights(sizes.W1_IMAGE // 4, second, sizes.W1_HIDDEN))
    kept = ng.DropoutNode(ng.NeuronReLUNode(hidden.result_image).result_image, 1 - sizes.W1_DROPOUT)
    logits = ng.FullyConnectedNode(kept.result_image, weights(1, sizes.W1_HIDDEN, sizes.CLASSES))
    loss = ng.LossNode(logits.result_image, ng.LossDescriptor("softmax_cross_entropy", weight=1 / sizes.W1_BATCH))
    (last,) = loss.training_graph(None)
    training = ng.NNGraph(None, last.result_image, result_image_is_needed=False)
    queue, (images, labels) = mg.CommandQueue(training.device), batch()
    states = ng.LossLabelsBatch(np.eye(sizes.CLASSES, dtype=np.float32)[labels])

    def step() -> float:
        buffer = queue.command_buffer()
        training.encode_batch(buffer, [images], [states])
        buffer.commit()
        buffer.wait_until_completed()
        return float(states.losses.numpy().sum())

    return step


BUILDERS = {"Trainer": trainer, "graph": graph, "nodes": nodes}


def measure(options: Options) -> list[Row]:
    return compare(WORKLOAD, [ours(__file__, name) for name in BUILDERS], options)


if __name__ == "__main__":
    main(measure, BUILDERS)
