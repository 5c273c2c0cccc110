"""Source text as a shared library: compiled once by the system's compiler, and kept under a digest of what matters.

What matters is the text, the headers of this package, the compiler and its version, its flags, and the files that the
source includes. Several processes may want the same library at once: one compiles, the others wait; a library appears
whole or not at all. PyTorch's load_inline does the same.
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
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import DeviceError, GraphError, UnsupportedError

INCLUDE = Path(__file__).resolve().parents[1] / "include"
SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"
_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden")
_MOST_LINES = 60  # of a compiler's message


def cache_directory() -> Path:
    """The folder in which compiled sources are kept: MPSGRAPH_CUSTOM_CACHE, or a place in the user's own cache.

    Whatever is in it may be deleted; it is made again when it is needed.

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
    """The command that compiles: CXX, or the first of c++, g++ and clang++. UnsupportedError where there is none."""
    words = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    for first in [words[0]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]:
        if found := shutil.which(first):
            return [found, *words[1:]]
    looked_for = words[0] if os.environ.get("CXX") else "c++, g++ or clang++"
    raise UnsupportedError(
        f"there is no compiler of C++ ({looked_for}): install one, name it in the environment variable CXX, or load a "
        "library that was compiled elsewhere with mg.load_custom_operations"
    )


@functools.cache
def _version(command: tuple[str, ...], changed: float) -> str:
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, errors="replace")
    return done.stdout


def _headers() -> str:
    return "".join((INCLUDE / "mpsgraph" / name).read_text() for name in ("custom_operation.h", "mpsgraph.h"))


def compiled(name: str, text: str, flags: Sequence[str], folder: Path | None) -> Path:
    """The library of a source with its description.

    Args: name of the operation, for messages and files; text, all of it; flags behind our own; folder of the source's
    file, in which its includes are looked for. Errors: GraphError with the compiler's message; UnsupportedError without
    a compiler; DeviceError where the cache cannot be written.
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
    if found := _kept(index):
        return found
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with _alone(directory / f"{base}-{digest}.lock"):
            return _kept(index) or _compile(name, text, [*command, *_FLAGS, *here], index)
    except OSError as error:
        raise DeviceError(
            f"[{name}] {directory} cannot be written ({error}): set MPSGRAPH_CUSTOM_CACHE to a folder that can"
        ) from None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() + platform.node()
    return "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))


def _kept(index: Path) -> Path | None:
    """The library that an index leads to, if it and the files that it was made of are as they were."""
    try:
        known = json.loads(index.read_text())
        library: Path = index.parent / known["library"]
        if all(_digest(Path(path)) == digest for path, digest in known["includes"].items()) and library.is_file():
            return library
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
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
                f"[{name}] its source does not compile: {shlex.join(command[:1])} says\n" + _shortened(done)
            )
        includes = {str(path): _digest(path) for path in _includes(listed, source)}
        # The loader takes a path for a library that it knows: what has changed needs another.
        state = hashlib.sha256(json.dumps(includes, sort_keys=True).encode()).hexdigest()[:8]
        library = index.with_name(f"{index.stem}-{state}{SUFFIX}")
        os.replace(made, library)
        known = Path(scratch) / "index.json"
        known.write_text(json.dumps({"library": library.name, "includes": includes}))
        os.replace(known, index)
        return library


def _includes(listed: Path, source: Path) -> list[Path]:
    """The files of a rule of make but the target and the source."""
    words = shlex.split(listed.read_text().replace("\\\n", " ").partition(":")[2])
    return [path for word in words if (path := Path(word).resolve()) != source.resolve()]


def _shortened(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr + done.stdout).strip().splitlines() or [f"nothing, and ends with {done.returncode}"]
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"... and {len(lines) - _MOST_LINES} lines more"]
    return "\n".join(lines)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time; the lock ends with its holder, however that ends."""
    import fcntl  # not on Windows, where the package is not either

    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
