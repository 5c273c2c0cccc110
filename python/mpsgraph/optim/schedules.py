"""Learning-rate schedules: functions from the step number, counted from 0, to the rate of that step.

The rate is fed to each step as a scalar, so any function of an int can be a schedule. The step number is part of
checkpoints, so a resumed run continues its schedule.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from .._checks import NotNegative, Positive, Size, checked, is_number
from .._display import ShowsArguments, shown
from ..errors import GraphError

Schedule = Callable[[int], float]
"""A function from the step number, counted from 0, to the learning rate."""


class ConstantRate(float):
    """Constant learning rate.

    It is a float, so that `optimizer.learning_rate *= 0.1` works.

    Args:
        rate: The rate, at least 0.

    Raises:
        GraphError: If a number is out of range.

    Example:
        >>> rate = mg.optim.ConstantRate(0.1)
        >>> rate(0), rate(1000)
        (0.1, 0.1)
    """

    def __new__(cls, rate: float) -> ConstantRate:
        return super().__new__(cls, as_rate("ConstantRate: rate", rate))

    @property
    def rate(self) -> float:
        """The rate as a float."""
        return float(self)

    def __call__(self, step: int) -> float:
        return float(self)


class StepRate(ShowsArguments):
    """Step decay: rate * factor^floor(step / every).

    Call it with a step number, counted from 0; it returns the learning rate of that step.

    Args:
        rate: Initial rate, at least 0.
        every: Number of steps between decreases.
        factor: Factor of each decrease, at least 0. Defaults to 0.1.

    Raises:
        GraphError: If a number is out of range.

    Example:
        >>> [mg.optim.StepRate(1.0, every=10, factor=0.5)(step) for step in (0, 9, 10, 20)]
        [1.0, 1.0, 0.5, 0.25]
    """

    @checked
    def __init__(self, rate: NotNegative, every: Size, factor: NotNegative = 0.1) -> None:
        self.rate, self.every, self.factor = rate, every, factor

    def __call__(self, step: int) -> float:
        return self.rate * self.factor ** (step // self.every)


class ExponentialRate(ShowsArguments):
    """Exponential decay: rate * factor^(step / every).

    Call it with a step number, counted from 0; it returns the learning rate of that step.

    Args:
        rate: Initial rate, at least 0.
        every: Number of steps after which the rate has been multiplied by factor.
        factor: Factor over `every` steps, at least 0.

    Raises:
        GraphError: If a number is out of range.

    Example:
        >>> mg.optim.ExponentialRate(1.0, every=10, factor=0.25)(5)
        0.5
    """

    @checked
    def __init__(self, rate: NotNegative, every: Size, factor: NotNegative) -> None:
        self.rate, self.every, self.factor = rate, every, factor

    def __call__(self, step: int) -> float:
        return float(self.rate * self.factor ** (step / self.every))


class CosineRate(ShowsArguments):
    """Cosine decay: from rate to final along half a cosine over `steps`, then constant.

    Call it with a step number, counted from 0; it returns the learning rate of that step.

    Args:
        rate: Initial rate, at least 0.
        steps: Number of steps of the decay.
        final: Final rate, at least 0. Defaults to 0.

    Raises:
        GraphError: If a number is out of range.

    Source: Loshchilov and Hutter, arXiv:1608.03983.

    Example:
        >>> [round(mg.optim.CosineRate(1.0, steps=10)(step), 3) for step in (0, 5, 10, 99)]
        [1.0, 0.5, 0.0, 0.0]
    """

    @checked
    def __init__(self, rate: NotNegative, steps: Size, final: NotNegative = 0.0) -> None:
        self.rate, self.steps, self.final = rate, steps, final

    def __call__(self, step: int) -> float:
        share = min(step / self.steps, 1.0)
        return self.final + (self.rate - self.final) * (1 + math.cos(math.pi * share)) / 2


class PolynomialRate(ShowsArguments):
    """Polynomial decay: from rate to final as (1 - step / steps)^power over `steps`, then constant.

    Call it with a step number, counted from 0; it returns the learning rate of that step.

    Args:
        rate: Initial rate, at least 0.
        steps: Number of steps of the decay.
        power: Exponent, at least 0. Defaults to 1, a linear decay.
        final: Final rate, at least 0. Defaults to 0.

    Raises:
        GraphError: If a number is out of range.

    Example:
        >>> [mg.optim.PolynomialRate(1.0, steps=4, power=2.0)(step) for step in (0, 2, 4, 9)]
        [1.0, 0.25, 0.0, 0.0]
    """

    @checked
    def __init__(self, rate: NotNegative, steps: Size, power: NotNegative = 1.0, final: NotNegative = 0.0) -> None:
        self.rate, self.steps, self.power, self.final = rate, steps, power, final

    def __call__(self, step: int) -> float:
        left = 1 - min(step / self.steps, 1.0)
        return float(self.final + (self.rate - self.final) * left**self.power)


class CosineRestartsRate(ShowsArguments):
    """Cosine decay with warm restarts: half cosines one after another, each `factor` times as long as the one before.

    Corresponds to PyTorch's CosineAnnealingWarmRestarts. Call it with a step number, counted from 0; it returns the
    learning rate of that step.

    Args:
        rate: Rate at the start of each cycle, at least 0.
        steps: Number of steps of the first cycle.
        factor: Ratio of the lengths of successive cycles. Defaults to 1.
        final: Rate at the end of each cycle, at least 0. Defaults to 0.

    Raises:
        GraphError: If a number is out of range.

    Source: Loshchilov and Hutter, arXiv:1608.03983.

    Example:
        >>> rate = mg.optim.CosineRestartsRate(1.0, steps=4, factor=2)
        >>> [round(rate(step), 3) for step in (0, 2, 4, 8, 12)]
        [1.0, 0.5, 1.0, 0.5, 1.0]
    """

    @checked
    def __init__(self, rate: NotNegative, steps: Size, factor: Size = 1, final: NotNegative = 0.0) -> None:
        self.rate, self.steps, self.factor, self.final = rate, steps, factor, final

    def __call__(self, step: int) -> float:
        length = self.steps
        if self.factor == 1:
            step %= length
        while step >= length:
            step, length = step - length, length * self.factor
        return self.final + (self.rate - self.final) * (1 + math.cos(math.pi * step / length)) / 2


class OneCycleRate(ShowsArguments):
    """One-cycle schedule: rise from rate / initial_divisor to rate, then fall to the initial rate / final_divisor.

    Both phases follow half a cosine. Corresponds to PyTorch's OneCycleLR with two phases.

    Call it with a step number, counted from 0; it returns the learning rate of that step.

    Args:
        rate: Peak rate, at least 0.
        steps: Number of steps of the cycle.
        rising: Fraction of the steps in which the rate rises, from 0 to 1. Defaults to 0.3.
        initial_divisor: Ratio of the peak rate to the initial rate, above 0. Defaults to 25.
        final_divisor: Ratio of the initial rate to the final rate, above 0. Defaults to 1e4.

    Raises:
        GraphError: If a number is out of range.

    Source: Smith and Topin, arXiv:1708.07120.

    Example:
        >>> rate = mg.optim.OneCycleRate(1.0, steps=11, rising=0.3, initial_divisor=4.0)
        >>> [round(rate(step), 3) for step in (0, 2, 10)]
        [0.25, 0.969, 0.0]
    """

    @checked
    def __init__(
        self,
        rate: NotNegative,
        steps: Size,
        rising: NotNegative = 0.3,
        initial_divisor: Positive = 25.0,
        final_divisor: Positive = 1e4,
    ) -> None:
        if not 0 <= rising <= 1:
            raise GraphError(f"OneCycleRate: rising must be a fraction of the steps from 0 to 1, got {rising}")
        self.rate, self.steps, self.rising = rate, steps, rising
        self.initial_divisor, self.final_divisor = initial_divisor, final_divisor

    def __call__(self, step: int) -> float:
        first, top, last = self.rate / self.initial_divisor, self.rising * self.steps - 1, self.steps - 1
        if step <= top:
            return first + (self.rate - first) * (1 - math.cos(math.pi * step / top)) / 2 if top > 0 else self.rate
        lowest = first / self.final_divisor
        share = min((step - max(top, 0)) / max(last - max(top, 0), 1e-9), 1.0)
        return lowest + (self.rate - lowest) * (1 + math.cos(math.pi * share)) / 2


class WarmUp(ShowsArguments):
    """Linear warm-up over `steps` to the initial rate of another schedule, which follows.

    Call it with a step number, counted from 0; it returns the learning rate of that step.

    Args:
        schedule: Schedule or constant rate that follows the warm-up, starting from its step 0.
        steps: Number of steps of the warm-up.

    Raises:
        GraphError: If a number is out of range.

    Example:
        >>> [mg.optim.WarmUp(mg.optim.ConstantRate(1.0), steps=4)(step) for step in (0, 1, 3, 4, 9)]
        [0.25, 0.5, 1.0, 1.0, 1.0]
    """

    @checked
    def __init__(self, schedule: Schedule | float, steps: Size) -> None:
        self.schedule, self.steps = as_schedule(schedule), steps

    def __call__(self, step: int) -> float:
        if step < self.steps:
            return self.schedule(0) * (step + 1) / self.steps
        return self.schedule(step - self.steps)


class ScaledRate(ShowsArguments):
    """Another schedule's rate times a factor.

    Call it with a step number, counted from 0; it returns the learning rate of that step.

    Args:
        schedule: Schedule or constant rate.
        factor: Factor, at least 0.

    Raises:
        GraphError: If a number is out of range.

    Example:
        >>> mg.optim.ScaledRate(mg.optim.StepRate(1.0, every=10), 0.5)(10)
        0.05
    """

    @checked
    def __init__(self, schedule: Schedule | float, factor: NotNegative) -> None:
        self.schedule, self.factor = as_schedule(schedule), factor

    def __call__(self, step: int) -> float:
        return self.schedule(step) * self.factor


def scaled_rate(schedule: Schedule, factor: float) -> Schedule:
    """Return a schedule times a factor; a constant rate stays a constant rate."""
    if isinstance(schedule, ConstantRate):
        return ConstantRate(float(schedule) * factor)
    if isinstance(schedule, ScaledRate):
        return ScaledRate(schedule.schedule, schedule.factor * factor)
    return ScaledRate(schedule, factor)


def end_of(schedule: Schedule) -> int | None:
    """Return the step from which a schedule's rate stays constant, or None if there is none or it is unknown.

    Args:
        schedule: The schedule.

    Example:
        >>> from mpsgraph.optim.schedules import end_of
        >>> end_of(mg.optim.WarmUp(mg.optim.CosineRate(1.0, steps=90), steps=10)), end_of(lambda step: 1 / (step + 1))
        (100, None)
    """
    if isinstance(schedule, ConstantRate):
        return 0
    if isinstance(schedule, (CosineRate, PolynomialRate, OneCycleRate)):
        return schedule.steps
    if isinstance(schedule, ScaledRate):
        return end_of(schedule.schedule)
    if isinstance(schedule, WarmUp):
        end = end_of(schedule.schedule)
        return None if end is None else schedule.steps + end
    return None


def as_schedule(rate: float | Schedule) -> Schedule:
    """Convert a number to a constant schedule. Raise GraphError if it is neither a valid rate nor a schedule."""
    return rate if callable(rate) else ConstantRate(as_rate("learning_rate", rate))


def as_rate(what: str, rate: Any) -> float:
    """Return a number as a learning rate. Raise GraphError if it is not a finite number of at least 0."""
    if not is_number(rate) or not 0 <= rate < math.inf:
        raise GraphError(
            f"{what} must be a finite number of at least 0, or a schedule (step) -> rate, got {shown(rate)}"
        )
    return float(rate)


def described_schedule(schedule: Schedule) -> Any:
    """Return a schedule as JSON types, for checkpoints: a number, a dict, or, for other functions, their repr.

    Args:
        schedule: The schedule.

    Example:
        >>> from mpsgraph.optim.schedules import described_schedule
        >>> described_schedule(mg.optim.StepRate(1.0, every=10))
        {'schedule': 'StepRate', 'options': {'rate': 1.0, 'every': 10, 'factor': 0.1}}
    """
    if isinstance(schedule, ConstantRate):
        return float(schedule)
    if _KINDS.get(type(schedule).__name__) is not type(schedule):
        return shown(schedule)
    names = list(inspect.signature(type(schedule)).parameters)
    values = {name: getattr(schedule, name) for name in names}
    options = {name: described_schedule(value) if callable(value) else value for name, value in values.items()}
    if any(isinstance(value, str) for value in options.values()):  # A schedule inside this one is another function.
        return shown(schedule)
    return {"schedule": type(schedule).__name__, "options": options}


def schedule_described(description: Any) -> Schedule | None:
    """Return the schedule that `described_schedule` described, or None if it was another function.

    Args:
        description: The description.

    Raises:
        GraphError: If the description is invalid.
    """
    if isinstance(description, str):
        return None
    if not isinstance(description, dict):
        return as_schedule(description)
    kind, options = _KINDS.get(description.get("schedule", "")), description.get("options")
    if kind is None or not isinstance(options, dict):
        raise GraphError(f"the learning-rate schedule {shown(description)} is unknown")
    made = {name: schedule_described(v) if isinstance(v, dict) else v for name, v in options.items()}
    try:
        schedule: Schedule = kind(**made)
    except TypeError as error:
        raise GraphError(f"the learning-rate schedule {shown(description)} is invalid: {error}") from error
    return schedule


_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        StepRate,
        ExponentialRate,
        CosineRate,
        PolynomialRate,
        CosineRestartsRate,
        OneCycleRate,
        WarmUp,
        ScaledRate,
    )
}
