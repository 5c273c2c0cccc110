"""The reducer: a thread that adds up over all processes what a run has handed it, while the run computes on.

An Exchange of the core is between them. The thread takes the slots in the order in which runs give them, which is the
same in all processes, since they run the same program. float32 and wider are summed by MPI; bfloat16 and float16 travel
as they are and are summed in float32: each process adds up a part of the elements, which it then sends to all.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence

import numpy as np

from .. import _core
from .._core import CommandQueue, DType, Executable, NDArray, float32
from ..errors import Error
from ..graph import Graph
from .processes import Processes

Types = Sequence[tuple[DType, tuple[int, ...]]]


class Reducer:
    """An exchange and the thread that works on it. `add` makes a slot; graphs `call` its ends."""

    def __init__(self, processes: Processes) -> None:
        self.exchange = _core.Exchange()
        work = _Work(processes, self.exchange)
        self._thread = threading.Thread(target=work.until_closed, name="communication", daemon=True)
        self._thread.start()
        weakref.finalize(self, self.exchange.close).atexit = False

    def add(self, name: str, types: Types) -> int:
        """A slot for arrays of one dtype whose sums are wanted."""
        return self.exchange.add(name, [(dtype, shape) for dtype, shape in types])

    def close(self) -> None:
        """Ends the thread, behind what it is at."""
        self.exchange.close()
        self._thread.join()


class _Work:
    """What the thread does; it holds the exchange, and no reducer."""

    def __init__(self, processes: Processes, exchange: _core.Exchange) -> None:
        self.processes, self.exchange = processes, exchange
        self.channel = processes.channel()
        self.queue = CommandQueue("cpu")
        self.sums: dict[tuple[DType, int], Executable] = {}

    def until_closed(self) -> None:
        _core.name_this_thread("communication")
        try:
            while (slot := self.exchange.next()) is not None:
                self.sum(self.exchange.memory(slot))
                self.exchange.done(slot)
        except (Error, self.processes.MPI.Exception) as error:
            self.exchange.fail(f"a sum over the processes failed: {error}")

    def sum(self, memory: NDArray) -> None:
        """In place."""
        finish, what = self.processes.finish, "the reduction of gradients"
        if memory.dtype.itemsize > 2:
            array = memory.numpy()
            finish(self.channel.Iallreduce(self.processes.MPI.IN_PLACE, array), what, array)
            return
        bits = _bits(memory)
        counts, starts = _parts(bits.size, self.processes.size)
        own = counts[self.processes.rank]
        parts = NDArray((self.processes.size, own), memory.dtype)
        send, receive = [bits, (counts, starts)], [_bits(parts), [own] * self.processes.size]
        finish(self.channel.Ialltoallv(send, receive), what, bits, parts)
        total = self._sum_of_halves(memory.dtype, own).run([parts], queue=self.queue)[0]
        finish(self.channel.Iallgatherv(_bits(total), [bits, (counts, starts)]), what, bits, total)

    def _sum_of_halves(self, dtype: DType, length: int) -> Executable:
        key = dtype, length
        if key not in self.sums:
            self.sums[key] = sum_of_halves(dtype, self.processes.size, length)
        return self.sums[key]


def sum_of_halves(dtype: DType, count: int, length: int) -> Executable:
    """(count, length) -> (length,), in float32 between."""
    g = Graph()
    parts = g.placeholder((count, length), dtype)
    total = g.reshape(g.reduction_sum(g.cast(parts, float32), 0), (length,))
    return g.on("cpu").compile({parts: (dtype, (count, length))}, [g.cast(total, dtype)])


def _bits(halves: NDArray) -> np.ndarray:
    """The memory itself, as integers of 16 bits, which MPI knows."""
    return halves.numpy().view(np.uint16)


def _parts(length: int, processes: int) -> tuple[list[int], list[int]]:
    """How many elements each process adds up, and where they begin."""
    ends = [length * (i + 1) // processes for i in range(processes)]
    starts = [0, *ends[:-1]]
    return [end - start for start, end in zip(starts, ends, strict=True)], starts
