"""StepResult: loss and metrics of a training step, which may still be running."""

from __future__ import annotations

from typing import Any

from .._core import Execution, NDArray
from ..errors import Error, TimeoutError
from .engine import Started


class StepResult:
    """Loss and metrics of a training step that may still be running. `float(result)` waits for the loss.

    Returned by Trainer.train_step.

    Example:
        >>> trainer = mg.Trainer(mg.nn.Linear(2))
        >>> result = trainer.train_step(np.eye(2, dtype=np.float32), np.int32([0, 1]))
        >>> sorted(result.values)
        ['accuracy', 'loss']
        >>> float(result) == result.values["loss"]
        True
    """

    __slots__ = ("_ended", "_execution", "_names", "raised")

    def __init__(self, execution: Execution | Started, names: list[str]) -> None:
        self._execution, self._names = execution, names
        self._ended = False  # Whether the step is known to have ended; querying the execution takes microseconds.
        # Whether the error of this step has been raised, so that later steps do not raise it again.
        self.raised = False

    @property
    def done(self) -> bool:
        """Whether the step has finished. Reading this attribute never waits."""
        return self._execution.done

    def wait(self, timeout: float | None = None) -> StepResult:
        """Wait for the step to finish.

        Args:
            timeout: Maximum time in seconds. None, the default, means no limit.

        Returns:
            This object.

        Raises:
            TimeoutError: If the step has not finished in time (mg.TimeoutError).
            Error: If the step failed; this is the step's own error.
        """
        if not self._ended:
            try:
                self._execution.wait(timeout)
            except Error as error:
                self.raised = not isinstance(error, TimeoutError)
                raise
            self._ended = True
        return self

    @property
    def values(self) -> dict[str, float]:
        """Loss and metrics, keyed by name. Waits for the step."""
        if not self._ended:
            self.wait()
        return {name: float(array) for name, array in zip(self._names, self._execution.results, strict=False)}

    @property
    def outputs(self) -> list[NDArray]:
        """Outputs of the model that accumulated metrics need. Waits for the step."""
        self.wait()
        return list(self._execution.results)[len(self._names) :]

    @property
    def loss(self) -> float:
        """Mean loss over the batch. Waits for the step."""
        return float(self)

    def __reduce__(self) -> Any:
        """Support pickle and copy: wait for the step, and store its values and outputs."""
        self.wait()
        return _finished, (self._names, list(self._execution.results))

    def __float__(self) -> float:
        try:
            loss = float(self._execution.results[0])
        except Error:
            self.raised = True
            raise
        self._ended = True
        return loss

    def __format__(self, specification: str) -> str:
        return format(float(self), specification)

    def __repr__(self) -> str:
        return f"StepResult({self.values})" if self.done else "StepResult(running)"


class _Results:
    """The results of a finished step that was unpickled."""

    done = True

    def __init__(self, results: list[Any]) -> None:
        self.results = results

    def wait(self, timeout: float | None = None) -> None:
        """Return at once."""


def _finished(names: list[str], results: list[Any]) -> StepResult:
    """Return an unpickled result; `StepResult.__reduce__` names this function."""
    return StepResult(_Results(results), names)
