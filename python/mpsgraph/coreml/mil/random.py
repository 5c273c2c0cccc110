"""Random numbers: other ones than Core ML's of the same distribution, each run its own."""

from __future__ import annotations

from .._table import Call, Results, mil


def _drawn(call: Call) -> int | None:
    seed = call.integer("seed", -1)
    return None if seed < 0 else seed


@mil("random_uniform")
def random_uniform(call: Call) -> Results:
    shape, low, high = call.shape_operand("shape"), call.number("low", 0.0), call.number("high", 1.0)
    _drawn(call)
    return call.g.random(shape, dtype=call.dtype, min=low, max=high)


@mil("random_normal")
def random_normal(call: Call) -> Results:
    shape, mean, deviation = call.shape_operand("shape"), call.number("mean", 0.0), call.number("stddev", 1.0)
    _drawn(call)
    return call.g.random_normal(shape, mean=mean, standard_deviation=deviation, dtype=call.dtype)


@mil("random_bernoulli")
def random_bernoulli(call: Call) -> Results:
    g, shape, share = call.g, call.shape_operand("shape"), call.number("prob", 0.5)
    _drawn(call)
    return g.cast(g.less_than(g.random(shape), share), call.dtype)
