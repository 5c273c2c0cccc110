"""The machine beneath the numbers: how much of it others use, and how fast it copies memory.

A measurement that others disturbed by more than a few per cent is worthless; memory bandwidth tells apart the states
that virtual machines are in for minutes at a time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

QUIET = 0.03  # of all processors: what others may use during a measurement
ATTEMPTS = 6

Result = TypeVar("Result")
_TICK = os.sysconf("SC_CLK_TCK")


class OthersLoad:
    """The share of all processors that went to other processes, or was stolen, since it was made.

    Args: ids of running processes that are no others. Nor is this one, nor are children of it that have ended.
    Resolution: a hundredth of a second.
    """

    def __init__(self, *processes: int) -> None:
        self._own = {os.getpid(), *processes}
        self._start = self._read()

    def share(self) -> float:
        wall, busy, own = (now - then for now, then in zip(self._read(), self._start, strict=True))
        return max(0.0, busy - own) / (wall * (os.cpu_count() or 1))

    def _read(self) -> tuple[float, float, float]:
        user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
        busy = (user + nice + system + irq + softirq + steal) / _TICK
        return time.perf_counter(), busy, sum(map(_processor_seconds, self._own))


def _processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICK  # user and system; the same of children that were waited for


class Patience:
    """How many seconds a benchmark may spend, in all, on repeating what others disturbed."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    def undisturbed(self, measure: Callable[[], Result], *processes: int) -> tuple[Result, float]:
        """The result of the attempt that others disturbed least, and the share of the machine that they used.

        Args: processes, ids of those that are measured.
        """
        best: tuple[Result, float] | None = None
        for attempt in range(ATTEMPTS):
            begin = time.perf_counter()
            load = OthersLoad(*processes)
            result, share = measure(), load.share()
            if best is None or share < best[1]:
                best = result, share
            if share <= QUIET or self._left <= 0:
                break
            time.sleep(attempt)  # they may be gone then
            self._left -= time.perf_counter() - begin
        return best


def copy_bandwidth(threads: int, megabytes: int = 128, attempts: int = 5) -> float:
    """GB/s, read and written together, of copies that do not fit a cache; the best of some attempts."""
    pairs = [(np.ones(megabytes << 17), np.ones(megabytes << 17)) for _ in range(threads)]

    def attempt() -> float:
        workers = [threading.Thread(target=np.copyto, args=pair) for pair in pairs]
        begin = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return 2 * threads * pairs[0][0].nbytes / (time.perf_counter() - begin) / 1e9

    return max(attempt() for _ in range(attempts))


def processor(description: str | None = None) -> str:
    """The processor's name, and how many of it. Virtual ones of one name may have bfloat16's instructions, AMX, or not.

    Args: description, as /proc/cpuinfo has it; by default what is there.
    """
    lines = (Path("/proc/cpuinfo").read_text() if description is None else description).splitlines()
    told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}
    flags = told.get("flags", "").split()
    kind = " without bfloat16" if "avx512f" in flags and "avx512_bf16" not in flags else ""
    kind = " with AMX" if "amx_bf16" in flags else kind
    name = f" x {told['model name']}{kind}" if "model name" in told else " processors"
    return f"{os.cpu_count()}{name}"
