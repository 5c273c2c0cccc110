"""Optimizers, which keep their state in variables of the graph, and learning-rate schedules.

Because the state is in variables, the update of all parameters is part of the training step's single executable, and
checkpoints include it without further effort. Constructors also accept the option names of PyTorch and Keras where they
are unambiguous, such as lr, betas, and eps.
"""

from typing import TYPE_CHECKING, NoReturn

from .._checks import checked
from .._display import shown, suggested
from ..errors import GraphError
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

_NAMED = (*(SGD, Adam, AdamW, RMSProp, Adagrad, AdaDelta, Adamax, NAdam, RAdam, Lion, LAMB, LARS, Adafactor, Muon),)


@checked
def optimizer_named(optimizer: str | Optimizer) -> Optimizer:
    """Return a new optimizer with a given name and default options.

    Args:
        optimizer: Name of a class, as in "adam", "AdamW", or "rmsprop"; upper case does not matter. Or an optimizer,
            which is returned unchanged.

    Returns:
        The optimizer.

    Raises:
        GraphError: If there is no optimizer of that name; the message lists all names.

    Example:
        >>> mg.optim.optimizer_named("adam")
        Adam()
    """
    if isinstance(optimizer, Optimizer):
        return optimizer
    kinds = {kind.__name__.lower(): kind for kind in _NAMED}
    plain = "".join(letter for letter in optimizer.lower() if letter.isalnum())
    if plain not in kinds:
        raise GraphError(
            f"there is no optimizer named {shown(optimizer)}: {suggested(optimizer, kinds)}pass one of "
            f"{', '.join(kinds)}, or an optimizer of mpsgraph.optim, such as Adam(1e-3)"
        )
    return kinds[plain]()


if not TYPE_CHECKING:  # Type checkers report unknown names.

    def __getattr__(name: str) -> NoReturn:
        """Raise AttributeError, which names the counterpart of a name of PyTorch or Keras."""
        from .._names import no_attribute

        no_attribute(__name__, name)


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
    "optimizer_named",
]
