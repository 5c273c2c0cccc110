"""Observation of modules: the calls and the added losses that a thread records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .._core import Tensor
from ..graph import Graph
from .parts import Part


@dataclass(frozen=True)
class Call:
    """Record of one call of a module: its arguments, its result, and the operations that it added to the graph."""

    module: Part
    arguments: tuple[tuple[Any, ...], dict[str, Any]]  # Positional and keyword arguments.
    result: Any
    operations: range
    """Ids of the added operations.

    The module's own variables are excluded; those of parts first called in this call are included.
    """


class _Losses(threading.local):
    """Per-thread stack of the lists in which `added_losses` blocks collect losses."""

    def __init__(self) -> None:
        self.open: list[list[Tensor]] = []


_losses = _Losses()


def collect_loss(loss: Tensor) -> None:
    """Append a loss to the lists of all active `added_losses` blocks of this thread."""
    for terms in _losses.open:
        terms.append(loss)


@contextmanager
def added_losses() -> Iterator[list[Tensor]]:
    """Collect the losses that modules add with `add_loss` in this thread within a `with` block.

    Yields:
        A list to which each added loss is appended.
    """
    terms: list[Tensor] = []
    _losses.open.append(terms)
    try:
        yield terms
    finally:
        _losses.open = [kept for kept in _losses.open if kept is not terms]


class _Observers(threading.local):
    """Per-thread list of the functions to call after each module call."""

    def __init__(self) -> None:
        self.open: list[Callable[[Call], None]] = []


_observers = _Observers()


@contextmanager
def observed_calls(observer: Callable[[Call], None]) -> Iterator[None]:
    """Report each module call in this thread to an observer within a `with` block.

    The observer is called when `forward` has returned, so inner calls are reported before the call that contains them.
    Observers can be nested, in which case all of them are called. Direct calls of `forward` are not reported.

    Args:
        observer: Function that takes a Call.

    Example:
        >>> from mpsgraph.nn.observation import observed_calls
        >>> model, seen = mg.nn.Sequential(mg.nn.Linear(2), mg.nn.ReLU()), []
        >>> with observed_calls(seen.append):
        ...     y = model(mg.Graph().placeholder((-1, 3)))
        >>> [(type(call.module).__name__, call.result.shape) for call in seen]
        [('Linear', (-1, 2)), ('ReLU', (-1, 2)), ('Sequential', (-1, 2))]
    """
    _observers.open.append(observer)
    try:
        yield
    finally:
        _observers.open.remove(observer)


def forward_observed(module: Any, graph: Graph, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Call `forward`, then pass a record of the call to all active observers."""
    if not _observers.open:
        return module.forward(*arguments, **options)
    before = graph.operation_count
    result = module.forward(*arguments, **options)
    call = Call(module, (arguments, options), result, range(before, graph.operation_count))
    for observer in list(_observers.open):
        observer(call)
    return result
