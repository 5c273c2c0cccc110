"""Losses: functions of a model's outputs and the labels that give the mean over the batch, as a tensor of rank 0.

`Trainer` takes them by name or any function of this form; `functools.partial` gives their other arguments values.
Reductions and weights are the same for all (`reduced`): the sum, Apple's habit, or no reduction instead of the mean,
which is PyTorch's.
"""

from __future__ import annotations

from ..._checks import checked
from ..._display import shown
from ...errors import GraphError
from .classification import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    categorical_cross_entropy,
    cross_entropy,
    hinge,
    kl_divergence,
    log_loss,
    multi_label_soft_margin,
    nll,
    soft_margin,
    squared_hinge,
)
from .reduction import Loss, mean_of_all, reduced
from .regression import (
    gaussian_nll,
    huber,
    log_cosh,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_squared_error,
    mean_squared_logarithmic_error,
    poisson_nll,
    smooth_l1,
)
from .sequence import ctc
from .similarity import (
    cosine_distance,
    cosine_embedding,
    cosine_similarity,
    hinge_embedding,
    margin_ranking,
    triplet_margin,
)

LOSSES: dict[str, Loss] = {
    "cross_entropy": cross_entropy,
    "mean_squared_error": mean_squared_error,
    "mse": mean_squared_error,
    "mean_absolute_error": mean_absolute_error,
    "l1": mean_absolute_error,
    "binary_cross_entropy": binary_cross_entropy,
    "binary_cross_entropy_with_logits": binary_cross_entropy_with_logits,
    "categorical_cross_entropy": categorical_cross_entropy,
    "cosine_distance": cosine_distance,
    "ctc": ctc,
    "hinge": hinge,
    "hinge_embedding": hinge_embedding,
    "huber": huber,
    "kl_divergence": kl_divergence,
    "log": log_loss,
    "log_cosh": log_cosh,
    "mean_absolute_percentage_error": mean_absolute_percentage_error,
    "mean_squared_logarithmic_error": mean_squared_logarithmic_error,
    "multi_label_soft_margin": multi_label_soft_margin,
    "nll": nll,
    "poisson_nll": poisson_nll,
    "smooth_l1": smooth_l1,
    "soft_margin": soft_margin,
    "squared_hinge": squared_hinge,
}
"""The losses that have a name, by it; what takes a loss takes these names."""


@checked
def loss_named(loss: str | Loss) -> Loss:
    """The loss of a name, or the function itself. GraphError that lists the names.

    >>> mg.nn.losses.loss_named("mse") is mg.nn.losses.mean_squared_error
    True
    """
    if callable(loss):
        return loss
    if loss not in LOSSES:
        raise GraphError(
            f"there is no loss {shown(loss)}: use one of {', '.join(LOSSES)}, or a function (outputs, labels)"
        )
    return LOSSES[loss]


__all__ = [
    "LOSSES",
    "Loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "categorical_cross_entropy",
    "cosine_distance",
    "cosine_embedding",
    "cosine_similarity",
    "cross_entropy",
    "ctc",
    "gaussian_nll",
    "hinge",
    "hinge_embedding",
    "huber",
    "kl_divergence",
    "log_cosh",
    "log_loss",
    "loss_named",
    "margin_ranking",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_of_all",
    "mean_squared_error",
    "mean_squared_logarithmic_error",
    "multi_label_soft_margin",
    "nll",
    "poisson_nll",
    "reduced",
    "smooth_l1",
    "soft_margin",
    "squared_hinge",
    "triplet_margin",
]
