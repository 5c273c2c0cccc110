"""Seconds until the first training step of the digit network through mg.jax.Engine, in fresh processes.

    python bench/xla_first_step.py [--rounds 3]

"cold" starts with an empty cache of compiled programs, "warm" with that of an earlier process. Each part is given in
seconds, and in seconds of processor time, which other programs on the machine do not change. The first step includes
building its graph, tracing, compiling or reading the cache, and running.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

STEP = """
import json, sys, time
begin = time.perf_counter()
import numpy as np
import mpsgraph as mg
import jax
parts, last = {}, (begin, 0.0)
def mark(name):
    global last
    now = time.perf_counter(), time.process_time()
    parts[name], last = [now[0] - last[0], now[1] - last[1]], now
mark("imports")
engine = mg.jax.Engine(cache=sys.argv[1])
jax.devices()
mark("start of JAX")
from mpsgraph import nn
model = nn.Sequential(
    nn.Conv2d(32, 5, padding="TF_SAME"), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 5, padding="TF_SAME"), nn.ReLU(),
    nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024), nn.ReLU(), nn.Dropout(0.4), nn.Linear(10))
trainer = mg.Trainer(model, optimizer=mg.optim.SGD(0.01), seed=0, engine=engine)
rng = np.random.default_rng(0)
x, y = rng.random((64, 28, 28, 1), np.float32), rng.integers(10, size=64).astype(np.int32)
float(trainer.train_step(x, y))
mark("first step")
float(trainer.train_step(x, y))
mark("second step")
parts["until the first result"] = [sum(t) for t in zip(*(parts[n] for n in list(parts)[:3]))]
print(json.dumps(parts))
"""


def first_step(cache: Path) -> dict[str, list[float]]:
    """Return the seconds of each part in a fresh process."""
    command = [sys.executable, "-c", STEP, str(cache)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    found: dict[str, list[dict[str, list[float]]]] = {"cold": [], "warm": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            for kind in found:
                found[kind].append(first_step(Path(folder)))
    for kind, runs in found.items():
        print(kind)
        for name in runs[0]:
            seconds, used = (statistics.median(run[name][i] for run in runs) for i in range(2))
            print(f"  {name:24}{seconds:6.2f} s{used:8.2f} s of processor time")


if __name__ == "__main__":
    main()
