"""Which processors a process of several on one machine runs on; run by its path, it starts a program there.

It uses the standard library alone and imports nothing of the package: `mpsgraph launch` puts it before the program, so
that all threads of the program, also those that libraries start while they are imported, stay where they belong.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_TOPOLOGY = Path("/sys/devices/system/cpu")
# How mpich and Open MPI tell a program its number on its machine, and how many are there.
_RANK = ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK")
_SIZE = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")


def siblings(processor: int) -> tuple[int, ...]:
    """The processors that are threads of one core with this one, itself included; itself where nobody says."""
    with suppress(OSError, ValueError):
        found: list[int] = []
        for part in (_TOPOLOGY / f"cpu{processor}/topology/thread_siblings_list").read_text().split(","):
            first, _, last = part.strip().partition("-")
            found += range(int(first), int(last or first) + 1)
        if processor in found:
            return tuple(sorted(found))
    return (processor,)


def places(processors: Iterable[int]) -> list[int]:
    """Processors in the order in which processes take them: one of each core, package by package, then the rest."""
    available = sorted(processors)

    def order(processor: int) -> tuple[int, int, int]:
        package = 0
        with suppress(OSError, ValueError):
            package = int((_TOPOLOGY / f"cpu{processor}/topology/physical_package_id").read_text())
        core = [other for other in siblings(processor) if other in available]
        return core.index(processor), package, processor

    return sorted(available, key=order)


def own_places(processors: Iterable[int], number: int, processes: int, threads: int) -> list[int]:
    """The processors of one process of several that have so many threads each; all of them where there are too few."""
    available = places(processors)
    if processes * threads > len(available):
        return available
    return available[number * threads : (number + 1) * threads]


def place(threads: int) -> None:
    """This process runs on processors of its own from now on, where mpiexec says which process it is."""
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
