"""The processes of a program, which wait for each other and end together.

MPI starts the processes and transmits their messages. Waiting is done by polling with pauses, because MPI's own wait
functions keep busy a processor that the kernels need. A process that ends notifies the others, and waiting processes
check for such notifications regularly, so no process waits forever. An uncaught exception ends all processes.
"""

from __future__ import annotations

import atexit
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .._optional import require
from ..errors import DeviceError

_LEFT = 1  # Tag of the message that a process sends when it ends.
_BUSY, _PAUSE, _LOOK, _GRACE = 200e-6, 20e-6, 0.25, 2.0  # Times in seconds.


class Processes:
    """All processes of a program; `everyone` returns the only instance."""

    def __init__(self) -> None:
        self.MPI = require("mpi4py.MPI", "distributed", "training in several processes")
        if self.MPI.Query_thread() < self.MPI.THREAD_MULTIPLE:
            raise DeviceError(
                "the MPI library must support MPI_THREAD_MULTIPLE, because gradients are reduced in a separate thread; "
                "install an MPI library that does, for example with: pip install mpich"
            )
        world = self.MPI.COMM_WORLD
        self.rank, self.size = int(world.Get_rank()), int(world.Get_size())
        self.common = world.Dup()
        """Communicator for messages of the program's main thread."""
        self._control = world.Dup()
        self._unlink_shared_memory()
        self._kept: list[Any] = []  # Abandoned requests and their buffers, kept alive because MPI may still use them.
        self._before_exit: list[Callable[[], None]] = []
        if self.size > 1:
            self._inherited = sys.excepthook
            sys.excepthook = self._end_all
            atexit.register(self._leave)

    def _unlink_shared_memory(self) -> None:
        """Unlink the files of MPI's shared memory, so that they are not left over however the processes end.

        mpich would unlink the files itself, but only if all processes end normally. All processes have opened them, so
        the memory lasts until the processes end.
        """
        self.common.Barrier()
        with suppress(OSError):
            for line in Path("/proc/self/maps").read_text().splitlines():
                path = line.split()[-1]
                if path.startswith("/dev/shm/mpich_shm_"):
                    with suppress(FileNotFoundError):
                        os.unlink(path)

    def channel(self) -> Any:
        """Create a separate communicator for the messages of another thread; all processes must call this."""
        made, request = self.common.Idup()
        self.finish(request, "startup")
        return made

    def finish(self, request: Any, what: str, *buffers: Any) -> None:
        """Wait for a request; raise DeviceError if a process that it depends on has ended."""
        begin = time.perf_counter()

        def done(seconds: float) -> bool:
            end = time.perf_counter() + seconds
            while not request.Test():
                now = time.perf_counter()
                if now > end:
                    return False
                if now - begin >= _BUSY:
                    time.sleep(_PAUSE)
            return True

        try:
            self.until(done, what)
        except DeviceError:
            self._kept += [request, buffers]
            raise

    def until(self, done: Callable[[float], bool], what: str, waiting: Callable[[], bool] = lambda: True) -> None:
        """Call `done` until it returns True. Raise DeviceError if another process ends before that.

        Args:
            done: Function that waits for an operation, at most the given number of seconds, and returns whether the
                operation has finished.
            what: Name of the operation, for the error message.
            waiting: Function that returns whether a thread currently waits for the operation's result. While it returns
                False, ended processes are ignored. Defaults to True.
        """
        gone: tuple[int, float] | None = None
        while not done(_LOOK):
            now = time.perf_counter()
            if not waiting():
                gone = None
            elif gone is None and (who := self._who_left()) is not None:
                gone = who, now
            # Messages that the process sent before it ended would have arrived by now.
            if gone is not None and now - gone[1] > _GRACE:
                raise DeviceError(
                    f"process {gone[0]} of {self.size} has ended while process {self.rank} was waiting for it in "
                    f"{what}; all processes must run the same steps and collective calls. The last checkpoint is "
                    "complete"
                )

    def exchanged(self, value: Any, what: str, channel: Any = None) -> list[Any]:
        """Send a value to all processes and return all values, by rank; raise DeviceError if a process has ended.

        Args:
            value: Any object that can be pickled.
            what: Name of the operation, for error messages.
            channel: Communicator of a separate thread; None means that of the main thread.
        """
        if self.size == 1:
            return [value]
        channel = self.common if channel is None else channel
        data = np.frombuffer(pickle.dumps(value), np.uint8)
        own, lengths = np.array([data.size], np.int64), np.empty(self.size, np.int64)
        self.finish(channel.Iallgather(own, lengths), what, own, lengths)
        counts = [int(n) for n in lengths]
        everything = np.empty(sum(counts), np.uint8)
        self.finish(channel.Iallgatherv(data, [everything, counts]), what, data, everything)
        ends = np.cumsum(counts)
        return [pickle.loads(everything[end - n : end].tobytes()) for end, n in zip(ends, counts, strict=True)]

    def at_exit(self, function: Callable[[], None]) -> None:
        """Register a function to call before this process notifies the others that it ends."""
        self._before_exit.append(function)

    def _who_left(self) -> int | None:
        status = self.MPI.Status()
        if not self._control.Iprobe(self.MPI.ANY_SOURCE, _LEFT, status):
            return None
        return int(status.Get_source())

    def _leave(self) -> None:
        if self.MPI.Is_finalized():
            return
        for function in self._before_exit:
            function()
        self._kept += [self._control.isend(None, other, _LEFT) for other in range(self.size) if other != self.rank]

    def _end_all(self, kind: Any, error: Any, trace: Any) -> None:
        """Report an uncaught exception with the rank of the process, and end all processes."""
        sys.stdout.flush()
        if kind is KeyboardInterrupt:
            print(f"process {self.rank} of {self.size} was interrupted", file=sys.stderr)
        else:
            lines = "".join(traceback.format_exception(kind, error, trace))
            ending = f"process {self.rank} of {self.size} ended with this error; the other processes are terminated\n"
            sys.stderr.write(lines + ending)
        sys.stderr.flush()
        if not self.MPI.Is_finalized():
            self.MPI.COMM_WORLD.Abort(1)


@lru_cache(1)
def everyone() -> Processes:
    """Return all processes that were started together; only this process if it was not started by mpiexec.

    Raises:
        ImportError: If mpi4py is not installed.
        DeviceError: If the MPI library does not support several threads.
    """
    return Processes()
