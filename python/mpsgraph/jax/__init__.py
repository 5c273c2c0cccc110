"""JAX frontend: compile JAX functions with mpsgraph, and run mpsgraph graphs in JAX.

Requires JAX (`pip install mpsgraph[jax]`), which is imported on first use of a name.
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
