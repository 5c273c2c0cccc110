"""PyTorch's programs on this engine: `Trainer`, one executable a training step; a backend of torch.compile.

PyTorch is an extra, `pip install mpsgraph[torch]`, and is imported with this room.
"""

from .._optional import require

require("torch", "torch", "mpsgraph.torch")

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
