"""Start a script in one process of `mpsgraph launch --engine jax`: connect the process to the others, then run it.

Run as `python -m mpsgraph.jax.start script.py ...`. The launcher describes the processes in environment variables. A
script that fails ends its process at once: JAX would otherwise wait at exit for processes that wait for this one.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

COORDINATOR, PROCESSES, PROCESS, CARDS = (
    f"MPSGRAPH_{name}" for name in ("COORDINATOR", "PROCESSES", "PROCESS", "CARDS")
)
HEARTBEAT = 10
"""Seconds after which JAX ends the other processes if a process on another machine does not respond."""
_YIELD = 1.0
"""Seconds for which an error of JAX waits, so that the launcher first sees the process whose end may have caused it."""
_PR_SET_PDEATHSIG = 1


def connect() -> None:
    """Connect this process to the others that the launcher has started."""
    import jax

    cards = os.environ.get(CARDS)
    index = int(os.environ[PROCESS])
    count = 0 if cards is None else int(cards)
    local = int(os.environ["MPSGRAPH_LOCAL_PROCESS"])
    jax.distributed.initialize(
        os.environ[COORDINATOR],
        int(os.environ[PROCESSES]),
        index,
        local_device_ids=list(range(local * count, (local + 1) * count)) or None,
        cluster_detection_method="deactivate",
        heartbeat_timeout_seconds=HEARTBEAT,
    )


def main() -> None:
    """Run the script that the command line names."""
    with suppress(OSError, AttributeError):  # On Linux, end with the launcher, however that ends.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    who = f"process {os.environ[PROCESS]} of {os.environ[PROCESSES]}"
    status: object = 0
    try:
        connect()
        sys.argv = sys.argv[1:]
        sys.path[0] = str(Path(sys.argv[0]).parent.resolve())
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        status = end.code
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    except BaseException as error:
        if type(error).__module__.startswith("jax"):
            time.sleep(_YIELD)
        ending = f"{who} ended with this error; the other processes are terminated\n"
        sys.stderr.write(traceback.format_exc() + ending)
        status = 1
    if isinstance(status, str):
        print(status, file=sys.stderr)
    number = status if isinstance(status, int) else int(status is not None)
    if number:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(number)


if __name__ == "__main__":
    main()
