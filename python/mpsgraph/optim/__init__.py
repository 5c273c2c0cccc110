"""Optimizers that keep their state in variables of the graph, and learning-rate schedules.

State in variables means that an update of all parameters is part of the training step's one executable, and that
checkpoints carry momenta and powers without further care.
"""

from .adaptive import AdaDelta, Adagrad, RMSProp
from .clipping import ClipByNorm, ClipByValue
from .loss_scaling import LossScaling
from .optimizers import SGD, Adam, AdamW, Optimizer
from .schedules import ConstantRate, CosineRate, ExponentialRate, Schedule, StepRate, WarmUp

__all__ = [
    "SGD",
    "AdaDelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "ClipByNorm",
    "ClipByValue",
    "ConstantRate",
    "CosineRate",
    "ExponentialRate",
    "LossScaling",
    "Optimizer",
    "RMSProp",
    "Schedule",
    "StepRate",
    "WarmUp",
]
