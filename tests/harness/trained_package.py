"""A small trainer that uses everything a trainer package can store, and its training batches."""

import mpsgraph as mg
import numpy as np


def trained() -> mg.Trainer:
    """Train a small model that uses all features which a package must store.

    These are dropout, moving statistics, Adam, a finite learning-rate schedule, gradient accumulation, and an EMA of
    the weights.
    """
    model = mg.nn.Sequential(mg.nn.Linear(8), mg.nn.BatchNorm(), mg.nn.ReLU(), mg.nn.Dropout(0.4), mg.nn.Linear(3))
    rate = mg.optim.WarmUp(mg.optim.CosineRate(0.1, steps=5), steps=3)
    trainer = mg.Trainer(model, optimizer=mg.optim.Adam(rate), gradient_accumulation_steps=2, ema_decay=0.9)
    for x, y in batches(0, 3):
        trainer.train_step(x, y).wait()
    return trainer


def batches(first: int, last: int):
    """Yield batches of 16 rows with float32 inputs and int32 labels."""
    for step in range(first, last):
        rng = np.random.default_rng(step)
        yield rng.normal(size=(16, 6)).astype(np.float32), rng.integers(0, 3, 16).astype(np.int32)
