"""Imports the compiled module, after helping the system's loader to oneDNN where it does not find it.

`_core` needs libmpsgraph, which needs libdnnl of the distribution onednn-cpu-gomp. Their relative places are built in
for the usual installations; where packages lie in separate directories, libdnnl is loaded here by its full path first.
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
    """Makes mpsgraph._core importable. ImportError that says what is missing."""
    with _sleeping_threads():
        try:
            importlib.import_module("mpsgraph._core")
        except ImportError as error:
            if "libdnnl" not in str(error):
                raise
            _preload(error)
            importlib.import_module("mpsgraph._core")


@contextmanager
def _sleeping_threads() -> Iterator[None]:
    """Says how GNU OpenMP's threads wait, which it reads when it is loaded; the environment is as before afterwards.

    By default they spin for milliseconds after each loop. Here only oneDNN's convolutions use them, and kernels that
    run next, on a pool of their own, need the processors.
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
        raise ImportError(f"{error}. mpsgraph needs oneDNN: pip install {DISTRIBUTION}") from error
    try:
        ctypes.CDLL(str(found[0]), mode=ctypes.RTLD_GLOBAL)
    except OSError as cause:
        raise ImportError(f"{found[0]} cannot be loaded: {cause}") from cause
