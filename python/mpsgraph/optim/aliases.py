"""The words of PyTorch and Keras for an optimizer's options, where they mean one thing: `lr` is learning_rate.

Each word stands for one option, or for a few of which it is a tuple, as `betas` is of beta1 and beta2. An optimizer
that does not have the option does not know the word. The constructor's signature keeps the names of this package.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .._display import shown
from ..errors import GraphError

ALIASES: dict[str, tuple[str, ...]] = {
    "lr": ("learning_rate",),  # both
    "betas": ("beta1", "beta2"),  # PyTorch's
    "beta_1": ("beta1",),  # Keras's
    "beta_2": ("beta2",),
    "eps": ("epsilon",),  # PyTorch's
    "alpha": ("decay",),  # PyTorch's RMSprop
    "rho": ("decay",),  # Keras's RMSprop, Adadelta of both
    "initial_accumulator_value": ("initial_sum",),  # Adagrad of both
    "beta_2_decay": ("beta2_decay",),  # Keras's Adafactor
    "epsilon_1": ("epsilon1",),
    "epsilon_2": ("epsilon2",),
    "d": ("clip_threshold",),  # PyTorch's Adafactor
    "ns_coefficients": ("coefficients",),  # PyTorch's Muon
    "ns_steps": ("iterations",),
    "adjust_lr_fn": ("adjustment",),
}
_PAIRS = {"eps": ("epsilon1", "epsilon2")}  # of Adafactor, which has two


def taking_aliases(initialise: Callable[..., None]) -> Callable[..., None]:
    """The constructor of an optimizer that also takes the other words for its options.

    Errors: GraphError where an option is given by two names, and for a tuple that is not of as many numbers.

    >>> optimizer = mg.optim.AdamW(lr=1e-3, betas=(0.9, 0.95), eps=1e-6)
    >>> float(optimizer.learning_rate), optimizer.beta2, optimizer.epsilon
    (0.001, 0.95, 1e-06)
    """
    names = list(inspect.signature(initialise).parameters)[1:]
    known = {
        alias: options
        for table in (_PAIRS, ALIASES)  # the second knows better, unless its option is not there
        for alias, options in table.items()
        if alias not in names and set(options) <= set(names)
    }

    @functools.wraps(initialise)
    def initialised(self: Any, *args: Any, **options: Any) -> None:
        for alias in [name for name in options if name in known]:
            wanted, value = known[alias], options.pop(alias)
            if len(wanted) > 1 and (not isinstance(value, (tuple, list)) or len(value) != len(wanted)):
                words = " and ".join(wanted)
                raise GraphError(f"{type(self).__name__}: {alias} is a pair of {words}, got {shown(value)}")
            for option, number in zip(wanted, value if len(wanted) > 1 else (value,), strict=True):
                if option in options or option in names[: len(args)]:
                    raise GraphError(
                        f"{type(self).__name__}: {alias} is another name of {option}, which was given, too: give one"
                    )
                options[option] = number
        initialise(self, *args, **options)

    return initialised
