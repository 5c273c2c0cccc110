"""JAX beside this engine: `function` and `Engine` take our graphs out to XLA.

JAX is an extra, `pip install mpsgraph[jax]`; it is imported with what needs it.
"""

from importlib import import_module
from typing import Any

_LAZY = {
    "Engine": "engine",
    "Function": "functions",
    "function": "functions",
    "mapped_operations": "lax",
}


def __getattr__(name: str) -> Any:
    """What is here, imported with its module when it is first used."""
    if name not in _LAZY:
        raise AttributeError(f"module 'mpsgraph.jax' has no attribute '{name}'")
    value = getattr(import_module(f"mpsgraph.jax.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_LAZY)


__all__ = list(_LAZY)
