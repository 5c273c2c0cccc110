"""What a Trainer asks of an engine that is no device of the package: mpsgraph.jax.Engine is one.

An engine gives a `Runner` for a graph. The runner has the variables' values while it works, and gives them back to the
graph when somebody looks there: `Graph.on` asks whoever is the graph's guest. So checkpoints, `state_dict` and
`variable_value` see the values that training has made, wherever they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .._core import NDArray, Operation, Tensor
from ..graph import Graph


class Started(Protocol):
    """A run that has been started, as an `Execution` of the package is."""

    @property
    def done(self) -> bool:
        """Has it finished? Never waits."""

    @property
    def results(self) -> Any:
        """Arrays in the order of the targets; waits. Errors: whatever the run raised."""

    def wait(self, timeout: float | None = None) -> Any:
        """Waits, at most so many seconds. Errors: TimeoutError, and whatever the run raised."""


class Prepared(Protocol):
    """Targets and operations, made ready for one type of each feed, as an `Executable` of the package is."""

    def run_async(self, inputs: Sequence[Any]) -> Started:
        """Starts a run on arrays in the order of the feeds, which stay unchanged until it is done."""


class Runner(Protocol):
    """A graph on an engine, as a `DeviceGraph` is one on a device."""

    def compile(
        self,
        feeds: Mapping[Tensor, tuple[Any, tuple[int, ...]]],
        targets: Sequence[Tensor],
        target_operations: Sequence[Operation],
        batched: Sequence[Tensor],
    ) -> Prepared:
        """Feeds are placeholders with (dtype, shape); `batched` are those whose first axis is a batch."""

    def run(self, feeds: Mapping[Tensor, Any], targets: Sequence[Tensor]) -> list[NDArray]:
        """Runs on batches, and waits."""

    def give_back(self) -> None:
        """Gives the graph the values that its variables have here, once all that was started is over."""


class Engine(Protocol):
    """What runs graphs elsewhere."""

    def on(self, graph: Graph) -> Runner:
        """The graph on this engine."""
