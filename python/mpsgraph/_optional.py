"""Packages that only some features need, imported when they are used."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, extra: str, purpose: str) -> Any:
    """The module; ImportError says what it is for and how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = {"sklearn": "scikit-learn", "PIL": "pillow"}.get(module.split(".")[0], module.split(".")[0])
        raise ImportError(f"{purpose} needs {package}: pip install mpsgraph[{extra}]") from error
