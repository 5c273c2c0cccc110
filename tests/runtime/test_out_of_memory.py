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
from mpsgraph import nn
# Would otherwise be imported later, by numpy and by mg.Trainer. CPython's import may raise SystemError if there is too
# little memory.
import numpy.random, mpsgraph.training.trainer

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


NO_MEMORY_IN_A_THREAD = """
import ctypes, os, resource
import mpsgraph as mg
import numpy as np

malloc = ctypes.CDLL(None).malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
g = mg.Graph()
x = g.placeholder((2,))
program = g.compile({x: (2,)}, [x + 1.0])
raised = b"raised"

def use_all_memory(_):
    mg.NDArray((1,))
    resource.setrlimit(resource.RLIMIT_AS, (1, resource.getrlimit(resource.RLIMIT_AS)[1]))
    for size in (1 << 20, 1 << 16, 4096, 256, 24):
        try:
            while malloc(size):
                pass
        except MemoryError:
            pass
    mg.NDArray((2**50,))  # the first C++ exception in this thread

buffer = mg.CommandQueue(mg.Device("cpu")).command_buffer()
buffer.add_completed_handler(use_all_memory)
program.encode(buffer, [np.ones(2, np.float32)])
buffer.commit()
try:
    buffer.wait_until_completed()
except MemoryError:
    os.write(1, raised)
    os._exit(0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs address-space limits")
def test_first_exception_of_a_thread_without_any_memory_reaches_the_waiter():
    """A thread that throws for the first time needs memory for its exception state, and releasing the exception's
    Python object on another thread needs memory for the list of such objects.
    """
    done = subprocess.run(
        [sys.executable, "-c", NO_MEMORY_IN_A_THREAD], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "raised"), (done.returncode, done.stderr[-2000:])
