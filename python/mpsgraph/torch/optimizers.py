"""PyTorch's optimizers as graph operations, with PyTorch's formulas and its state for each parameter.

Each rule names the state as `torch.optim` does, so that the state can be copied in both directions. Learning rates are
fed at every step, so that PyTorch's schedulers can change them. Other options are fixed when the step is built.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .._core import Operation, Tensor, float32
from ..errors import UnsupportedError
from ..graph import Graph

States = dict[str, Tensor]
Update = Callable[[Graph, Mapping[str, Any], Tensor, Tensor, Tensor, States], Tensor]


@dataclass(frozen=True)
class Rule:
    """The update rule of one kind of optimizer: the names of its state tensors, and the function that computes one
    step.
    """

    states: Callable[[Mapping[str, Any]], list[str]]
    """Function that returns the names of a parameter's state tensors, given the optimizer's options.

    The state "step" is a number. All others have the shape of the parameter.
    """
    update: Update
    """Function that computes the new values of a parameter.

    Its arguments are (graph, options, values, gradient, learning rate, states). It updates the dict `states` in place.
    """


def _decayed(options: Mapping[str, Any], values: Tensor, gradient: Tensor) -> Tensor:
    if options.get("maximize"):
        gradient = -gradient
    return gradient + values * float(options["weight_decay"]) if options["weight_decay"] else gradient


def _sgd(
    g: Graph, options: Mapping[str, Any], values: Tensor, gradient: Tensor, rate: Tensor, states: States
) -> Tensor:
    gradient = _decayed(options, values, gradient)
    momentum = float(options["momentum"])
    if momentum:
        # PyTorch initializes the momentum buffer with the gradient itself, so dampening begins in the second step.
        first = g.equal(states["step"], 0.0)
        damped = gradient * (1.0 - float(options["dampening"]))
        moved = states["momentum_buffer"] * momentum + damped
        buffer = moved if not options["dampening"] else g.select(first, gradient, moved)
        states["momentum_buffer"], states["step"] = buffer, states["step"] + 1.0
        gradient = gradient + buffer * momentum if options["nesterov"] else buffer
    return values - rate * gradient


def _adam(
    g: Graph, options: Mapping[str, Any], values: Tensor, gradient: Tensor, rate: Tensor, states: States
) -> Tensor:
    if options.get("decoupled_weight_decay"):
        gradient = -gradient if options.get("maximize") else gradient
        values = values * (1.0 - rate * float(options["weight_decay"]))
    else:
        gradient = _decayed(options, values, gradient)
    beta1, beta2 = (float(beta) for beta in options["betas"])
    step = states["step"] + 1.0
    mean = states["exp_avg"] * beta1 + gradient * (1.0 - beta1)
    square = states["exp_avg_sq"] * beta2 + g.square(gradient) * (1.0 - beta2)
    states.update(step=step, exp_avg=mean, exp_avg_sq=square)
    if options["amsgrad"]:
        square = states["max_exp_avg_sq"] = g.maximum(states["max_exp_avg_sq"], square)
    count = step if step.dtype == values.dtype else g.cast(step, values.dtype)
    ratio, root = rate / _correction(g, beta1, count), g.square_root(_correction(g, beta2, count))
    return values - ratio * mean / (g.square_root(square) / root + float(options["eps"]))


def _correction(g: Graph, beta: float, step: Tensor) -> Tensor:
    """Compute 1 - beta^step without losing digits, as -2 sinh(a / 2) exp(a / 2) with a = step log(beta)."""
    if not beta:
        return g.constant(1.0, (), step.dtype)
    half = g.maximum(step * (math.log(beta) / 2), -40.0)
    return g.sinh(half) * g.exponent(half) * -2.0


def _rmsprop(
    g: Graph, options: Mapping[str, Any], values: Tensor, gradient: Tensor, rate: Tensor, states: States
) -> Tensor:
    gradient, alpha = _decayed(options, values, gradient), float(options["alpha"])
    square = states["square_avg"] * alpha + g.square(gradient) * (1.0 - alpha)
    states.update(step=states["step"] + 1.0, square_avg=square)
    if options["centered"]:
        mean = states["grad_avg"] = states["grad_avg"] * alpha + gradient * (1.0 - alpha)
        square = g.maximum_with_nan_propagation(square - g.square(mean), 0.0)  # Rounding can make it negative.
    slope = gradient / (g.square_root(square) + float(options["eps"]))
    if options["momentum"]:
        slope = states["momentum_buffer"] = states["momentum_buffer"] * float(options["momentum"]) + slope
    return values - rate * slope


RULES: dict[type, Rule] = {
    torch.optim.SGD: Rule(lambda o: ["step", "momentum_buffer"] if o["momentum"] else [], _sgd),
    torch.optim.Adam: Rule(
        lambda o: ["step", "exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if o["amsgrad"] else [])], _adam
    ),
    torch.optim.RMSprop: Rule(
        lambda o: [
            "step",
            "square_avg",
            *(["grad_avg"] if o["centered"] else []),
            *(["momentum_buffer"] if o["momentum"] else []),
        ],
        _rmsprop,
    ),
}
RULES[torch.optim.AdamW] = RULES[torch.optim.Adam]


def rule_of(optimizer: torch.optim.Optimizer) -> Rule:
    """Return the update rule of an optimizer. Raise UnsupportedError if the optimizer is not supported."""
    if type(optimizer) not in RULES:
        known = ", ".join(sorted(kind.__name__ for kind in RULES))
        raise UnsupportedError(
            f"mpsgraph.torch does not support the optimizer {type(optimizer).__name__}: use {known} of torch.optim, or "
            "torch.compile(model, backend='mpsgraph'), which leaves the optimizer to PyTorch"
        )
    return RULES[type(optimizer)]


def stepped(
    g: Graph, rule: Rule, options: Mapping[str, Any], values: Tensor, gradient: Tensor, rate: Tensor, states: States
) -> tuple[Tensor, States]:
    """Return a parameter's new values and new state after one optimizer step.

    float16 and bfloat16 parameters are updated in float32.
    """
    dtype = values.dtype
    wide = float32 if dtype.itemsize == 2 else dtype
    values, slope = (x if x.dtype == wide else g.cast(x, wide) for x in (values, gradient))
    states = dict(states)
    result = rule.update(g, options, values, slope, g.cast(rate, wide) if rate.dtype != wide else rate, states)
    return result if result.dtype == dtype else g.cast(result, dtype), states


def moved(
    g: Graph, rule: Rule, options: Mapping[str, Any], variable: Tensor, gradient: Tensor, rate: Tensor, kept: States
) -> list[Operation]:
    """Return the operations that assign a parameter's new values and new state after one optimizer step.

    `kept` maps the names of the states to the variables that store them.
    """
    states = {name: g.read(state) for name, state in kept.items()}
    result, states = stepped(g, rule, options, g.read(variable), gradient, rate, states)
    return [*(g.assign(kept[name], states[name]) for name in kept), g.assign(variable, result)]
