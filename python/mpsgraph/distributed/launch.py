"""`mpsgraph launch`: run a script in several processes, report how they ended, and start them again after a failure.

mpiexec starts the processes of MPI. Processes of JAX are started here, by one launcher per machine. When a process
fails, its launcher ends the others on the machine at once, and JAX ends those on other machines.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..errors import DeviceError, GraphError
from . import placement

_POLL, _GRACE = 0.05, 2.0  # Seconds between looks at the processes, and until those that do not end are killed.
_PR_SET_PDEATHSIG = 1
_PORT = 24700  # Default port of the first machine. A SLURM job adds its number modulo 1,000.


@dataclass(frozen=True)
class Machines:
    """The machines on which a launcher of JAX's processes runs."""

    coordinator: str | None = None
    """Address of the first machine, as host:port, or None for a single machine."""
    count: int = 1
    index: int = 0
    """Index of this machine."""


class Job(NamedTuple):
    """A script, and the processes to run it in.

    Attributes:
        script: Path of the script.
        arguments: Command-line arguments of the script.
        processes: Number of processes: of all machines for MPI, of each machine for JAX.
        threads: Number of threads per process of MPI. None means OMP_NUM_THREADS if it is set, otherwise the number of
            processors of this machine divided by the number of processes.
        hosts: Comma-separated host names for mpiexec, among which the processes are divided. None means this machine.
        bound: Whether each process of MPI is bound to its own processors, if there are enough and the number of threads
            is known.
        machines: The machines of JAX's processes.
        cards: Number of GPUs of each of JAX's processes. None means all if a machine has one process, otherwise one.
    """

    script: str
    arguments: Sequence[str]
    processes: int
    threads: int | None = None
    hosts: str | None = None
    bound: bool = True
    machines: Machines = Machines()
    cards: int | None = None


def launch(job: Job, engine: str = "mpi", restarts: int = 0) -> int:
    """Run a script in several processes, and run it again if a process fails.

    Args:
        job: The script and its processes.
        engine: "mpi" or "jax".
        restarts: How often to run the script again.

    Returns:
        The exit status, 0 if all processes of the last run ended successfully.
    """
    for left in range(restarts, -1, -1):
        status = _by_jax(job) if engine == "jax" else _by_mpi(job)
        if status in (0, 128 + signal.SIGINT):
            return status
        if left:
            number = restarts - left + 1
            print(
                f"mpsgraph launch: starting the processes again (restart {number} of {restarts}); the last checkpoint "
                "is complete",
                file=sys.stderr,
                flush=True,
            )
    print("mpsgraph launch: the last checkpoint is complete; Trainer.load resumes from it", file=sys.stderr)
    return status


# --- MPI --------------------------------------------------------------------------------------------------------------


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


def _by_mpi(job: Job) -> int:
    environment = dict(os.environ)
    if job.threads is not None:
        environment["OMP_NUM_THREADS"] = str(job.threads)
    elif job.hosts is None:
        environment.setdefault("OMP_NUM_THREADS", str(max(len(os.sched_getaffinity(0)) // job.processes, 1)))
    # mpiexec writes the machine's topology to a file in /tmp, which stays there if mpiexec is terminated, unless this
    # variable names another file. `placement` binds the processes, so nothing needs the topology. A test in
    # tests/distributed/test_failures.py looks for such files.
    environment.setdefault("HWLOC_XMLFILE", os.devnull)
    command = [mpiexec(), "-n", str(job.processes), *(["-hosts", job.hosts] if job.hosts else [])]
    known = environment.get("OMP_NUM_THREADS", "")
    starter = [placement.__file__, known] if job.bound and known.isdecimal() and int(known) else []
    process = subprocess.Popen(
        [*command, sys.executable, *starter, job.script, *job.arguments], env=environment, preexec_fn=_end_with_parent
    )
    try:
        status = process.wait()
    except KeyboardInterrupt:
        _end([process])  # mpiexec ends its processes when it is terminated.
        return 128 + signal.SIGINT
    if status:
        print(f"mpsgraph launch: a process {_words(status)}; the other processes were terminated", file=sys.stderr)
    return status


def _end_with_parent() -> None:
    """Make Linux terminate this process, mpiexec, when the launcher ends in whatever way."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _words(status: int) -> str:
    """Describe an exit status in words. If a signal ended the process, name the signal."""
    number = -status if status < 0 else status - 128 if status > 128 else status
    ending = (signal.SIGABRT, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM)
    words = f" (terminated by {signal.Signals(number).name})" if number in ending else ""
    return f"ended with status {status}{words}"


# --- JAX --------------------------------------------------------------------------------------------------------------


def machines_of(
    coordinator: str | None, count: int | None, index: int | None, environment: Mapping[str, str] = os.environ
) -> Machines:
    """Return the machines that the command line or SLURM describes.

    Args:
        coordinator: Address of the first machine, as host:port, or None.
        count: Number of machines, or None.
        index: Index of this machine, or None.
        environment: Environment variables, among which SLURM's are used if all others are None.

    Returns:
        The Machines.

    Raises:
        GraphError: If the arguments are incomplete or contradict each other.
    """
    nodes = environment.get("SLURM_NNODES") or environment.get("SLURM_JOB_NUM_NODES")
    if coordinator is None and count is None and index is None and nodes is not None and "SLURM_NODEID" in environment:
        if int(nodes) == 1:
            return Machines()
        listed = environment.get("SLURM_STEP_NODELIST") or environment["SLURM_JOB_NODELIST"]
        port = _PORT + int(environment["SLURM_JOB_ID"]) % 1000
        return Machines(f"{_first_node(listed)}:{port}", int(nodes), int(environment["SLURM_NODEID"]))
    count, index = 1 if count is None else count, 0 if index is None else index
    if count == 1 and coordinator is None and index == 0:
        return Machines()
    if coordinator is None or not re.fullmatch(r".+:\d+", coordinator):
        raise GraphError(
            "mpsgraph launch: several machines need --coordinator HOST:PORT, the address of the first machine, got "
            f"{'none' if coordinator is None else repr(coordinator)}"
        )
    if not 0 <= index < count:
        raise GraphError(f"mpsgraph launch: --node must be from 0 to {count - 1} for --nodes {count}, got {index}")
    return Machines(coordinator, count, index)


def _first_node(nodes: str) -> str:
    """Return the first host name of SLURM's list, such as "gpu[01-04,7],login" or "gpu1"."""
    prefix, bracket, rest = nodes.partition("[")
    if not bracket or "," in prefix:
        return nodes.split(",")[0]
    numbers, _, suffix = rest.partition("]")
    return prefix + re.split("[-,]", numbers)[0] + suffix.split(",")[0]


def _by_jax(job: Job) -> int:
    """Start this machine's processes, wait for them, and end all of them when one fails."""
    total, machines = job.processes * job.machines.count, job.machines
    environment = os.environ | {
        "MPSGRAPH_COORDINATOR": machines.coordinator or f"localhost:{_free_port()}",
        "MPSGRAPH_PROCESSES": str(total),
    }
    cards = 1 if job.cards is None and job.processes > 1 else job.cards
    if cards is not None:
        environment["MPSGRAPH_CARDS"] = str(cards)
    started: list[subprocess.Popen[bytes]] = []
    first = machines.index * job.processes
    interrupted = False

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        for i in range(job.processes):
            own = {"MPSGRAPH_PROCESS": str(first + i), "MPSGRAPH_LOCAL_PROCESS": str(i)}
            command = [sys.executable, "-m", "mpsgraph.jax.start", job.script, *job.arguments]
            started.append(subprocess.Popen(command, env=environment | own))
        failed = None
        while failed is None and any(process.poll() is None for process in started):
            time.sleep(_POLL)
            failed = next((i for i, process in enumerate(started) if process.poll()), None)
        ended = [i for i, process in enumerate(started) if process.poll()]
        # Of several that have failed, those that a signal ended were not ended by the failure of another.
        failed = min(ended, key=lambda i: started[i].returncode, default=None)
    except KeyboardInterrupt:
        interrupted, failed = True, None
    finally:
        signal.signal(signal.SIGTERM, before)
        _end(started)
    if interrupted:
        return 128 + signal.SIGINT
    if failed is None:
        return 0
    status = started[failed].returncode
    others = "; the other processes were terminated" if total > 1 else ""
    print(
        f"mpsgraph launch: process {first + failed} of {total} on {socket.gethostname()} {_words(status)}{others}",
        file=sys.stderr,
        flush=True,
    )
    return status if status > 0 else 128 - status


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the processes that are still running, and wait for them."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    end = time.monotonic() + _GRACE
    for process in processes:
        try:
            process.wait(max(end - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])
