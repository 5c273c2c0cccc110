"""The communication thread, which sums gradients over all processes while the step continues to compute.

The thread receives data from the step through an Exchange of the core. Arrays that are summed together form a slot.
Slots are summed in the order in which steps fill them; this order is equal in all processes because all processes run
the same program. Processes on one machine sum in shared memory; then the first process of each machine adds the sums of
all machines with MPI. Without shared memory, all processes use MPI.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field

from .. import _core
from .._core import CommandQueue, DType, Executable, NDArray, SharedSum, float32
from ..errors import Error
from ..graph import Graph
from .by_mpi import ByMPI
from .machine import Machine
from .processes import Processes

Types = Sequence[tuple[DType, tuple[int, ...]]]
_WHAT = "the reduction of gradients"


@dataclass
class Routes:
    """How sums are exchanged, for reports.

    A slot is a group of arrays that are summed together. `shared` and `sent` map slot numbers to the number of bytes
    that are summed in shared memory or sent with MPI. `reasons` lists why shared memory was not used.
    """

    machines: int = 1
    shared: dict[int, int] = field(default_factory=dict)
    sent: dict[int, int] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)


class Reducer:
    """Sums gradients over all processes in a separate communication thread.

    A slot is a group of arrays that are summed together. `call` operations of the training step pass arrays to a slot
    and return the sums.
    """

    def __init__(self, processes: Processes, share: bool = True) -> None:
        self.exchange = _core.Exchange()
        self.routes = Routes()
        work = _Work(processes, self.exchange, self.routes, share)
        self._thread = threading.Thread(target=work.until_closed, name="communication", daemon=True)
        self._thread.start()
        weakref.finalize(self, self.exchange.close).atexit = False

    def add(self, name: str, types: Types) -> int:
        """Add a slot for arrays of one dtype that are to be summed, and return its number."""
        return self.exchange.add(name, [(dtype, shape) for dtype, shape in types])

    def close(self) -> None:
        """End the thread after its current work."""
        self.exchange.close()
        self._thread.join()


class _Work:
    """The loop that the communication thread runs.

    This object refers to the exchange but not to the Reducer, so the Reducer can be garbage-collected while the thread
    runs.
    """

    def __init__(self, processes: Processes, exchange: _core.Exchange, routes: Routes, share: bool) -> None:
        self.processes, self.exchange, self.routes, self.share = processes, exchange, routes, share
        self.channel = processes.channel()
        self.by_mpi = ByMPI(processes, self.channel)
        self.machine: Machine | None = None
        self.leaders: ByMPI | None = None
        self.queue = CommandQueue("cpu")
        self.shared: dict[int, SharedSum | None] = {}
        self.sums: dict[tuple[DType, int], Executable] = {}

    def until_closed(self) -> None:
        _core.name_this_thread("communication")
        try:
            while (slot := self.next()) is not None:
                if slot not in self.shared:
                    self.shared[slot] = self.begin(slot)
                shared = self.shared[slot]
                if shared is None:
                    self.by_mpi.sum(self.exchange.memory(slot), _WHAT)
                else:
                    self.sum(shared)
                self.exchange.done(slot)
        except (Error, self.processes.MPI.Exception) as error:
            self.exchange.fail(f"summation over processes failed: {error}")

    def next(self) -> int | None:
        """Wait until the step has passed arrays to sum, and return their slot number.

        Return None if the exchange has failed or been closed. Raise DeviceError if a process has ended while a run
        waits for sums.
        """
        exchange = self.exchange
        slot: int | None = None

        def there(seconds: float) -> bool:
            nonlocal slot
            slot = exchange.next(seconds)
            return slot is not None or exchange.failed

        self.processes.until(there, _WHAT, lambda: exchange.waiting)
        return slot

    def begin(self, slot: int) -> SharedSum | None:
        """Prepare the first sum of a slot (a group of arrays): move its data to shared memory and return the sum
        object.

        Return None if there is only one process, or shared memory is disabled or unavailable. All processes must call
        this for the same slot.
        """
        memory = self.exchange.memory(slot)
        made, reason = self.memory(memory)
        if made is None:
            self.routes.sent[slot] = memory.nbytes
            if reason and reason not in self.routes.reasons:
                self.routes.reasons.append(reason)
            return None
        self.routes.shared[slot] = memory.nbytes
        self.exchange.share(slot, made)
        return made

    def memory(self, given: NDArray) -> tuple[SharedSum | None, str]:
        if self.processes.size == 1:
            return None, ""
        if self.machine is None:
            self.machine = Machine(self.processes, self.channel)
            self.routes.machines = self.machine.machines
            if self.machine.leaders is not None:
                self.leaders = ByMPI(self.processes, self.machine.leaders)
        if not self.share:
            return None, "shared memory is disabled (shared_memory=False)"
        if not self.machine.shares:
            return None, "every process runs on a different machine"
        return self.machine.sum(given.dtype, given.size)

    def sum(self, shared: SharedSum) -> None:
        """Sum this process's share of a slot's elements over the processes of this machine.

        The other processes sum the remaining elements. With several machines, the first process of each machine then
        adds the sums of all machines. Operations that read the slot wait until all elements are summed.
        """
        assert self.machine is not None
        mark, until = SharedSum.Mark, self.processes.until
        until(lambda seconds: shared.wait(mark.posted, seconds), _WHAT)
        if shared.total().dtype.itemsize > 2:
            shared.add()
        else:
            self.add_halves(shared)
        shared.reach(mark.added)
        if self.machine.machines == 1:
            return
        if self.leaders is not None:
            until(lambda seconds: shared.wait(mark.added, seconds), _WHAT)
            self.leaders.sum(shared.total(), _WHAT)
            shared.reach(mark.spread)
        until(lambda seconds: shared.wait_for(0, mark.spread, seconds), _WHAT)

    def add_halves(self, shared: SharedSum) -> None:
        """Sum half-precision arrays of all processes of this machine element by element.

        Only this process's share of the elements is summed. Sums are accumulated in float32 and rounded once.
        """
        assert self.machine is not None
        total = shared.own_part()
        if not total.size:
            return
        key = total.dtype, total.size
        if key not in self.sums:
            self.sums[key] = _sum_of_parts(total.dtype, len(self.machine.ranks), total.size)
        parts = [shared.own_part_of(member) for member in range(len(self.machine.ranks))]
        self.sums[key].run(parts, results=[total], queue=self.queue)


def _sum_of_parts(dtype: DType, count: int, length: int) -> Executable:
    """Compile a sum of `count` arrays of shape (length,), added in order in float32 and rounded to `dtype` once."""
    g = Graph()
    parts = [g.placeholder((length,), dtype) for _ in range(count)]
    total = g.cast(parts[0], float32)
    for part in parts[1:]:
        total = total + g.cast(part, float32)
    return g.on("cpu").compile(dict.fromkeys(parts, (dtype, (length,))), [g.cast(total, dtype)])
