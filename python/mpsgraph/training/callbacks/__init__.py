"""Callbacks: they are notified of the epochs and steps of a fit, and can stop it, save the trainer, or change rates.

The protocol is the five methods of `Callback`. Steps run asynchronously, so a callback is notified of a step when the
step's values are available; up to two later steps may have started by then.
"""

from .callback import Callback
from .checkpoints import BestCheckpoint, PeriodicCheckpoint
from .logs import CSVLog, TensorBoard
from .progress import ProgressBar
from .stopping import EarlyStopping, ReduceRateOnPlateau, TerminateOnNaN

__all__ = [
    "BestCheckpoint",
    "CSVLog",
    "Callback",
    "EarlyStopping",
    "PeriodicCheckpoint",
    "ProgressBar",
    "ReduceRateOnPlateau",
    "TensorBoard",
    "TerminateOnNaN",
]
