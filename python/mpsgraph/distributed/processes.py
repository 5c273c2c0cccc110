"""The processes that work together: who there is, waiting for them, and ending with them.

MPI starts the processes and carries what they say. Waiting is polling with pauses: MPI's own waits keep a processor
busy, which the kernels need. Whoever ends says so to the others, and whoever waits looks now and then whether somebody
has ended, so that nobody waits for ever. An error that nobody catches ends all processes.
"""

from __future__ import annotations

import atexit
import pickle
import sys
import time
import traceback
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from .._optional import require
from ..errors import DeviceError

_LEFT = 1  # the tag by which a process says that it ends
_BUSY, _PAUSE, _LOOK, _GRACE = 200e-6, 20e-6, 0.25, 2.0  # seconds


class Processes:
    """All processes of a program, seen from one of them. `everyone` makes the one object that there is."""

    def __init__(self) -> None:
        self.MPI = require("mpi4py.MPI", "distributed", "training in several processes")
        if self.MPI.Query_thread() < self.MPI.THREAD_MULTIPLE:
            raise DeviceError(
                "the MPI library lets one thread at a time communicate, and reductions need a thread beside that of "
                "the program: use one that supports MPI_THREAD_MULTIPLE, such as pip install mpich"
            )
        world = self.MPI.COMM_WORLD
        self.rank, self.size = int(world.Get_rank()), int(world.Get_size())
        self.common = world.Dup()
        """The communicator of what the program itself sends."""
        self._control = world.Dup()
        self._kept: list[Any] = []  # of requests that were given up: MPI may still write to their memory
        self._before_exit: list[Callable[[], None]] = []
        if self.size > 1:
            self._inherited = sys.excepthook
            sys.excepthook = self._end_all
            atexit.register(self._leave)

    def channel(self) -> Any:
        """A communicator of its own, so that what one thread sends is not mixed with another's. All must ask."""
        made, request = self.common.Idup()
        self.finish(request, "the beginning")
        return made

    def finish(self, request: Any, what: str, *buffers: Any) -> None:
        """Waits until a request is done. DeviceError where another process has ended that it would wait for."""
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
        """Waits until something is done. DeviceError where another process has ended that it would wait for.

        Args: done, which waits at most so many seconds and says whether it is; waiting, does anybody wait?
        """
        gone: tuple[int, float] | None = None
        while not done(_LOOK):
            now = time.perf_counter()
            if not waiting():
                gone = None
            elif gone is None and (who := self._who_left()) is not None:
                gone = who, now
            if gone is not None and now - gone[1] > _GRACE:  # what it had sent before would be here by now
                raise DeviceError(
                    f"process {gone[0]} of {self.size} has ended, and process {self.rank} waits for it in {what}: all "
                    "processes must make the same steps and collective calls; the last checkpoint is whole"
                )

    def exchanged(self, value: Any, what: str, channel: Any = None) -> list[Any]:
        """What each process gave, by its number: any object, pickled. DeviceError where one has ended.

        Args: channel, of a thread that has its own; None: what the program itself sends by.
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
        """Is called before this process says that it ends."""
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
        """What nobody caught: said with the process's number, and the end of all processes."""
        sys.stdout.flush()
        if kind is KeyboardInterrupt:
            print(f"process {self.rank} of {self.size} was interrupted", file=sys.stderr)
        else:
            lines = "".join(traceback.format_exception(kind, error, trace))
            ending = f"process {self.rank} of {self.size} ends with this error, and ends the others\n"
            sys.stderr.write(lines + ending)
        sys.stderr.flush()
        if not self.MPI.Is_finalized():
            self.MPI.COMM_WORLD.Abort(1)


@lru_cache(1)
def everyone() -> Processes:
    """The processes that this one was started with: itself alone where no mpiexec has started it.

    Errors: ImportError without mpi4py; DeviceError for an MPI library that cannot be used from several threads.
    """
    return Processes()
