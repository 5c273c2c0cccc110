"""Learning-rate schedules: functions of the step, counted from 0, that give the rate of that step.

The rate is fed to each step as a scalar, so any function of an int will do, and a resumed run continues its schedule
because the step number is part of the checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._checks import NotNegative, Positive, Size, checked, is_number
from .._display import ShowsArguments, shown
from ..errors import GraphError

Schedule = Callable[[int], float]
"""A function from the number of a step, counted from 0, to its learning rate."""


class ConstantRate(float):
    """The same rate in every step. It is that number, so that `optimizer.learning_rate *= 0.1` does what it says.

    >>> rate = mg.optim.ConstantRate(0.1)
    >>> rate(0), rate(1000)
    (0.1, 0.1)
    """

    def __new__(cls, rate: NotNegative) -> ConstantRate:
        return super().__new__(cls, as_rate("ConstantRate: rate", rate))

    @property
    def rate(self) -> float:
        """The number."""
        return float(self)

    def __call__(self, step: int) -> float:
        return float(self)


class StepRate(ShowsArguments):
    """rate * factor^floor(step / every): lowered at once after every so many steps.

    >>> [mg.optim.StepRate(1.0, every=10, factor=0.5)(step) for step in (0, 9, 10, 20)]
    [1.0, 1.0, 0.5, 0.25]
    """

    @checked
    def __init__(self, rate: NotNegative, every: Size, factor: NotNegative = 0.1) -> None:
        self.rate, self.every, self.factor = rate, every, factor

    def __call__(self, step: int) -> float:
        return self.rate * self.factor ** (step // self.every)


class ExponentialRate(ShowsArguments):
    """rate * factor^(step / every): lowered smoothly.

    >>> mg.optim.ExponentialRate(1.0, every=10, factor=0.25)(5)
    0.5
    """

    @checked
    def __init__(self, rate: NotNegative, every: Size, factor: NotNegative) -> None:
        self.rate, self.every, self.factor = rate, every, factor

    def __call__(self, step: int) -> float:
        return float(self.rate * self.factor ** (step / self.every))


class CosineRate(ShowsArguments):
    """From rate to final along half a cosine over `steps`, then final. Loshchilov and Hutter, arXiv:1608.03983.

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
    """From rate to final by (1 - step / steps)^power over `steps`, then final.

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
    """Half cosines one after another, the first over `steps`, each `factor` times as long as the one before.

    Loshchilov and Hutter, arXiv:1608.03983; PyTorch's CosineAnnealingWarmRestarts.

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
    """From rate / initial_divisor up to rate over a share of the steps, then down to the first rate / final_divisor.

    Both along half a cosine. Smith and Topin, arXiv:1708.07120; PyTorch's OneCycleLR with two phases.

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
            raise GraphError(f"OneCycleRate: rising is a share of the steps from 0 to 1, got {rising}")
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
    """Rises in a straight line over `steps` to the rate at which another schedule begins, then follows it.

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

    >>> mg.optim.ScaledRate(mg.optim.StepRate(1.0, every=10), 0.5)(10)
    0.05
    """

    @checked
    def __init__(self, schedule: Schedule | float, factor: NotNegative) -> None:
        self.schedule, self.factor = as_schedule(schedule), factor

    def __call__(self, step: int) -> float:
        return self.schedule(step) * self.factor


def scaled_rate(schedule: Schedule, factor: float) -> Schedule:
    """A schedule times a factor; a number stays one."""
    if isinstance(schedule, ConstantRate):
        return ConstantRate(float(schedule) * factor)
    if isinstance(schedule, ScaledRate):
        return ScaledRate(schedule.schedule, schedule.factor * factor)
    return ScaledRate(schedule, factor)


def end_of(schedule: Schedule) -> int | None:
    """The step from which on a schedule's rate stays what it is there; None where it does not, or nobody knows.

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
    """A number as a constant schedule. GraphError for one that is negative, infinite or NaN, and for what is none."""
    return rate if callable(rate) else ConstantRate(as_rate("learning_rate", rate))


def as_rate(what: str, rate: Any) -> float:
    """A number that can be a learning rate. GraphError for what cannot."""
    if not is_number(rate) or not 0 <= rate < math.inf:
        raise GraphError(f"{what} must be a number of at least 0, or a schedule (step) -> rate, got {shown(rate)}")
    return float(rate)
