"""Bind processes to the processors of one machine. Run as a script, this module binds the process and starts a program.

The module uses only the standard library and imports nothing from the package. `mpsgraph launch` runs it before the
program, so that all threads of the program, including those that libraries start while being imported, stay on these
processors.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_TOPOLOGY = Path("/sys/devices/system/cpu")
# Environment variables in which mpich and Open MPI pass the index of a process on its machine, and the number of
# processes there.
_RANK = ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK")
_SIZE = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")


def siblings(processor: int) -> tuple[int, ...]:
    """Return the processors that share a core with `processor`, and `processor` itself; only `processor` if unknown."""
    with suppress(OSError, ValueError):
        found: list[int] = []
        for part in (_TOPOLOGY / f"cpu{processor}/topology/thread_siblings_list").read_text().split(","):
            first, _, last = part.strip().partition("-")
            found += range(int(first), int(last or first) + 1)
        if processor in found:
            return tuple(sorted(found))
    return (processor,)


def places(processors: Iterable[int]) -> list[int]:
    """Return processors in the order in which processes are bound to them.

    One processor of each core comes first, socket by socket, followed by the cores' other hardware threads.
    """
    available = sorted(processors)

    def order(processor: int) -> tuple[int, int, int]:
        package = 0
        with suppress(OSError, ValueError):
            package = int((_TOPOLOGY / f"cpu{processor}/topology/physical_package_id").read_text())
        core = [other for other in siblings(processor) if other in available]
        return core.index(processor), package, processor

    return sorted(available, key=order)


def own_places(processors: Iterable[int], number: int, processes: int, threads: int) -> list[int]:
    """Return the processors for the process with index `number` of `processes` processes with `threads` threads each.

    Return all processors if there are fewer than processes * threads.
    """
    available = places(processors)
    if processes * threads > len(available):
        return available
    return available[number * threads : (number + 1) * threads]


def place(threads: int) -> None:
    """Bind this process to its share of the processors.

    Does nothing unless mpiexec's environment variables give the rank and number of processes.
    """
    number, processes = _said(_RANK), _said(_SIZE)
    if number is not None and processes is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, own_places(os.sched_getaffinity(0), number, processes, threads))


def _said(names: Iterable[str]) -> int | None:
    for name in names:
        with suppress(KeyError, ValueError):
            return int(os.environ[name])
    return None


if __name__ == "__main__":
    place(int(sys.argv[1]))
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
