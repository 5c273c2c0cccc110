"""W3: one training step of the activity classifier at batch 64, in mpsgraph and its peers.

A convolution turns 2,000 samples of 6 axes into 20 steps of 64 features, an LSTM with 200 units processes them, and two
dense layers classify six activities. The loss is cross-entropy and the optimizer Adam. Peers compute the LSTM as a
layer or step by step, whichever is faster.
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
from mpsgraph import nn

WORKLOAD = Workload(
    "W3",
    "convolution and LSTM over 20 steps, training step, batch 64",
    target=0.7,
    peers={"PyTorch": ("eager", "compile", "compile cell", "compile step"), "JAX": ("jit", "jit unrolled")},
)


def batch() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((sizes.W3_BATCH, sizes.W3_SAMPLES, sizes.W3_AXES), np.float32)
    return samples, rng.integers(sizes.W3_CLASSES, size=sizes.W3_BATCH, dtype=np.int32)


def training(**options: Any) -> mg.Trainer:
    model = nn.Sequential(
        nn.Conv1d(sizes.W3_FEATURES, sizes.W3_KERNEL, strides=sizes.W3_KERNEL),
        nn.ReLU(),
        nn.LSTM(sizes.W3_HIDDEN),
        lambda states: states[:, -1],
        nn.Linear(sizes.W3_DENSE),
        nn.ReLU(),
        nn.Linear(sizes.W3_CLASSES),
    )
    return mg.Trainer(model, loss="cross_entropy", optimizer=mg.optim.Adam(sizes.W3_RATE), metrics=(), **options)


def trainer() -> Step:
    made = training()
    samples, labels = batch()
    return lambda: float(made.train_step(samples, labels))


BUILDERS = {"Trainer": trainer}


def measure(options: Options) -> list[Row]:
    return compare(WORKLOAD, [ours(__file__, "Trainer")], options)


if __name__ == "__main__":
    main(measure, BUILDERS)
