"""Training: the Trainer, what its steps give, the history that it keeps, callbacks and checkpoints.

People import `Trainer`, `History`, `StepResult` and `checkpoint` from mpsgraph itself, which loads each at its first
use; here only the room of callbacks is, `mpsgraph.training.callbacks`.
"""

from . import callbacks

__all__ = ["callbacks"]
