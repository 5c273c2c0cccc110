"""Protocols of engines, such as mpsgraph.jax.Engine, which run a Trainer's steps instead of mpsgraph's own devices.

An engine returns a `Runner` for a graph. During training, the runner holds the values of the graph's variables; it
copies them back when a caller accesses them through the graph (see `Graph.on`). Checkpoints, `state_dict`, and
`variable_value` therefore always contain the current values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._core import NDArray, Operation, Tensor
from ..graph import Graph
from .sharded_checkpoint import Part


class DeviceArray:
    """An array in the memory of an engine's devices, which a step takes without copying it; see Engine.on_device.

    Args:
        value: The engine's own array.
        dtype: Its element type.
        shape: Its shape.

    Attributes:
        value: The engine's own array.
        dtype: Its element type.
        shape: Its shape.

    Example:
        >>> mg.training.engine.DeviceArray(object(), "float32", (4, 2)).ndim
        2
    """

    __slots__ = ("dtype", "shape", "value")

    def __init__(self, value: Any, dtype: Any, shape: Sequence[int]) -> None:
        self.value, self.dtype, self.shape = value, dtype, tuple(shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        """Return the number of samples, the size of the first axis."""
        return self.shape[0]

    def numpy(self) -> np.ndarray:
        """Return a copy of the whole array on this host. With several processes, all must call this method."""
        raise NotImplementedError

    def copy(self) -> DeviceArray:
        """Return this array, which never changes."""
        return self


@dataclass(frozen=True)
class Share:
    """The share of each batch that this process passes to an engine."""

    index: int
    """Index of the share."""
    count: int
    """Number of shares. Processes whose devices compute the same samples pass the same share."""
    parts: int
    """Number of parts into which the engine divides a batch. All processes pass an indivisible batch as a whole."""


class StepMemory(NamedTuple):
    """Bytes that a compiled step needs on one device of an engine, in addition to variables and feeds."""

    intermediates: int
    """Values that the step computes, and workspace: the largest amount in use at the same time."""
    constants: int
    """The program and its constants."""
    results: int
    """Values that the step returns, apart from variables, whose memory it reuses."""


class Started(Protocol):
    """Protocol of a run that has been started. `Execution` implements it for mpsgraph's own devices."""

    @property
    def done(self) -> bool:
        """Whether the run has finished. Reading this attribute never waits."""

    @property
    def results(self) -> Any:
        """The computed arrays, in the order of the targets. Waits for the run, and raises its error if it failed."""

    def wait(self, timeout: float | None = None) -> Any:
        """Wait for the run to finish.

        Args:
            timeout: Maximum time in seconds. None, the default, means no limit.

        Raises:
            TimeoutError: If the run has not finished in time.
            Error: If the run failed; this is the run's own error.
        """


class Prepared(Protocol):
    """Protocol of a program compiled for given dtypes and shapes of the feeds. `Executable` implements it."""

    def run_async(self, inputs: Sequence[Any]) -> Started:
        """Start a run.

        Args:
            inputs: Arrays in the order of the feeds, which must stay unchanged until the run has finished.

        Returns:
            The started run.
        """

    def memory(self, inputs: Sequence[Any]) -> StepMemory:
        """Return the memory that a run needs on one device.

        Args:
            inputs: Arrays in the order of the feeds.
        """


class Runner(Protocol):
    """Protocol of a graph whose variables and runs an engine manages, as `DeviceGraph` does for a device."""

    def compile(
        self,
        feeds: Mapping[Tensor, tuple[Any, tuple[int, ...]]],
        targets: Sequence[Tensor],
        target_operations: Sequence[Operation],
        batched: Sequence[Tensor],
    ) -> Prepared:
        """Compile targets and operations.

        Args:
            feeds: Data type and shape of each placeholder.
            targets: Tensors to compute.
            target_operations: Operations to run.
            batched: Placeholders whose first axis is the batch.

        Returns:
            The compiled program.
        """

    def run(self, feeds: Mapping[Tensor, Any], targets: Sequence[Tensor]) -> list[NDArray]:
        """Run on one batch and wait.

        Args:
            feeds: Dict of arrays, keyed by placeholder.
            targets: Tensors to compute.

        Returns:
            Arrays in the order of the targets.
        """

    def parts(self, variables: Mapping[str, Tensor]) -> list[Part]:
        """Return the parts of variables that this process writes to a sharded checkpoint, copied from the devices.

        Args:
            variables: Variables of the graph, keyed by their name in the checkpoint.
        """

    def bytes_of(self, variable: Tensor) -> int:
        """Return the number of bytes that a variable takes on one device.

        Args:
            variable: A variable of the graph.
        """

    def give_back(self) -> None:
        """Wait for all started runs, then copy the values of the variables back to the graph."""


class Engine(Protocol):
    """Protocol of engines, which run graphs instead of mpsgraph's own devices."""

    @property
    def share(self) -> Share:
        """The share of each batch that this process passes."""

    @property
    def process(self) -> tuple[int, int]:
        """The index of this process, and the number of processes that train together."""

    steps_per_dispatch: int
    """Number of training steps that the engine starts together."""

    def of_first(self, number: int) -> int:
        """Return the number that the first process passes. All processes must call this.

        Args:
            number: A number from 0 to 2**31 - 1.
        """

    def first_failure(self, failed: bool) -> int | None:
        """Return the index of the first process that passes True, or None. All processes must call this.

        Args:
            failed: Whether this process failed.
        """

    def on_device(self, batch: Any, whole: bool = False) -> Any:
        """Copy a batch to the devices.

        Args:
            batch: A structure of arrays. With several processes, each passes its own share.
            whole: Whether all processes pass the same whole batch instead.

        Returns:
            The structure with DeviceArray objects, whose shapes are those of the whole batch.
        """

    def on(self, graph: Graph) -> Runner:
        """Return the runner of a graph.

        Args:
            graph: The graph.
        """
