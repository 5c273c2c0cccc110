"""The device that the tests run on: the CPU, or the Metal backend on the mock with MPSGRAPH_TEST_DEVICE=metal.

Built with the Metal backend and the mock of Apple's frameworks (tests/mock), libmpsgraph.so behaves as on a Mac, where
"metal" is the default device. The library is loaded before the package, so that the package's extension module uses it
instead of the installed one. MPSGRAPH_MOCK sets its path, which defaults to the file that `make test` builds.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

NAME = os.environ.get("MPSGRAPH_TEST_DEVICE", "cpu")
IS_METAL = NAME == "metal"
LIBRARY = Path(os.environ.get("MPSGRAPH_MOCK", Path(__file__).resolve().parents[2] / "build/mock/libmpsgraph.so"))
TESTS = Path(__file__).resolve().parents[1]

# The older macOS version that the mock emulates, if any.
OLD_SYSTEM = os.environ.get("MPSGRAPH_MOCK_MACOS", "") if IS_METAL else ""


def needs_newer(message: str) -> bool:
    """Return whether an error message names a macOS version newer than the one of this run."""
    own = [int(part) for part in OLD_SYSTEM.split(".")]
    return any(own < [int(part) for part in found.split(".")] for found in re.findall(r"macOS (\d+\.\d+)", message))


def lacks(name: str) -> tuple[str, ...]:
    """Return the dtypes that a device does not support."""
    return ("float64", "complex128") if name == "metal" else ()


MISSING = lacks(NAME)


def mock() -> ctypes.CDLL:
    """Load the library with the test functions of the mock."""
    return ctypes.CDLL(str(LIBRARY), mode=ctypes.RTLD_GLOBAL)


def prelude() -> str:
    """Return the first lines of a program for another process, which make it run on the same device."""
    return f"import sys; sys.path.insert(0, {str(TESTS)!r}); import harness.device\n" if IS_METAL else ""


def has(dtype: str) -> bool:
    """Return whether the device supports a dtype."""
    return dtype not in MISSING


if IS_METAL:
    mock()

import mpsgraph as mg  # noqa: E402 (not before the library that it is to use)

if IS_METAL:
    assert mg.Device.default().name == "metal", "the mock library must register device metal as the default"
