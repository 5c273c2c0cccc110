"""PyTorch's and Keras's names of optimizer options, where their meaning is unambiguous: `lr` is learning_rate.

Each alias stands for one option, or for several that it holds as a tuple, as `betas` holds beta1 and beta2. An
optimizer accepts an alias only if it has the option. Signatures show this package's names.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .._display import shown
from ..errors import GraphError

ALIASES: dict[str, tuple[str, ...]] = {
    "lr": ("learning_rate",),  # Alias in PyTorch and Keras.
    "betas": ("beta1", "beta2"),  # Alias in PyTorch.
    "beta_1": ("beta1",),  # Alias in Keras.
    "beta_2": ("beta2",),
    "eps": ("epsilon",),  # Alias in PyTorch.
    "alpha": ("decay",),  # Alias in PyTorch's RMSprop.
    "rho": ("decay",),  # Alias in Keras's RMSprop, and in PyTorch's and Keras's Adadelta.
    "initial_accumulator_value": ("initial_sum",),  # Alias in PyTorch's and Keras's Adagrad.
    "beta_2_decay": ("beta2_decay",),  # Alias in Keras's Adafactor.
    "epsilon_1": ("epsilon1",),
    "epsilon_2": ("epsilon2",),
    "d": ("clip_threshold",),  # Alias in PyTorch's Adafactor.
    "ns_coefficients": ("coefficients",),  # Alias in PyTorch's Muon.
    "ns_steps": ("iterations",),
    "adjust_lr_fn": ("adjustment",),
}
_PAIRS = {"eps": ("epsilon1", "epsilon2")}  # Adafactor has two epsilons, so eps is a pair.


def taking_aliases(initialise: Callable[..., None]) -> Callable[..., None]:
    """Wrap the constructor of an optimizer so that it also accepts aliases of its options.

    Args:
        initialise: The constructor, `__init__`.

    Returns:
        The wrapped constructor, which raises GraphError if an option is passed under two names or a tuple has the wrong
        length.

    Example:
        >>> optimizer = mg.optim.AdamW(lr=1e-3, betas=(0.9, 0.95), eps=1e-6)
        >>> float(optimizer.learning_rate), optimizer.beta2, optimizer.epsilon
        (0.001, 0.95, 1e-06)
    """
    names = list(inspect.signature(initialise).parameters)[1:]
    known = _known(tuple(names))

    @functools.wraps(initialise)
    def initialised(self: Any, *args: Any, **options: Any) -> None:
        for alias in [name for name in options if name in known]:
            for option, number in _split(type(self).__name__, alias, known[alias], options.pop(alias)).items():
                if option in options or option in names[: len(args)]:
                    raise GraphError(
                        f"{type(self).__name__}: {alias} is an alias of {option}, which was also passed: pass only one "
                        "of them"
                    )
                options[option] = number
        initialise(self, *args, **options)

    return initialised


def options_of_alias(kind: type, name: str, value: Any) -> dict[str, Any] | None:
    """Return the options that an alias of an optimizer's options stands for, with their values.

    Args:
        kind: Class of the optimizer.
        name: Name that may be an alias.
        value: Value given under that name.

    Returns:
        A dict of values, keyed by option, or None if the name is not an alias.

    Raises:
        GraphError: If the alias stands for several options and the value is not a tuple of that length.

    Example:
        >>> from mpsgraph.optim.aliases import options_of_alias
        >>> options_of_alias(mg.optim.Adam, "betas", (0.8, 0.9))
        {'beta1': 0.8, 'beta2': 0.9}
    """
    if name not in ALIASES:
        return None
    known = _known(_names_of(kind))
    return _split(kind.__name__, name, known[name], value) if name in known else None


@functools.cache
def _names_of(kind: type) -> tuple[str, ...]:
    return tuple(inspect.signature(kind.__init__).parameters)[1:]  # type: ignore[misc]


@functools.cache
def _known(names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the aliases of an optimizer with the given options."""
    return {
        alias: options
        for table in (_PAIRS, ALIASES)  # ALIASES takes precedence if the optimizer has the options of both tables.
        for alias, options in table.items()
        if alias not in names and set(options) <= set(names)
    }


def _split(kind: str, alias: str, wanted: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Return the options that an alias stands for, with their values."""
    if len(wanted) > 1 and (not isinstance(value, (tuple, list)) or len(value) != len(wanted)):
        words = " and ".join(wanted)
        raise GraphError(f"{kind}: {alias} must be a tuple of {len(wanted)} numbers ({words}), got {shown(value)}")
    return dict(zip(wanted, value if len(wanted) > 1 else (value,), strict=True))
