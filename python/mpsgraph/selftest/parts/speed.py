"""Part speed: training steps of two small networks on the device, compared with PyTorch on MPS and MLX if installed.

The networks and batches are those of benchmarks W1 (digit network, batch 64) and W6 (perceptron with Adam, batch 32).
Measurements alternate between the libraries, so that a change in the machine's speed affects all of them equally.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import mpsgraph as mg

from .. import peers
from ..checks import NOTED, Check, Options, Result
from ..workloads import CLASSES, DIGIT_RATE, PERCEPTRON_RATE, Step, digits_batch, perceptron_batch
from .operations import device_name

ROUNDS, STEPS, WARM_UP = 7, 20, 10


def checks(options: Options) -> list[Check]:
    """Return one check for each network."""
    networks = {
        "digit network, training step at batch 64": (digit_network, peers.DIGITS),
        "perceptron 784-512-512-10 with Adam, training step at batch 32": (perceptron, peers.PERCEPTRONS),
    }

    def bound(ours: Callable[[str], Step], others: dict[str, Callable[[], Step]]) -> Callable[[], Result]:
        return lambda: compared(ours, others, options)

    return [Check(name, bound(*sides), limit=900.0) for name, sides in networks.items()]


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


def compared(ours: Callable[[str], Step], others: dict[str, Callable[[], Step]], options: Options) -> Result:
    """Measure mpsgraph and every other library that is installed.

    The result has times in milliseconds, and the ratio of mpsgraph's time to that of each other library.
    """
    device = device_name(options)
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
    rounds, steps = (2, 3) if options.quick else (ROUNDS, STEPS)
    for step in sides.values():
        for _ in range(steps // 2 if options.quick else WARM_UP):
            step()
    for _ in range(rounds):
        for name, step in sides.items():
            times[name].append(_milliseconds(step, steps))
    first = next(iter(times.values()))
    numbers: dict[str, Any] = {}
    lines = []
    for name, found in times.items():
        q1, median, q3 = statistics.quantiles(found, n=4, method="inclusive")
        numbers[name] = {"median ms": median, "quartiles ms": [q1, q3], "samples": found}
        line = f"{name:16} {median:8.3f} ms ({q1:.3f} .. {q3:.3f})"
        if found is not first:
            ratio = statistics.median(a / b for a, b in zip(first, found, strict=True))
            numbers[name]["ratio of mpsgraph to this"] = ratio
            line += f", time ratio mpsgraph / {name}: {ratio:.2f}"
        lines.append(line)
    lines += [f"{name:16} {why}" for name, why in absent.items()]

    return Result(NOTED, "\n".join(lines), numbers | absent)


def _milliseconds(step: Step, count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        step()
    return 1e3 * (time.perf_counter() - started) / count
