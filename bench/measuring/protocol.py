"""The measured process of a benchmark, which builds a workload and runs its steps on request.

It reads commands from standard input and answers each with one line of JSON. It sends the first answer without a
command, once everything is imported.
    (start)  -> {"resident": MB after importing, "version": of the package, then of other libraries of the mode}
    setup    -> {"seconds": of building the model}; `setup NAME` if the process can build several workloads
    step N   -> {"seconds": [of each step], "value": result of the last step, usually the loss}
    memory   -> {"peak": peak resident MB}
The process exits at the end of its input. This module imports only the standard library, because peers run in separate
environments.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Step = Callable[[], float | None]
"""A function that runs one step to completion and returns the loss, if there is one."""


def serve(build: Callable[..., Step], package: str, *libraries: str) -> None:
    """Execute commands from standard input until it ends.

    Args:
        build: Builds the step; called with the arguments of the `setup` command.
        package: The measured package.
        *libraries: Other packages whose version belongs to the mode.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Redirect the output of libraries to standard error.

    def answer(values: dict[str, Any]) -> None:
        print(json.dumps(values), file=answers, flush=True)

    resident = _memory("VmRSS")
    answer({"resident": resident, "version": version(package, *libraries)})
    step: Step | None = None
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == "setup":
            begin = time.perf_counter()
            step = build(*arguments)
            answer({"seconds": time.perf_counter() - begin})
        elif command == "step" and step is not None:
            answer(_timed(step, int(arguments[0])))
        elif command == "memory":
            answer({"peak": _memory("VmHWM")})
        else:
            raise ValueError(f"expected setup, step (after setup), or memory, got {line!r}")


def version(package: str, *libraries: str) -> str:
    """Return the versions of the package, the libraries, and tcmalloc if loaded, as in "2.4.6, tcmalloc 2.10"."""
    named = [f"{name} {importlib.metadata.version(name)}" for name in libraries]
    return ", ".join([importlib.metadata.version(package), *named, *_allocator()])


def _allocator() -> list[str]:
    tcmalloc = getattr(ctypes.CDLL(None), "tc_version", None)
    if tcmalloc is None:
        return []
    tcmalloc.restype = ctypes.c_char_p
    return [f"tcmalloc {tcmalloc(None, None, None).decode().removeprefix('gperftools ')}"]


def _timed(step: Step, count: int) -> dict[str, Any]:
    seconds, value = [], None
    for _ in range(count):
        begin = time.perf_counter()
        value = step()
        seconds.append(time.perf_counter() - begin)
    return {"seconds": seconds, "value": value}


def _memory(field: str) -> float:
    """Return a memory field of /proc/self/status in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"/proc/self/status has no {field}")
