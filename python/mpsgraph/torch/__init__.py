"""PyTorch frontend: training with `Trainer` or `compile_step`, and a backend for torch.compile.

Requires PyTorch (`pip install mpsgraph[torch]`), which is imported together with this package.
"""

import warnings

from .._optional import require

_LEAST = (2, 13)  # The minimum version of PyTorch that the mpsgraph[torch] extra requires.
_version = require("torch", "torch", "mpsgraph.torch").__version__
if tuple(int(part) for part in _version.split(".")[:2]) < _LEAST:
    warnings.warn(
        f"mpsgraph.torch requires PyTorch 2.13 or newer, found {_version}. With older versions, torch.linalg does not "
        "report singular matrices. To upgrade, run: pip install --upgrade 'mpsgraph[torch]'",
        stacklevel=2,
    )

from .aten import known_operations  # noqa: E402
from .backend import Explanation, backend, compile, explain, explaining, register  # noqa: E402
from .steps import CompiledStep, compile_step  # noqa: E402
from .trainer import Trainer  # noqa: E402

register()

__all__ = [
    "CompiledStep",
    "Explanation",
    "Trainer",
    "backend",
    "compile",
    "compile_step",
    "explain",
    "explaining",
    "known_operations",
]
