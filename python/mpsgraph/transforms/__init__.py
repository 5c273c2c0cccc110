"""Functions of tensors and nested structures: compile them, differentiate them, and apply them to batches.

`jit` compiles a function once for each combination of argument types. `grad` and `value_and_grad` return functions that
compute gradients, and can be nested. `vmap` maps a function of single examples over a batch. `stop_gradient` and
`custom_gradient` control derivatives, and `checkpoint` reduces the memory that they need. All of them accept tensors,
too, and then add operations to their graph.
"""

from __future__ import annotations

from .batching import vmap
from .checkpointing import checkpoint
from .derivatives import custom_gradient, grad, stop_gradient, value_and_grad
from .tracing import jit

__all__ = ["checkpoint", "custom_gradient", "grad", "jit", "stop_gradient", "value_and_grad", "vmap"]
