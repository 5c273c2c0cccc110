"""The processes of one machine: who they are, and files in memory that all of them map.

A file has no name that outlives its making, so nothing is left of it when the processes end, however they do. Not all
containers have the room, or let one process open what another has: then there is none, and a reason.
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

_TOKEN = 16  # bytes behind what was asked for, by which the others know that they have opened the same file
_ROOM = "/dev/shm"


def name() -> str:
    """What only processes that share a memory have in common."""
    with suppress(OSError):
        return f"{socket.gethostname()} {Path('/proc/sys/kernel/random/boot_id').read_text().strip()}"
    return socket.gethostname()


class Machine:
    """The machine of this process, seen from it. All processes make one at the same time.

    Args: channel, a communicator that nobody else uses meanwhile.
    """

    def __init__(self, processes: Processes, channel: Any) -> None:
        self.processes, self.channel = processes, channel
        names = processes.exchanged(name(), "the beginning", channel)
        self.ranks = [rank for rank, its in enumerate(names) if its == names[processes.rank]]
        """Of the processes here."""
        self.machines = len(set(names))
        self.own = self.ranks.index(processes.rank)
        self.shares = len(names) > self.machines
        """Has any machine several processes? The same in all of them."""
        first = self.ranks[0] == processes.rank
        # All have just spoken: nobody waits here for one that has ended.
        several = self.shares and self.machines > 1
        split = channel.Split(0 if first else processes.MPI.UNDEFINED, processes.rank) if several else None
        self.leaders = split if first else None
        """A communicator of each machine's first process, in that one, where there are several machines."""

    def sum(self, dtype: DType, elements: int) -> tuple[SharedSum | None, str]:
        """Memory for a sum of the processes here; or None, and why not, the same in all processes of all machines."""
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
        """The descriptor of `size` zeros that the processes here share, which the caller closes."""
        descriptor: int | None = None
        path, token, reason = "", secrets.token_bytes(_TOKEN), ""
        if self.own == 0:
            try:
                descriptor, path = make(size + _TOKEN)
                os.pwrite(descriptor, token, size)
            except OSError as error:
                reason = f"{size} bytes cannot be shared: {error.strerror}"
        told = self.processes.exchanged((path, token, reason), "shared memory", self.channel)
        there, token, reason = told[self.ranks[0]]
        if self.own and not reason:
            try:
                descriptor = os.open(there, os.O_RDWR | os.O_CLOEXEC)
                if os.pread(descriptor, _TOKEN, size) != token:
                    reason = f"process {self.processes.rank} does not see process {self.ranks[0]}'s memory"
            except OSError as error:
                reason = f"process {self.processes.rank} cannot open process {self.ranks[0]}'s memory: {error.strerror}"
        reason = self._first(reason)
        if path.startswith(_ROOM):
            os.unlink(path)
        if reason and descriptor is not None:
            os.close(descriptor)
            descriptor = None
        return descriptor, reason

    def _first(self, reason: str) -> str:
        """The first reason that a process has, in all of them; an empty one where nobody has any."""
        said = self.processes.exchanged(reason, "shared memory", self.channel)
        return next((its for its in said if its), "")


def _of_memory(size: int) -> tuple[int, str]:
    """A file that has no place, which others open through the process that has it."""
    if not hasattr(os, "memfd_create"):
        raise OSError(errno.ENOSYS, "this system has no such files")
    descriptor = os.memfd_create("mpsgraph", os.MFD_CLOEXEC)
    return _allocated(descriptor, size), f"/proc/{os.getpid()}/fd/{descriptor}"


def _of_folder(size: int) -> tuple[int, str]:
    """A file in the folder for shared memory."""
    descriptor, path = tempfile.mkstemp(prefix="mpsgraph-", dir=_ROOM)
    try:
        return _allocated(descriptor, size), path
    except OSError:
        os.unlink(path)
        raise


def _allocated(descriptor: int, size: int) -> int:
    """Its pages are there: who writes to one that cannot be had is killed."""
    try:
        if not hasattr(os, "posix_fallocate"):
            raise OSError(errno.ENOSYS, "this system does not say whether there is room")
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
