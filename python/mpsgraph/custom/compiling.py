"""Compilation of C++ source into a shared library, with a cache on disk.

The cache key is a digest of everything that affects the result: the source, the headers of this package, the compiler
and its version, and its flags. Each entry also records the files that the source includes. If several processes need
the same library, one compiles and the others wait; a library is moved into the cache only when it is complete.
PyTorch's load_inline works the same way.

Loading a library runs its code. A cached library is therefore used only if the current user or root owns it and the
directory, no other user may write to them, and the library's digest is the one that was stored when it was compiled.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import DeviceError, GraphError, UnsupportedError

INCLUDE = Path(__file__).resolve().parents[1] / "include"
SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"
_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden")
_MOST_LINES = 60  # Maximum number of lines of compiler output in an error message.


def cache_directory() -> Path:
    """Return the directory in which compiled sources are cached.

    The directory is the value of the environment variable MPSGRAPH_CUSTOM_CACHE if it is set, otherwise a directory in
    the user's cache. The cached files can be deleted at any time and are recreated when needed.

    Returns:
        The path of the directory, which does not necessarily exist yet.

    Example:
        >>> mg.custom.cache_directory().is_absolute()
        True
    """
    if wish := os.environ.get("MPSGRAPH_CUSTOM_CACHE"):
        return Path(wish)
    if home := os.environ.get("XDG_CACHE_HOME"):
        return Path(home) / "mpsgraph" / "custom"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "mpsgraph" / "custom"
    return Path.home() / ".cache" / "mpsgraph" / "custom"


def compiler() -> list[str]:
    """Return the compiler command: the value of CXX, or the first of c++, g++, and clang++ that is installed.

    Raise UnsupportedError if there is no compiler.
    """
    words = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    for first in [words[0]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]:
        if found := shutil.which(first):
            return [found, *words[1:]]
    looked_for = words[0] if os.environ.get("CXX") else "c++, g++ or clang++"
    raise UnsupportedError(
        f"no C++ compiler found (looked for {looked_for}); install one, set the environment variable CXX to its "
        "command, or load a library compiled elsewhere with mg.load_custom_operations"
    )


@functools.cache
def _version(command: tuple[str, ...], changed: float) -> str:
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, errors="replace")
    return done.stdout


def _headers() -> str:
    return "".join((INCLUDE / "mpsgraph" / name).read_text() for name in ("custom_operation.h", "mpsgraph.h"))


def compiled(name: str, text: str, flags: Sequence[str], folder: Path | None) -> Path:
    """Return the path of the compiled library, compiling the source if it is not cached.

    Args:
        name: Name of the operation, for error messages and file names.
        text: Complete source, including the operation's description.
        flags: Additional compiler flags, which come after the default ones.
        folder: Directory of the source file, which is searched for included files; None if the source is not a file.

    Returns:
        The path of the library in the cache.

    Raises:
        GraphError: If the source does not compile; the error contains the compiler's output.
        UnsupportedError: If there is no compiler.
        DeviceError: If the cache directory is not writable.
    """
    command = compiler()
    here = [f"-I{INCLUDE}", *([f"-I{folder}"] if folder else []), *flags]
    version = _version(tuple(command), os.stat(command[0]).st_mtime)
    matters = [*command, version, *_FLAGS, *here, _headers(), text, platform.machine()]
    if any("native" in flag for flag in flags):
        matters.append(_processor())
    digest = hashlib.sha256("\0".join(matters).encode()).hexdigest()[:32]
    base = name.replace(".", "_")
    directory = cache_directory()
    index = directory / f"{base}-{digest}.json"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_private(name, directory)
        if found := _kept(index):
            return found
        with _alone(directory / f"{base}-{digest}.lock"):
            return _kept(index) or _compile(name, text, [*command, *_FLAGS, *here], index)
    except OSError as error:
        raise DeviceError(
            f"[{name}] cannot write to the cache directory {directory} ({error}); set the environment variable "
            "MPSGRAPH_CUSTOM_CACHE to a writable directory"
        ) from None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() + platform.node()
    return "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))


def _require_private(name: str, directory: Path) -> None:
    """Remove others' permission to write to the cache directory; raise DeviceError if that is not possible."""
    state = directory.stat()
    if state.st_mode & 0o022 and not state.st_mode & stat.S_ISVTX and state.st_uid == os.geteuid():
        directory.chmod(stat.S_IMODE(state.st_mode) & ~0o022)
        state = directory.stat()
    others_write = state.st_mode & 0o022 and not state.st_mode & stat.S_ISVTX
    if state.st_uid not in (os.geteuid(), 0) or others_write:
        raise DeviceError(
            f"[{name}] the cache directory {directory} must belong to the current user and must not be writable by "
            "others, who could replace compiled code; set the environment variable MPSGRAPH_CUSTOM_CACHE to a private "
            "directory"
        )


def _private_bytes(path: Path) -> bytes:
    """Return the contents of a file that only the current user or root can have written; otherwise raise OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_mode & 0o022 or state.st_uid not in (os.geteuid(), 0):
            raise OSError(f"{path} can be written by others")
        return file.read()


def _kept(index: Path) -> Path | None:
    """Return the cached library that an index file names.

    Return None if the library is missing, was altered, or can be written by others, or if an included file has changed.
    """
    try:
        known = json.loads(_private_bytes(index))
        library: Path = index.with_name(known["library"])  # raises ValueError for a path into another directory
        if any(_digest(Path(path)) != digest for path, digest in known["includes"].items()):
            return None
        if hashlib.sha256(_private_bytes(library)).hexdigest() == known["sha256"]:
            return library
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    return None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]


def _compile(name: str, text: str, command: list[str], index: Path) -> Path:
    with tempfile.TemporaryDirectory(dir=index.parent, prefix="making-") as scratch:
        source, made, listed = (Path(scratch) / part for part in ("source.cpp", "made" + SUFFIX, "includes.d"))
        source.write_text(text)
        done = subprocess.run(
            [*command, "-MMD", "-MF", str(listed), "-o", str(made), str(source)],
            capture_output=True,
            text=True,
            errors="replace",
        )
        if done.returncode != 0:
            raise GraphError(
                f"[{name}] the C++ source does not compile; output of {shlex.join(command[:1])}:\n" + _shortened(done)
            )
        includes = {str(path): _digest(path) for path in _includes(listed, source)}
        # The dynamic loader does not reload a path it has loaded before, so a changed library needs a new path.
        state = hashlib.sha256(json.dumps(includes, sort_keys=True).encode()).hexdigest()[:8]
        library = index.with_name(f"{index.stem}-{state}{SUFFIX}")
        made.chmod(0o700)
        sha256 = hashlib.sha256(made.read_bytes()).hexdigest()
        os.replace(made, library)
        known = Path(scratch) / "index.json"
        known.write_text(json.dumps({"library": library.name, "sha256": sha256, "includes": includes}))
        known.chmod(0o600)
        os.replace(known, index)
        return library


def _includes(listed: Path, source: Path) -> list[Path]:
    """Return the files that a source includes, read from the make rule that the compiler wrote."""
    words = shlex.split(listed.read_text().replace("\\\n", " ").partition(":")[2])
    return [path for word in words if (path := Path(word).resolve()) != source.resolve()]


def _shortened(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr + done.stdout).strip().splitlines() or [f"(no output, exit status {done.returncode})"]
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"... and {len(lines) - _MOST_LINES} lines more"]
    return "\n".join(lines)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file within a `with` block. The operating system releases it if the process dies."""
    import fcntl  # fcntl is not available on Windows, which the package does not support.

    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
