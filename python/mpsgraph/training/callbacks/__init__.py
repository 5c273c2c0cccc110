"""Callbacks: what is told of a fit's epochs and steps, and may end it, save, or change its rates.

The protocol is `Callback`'s five methods. Steps run behind the caller, so a step is told of when its values are known,
which is up to two steps after it was begun.
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
