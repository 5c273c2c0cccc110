"""Optimizers, which keep their state in variables of the graph, and learning-rate schedules.

Because the state is in variables, the update of all parameters is part of the training step's single executable, and
checkpoints include it without further effort. Constructors also accept the option names of PyTorch and Keras where they
are unambiguous, such as lr, betas, and eps.
"""

from .adam import Adam, AdamW
from .adaptive import AdaDelta, Adagrad, RMSProp
from .clipping import ClipByNorm, ClipByValue
from .groups import ParameterGroups
from .layerwise import LAMB, LARS
from .loss_scaling import LossScaling
from .matrices import Adafactor, Muon
from .moments import Adamax, Lion, NAdam, RAdam
from .optimizers import SGD, Optimizer
from .schedules import (
    ConstantRate,
    CosineRate,
    CosineRestartsRate,
    ExponentialRate,
    OneCycleRate,
    PolynomialRate,
    ScaledRate,
    Schedule,
    StepRate,
    WarmUp,
)

__all__ = [
    "LAMB",
    "LARS",
    "SGD",
    "AdaDelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "ClipByNorm",
    "ClipByValue",
    "ConstantRate",
    "CosineRate",
    "CosineRestartsRate",
    "ExponentialRate",
    "Lion",
    "LossScaling",
    "Muon",
    "NAdam",
    "OneCycleRate",
    "Optimizer",
    "ParameterGroups",
    "PolynomialRate",
    "RAdam",
    "RMSProp",
    "ScaledRate",
    "Schedule",
    "StepRate",
    "WarmUp",
]
