"""Sum arrays over processes with MPI messages, which are used between machines and where processes cannot share memory.

MPI sums float32 and wider dtypes. bfloat16 and float16 are sent without conversion and summed in float32: each process
sums one part of the elements and sends the result to all others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core import CommandQueue, DType, Executable, NDArray, float32
from ..graph import Graph
from .processes import Processes


class ByMPI:
    """Object that sums arrays over the processes of a communicator. All calls must come from the same thread."""

    def __init__(self, processes: Processes, channel: Any) -> None:
        self.processes, self.channel = processes, channel
        self.rank, self.size = int(channel.Get_rank()), int(channel.Get_size())
        self.queue = CommandQueue("cpu")
        self.sums: dict[tuple[DType, int], Executable] = {}

    def sum(self, memory: NDArray, what: str) -> None:
        """Sum an array over the processes in place; raise DeviceError if a process has ended."""
        finish = self.processes.finish
        if memory.dtype.itemsize > 2:
            array = memory.numpy()
            finish(self.channel.Iallreduce(self.processes.MPI.IN_PLACE, array), what, array)
            return
        bits = _bits(memory)
        counts, starts = _parts(bits.size, self.size)
        own = counts[self.rank]
        parts = NDArray((self.size, own), memory.dtype)
        send, receive = [bits, (counts, starts)], [_bits(parts), [own] * self.size]
        finish(self.channel.Ialltoallv(send, receive), what, bits, parts)
        total = self._sum_of_halves(memory.dtype, own).run([parts], queue=self.queue)[0]
        finish(self.channel.Iallgatherv(_bits(total), [bits, (counts, starts)]), what, bits, total)

    def _sum_of_halves(self, dtype: DType, length: int) -> Executable:
        key = dtype, length
        if key not in self.sums:
            self.sums[key] = sum_of_halves(dtype, self.size, length)
        return self.sums[key]


def sum_of_halves(dtype: DType, count: int, length: int) -> Executable:
    """Compile a function that sums `count` half-precision arrays element by element, accumulating in float32.

    The arrays are the rows of one array (count, length). The result has shape (length,) and is rounded to half
    precision once.
    """
    g = Graph()
    parts = g.placeholder((count, length), dtype)
    total = g.reshape(g.reduction_sum(g.cast(parts, float32), 0), (length,))
    return g.on("cpu").compile({parts: (dtype, (count, length))}, [g.cast(total, dtype)])


def _bits(halves: NDArray) -> np.ndarray:
    """Return a view of a half-precision array as 16-bit integers, a type that MPI supports."""
    return halves.numpy().view(np.uint16)


def _parts(length: int, processes: int) -> tuple[list[int], list[int]]:
    """Return how many elements each process sums, and the index of each process's first element."""
    ends = [length * (i + 1) // processes for i in range(processes)]
    starts = [0, *ends[:-1]]
    return [end - start for start, end in zip(starts, ends, strict=True)], starts
