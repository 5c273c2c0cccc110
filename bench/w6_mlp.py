"""W6: one training step of the MLP 784-512-512-10 with Adam at batch 32, in mpsgraph and its peers.

The network is so small that overhead matters more than arithmetic. The batch is in memory, and the loss is read after
each step. mpsgraph runs it in two ways: as a model with Trainer, and as a compiled graph.
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

WORKLOAD = Workload(
    "W6",
    "MLP 784-512-512-10 with Adam, training step, batch 32",
    target=0.5,
    peers={"PyTorch": ("eager", "compile", "compile step"), "JAX": ("jit",)},
)


def batch() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((sizes.W6_BATCH, sizes.W6_SIZES[0]), np.float32)
    return inputs, rng.integers(sizes.CLASSES, size=sizes.W6_BATCH, dtype=np.int32)


def training(**options: Any) -> mg.Trainer:
    nn = mg.nn
    _, *hidden, classes = sizes.W6_SIZES
    layers = [layer for size in hidden for layer in (nn.Linear(size), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(classes))
    return mg.Trainer(model, loss="cross_entropy", optimizer=mg.optim.Adam(sizes.W6_RATE), metrics=(), **options)


def trainer() -> Step:
    made = training()
    inputs, labels = batch()
    return lambda: float(made.train_step(inputs, labels))


def graph() -> Step:
    g = mg.Graph()
    inputs, labels = batch()
    x = g.placeholder((-1, sizes.W6_SIZES[0]), name="inputs")
    y = g.placeholder((-1,), mg.int32, name="labels")
    glorot = mg.nn.initialisers.GlorotUniform()

    h = x
    for size in sizes.W6_SIZES[1:]:
        if h is not x:
            h = g.relu(h)
        shape = (h.shape[-1], size)
        h = h @ g.variable(glorot(shape, g.generator, shape)) + g.variable(np.zeros(size, np.float32))
    loss = g.softmax_cross_entropy(h, g.one_hot(y, sizes.CLASSES), reduction="mean")
    gradients = g.gradients(loss, g.trainable_variables)
    updates = mg.optim.Adam(sizes.W6_RATE).updates(gradients, g.constant(sizes.W6_RATE))

    feeds = {x: inputs, y: labels}
    executable = g.compile(feeds, [loss], updates)
    arrays = [feeds[placeholder] for placeholder in executable.feeds]
    return lambda: float(executable.run(arrays)[0])


BUILDERS = {"Trainer": trainer, "graph": graph}


def measure(options: Options) -> list[Row]:
    return compare(WORKLOAD, [ours(__file__, name) for name in BUILDERS], options)


if __name__ == "__main__":
    main(measure, BUILDERS)
