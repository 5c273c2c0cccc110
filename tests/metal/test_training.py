"""Test training on the digits with the Metal device: losses match the CPU step by step, and the network learns."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn
from mpsgraph.demo import digits

pytestmark = pytest.mark.begins_early


def narrow() -> nn.Sequential:
    """The layers of the demo with few channels, because the mock is slow."""
    he = nn.initialisers.HeUniform()
    return nn.Sequential(
        nn.Conv2d(6, 5, padding="TF_SAME", weight_initialiser=he),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 5, padding="TF_SAME", weight_initialiser=he),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, weight_initialiser=he),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(10),
    )


def losses(model: nn.Module, device: str, steps: int, seed: int) -> tuple[mg.Trainer, list[float]]:
    train_set, _ = mg.data.digits()
    optimizer = mg.optim.SGD(mg.optim.WarmUp(mg.optim.CosineRate(0.15, steps=300), 20))
    trainer = mg.Trainer(model, loss="cross_entropy", optimizer=optimizer, seed=seed, device=device)
    batches = mg.data.batches(train_set, digits.BATCH, shuffle=True, seed=seed, drop_last=True)
    history = []
    while len(history) < steps:
        for images, labels in batches:
            history.append(trainer.train_step(images, labels))
            if len(history) == steps:
                break
    return trainer, [float(loss) for loss in history]


def test_losses_of_demo_network_match_the_cpu():
    """Dropout masks must match as well, because the random numbers are the same."""
    _, metal = losses(digits.classifier(), "metal", 6, seed=3)
    _, cpu = losses(digits.classifier(), "cpu", 6, seed=3)  # a seed without near ties in max pooling
    assert len(set(cpu)) == 6
    np.testing.assert_allclose(metal, cpu, rtol=1e-4)


def test_narrow_network_learns_digits():
    trainer, history = losses(narrow(), "metal", 300, seed=0)
    _, test_set = mg.data.digits()
    assert trainer.evaluate(test_set)["accuracy"] >= 0.95 and history[-1] < 0.5 * history[0]
    _, cpu = losses(narrow(), "cpu", 20, seed=0)  # later, rounding differences have grown
    np.testing.assert_allclose(history[:20], cpu, rtol=1e-3)
