"""Training: `Trainer`, the results of its steps, the training history, callbacks, and checkpoints.

Import `Trainer`, `History`, `StepResult`, and `checkpoint` from mpsgraph itself, which loads each on first use. This
package only exports `mpsgraph.training.callbacks`.
"""

from . import callbacks

__all__ = ["callbacks"]
