"""Modules that have moved into rooms can still be imported by the names that they had.

`import mpsgraph.checkpoint` gives the one module mpsgraph.training.checkpoint, when somebody asks for it and not
before; so do programs that were written, and objects that were pickled, when it stood elsewhere. The package itself
uses the new names. What people call by a public name, as `mpsgraph.checkpoint`, has a stub of that name besides.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "mpsgraph.checkpoint": "mpsgraph.training.checkpoint",
    "mpsgraph.history": "mpsgraph.training.history",
    "mpsgraph.layer_precision": "mpsgraph.precision.layer_precision",
    "mpsgraph.mixed_precision": "mpsgraph.precision.mixed_precision",
    "mpsgraph.step_result": "mpsgraph.training.step_result",
    "mpsgraph.trainer": "mpsgraph.training.trainer",
}


class _Forwarding:
    """Finds and loads the names above; Python asks it last, for what nothing else has found."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in MOVED else None  # type: ignore[arg-type]  # abc.Loader is slow to import

    def create_module(self, spec: ModuleSpec) -> None:
        """Python makes an empty module, which is replaced below."""

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = import_module(MOVED[module.__name__])


def install() -> None:
    """From now on imports find the moved modules."""
    sys.meta_path.append(_Forwarding())
