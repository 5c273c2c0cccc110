"""The measured end of a benchmark: a process that builds one workload and steps it when it is told to.

It reads lines and answers each with one line of JSON; the first answer comes unasked, when everything is imported.
    (start)  -> {"resident": MB after importing, "version": of the package, then of what else makes the mode}
    setup    -> {"seconds": of building the model}; `setup NAME` where the process knows several
    step N   -> {"seconds": [of each step], "value": what the last step returned, the loss}
    memory   -> {"peak": MB, the most that was ever resident}
End of input ends the process. Standard library only: peers run in environments of their own.
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
"""One step, finished when it returns; the loss where there is one."""


def serve(build: Callable[..., Step], package: str, *libraries: str) -> None:
    """Obeys standard input until it ends. Args: package, which is measured; libraries, packages that the mode names."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print goes to standard error

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
            raise ValueError(f"there is no command {line!r} here")


def version(package: str, *libraries: str) -> str:
    """ "2.4.6, scipy 1.17.1, tcmalloc 2.10": the package's, those of libraries, and of tcmalloc where it is loaded."""
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
    """A figure of this process in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"/proc/self/status has no {field}")
