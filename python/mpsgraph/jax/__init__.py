"""JAX's programs on this engine, and this engine's graphs in JAX: each name imports what it needs when it is used.

JAX is an extra, `pip install mpsgraph[jax]`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .jit import Jitted, jit
    from .primitives import known_primitives

_HOMES = {"Jitted": "jit", "jit": "jit", "known_primitives": "primitives"}

__all__ = ["Jitted", "jit", "known_primitives"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found  # a module of the same name is not what people mean
    return found
