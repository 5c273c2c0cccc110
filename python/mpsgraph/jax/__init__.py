"""JAX's programs on this engine, and this engine's graphs in JAX: each name imports what it needs when it is used.

JAX is an extra, `pip install mpsgraph[jax]`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .engine import Engine
    from .functions import Function, function
    from .jitted import Jitted, jit
    from .lax import mapped_operations
    from .primitives import known_primitives

_HOMES = {
    "Engine": "engine",
    "Function": "functions",
    "Jitted": "jitted",
    "function": "functions",
    "jit": "jitted",
    "known_primitives": "jitted",
    "mapped_operations": "lax",
}

__all__ = ["Engine", "Function", "Jitted", "function", "jit", "known_primitives", "mapped_operations"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
