"""JAX's programs on this engine, and this engine's graphs in JAX: each name imports what it needs when it is used.

JAX is an extra, `pip install mpsgraph[jax]`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .jitted import Jitted, jit
    from .primitives import known_primitives

_HOMES = {"Jitted": "jitted", "jit": "jitted", "known_primitives": "jitted"}

__all__ = ["Jitted", "jit", "known_primitives"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found
