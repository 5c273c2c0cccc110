"""A small trainer with all that a package of one may carry, and the batches that it is trained with."""

import mpsgraph as mg
import numpy as np


def trained() -> mg.Trainer:
    """With dropout, moving statistics, Adam, a schedule that ends, gradient accumulation and moving averages."""
    model = mg.nn.Sequential(mg.nn.Linear(8), mg.nn.BatchNorm(), mg.nn.ReLU(), mg.nn.Dropout(0.4), mg.nn.Linear(3))
    rate = mg.optim.WarmUp(mg.optim.CosineRate(0.1, steps=5), steps=3)
    trainer = mg.Trainer(model, optimizer=mg.optim.Adam(rate), gradient_accumulation_steps=2, ema_decay=0.9)
    for x, y in batches(0, 3):
        trainer.train_step(x, y).wait()
    return trainer


def batches(first: int, last: int):
    """Of 16 rows: float32 and an int32 label."""
    for step in range(first, last):
        rng = np.random.default_rng(step)
        yield rng.normal(size=(16, 6)).astype(np.float32), rng.integers(0, 3, 16).astype(np.int32)
