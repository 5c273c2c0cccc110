"""Test that too little memory raises OutOfMemoryError and does not end the process."""

from __future__ import annotations

import subprocess
import sys

import mpsgraph as mg
import pytest

PROGRAM = """
import resource, subprocess, sys
import mpsgraph as mg
import numpy as np
import numpy.random  # which numpy would otherwise import later, when there is too little memory for that
from mpsgraph import nn

def size():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmSize")) * 1024

g = mg.Graph()
x = g.placeholder((256, 4096))
v = g.variable(np.zeros(4096, np.float32))
ys = [g.sort(g.softmax(x * float(i)), axis=1) for i in range(24)]
feeds = {x: np.ones((256, 4096), np.float32)}

def sorting():
    g.run(feeds, ys, [g.assign(v, v + 1.0)])

def training():
    model = nn.Sequential(nn.Linear(256), nn.ReLU(), nn.Linear(10))
    trainer = mg.Trainer(model, loss="cross_entropy", optimizer=mg.optim.Adam(1e-3))
    images = np.ones((64, 784), np.float32)
    for _ in range(5):
        float(trainer.train_step(images, np.arange(64) % 10))

limits = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (size() + (int(sys.argv[2]) << 20), limits[1]))
try:
    {"sorting": sorting, "training": training}[sys.argv[1]]()
except (mg.OutOfMemoryError, MemoryError) as error:
    print(type(error).__name__)
resource.setrlimit(resource.RLIMIT_AS, limits)
assert g.run(feeds, ys[0] + 0.0).shape == (256, 4096)
print("usable")
"""


def test_impossible_sizes_raise_out_of_memory_error():
    with pytest.raises(mg.OutOfMemoryError, match="cannot allocate") as raised:
        mg.NDArray((2**50,))
    assert isinstance(raised.value, MemoryError) and isinstance(raised.value, mg.DeviceError)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and address-space limits")
@pytest.mark.parametrize("megabytes", [1, 8, 12, 24, 40, 48, 55, 80, 120])
@pytest.mark.parametrize("program", ["sorting", "training"])
def test_run_with_little_memory_raises_and_the_process_continues(program: str, megabytes: int):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, program, str(megabytes)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.split()[-1] == "usable", (done.returncode, done.stderr[-2000:])
