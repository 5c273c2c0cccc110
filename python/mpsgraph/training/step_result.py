"""StepResult: the loss and the metrics of a training step, which may still be running."""

from __future__ import annotations

from .._core import Execution, NDArray
from ..errors import Error, TimeoutError
from .engine import Started


class StepResult:
    """The outcome of a training step that may still be running: `float(result)` waits for the loss.

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
        self._ended = False  # as far as somebody has seen it: each look at the execution takes microseconds
        self.raised = False  # its error has been seen, and is not that of a later step

    @property
    def done(self) -> bool:
        """Has the step finished? Never waits."""
        return self._execution.done

    def wait(self, timeout: float | None = None) -> StepResult:
        """Waits, at most `timeout` seconds. Errors: mg.TimeoutError, and whatever the step raised."""
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
        """Loss and metrics by name; waits."""
        if not self._ended:
            self.wait()
        return {name: float(array) for name, array in zip(self._names, self._execution.results, strict=False)}

    @property
    def outputs(self) -> list[NDArray]:
        """What metrics that accumulate are given of the model's outputs; waits."""
        self.wait()
        return list(self._execution.results)[len(self._names) :]

    @property
    def loss(self) -> float:
        """The mean loss over the batch; waits."""
        return float(self)

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
