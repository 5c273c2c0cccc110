"""The processes that run on one machine, and the memory that they share.

The files behind shared memory are unlinked as soon as all processes have opened them, so nothing is left when the
processes end, however they end. Some containers have too little shared memory, or do not let one process open the files
of another. Shared memory is then unavailable, and the reason is recorded.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .._core import DType, SharedSum
from ..errors import DeviceError
from .processes import Processes

# Bytes of the token after the data. The other processes compare the token to check that they opened the same file.
_TOKEN = 16
_ROOM = "/dev/shm"


def name() -> str:
    """Return a string that is equal for two processes only if they can share memory."""
    with suppress(OSError):
        return f"{socket.gethostname()} {Path('/proc/sys/kernel/random/boot_id').read_text().strip()}"
    return socket.gethostname()


class Machine:
    """The machine that this process runs on. All processes create this object at the same time.

    Args:
        processes: All processes of the program.
        channel: Communicator that is not in use elsewhere.
    """

    def __init__(self, processes: Processes, channel: Any) -> None:
        self.processes, self.channel = processes, channel
        names = processes.exchanged(name(), "startup", channel)
        self.ranks = [rank for rank, its in enumerate(names) if its == names[processes.rank]]
        """Ranks of the processes on this machine."""
        self.machines = len(set(names))
        self.own = self.ranks.index(processes.rank)
        self.shares = len(names) > self.machines
        """Whether any machine runs several processes; equal in all processes."""
        first = self.ranks[0] == processes.rank
        # All processes have just communicated, so Split does not wait for a process that has ended.
        several = self.shares and self.machines > 1
        split = channel.Split(0 if first else processes.MPI.UNDEFINED, processes.rank) if several else None
        self.leaders = split if first else None
        """Communicator of the first process of each machine; None in other processes or if there is one machine."""

    def sum(self, dtype: DType, elements: int) -> tuple[SharedSum | None, str]:
        """Create shared memory for a sum over the processes of this machine.

        Return (sum, "") if shared memory is available, otherwise (None, reason). The outcome is the same in all
        processes of all machines.
        """
        size = SharedSum.bytes(dtype, elements, len(self.ranks))
        reasons = []
        for make in (_of_memory, _of_folder):
            descriptor, reason = self._file(make, size)
            if descriptor is not None:
                made = None
                try:
                    made = SharedSum(descriptor, dtype, elements, len(self.ranks), self.own)
                except DeviceError as error:
                    reason = str(error)
                finally:
                    os.close(descriptor)
                reason = self._first(reason)
                if not reason:
                    return made, ""
            reasons.append(reason)
        return None, "; ".join(dict.fromkeys(reasons))

    def _file(self, make: Callable[[int], tuple[int, str]], size: int) -> tuple[int | None, str]:
        """Create a file of `size` zero bytes and open it in all processes of this machine; the caller closes it.

        Return (descriptor, "") or, if the file cannot be created or a process cannot open it, (None, reason).
        """
        descriptor: int | None = None
        path, token, reason = "", secrets.token_bytes(_TOKEN), ""
        if self.own == 0:
            try:
                descriptor, path = make(size + _TOKEN)
                os.pwrite(descriptor, token, size)
            except OSError as error:
                reason = f"cannot allocate {size} bytes of shared memory: {error.strerror}"
        told = self.processes.exchanged((path, token, reason), "shared memory", self.channel)
        there, token, reason = told[self.ranks[0]]
        if self.own and not reason:
            try:
                descriptor = os.open(there, os.O_RDWR | os.O_CLOEXEC)
                if os.pread(descriptor, _TOKEN, size) != token:
                    reason = f"process {self.processes.rank} cannot see the memory of process {self.ranks[0]}"
            except OSError as error:
                reason = (
                    f"process {self.processes.rank} cannot open the memory of process {self.ranks[0]}: {error.strerror}"
                )
        reason = self._first(reason)
        if path.startswith(_ROOM):
            os.unlink(path)
        if reason and descriptor is not None:
            os.close(descriptor)
            descriptor = None
        return descriptor, reason

    def _first(self, reason: str) -> str:
        """Collect a reason from every process and return the first nonempty one, or "" if all are empty.

        The result is the same in all processes.
        """
        said = self.processes.exchanged(reason, "shared memory", self.channel)
        return next((its for its in said if its), "")


def _of_memory(size: int) -> tuple[int, str]:
    """Create an anonymous file of `size` bytes. Return its descriptor and the /proc path that other processes open."""
    if not hasattr(os, "memfd_create"):
        raise OSError(errno.ENOSYS, "memfd_create is not available on this system")
    descriptor = os.memfd_create("mpsgraph", os.MFD_CLOEXEC)
    return _allocated(descriptor, size), f"/proc/{os.getpid()}/fd/{descriptor}"


def _of_folder(size: int) -> tuple[int, str]:
    """Create a file of `size` bytes in the directory for shared memory. Return its descriptor and path."""
    descriptor, path = tempfile.mkstemp(prefix="mpsgraph-", dir=_ROOM)
    try:
        return _allocated(descriptor, size), path
    except OSError:
        os.unlink(path)
        raise


def _allocated(descriptor: int, size: int) -> int:
    """Allocate all pages of a new file, and return its descriptor.

    Without this, a process that writes to a page that cannot be allocated would be killed.
    """
    try:
        if not hasattr(os, "posix_fallocate"):
            raise OSError(errno.ENOSYS, "posix_fallocate is not available on this system")
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
