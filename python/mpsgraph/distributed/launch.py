"""`mpsgraph launch`: starts a program in several processes by mpiexec, and says what became of them."""

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
    """The command that starts MPI programs: of this environment, as the mpich wheel brings it, or on the path.

    Errors: DeviceError where there is none.
    """
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.is_file() else shutil.which("mpiexec")
    if found is None:
        raise DeviceError("there is no mpiexec here: pip install mpsgraph[distributed]")
    return found


def launch(
    script: str,
    arguments: Sequence[str],
    processes: int,
    threads: int | None,
    hosts: str | None = None,
    bound: bool = True,
) -> int:
    """Runs a script in so many processes. Result: 0 when all have ended well.

    Args: threads, of each process, None: the processors of this machine divided by the processes, unless
    OMP_NUM_THREADS says it; hosts, names that mpiexec is given, the processes shared out among them; bound, whether
    each process has processors of its own, where there are enough and the number of threads is known.
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
        print(f"mpsgraph launch: {_words(status)}; the others were ended with it", file=sys.stderr)
        print(
            "mpsgraph launch: checkpoints are whole or the ones before: Trainer.load goes on from the last",
            file=sys.stderr,
        )
    return status


def _words(status: int) -> str:
    """What mpiexec's exit status says: of a process that a signal ended, the signal's number."""
    number = -status if status < 0 else status - 128 if status > 128 else status
    ending = (signal.SIGABRT, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM)
    words = f", as those do that {signal.Signals(number).name} ends" if number in ending else ""
    return f"a process ended with status {status}{words}"
