"""Imports the compiled module, after helping the system's loader to oneDNN where it does not find it.

`_core` needs libmpsgraph, which needs libdnnl of the distribution onednn-cpu-gomp. Their relative places are built in
for the usual installations; where packages lie in separate directories, libdnnl is loaded here by its full path first.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re

DISTRIBUTION = "onednn-cpu-gomp"


def load() -> None:
    """Makes mpsgraph._core importable. ImportError that says what is missing."""
    # Threads of GNU OpenMP wait actively, by default for milliseconds. Where two of them share a processor with Python
    # or with other work, the one that waits keeps the other from what it waits for. Some microseconds are enough here.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")
    try:
        importlib.import_module("mpsgraph._core")
    except ImportError as error:
        if "libdnnl" not in str(error):
            raise
        _preload(error)
        importlib.import_module("mpsgraph._core")


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
