"""Start and stop recording. A process records one profile at a time, of all its threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread

from .. import _core
from .._checks import checked
from ..errors import DeviceError, GraphError
from .profiles import Profile, fill

CAPACITY = 262144
"""Default number of records that a profile keeps; a record takes about 150 bytes."""

_started: Profile | None = None


@checked
def start(capacity: int = CAPACITY) -> None:
    """Start recording a profile, until stop() is called.

    Args:
        capacity: Number of records to keep; older ones are overwritten. Defaults to CAPACITY.

    Raises:
        DeviceError: If a profile is already being recorded.
        GraphError: If capacity is less than 1.

    Example:
        >>> mg.profiler.start()
        >>> len(mg.profiler.stop().kernels)
        0
    """
    global _started
    profile = Profile()
    _start(capacity)
    _started = profile


def stop() -> Profile:
    """Stop the recording begun by start().

    Returns:
        The profile. It does not contain work that is still in flight.

    Raises:
        DeviceError: If no recording was begun by start().

    Example:
        >>> mg.profiler.start()
        >>> g = mg.Graph()
        >>> _ = g.run({}, g.constant([1.0]) + 1.0)
        >>> p = mg.profiler.stop()
        >>> type(p).__name__
        'Profile'
    """
    global _started
    if _started is None:
        raise DeviceError("stop: no profile was started with mpsgraph.profiler.start()")
    profile, _started = _started, None
    fill(profile, _core.stop_profile())
    return profile


@checked
@contextmanager
def profile(capacity: int = CAPACITY) -> Iterator[Profile]:
    """Record everything that runs in a `with` block, on all threads.

    Work that is still in flight at the end of the block is not included.

    Args:
        capacity: Number of records to keep; older ones are overwritten. Defaults to CAPACITY.

    Returns:
        A context manager whose value is the profile. It can be read after the block, even if the block raised an
        exception.

    Raises:
        DeviceError: If a profile is already being recorded.
        GraphError: If capacity is less than 1.

    Example:
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
        fill(result, _core.stop_profile())


def _start(capacity: int) -> None:
    if capacity < 1:
        raise GraphError(f"capacity must be at least 1 record, got {capacity}")
    _core.name_this_thread(current_thread().name)
    _core.start_profile(capacity)
