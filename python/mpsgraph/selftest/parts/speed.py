"""Part speed: training steps of two small networks, compared with PyTorch and MLX if installed.

The networks and batches are those of benchmarks W1 (digit network, batch 64) and W6 (perceptron with Adam, batch 32).
They run on the tested device and on the CPU, where a matmul is also compared with numpy's, which uses Accelerate on
macOS. Measurements alternate between the libraries, so that a change in the machine's speed affects all of them.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import mpsgraph as mg

from .. import peers
from ..checks import NOTED, Check, Options, Result
from ..workloads import (
    CLASSES,
    DIGIT_RATE,
    MATRIX,
    PERCEPTRON_RATE,
    Step,
    digits_batch,
    matrices,
    perceptron_batch,
)
from .operations import device_name

ROUNDS, STEPS = 7, 20


def checks(options: Options) -> list[Check]:
    """Return one check for each network on the device, and then, also for a matmul, on the CPU."""

    def check(name: str, device: str, ours: Callable[[str], Step], others: peers.Peers) -> Check:
        return Check(name, lambda: compared(device, ours, others, options), limit=900.0)

    def networks(device: str) -> list[Check]:
        where = " on the CPU" if device == "cpu" else ""
        digits = f"digit network{where}, training step at batch 64"
        dense = f"perceptron{where}, 784-512-512-10 with Adam, training step at batch 32"
        return [
            check(dense, device, perceptron, peers.perceptrons(device)),
            check(digits, device, digit_network, peers.digits(device)),
        ]

    name = f"matmul on the CPU, {MATRIX} x {MATRIX} in float32"
    product = check(name, "cpu", matmul, {f"numpy ({peers.blas()})": peers.numpy_matmul})
    device = device_name(options)
    return [*(networks(device) if device != "cpu" else []), product, *networks("cpu")]


def digit_network(device: str) -> Step:
    """Create a training step of the digit network: two 5x5 convolutions, dense layers of 1024 (with dropout) and 10."""
    nn = mg.nn
    model = nn.Sequential(
        nn.Conv2d(32, 5, padding="TF_SAME"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 5, padding="TF_SAME"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(CLASSES),
    )
    trainer = mg.Trainer(model, optimizer=mg.optim.SGD(DIGIT_RATE), metrics=(), device=device)
    images, labels = digits_batch()
    return lambda: float(trainer.train_step(images, labels))


def perceptron(device: str) -> Step:
    """Create a training step of a perceptron with layers of 784, 512, 512, and 10 units, trained with Adam."""
    nn = mg.nn
    model = nn.Sequential(nn.Linear(512), nn.ReLU(), nn.Linear(512), nn.ReLU(), nn.Linear(CLASSES))
    trainer = mg.Trainer(model, optimizer=mg.optim.Adam(PERCEPTRON_RATE), metrics=(), device=device)
    inputs, labels = perceptron_batch()
    return lambda: float(trainer.train_step(inputs, labels))


def matmul(device: str) -> Step:
    """Create a step that multiplies two matrices."""
    a, b = matrices()
    graph = mg.Graph()
    x, y = graph.placeholder(a.shape), graph.placeholder(b.shape)
    program = graph.on(device).compile({x: (mg.float32, a.shape), y: (mg.float32, b.shape)}, [x @ y])
    product = np.empty_like(a)

    def step() -> float:
        program.run([a, b], [product])
        return float(product[0, 0])

    return step


def compared(device: str, ours: Callable[[str], Step], others: peers.Peers, options: Options) -> Result:
    """Measure mpsgraph and every other library that is installed.

    The result has times in milliseconds, and the ratio of mpsgraph's time to that of each other library.
    """
    sides: dict[str, Step] = {f"mpsgraph {device}": ours(device)}
    absent: dict[str, str] = {}
    for name, make in others.items():
        if importlib.util.find_spec(name.split()[0].lower().replace("pytorch", "torch")) is None:
            absent[name] = "not installed"
            continue
        try:
            sides[name] = make()
        except Exception as error:  # An error in another library is not a failure of this package.
            absent[name] = f"{type(error).__name__}: {error}"
    times: dict[str, list[float]] = {name: [] for name in sides}
    rounds, most = (2, 3) if options.quick else (ROUNDS, STEPS)
    steps = {name: _steps_within_a_second(step, most) for name, step in sides.items()}
    for _ in range(rounds):
        for name, step in sides.items():
            times[name].append(_milliseconds(step, steps[name]))
    first = next(iter(times.values()))
    numbers: dict[str, Any] = {}
    lines = []
    for name, found in times.items():
        q1, median, q3 = statistics.quantiles(found, n=4, method="inclusive")
        numbers[name] = {"median ms": median, "quartiles ms": [q1, q3], "samples": found}
        line = f"{name:24} {median:8.3f} ms ({q1:.3f} .. {q3:.3f})"
        if found is not first:
            ratio = statistics.median(a / b for a, b in zip(first, found, strict=True))
            numbers[name]["ratio of mpsgraph to this"] = ratio
            line += f", time ratio mpsgraph / {name}: {ratio:.2f}"
        lines.append(line)
    lines += [f"{name:24} {why}" for name, why in absent.items()]

    return Result(NOTED, "\n".join(lines), numbers | absent)


def _steps_within_a_second(step: Step, most: int) -> int:
    """Run some steps to warm up; return how many steps, at most `most`, take about a second."""
    step()
    fastest = _milliseconds(step, 1)
    for _ in range(most // 2):
        if fastest > 500:
            break
        fastest = min(fastest, _milliseconds(step, 1))
    return max(1, min(most, int(1000 / fastest)))


def _milliseconds(step: Step, count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        step()
    return 1e3 * (time.perf_counter() - started) / count
