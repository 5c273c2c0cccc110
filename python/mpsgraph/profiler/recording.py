"""Starting and stopping: one profile at a time is taken in a process, of all its threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread

from .. import _core
from .._checks import checked
from ..errors import DeviceError, GraphError
from .profiles import Profile

CAPACITY = 262144
"""How many records a profile keeps unless told; each takes about 150 bytes."""

_started: Profile | None = None


@checked
def start(capacity: int = CAPACITY) -> None:
    """Records from now on, until stop(). Keeps the newest `capacity` records.

    Errors: DeviceError when a profile is being taken already, GraphError for a capacity below 1.

    >>> mg.profiler.start()
    >>> len(mg.profiler.stop().kernels)
    0
    """
    global _started
    profile = Profile()
    _start(capacity)
    _started = profile


def stop() -> Profile:
    """Ends what start() began and returns it. Work that is still in flight is not in it.

    Errors: DeviceError when none is being taken.

    >>> mg.profiler.start()
    >>> g = mg.Graph()
    >>> _ = g.run({}, g.constant([1.0]) + 1.0)
    >>> p = mg.profiler.stop()
    >>> type(p).__name__
    'Profile'
    """
    global _started
    if _started is None:
        raise DeviceError("no profile was started with mpsgraph.profiler.start()")
    profile, _started = _started, None
    profile._fill(_core.stop_profile())
    return profile


@checked
@contextmanager
def profile(capacity: int = CAPACITY) -> Iterator[Profile]:
    """Records what runs within the block, on all threads. Work that is in flight at its end is not in it.

    Args: capacity, the newest so many records are kept. Result: the profile, to be looked at after the block, also
    when the block raised. Errors: DeviceError when a profile is being taken already.

    >>> g = mg.Graph()
    >>> x = g.placeholder((-1, 4), name="x")
    >>> y = g.matrix_multiplication(x, g.constant(np.ones((4, 2), np.float32)))
    >>> with mg.profiler.profile() as p:
    ...     _ = g.run({x: np.ones((3, 4), np.float32)}, y, device="cpu")
    >>> [(k.kernel.kind, k.kernel.flops, k.kernel.bytes_read) for k in p.kernels]
    [('matrix_multiplication', 48.0, 80.0)]
    """
    result = Profile()
    _start(capacity)
    try:
        yield result
    finally:
        result._fill(_core.stop_profile())


def _start(capacity: int) -> None:
    if capacity < 1:
        raise GraphError(f"a profile keeps at least 1 record, capacity {capacity} came")
    _core.name_this_thread(current_thread().name)
    _core.start_profile(capacity)
