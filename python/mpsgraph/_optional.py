"""Import optional dependencies when a feature first needs them."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, extra: str, purpose: str) -> Any:
    """Import and return an optional module. If the module is missing, raise an ImportError that names the feature that
    needs it and the command to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = {"sklearn": "scikit-learn", "PIL": "pillow"}.get(module.split(".")[0], module.split(".")[0])
        raise ImportError(f"{purpose} requires {package}: pip install mpsgraph[{extra}]") from error
