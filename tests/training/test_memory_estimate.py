"""Test that Trainer.memory_estimate is close to the memory that the runtime measures.

Each network trains in its own process, because the runtime's peak covers the whole process.
"""

import json
import subprocess
import sys
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from harness.device import IS_METAL
from harness.memory_networks import NETWORKS
from mpsgraph import nn

PROGRAM = """
import json, sys
import mpsgraph as mg
from harness.device import IS_METAL
from harness.memory_networks import NETWORKS
make, batch, options = NETWORKS[sys.argv[1]]
trainer, batch = mg.Trainer(make(), device="cpu", **options()), batch()
estimate = trainer.memory_estimate(batch)
assert trainer.step == 0
for _ in range(5):
    trainer.train_step(*batch)
trainer.wait()
found = mg.memory_statistics()["cpu"]
print(json.dumps([estimate.total, found["total"]["peak"], estimate.intermediates, found["arenas"]["peak"]]))
"""


@pytest.mark.parametrize("name", NETWORKS)
def test_estimate_is_within_ten_percent_of_the_measured_peak(name):
    tests = Path(__file__).resolve().parents[1]
    program = f"import sys; sys.path.insert(0, {str(tests)!r})\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", program, name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    total, peak, intermediates, arenas = json.loads(done.stdout)
    assert 0.9 * peak < total < 1.1 * peak
    assert 0.9 * arenas < intermediates < 1.1 * arenas


def test_estimate_counts_variables_by_purpose():
    trainer = mg.Trainer(nn.Linear(256, bias=False), "mse", "adam", ema_decay=0.9, device="cpu")
    batch = np.zeros((8, 512), np.float32), np.zeros((8, 256), np.float32)
    estimate = trainer.memory_estimate(batch)
    weights = 512 * 256 * 4
    assert estimate.weights == weights
    assert 2 * weights <= estimate.optimizer <= 2 * weights + 128
    assert weights <= estimate.other_state <= weights + 128
    assert 0 < estimate.intermediates < weights  # The update takes the gradient in blocks.
    assert estimate.batch == 8 * (512 + 256) * 4
    assert estimate.total > 4 * weights
    assert "optimizer" in str(estimate)
    again = trainer.memory_estimate(batch[0], batch[1], np.ones(8, np.float32))
    assert again.batch == estimate.batch + 32


def test_estimate_changes_no_weight_and_no_random_state():
    def trainer():
        return mg.Trainer(nn.Sequential(nn.Linear(8), nn.Dropout(0.5), nn.Linear(2)), seed=1, device="cpu")

    batch = np.ones((4, 3), np.float32), np.zeros(4, np.int32)
    estimated, plain = trainer(), trainer()
    estimated.memory_estimate(batch)
    for _ in range(3):
        assert float(estimated.train_step(*batch)) == float(plain.train_step(*batch))


@pytest.mark.both_devices
def test_estimate_on_metal_is_refused():
    trainer, batch = mg.Trainer(nn.Linear(2)), (np.zeros((2, 2), np.float32), np.zeros(2, np.int32))
    if not IS_METAL:
        assert trainer.memory_estimate(batch).total > 0
        return
    with pytest.raises(mg.UnsupportedError, match="device='cpu'"):
        trainer.memory_estimate(batch)


def test_estimate_after_a_changed_setting_is_that_of_the_new_step():
    layers = [nn.Sequential(nn.Linear(256), nn.Tanh(), nn.Linear(256), nn.Tanh()) for _ in range(6)]
    trainer = mg.Trainer(nn.Sequential(*layers), "mse", "sgd", device="cpu")
    batch = np.zeros((1024, 256), np.float32), np.zeros((1024, 256), np.float32)
    before = trainer.memory_estimate(batch).intermediates
    trainer.checkpoint_layers = True
    assert trainer.memory_estimate(batch).intermediates < 0.8 * before
