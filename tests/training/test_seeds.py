"""Test the seeds of trainers: different by default, and reproducible by argument, by mg.random.seed, or from a file."""

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
Y = X[:, :1]


def trained(**options):
    trainer = mg.Trainer(nn.Sequential(nn.Linear(8), nn.Dropout(0.5), nn.Linear(1)), "mse", **options)
    trainer.fit(X, Y, epochs=2, batch_size=4, progress=False)
    return trainer


def test_default_seeds_differ_and_are_in_the_history():
    mg.random.seed(None)
    first, second = trained(), trained()
    assert first.history.seed != second.history.seed and first.history.loss != second.history.loss
    assert f"seed {first.history.seed}" in repr(first.history)
    assert trained(seed=first.history.seed).history.loss == first.history.loss


def test_seed_function_makes_all_trainers_reproducible():
    runs = []
    for _ in range(2):
        mg.random.seed(7)
        runs.append([trained().history for _ in range(3)])
    assert [h.loss for h in runs[0]] == [h.loss for h in runs[1]]
    assert len({h.seed for h in runs[0]}) == 3 and runs[0][0].seed == 7


def test_resumed_trainer_continues_with_the_seed_of_the_checkpoint(tmp_path):
    mg.random.seed(None)
    whole = trained()
    whole.save(tmp_path / "c")
    whole.fit(X, Y, epochs=2, batch_size=4, progress=False)
    resumed = mg.Trainer(nn.Sequential(nn.Linear(8), nn.Dropout(0.5), nn.Linear(1)), "mse")
    assert resumed.seed != whole.seed
    resumed.load(tmp_path / "c")
    resumed.fit(X, Y, epochs=2, batch_size=4, progress=False)
    assert (resumed.seed, resumed.history.seed) == (whole.seed, whole.seed)
    assert resumed.history.loss == whole.history.loss
    np.testing.assert_equal(resumed.weights(), whole.weights())


def test_history_of_a_package_has_the_seed(tmp_path):
    mg.save(tmp_path / "p.mpsgraph", trained(seed=5))
    assert mg.load(tmp_path / "p.mpsgraph").history.seed == 5


def test_seed_must_be_an_int():
    with pytest.raises(mg.Error, match="seed must be an int or None"):
        mg.random.seed("7")
