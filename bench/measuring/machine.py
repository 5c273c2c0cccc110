"""Load and memory bandwidth of the machine that measures.

A measurement is useless if other processes took more than a few percent of the machine. Memory bandwidth distinguishes
fast and slow states, in which virtual machines stay for minutes at a time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

QUIET = 0.03  # Share of all processors that other processes may use during a measurement.
ATTEMPTS = 6

Result = TypeVar("Result")
_TICK = os.sysconf("SC_CLK_TCK")


class OthersLoad:
    """The share of all processors used by other processes, or stolen by the hypervisor, since construction.

    This process and its ended children do not count as others. The resolution is 0.01 s.

    Args:
        *processes: IDs of running processes that do not count as others, either.
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
    # User and system time of the process and of the children it has waited for.
    return sum(map(int, fields[11:15])) / _TICK


class Patience:
    """The total seconds that a benchmark may spend on repeating disturbed measurements."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    def undisturbed(self, measure: Callable[[], Result], *processes: int) -> tuple[Result, float]:
        """Return the result of the least disturbed attempt and the share of the machine that other processes used.

        Args:
            measure: Runs the measurement and returns its result.
            *processes: IDs of the measured processes.
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
            time.sleep(attempt)  # The other processes may have ended by then.
            self._left -= time.perf_counter() - begin
        return best


def copy_bandwidth(threads: int, megabytes: int = 128, attempts: int = 5) -> float:
    """Return the best rate, in GB/s read plus written, of copies that exceed the caches."""
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
    """Return the number and name of the processors, with a suffix for AMX or missing bfloat16 instructions.

    Virtual processors of the same name can differ in these.

    Args:
        description: Content of /proc/cpuinfo. Defaults to that of this machine.
    """
    lines = (Path("/proc/cpuinfo").read_text() if description is None else description).splitlines()
    told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}
    flags = told.get("flags", "").split()
    kind = " without bfloat16" if "avx512f" in flags and "avx512_bf16" not in flags else ""
    kind = " with AMX" if "amx_bf16" in flags else kind
    name = f" x {told['model name']}{kind}" if "model name" in told else " processors"
    return f"{os.cpu_count()}{name}"
