"""Which device the tests run on: the CPU, or with MPSGRAPH_TEST_DEVICE=metal the Metal backend over the mock.

With the backend and the mock of Apple's frameworks (tests/mock) libmpsgraph.so is what it is on a Mac, where
device "metal" is the default. It is loaded before the package, whose module then takes it for its own. MPSGRAPH_MOCK
names it; by default it lies where `make test` builds it.
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

# The macOS that the mock plays, when a run asks for an old one.
OLD_SYSTEM = os.environ.get("MPSGRAPH_MOCK_MACOS", "") if IS_METAL else ""


def needs_newer(message: str) -> bool:
    """Does an error name a macOS that is newer than the one of this run?"""
    own = [int(part) for part in OLD_SYSTEM.split(".")]
    return any(own < [int(part) for part in found.split(".")] for found in re.findall(r"macOS (\d+\.\d+)", message))


def lacks(name: str) -> tuple[str, ...]:
    """The element types that a device has no numbers for."""
    return ("float64", "complex128") if name == "metal" else ()


MISSING = lacks(NAME)


def mock() -> ctypes.CDLL:
    """The library with the mock's functions for tests."""
    return ctypes.CDLL(str(LIBRARY), mode=ctypes.RTLD_GLOBAL)


def prelude() -> str:
    """What a program in another process begins with, to run on the same device."""
    return f"import sys; sys.path.insert(0, {str(TESTS)!r}); import harness.device\n" if IS_METAL else ""


def has(dtype: str) -> bool:
    """Has the device this element type?"""
    return dtype not in MISSING


if IS_METAL:
    mock()

import mpsgraph as mg  # noqa: E402 (not before the library that it is to use)

if IS_METAL:
    assert mg.Device.default().name == "metal", "the library registers the device"
