"""Translations of random-number operations.

The random numbers have the same distributions as Core ML's, but different values. If the seed is negative, the graph's
own seed is used.
"""

from __future__ import annotations

from .._operation import Call, Results, mil


def _seed(call: Call) -> int | None:
    seed = call.integer("seed", -1)
    return None if seed < 0 else seed


@mil("random_uniform")
def random_uniform(call: Call) -> Results:
    low, high = call.number("low", 0.0), call.number("high", 1.0)
    return call.g.random(call.shape_operand("shape"), dtype=call.dtype, min=low, max=high, seed=_seed(call))


@mil("random_normal")
def random_normal(call: Call) -> Results:
    mean, deviation = call.number("mean", 0.0), call.number("stddev", 1.0)
    return call.g.random_normal(call.shape_operand("shape"), mean, deviation, call.dtype, seed=_seed(call))


@mil("random_bernoulli")
def random_bernoulli(call: Call) -> Results:
    g, share = call.g, call.number("prob", 0.5)
    return g.cast(g.less_than(g.random(call.shape_operand("shape"), seed=_seed(call)), share), call.dtype)
