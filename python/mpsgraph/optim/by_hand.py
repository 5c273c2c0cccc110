"""Learning rates and options that were changed after an optimizer was created, for checkpoints.

A program that loads a checkpoint creates its optimizer again, but usually not by the same sequence of assignments.
Checkpoints therefore contain the values that were assigned. Values passed to the constructor are not stored, so a
program can continue from a checkpoint with different ones.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from .._core import Tensor
from .._display import given_to
from .aliases import options_of_alias
from .optimizers import Optimizer, Rate, rate_of, states_of
from .schedules import ConstantRate, Schedule, described_schedule, schedule_described

_PLAIN = (bool, int, float, str, type(None))


def optimizers_in(optimizer: Optimizer) -> Iterator[Optimizer]:
    """Iterate over an optimizer and those that it wraps or contains, in the order of its attributes.

    Args:
        optimizer: The optimizer.

    Example:
        >>> from mpsgraph.optim.by_hand import optimizers_in
        >>> list(optimizers_in(mg.optim.ClipByNorm(mg.optim.SGD(0.1), 1.0)))
        [ClipByNorm(SGD(learning_rate=0.1), 1.0), SGD(learning_rate=0.1)]
    """
    yield optimizer
    for value in vars(optimizer).values():
        for inner in value.values() if isinstance(value, dict) else [value]:
            if isinstance(inner, Optimizer):
                yield from optimizers_in(inner)


def states_in(optimizer: Optimizer) -> Iterator[Tensor]:
    """Iterate over the state variables of an optimizer and of those inside it."""
    for each in optimizers_in(optimizer):
        yield from states_of(each).values()


def forget_states(optimizer: Optimizer, variables: Collection[Tensor]) -> None:
    """Forget state variables of an optimizer and of those inside it, so that new ones are created when needed."""
    for each in optimizers_in(optimizer):
        states = states_of(each)
        for key in [key for key, variable in states.items() if variable in variables]:
            del states[key]


def described(optimizers: Sequence[Optimizer]) -> list[dict[str, Any]]:
    """Return the values assigned to optimizers after their construction, as JSON types.

    Args:
        optimizers: The optimizers; those inside them are included.

    Returns:
        A list with a dict for each optimizer, to pass to `restore`.
    """
    return [_state_of(each) for outer in optimizers for each in optimizers_in(outer)]


def restore(optimizers: Sequence[Optimizer], states: Sequence[Mapping[str, Any]]) -> None:
    """Assign the values that `described` returned. All other assignments since construction are undone.

    Args:
        optimizers: The optimizers.
        states: The values.
    """
    own = [each for outer in optimizers for each in optimizers_in(outer)]
    for each, state in zip(own, states, strict=False):
        _restore(each, state)


def _state_of(optimizer: Optimizer) -> dict[str, Any]:
    state: dict[str, Any] = {"kind": type(optimizer).__name__, "options": _changed_options(optimizer)}
    if (rate := rate_of(optimizer)) is not None:
        state["factors"] = list(rate.factors)
        if rate.unscaled is not rate.constructed:
            state["rate"] = described_schedule(rate.unscaled)
    return state


def _restore(optimizer: Optimizer, state: Mapping[str, Any]) -> None:
    if state.get("kind", type(optimizer).__name__) != type(optimizer).__name__:
        return
    if "options" in state:
        constructed = _constructor_options(optimizer)
        for name in _changed_options(optimizer).keys() - state["options"].keys():
            setattr(optimizer, name, constructed[name])
        for name, value in state["options"].items():
            if hasattr(optimizer, name) and getattr(optimizer, name) != value:
                setattr(optimizer, name, tuple(value) if isinstance(value, list) else value)
    if (rate := rate_of(optimizer)) is not None:
        base = _base_rate(optimizer, rate, state)
        if base is not rate.unscaled or rate.factors:
            optimizer.learning_rate = base
        for factor in state.get("factors", ()):
            Optimizer.scale_learning_rate(optimizer, factor)


def _base_rate(optimizer: Optimizer, known: Rate, state: Mapping[str, Any]) -> Schedule:
    """Return the unscaled schedule of a stored state."""
    if "rate" not in state:
        return known.constructed
    rate = schedule_described(state["rate"])
    if rate is not None:
        return rate
    if known.unscaled is known.constructed:
        warnings.warn(
            f"the learning rate of {type(optimizer).__name__} was set to the schedule {state['rate']} before the "
            "checkpoint was saved, and checkpoints cannot store functions: set trainer.learning_rate to it again",
            stacklevel=2,
        )
    return known.unscaled


def _constructor_options(optimizer: Optimizer) -> dict[str, Any]:
    """Return the plain arguments of the constructor and its defaults, keyed by name, except the learning rate."""
    signature = inspect.signature(type(optimizer).__init__)
    try:
        bound = signature.bind(optimizer, *given_to(optimizer).positional, **_named(optimizer))
    except TypeError:  # A subclass passes other arguments to its constructor.
        return {}
    bound.apply_defaults()
    return {
        name: value
        for name, value in bound.arguments.items()
        if name not in ("self", "learning_rate") and name in vars(optimizer) and _is_plain(value)
    }


def _named(optimizer: Optimizer) -> dict[str, Any]:
    """Return the named arguments of the constructor, with options in place of their aliases."""
    named: dict[str, Any] = {}
    for name, value in given_to(optimizer).named.items():
        options = options_of_alias(type(optimizer), name, value)
        named |= {name: value} if options is None else options
    return named


def _changed_options(optimizer: Optimizer) -> dict[str, Any]:
    """Return the options whose values differ from those passed to the constructor."""
    own = vars(optimizer)
    return {
        name: own[name]
        for name, value in _constructor_options(optimizer).items()
        if _is_plain(own[name]) and own[name] != value and not (value is None and name in _DERIVED)
    }


_DERIVED = ("minimum",)
"""Options whose value is computed from others if the constructor got None."""


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN) and not isinstance(value, ConstantRate)
