"""PyTorch's programs on this engine: `Trainer`, one executable a training step; a backend of torch.compile.

PyTorch is an extra, `pip install mpsgraph[torch]`, and is imported with this room.
"""

import warnings

from .._optional import require

_LEAST = (2, 13)  # what the extra asks for
_version = require("torch", "torch", "mpsgraph.torch").__version__
if tuple(int(part) for part in _version.split(".")[:2]) < _LEAST:
    warnings.warn(
        f"mpsgraph.torch needs PyTorch 2.13 or newer and found {_version}, whose graphs say less: "
        "torch.linalg's errors about singular matrices are lost. Run: pip install --upgrade 'mpsgraph[torch]'",
        stacklevel=2,
    )

from .aten import known_operations  # noqa: E402
from .backend import Explanation, backend, compile, explain, explaining  # noqa: E402
from .steps import CompiledStep, compile_step  # noqa: E402
from .trainer import Trainer  # noqa: E402

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
