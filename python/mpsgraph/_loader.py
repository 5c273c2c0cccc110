"""Import the compiled module, except in a subinterpreter, where it would fail later."""

from __future__ import annotations

import ctypes
import importlib


def load() -> None:
    """Import mpsgraph._core. Raise ImportError in a subinterpreter."""
    if _in_subinterpreter():
        raise ImportError(
            "mpsgraph cannot be imported in a subinterpreter, because its core and numpy support only the main "
            "interpreter: use a separate process, for example with multiprocessing"
        )
    importlib.import_module("mpsgraph._core")


def _in_subinterpreter() -> bool:
    current, main = ctypes.pythonapi.PyInterpreterState_Get, ctypes.pythonapi.PyInterpreterState_Main
    current.restype = main.restype = ctypes.c_void_p
    return bool(current() != main())
