"""Loss functions of a model's outputs and the labels, which return the mean over the batch as a tensor of rank 0.

`Trainer` accepts the name of a loss, or any function with the same signature; use `functools.partial` to set further
arguments. All losses share the same reductions and weights (see `reduced`). The default is the mean, as in PyTorch; the
sum, which is Apple's default, or no reduction can be chosen instead.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NoReturn

from ..._checks import checked
from ..._display import shown, suggested
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
"""The losses that can be selected by name."""


_ALIASES: dict[str, str | Loss] = {
    "mae": "mean_absolute_error",
    "mape": "mean_absolute_percentage_error",
    "msle": "mean_squared_logarithmic_error",
    "bce": "binary_cross_entropy",
    "bcewithlogits": "binary_cross_entropy_with_logits",
    "binarycrossentropy": "binary_cross_entropy",
    "categoricalcrossentropy": "categorical_cross_entropy",
    "sparsecategoricalcrossentropy": "categorical_cross_entropy",
    "poisson": functools.partial(poisson_nll, log_input=False, epsilon=1e-7),
    "multilabelsoftmargin": "multi_label_soft_margin",
    "nll": "nll",
    "kldiv": "kl_divergence",
}
"""Keras's and PyTorch's names of losses, in lower case and without underscores and a final "loss"."""


def _known(name: str) -> Loss | None:
    plain = "".join(letter for letter in name.lower() if letter.isalnum()).removesuffix("loss")
    found: str | Loss | None = _ALIASES.get(plain)
    if found is None:
        found = next((each for each in LOSSES if each.replace("_", "") == plain), None)
    return LOSSES[found] if isinstance(found, str) else found


@checked
def loss_named(loss: str | Loss) -> Loss:
    """Return the loss function with a given name.

    Args:
        loss: A name in `LOSSES`, Keras's or PyTorch's name of such a loss, as in "mae" or "CrossEntropyLoss", or a
            function (outputs, labels), which is returned unchanged. Upper case and underscores do not matter. Keras's
            cross-entropies, such as "sparse_categorical_crossentropy", take probabilities; "cross_entropy" and
            PyTorch's "CrossEntropyLoss" take logits.

    Returns:
        The loss function.

    Raises:
        GraphError: If there is no loss of that name; the message lists all names.

    Example:
        >>> mg.nn.losses.loss_named("mse") is mg.nn.losses.mean_squared_error
        True
    """
    if callable(loss):
        return loss
    found = LOSSES.get(loss) or _known(loss)
    if found is None:
        raise GraphError(
            f"there is no loss named {shown(loss)}: {suggested(loss, (*LOSSES, *_ALIASES))}pass one of "
            f"{', '.join(LOSSES)}, or a function (outputs, labels)"
        )
    return found


if not TYPE_CHECKING:  # Type checkers report unknown names.

    def __getattr__(name: str) -> NoReturn:
        """Raise AttributeError, which names the counterpart of a name of PyTorch or Keras."""
        from ..._names import no_attribute

        no_attribute(__name__, name)


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
