"""The steps of a trainer that have been started, and the number of steps made.

Steps run asynchronously, so whether a step fails is known only later. A step that failed has changed no variables and
is not counted: only steps that changed the variables advance the step count, the learning rate, and the position within
an accumulation.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from ..errors import Error
from .step_result import StepResult

IN_FLIGHT = 2
"""Number of steps that may be running while the next one is prepared."""


class StepsInFlight:
    """The steps of a trainer that may still be running, with their arrays, and the number of steps made."""

    def __init__(self) -> None:
        self._started: deque[tuple[StepResult, list[Any]]] = deque()
        self._made = 0
        self.limit = IN_FLIGHT
        """Number of steps that may be running, or queued by an engine, while the next one is prepared."""

    @property
    def made(self) -> int:
        """Number of steps started, except those known to have failed."""
        for result, _ in self._started:
            if result.raised:
                self._forget_failed()
                break
        return self._made

    @made.setter
    def made(self, steps: int) -> None:
        self._made = steps

    def make_room(self, accumulation: int) -> None:
        """Wait until another step may start. Raise the error of a step that failed.

        If several steps form one update, each step waits for the previous one, because whether it accumulates or
        applies its gradients depends on whether the previous step succeeded.
        """
        limit = 1 if accumulation > 1 else self.limit
        while len(self._started) >= limit:
            self._wait_for_oldest()

    def add(self, result: StepResult, arrays: list[Any]) -> None:
        """Add a step that has been started, and the arrays that it reads."""
        self._started.append((result, arrays))
        self._made += 1

    def wait(self) -> None:
        """Wait for all steps. Raise the error of the first step that failed, unless it has been raised already."""
        while self._started:
            self._wait_for_oldest()

    def _wait_for_oldest(self) -> None:
        oldest = self._started[0][0]
        if not oldest.raised:
            try:
                oldest.wait()
            except Error:
                self._forget_failed()
                raise
            self._started.popleft()
        else:
            self._forget_failed()

    def _forget_failed(self) -> None:
        for pair in [pair for pair in self._started if pair[0].raised]:
            self._started.remove(pair)
            self._made -= 1
