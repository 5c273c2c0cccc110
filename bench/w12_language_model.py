"""W12: one training step of a language model with 32 sequences of 64 tokens, in mpsgraph and PyTorch.

An embedding, an LSTM, and a dense layer predict the next token; the loss is cross-entropy and the optimizer Adam. One
model has 1,000 words and 512 units, the other 96 characters and 384 units. Tokens are uniformly random. Sizes are in
workloads.py.
"""

from functools import partial
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

TARGET = 0.6


def training(name: str, **options: Any) -> mg.Trainer:
    tokens, embedding, hidden = sizes.W12_MODELS[name]
    model = nn.Sequential(nn.Embedding(tokens, embedding), nn.LSTM(hidden), nn.Linear(tokens))
    return mg.Trainer(model, loss="cross_entropy", optimizer=mg.optim.Adam(sizes.W12_RATE), metrics=(), **options)


def trainer(name: str) -> Step:
    made, rng = training(name), np.random.default_rng(0)
    shape = (sizes.W12_BATCH, sizes.W12_STEPS)
    given, following = (rng.integers(sizes.W12_MODELS[name][0], size=shape, dtype=np.int32) for _ in range(2))
    return lambda: float(made.train_step(given, following))


BUILDERS = {f"W12 {name}": partial(trainer, name) for name in sizes.W12_MODELS}


def workload(name: str) -> Workload:
    tokens, _, hidden = sizes.W12_MODELS[name]
    title = f"language model, LSTM of {hidden}, {tokens:,} {name}, step of 32 x 64"
    return Workload(f"W12 {name}", title, TARGET, peers={"PyTorch": ("eager", "compile")})


def measure(options: Options) -> list[Row]:
    rows = []
    for name in sizes.W12_MODELS:
        rows += compare(workload(name), [ours(__file__, f"W12 {name}", "Trainer")], options)
    return rows


if __name__ == "__main__":
    main(measure, BUILDERS)
