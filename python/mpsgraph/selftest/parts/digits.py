"""Part digits: trains the demo's digit classifier on the device and compares its first losses with the CPU."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

import mpsgraph as mg

from ...training.callbacks import Callback
from ...training.roles import Trains
from ..checks import MISSING, NOTED, Check, Options, Result
from .gradients import compare
from .operations import device_name

ITERATIONS, ACCURACY = 300, 0.95
QUICK_ITERATIONS, QUICK_ACCURACY = 40, 0.5
LONGEST = 60.0  # Seconds of training; a check that takes two minutes counts as hung.
STEPS = 5


def checks(options: Options) -> list[Check]:
    """Return two checks: the training, and a comparison of its first steps with the CPU."""
    return [
        Check("training", lambda: training(options), limit=1200.0),
        Check("the same losses as on the CPU", lambda: same_losses(options), limit=600.0),
    ]


class Deadline(Callback):
    """Stops a training that takes longer than LONGEST, as on a busy or an emulated device."""

    def __init__(self) -> None:
        self.end = time.perf_counter() + LONGEST

    def on_step_end(self, trainer: Trains, step: int, values: Mapping[str, float]) -> None:
        """Stop the training if its time is over."""
        if time.perf_counter() > self.end:
            trainer.stop("the time of the check was over")


def training(options: Options) -> Result:
    """Train the demo's network, and fail if its accuracy on the test set is too low."""
    from mpsgraph.demo import digits

    try:
        train_set, test_set = mg.data.digits()
    except ImportError as error:
        return Result(MISSING, str(error))
    iterations, least = (QUICK_ITERATIONS, QUICK_ACCURACY) if options.quick else (ITERATIONS, ACCURACY)
    started = time.perf_counter()
    trainer = digits.train(train_set, iterations, seed=0, progress=False, device=options.device, callbacks=[Deadline()])
    seconds = time.perf_counter() - started
    if trainer.step < iterations:
        first, last = trainer.history.loss[0], trainer.history.loss[-1]
        message = (
            f"only {trainer.step} of {iterations} iterations in {seconds:.0f} s, loss from {first:.3f} to {last:.3f}"
        )
        return Result(NOTED, message, numbers={"iterations": trainer.step, "seconds": seconds})
    found = trainer.evaluate(test_set)
    numbers = {"iterations": iterations, "seconds": seconds, **found}
    message = f"{iterations} iterations in {seconds:.1f} s, accuracy {found['accuracy']:.2%}, loss {found['loss']:.4f}"
    assert found["accuracy"] >= least, f"{message}; expected {least:.0%}"
    return Result(message=message, numbers=numbers)


def same_losses(options: Options) -> Result:
    """Compare the losses of a few steps without dropout with those on the CPU."""
    rng = np.random.default_rng(0)
    images = rng.random((16, 28, 28, 1), np.float32)
    labels = rng.integers(0, 10, 16).astype(np.int32)

    def losses(device: str) -> np.ndarray:
        nn = mg.nn
        model = nn.Sequential(
            nn.Conv2d(8, 5, padding="TF_SAME"), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(10)
        )
        trainer = mg.Trainer(model, optimizer=mg.optim.Adam(0.01), metrics=(), device=device, seed=1)
        return np.array([float(trainer.train_step(images, labels)) for _ in range(STEPS)])

    device = device_name(options)
    found, wanted = losses(device), losses("cpu")
    compare(found, wanted, "losses", 1e-3)
    return Result(message=f"{device} {found.tolist()}, cpu {wanted.tolist()}", numbers={device: found.tolist()})
