"""`mpsgraph launch`: run a script in several processes with mpiexec, and report how the processes ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import DeviceError
from . import placement


def mpiexec() -> str:
    """Return the path of mpiexec: next to the Python interpreter, where the mpich wheel installs it, or on PATH.

    Raises:
        DeviceError: If mpiexec is not found.
    """
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.is_file() else shutil.which("mpiexec")
    if found is None:
        raise DeviceError("mpiexec not found; install it with: pip install mpsgraph[distributed]")
    return found


def launch(
    script: str,
    arguments: Sequence[str],
    processes: int,
    threads: int | None,
    hosts: str | None = None,
    bound: bool = True,
) -> int:
    """Run a script in several processes.

    Args:
        script: Path of the script.
        arguments: Command-line arguments of the script.
        processes: Number of processes.
        threads: Number of threads per process. None means OMP_NUM_THREADS if it is set, otherwise the number of
            processors of this machine divided by the number of processes.
        hosts: Comma-separated host names for mpiexec, among which the processes are divided. None means this machine.
        bound: Whether each process is bound to its own processors, if there are enough and the number of threads is
            known.

    Returns:
        The exit status of mpiexec, 0 if all processes ended successfully.
    """
    environment = dict(os.environ)
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    elif hosts is None:
        environment.setdefault("OMP_NUM_THREADS", str(max(len(os.sched_getaffinity(0)) // processes, 1)))
    command = [mpiexec(), "-n", str(processes), *(["-hosts", hosts] if hosts else [])]
    known = environment.get("OMP_NUM_THREADS", "")
    starter = [placement.__file__, known] if bound and known.isdecimal() and int(known) else []
    status = subprocess.run([*command, sys.executable, *starter, script, *arguments], env=environment).returncode
    if status:
        print(f"mpsgraph launch: {_words(status)}; the other processes were terminated", file=sys.stderr)
        print(
            "mpsgraph launch: the last checkpoint is complete; Trainer.load resumes from it",
            file=sys.stderr,
        )
    return status


def _words(status: int) -> str:
    """Describe mpiexec's exit status in words. If a signal ended the process, name the signal."""
    number = -status if status < 0 else status - 128 if status > 128 else status
    ending = (signal.SIGABRT, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM)
    words = f" (terminated by {signal.Signals(number).name})" if number in ending else ""
    return f"a process ended with status {status}{words}"
