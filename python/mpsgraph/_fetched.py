"""Results of asynchronous runs, indexed by the tensors that were asked for, as in Apple's dictionaries of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from ._core import Execution, ExecutionDescriptor, NDArray, Tensor
from ._display import shown
from .errors import GraphError


class Fetched(list[Any]):
    """Arrays of a run in the order of the targets, which can also be indexed by target: `results[loss]`.

    `keys`, `items`, `get`, and `in` use the targets; iteration is over the arrays.
    """

    def __init__(self, arrays: Sequence[NDArray], targets: Sequence[Tensor]) -> None:
        super().__init__(arrays)
        self._targets = tuple(targets)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, Tensor):
            return super().__getitem__(key)
        for target, array in zip(self._targets, self, strict=False):
            if target is key:
                return array
        raise GraphError(f"'{key.name}' is not a target of this run: its targets are {shown(self._names())}")

    def __contains__(self, key: object) -> bool:
        if isinstance(key, Tensor):
            return any(target is key for target in self._targets)
        return any(array is key for array in self)

    def _names(self) -> list[str]:
        return [target.name for target in self._targets]

    def keys(self) -> tuple[Tensor, ...]:
        """Return the targets."""
        return self._targets

    def values(self) -> list[NDArray]:
        """Return the arrays."""
        return list(self)

    def items(self) -> Iterator[tuple[Tensor, NDArray]]:
        """Iterate over pairs of a target and its array."""
        return zip(self._targets, self, strict=False)

    def get(self, key: Tensor, default: Any = None) -> Any:
        """Return the array of a target, or a default if the tensor is not a target."""
        return self[key] if key in self else default


_lock = Lock()
_targets: WeakKeyDictionary[Execution, tuple[Tensor, ...]] = WeakKeyDictionary()


@contextmanager
def by_target(descriptor: ExecutionDescriptor | None, targets: Sequence[Tensor]) -> Iterator[None]:
    """Let the handlers of runs that start within a `with` block receive results that targets index."""
    if descriptor is None or (descriptor.scheduled_handler is None and descriptor.completed_handler is None):
        yield
        return
    with _lock:
        own = descriptor.scheduled_handler, descriptor.completed_handler
        descriptor.scheduled_handler, descriptor.completed_handler = (_wrapped(each, targets) for each in own)
        try:
            yield
        finally:
            descriptor.scheduled_handler, descriptor.completed_handler = own


def _wrapped(handler: Callable[..., Any] | None, targets: Sequence[Tensor]) -> Callable[..., Any] | None:
    if handler is None:
        return None

    def handle(results: Any, error: Any) -> Any:
        return handler(results if results is None else Fetched(results, targets), error)

    return handle


def remember_targets(execution: Execution, targets: Sequence[Tensor]) -> Execution:
    """Store the targets of a run, by which the execution can be indexed."""
    _targets[execution] = tuple(targets)
    return execution


def _fetched(self: Execution, target: Tensor) -> NDArray:
    """Return the array of a target of the run, without waiting.

    The array has its contents when the run has completed. Until then, it can be fed to runs that wait for the event
    that this run signals.
    """
    if self not in _targets:
        raise GraphError("this run was not started with Graph.run_async: use results or pending_results")
    found: NDArray = Fetched(self.pending_results, _targets[self])[target]
    return found


def install() -> None:
    """Add indexing by tensor to executions."""
    setattr(Execution, "__getitem__", _fetched)  # noqa: B010  # The stub of the class does not have it.
