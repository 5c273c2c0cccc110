"""Code that the runtime tests share: a minimal graph with an effect, runs that wait, and programs in other processes.

This module contains no tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable

import mpsgraph as mg
import numpy as np

from . import device

SECONDS = 30.0  # Timeout in seconds, far longer than any step takes, so that a hang becomes a test failure.


class Doubling:
    """A graph on a device that doubles its input and counts its runs."""

    def __init__(self, device: str | None = None) -> None:
        self.device = device
        g = self.g = mg.Graph()
        self.x = g.placeholder((-1,), name="x")
        self.count = g.variable(np.zeros((), np.float32), name="count")
        self.y = self.x * 2
        self.step = g.assign(self.count, self.count + 1.0)

    def feeds(self, *numbers: float) -> dict:
        return {self.x: np.array(numbers, np.float32)}

    def counted(self) -> float:
        return float(self.g.variable_value(self.count, device=self.device))


def waiting_for(event: mg.SharedEvent, value: int = 1) -> mg.ExecutionDescriptor:
    descriptor = mg.ExecutionDescriptor()
    descriptor.wait_for_event(event, value, SECONDS)
    return descriptor


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def run_program(program: str, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", device.prelude() + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **environment},
    )
