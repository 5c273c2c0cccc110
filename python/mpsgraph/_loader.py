"""Import the compiled module, after loading oneDNN if the system's loader does not find it.

`_core` depends on libmpsgraph, which depends on libdnnl from the distribution onednn-cpu-gomp. For the usual
installations, the relative paths of both libraries are built in. If packages are installed in separate directories,
this module first loads libdnnl by its full path.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

DISTRIBUTION = "onednn-cpu-gomp"


def load() -> None:
    """Import mpsgraph._core. Raise ImportError with the missing dependency if that fails, or in a subinterpreter."""
    if _in_subinterpreter():
        raise ImportError(
            "mpsgraph cannot be imported in a subinterpreter, because its core and numpy support only the main "
            "interpreter: use a separate process, for example with multiprocessing"
        )
    with _sleeping_threads():
        try:
            importlib.import_module("mpsgraph._core")
        except ImportError as error:
            if "libdnnl" not in str(error):
                raise
            _preload(error)
            importlib.import_module("mpsgraph._core")


def _in_subinterpreter() -> bool:
    current, main = ctypes.pythonapi.PyInterpreterState_Get, ctypes.pythonapi.PyInterpreterState_Main
    current.restype = main.restype = ctypes.c_void_p
    return bool(current() != main())


@contextmanager
def _sleeping_threads() -> Iterator[None]:
    """Set an environment variable while GNU OpenMP is loaded, so that its idle threads sleep.

    By default, these threads spin for milliseconds after each loop. Only oneDNN's convolutions use them, and the
    kernels that run next need the processors for the package's own thread pool. OpenMP reads the setting when it is
    loaded, so the environment is restored afterwards.
    """
    if "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ:
        yield
        return
    os.environ["OMP_WAIT_POLICY"] = "passive"
    try:
        yield
    finally:
        del os.environ["OMP_WAIT_POLICY"]


def _preload(error: ImportError) -> None:
    from importlib.metadata import PackageNotFoundError, files

    try:
        found = [file.locate() for file in files(DISTRIBUTION) or () if re.match(r"libdnnl\.so\.\d+$", file.name)]
    except PackageNotFoundError:
        found = []
    if not found:
        raise ImportError(f"{error}. mpsgraph requires oneDNN: pip install {DISTRIBUTION}") from error
    try:
        ctypes.CDLL(str(found[0]), mode=ctypes.RTLD_GLOBAL)
    except OSError as cause:
        raise ImportError(f"failed to load {found[0]}, which mpsgraph requires: {cause}") from cause
