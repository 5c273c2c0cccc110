"""Cases of the family control_flow: both branches, nothing to repeat, several values that go around, nesting."""

import numpy as np
from harness.case import ANY, NUMBERS, Case, apart, values

X = apart(2, 3, seed=130)
YES, NO = np.array(True), np.array(False)
COUNT = np.array(3, np.int32)
POSITIVE = values(2, 3, seed=131, low=0.4, high=1.6)


def choose(graph, predicate, x, y):
    return graph.if_(predicate, lambda: [x * y, x + 1.0], lambda: [graph.square(x), y])


def chosen(predicate, x, y):
    return [x * y, x + 1] if predicate else [x * x, y]


def from_outside(graph, predicate, x):
    return graph.if_(predicate, lambda: x, lambda: x)


def nested(graph, outer, inner, x):
    deep = lambda: graph.if_(inner, lambda: graph.sin(x), lambda: graph.exponent(x))[0] * x  # noqa: E731
    return graph.if_(outer, deep, lambda: x * x * x)


def nested_oracle(outer, inner, x):
    return (np.sin(x) if inner else np.exp(x)) * x if outer else x**3


def double_until(graph, x, limit):
    """Doubles while the sum is below a limit; counts the rounds."""

    def before(value, rounds):
        total = graph.reshape(graph.reduction_sum(value), ())
        return total < limit, [value, rounds]

    zero = graph.constant(0, dtype="int32")
    return graph.while_([x, zero], before, lambda value, rounds: [value * 2, rounds + 1])


def double_until_oracle(x, limit):
    rounds = 0
    while x.sum() < limit:
        x, rounds = x * 2, rounds + 1
    return [x, np.array(rounds, np.int32)]


def powers(graph, x, count):
    one = graph.broadcast_to(graph.constant(1, dtype=x.dtype), graph.shape_of(x))
    return graph.for_(count, initial=[one, x], body=lambda i, power, total: [power * x, total + power * x])


def powers_oracle(x, count):
    power, total = np.ones_like(x), x.copy()
    for _ in range(int(count)):
        power, total = power * x, total + power * x
    return [power, total]


def sum_of_range(graph, lower, upper, step):
    zero = graph.constant(0, dtype="int32")
    return graph.for_(lower, upper, step, [zero], lambda i, total: total + i)


def scalar(value):
    return np.array(value, np.int32)


RANGES = {"up": (2, 7, 2), "exact": (0, 6, 3), "down": (5, -1, -2), "none": (3, 3, 1), "wrong_way": (3, 0, 1)}

CASES = [
    Case("if", [YES, X, POSITIVE], chosen, build=choose, label="then", batch=(1, 2)),
    Case("if", [NO, X, POSITIVE], chosen, build=choose, label="else", batch=(1, 2)),
    Case("if", [YES, X], lambda p, x: x, build=from_outside, label="outer", dtypes=ANY, batch=(1,), exact=True),
    *(
        Case("if", [o, i, X], nested_oracle, build=nested, label=f"nested_{bool(o)}_{bool(i)}", batch=(2,), tolerance=4)
        for o, i in ((YES, YES), (YES, NO), (NO, YES))
    ),
    Case("while", [POSITIVE, np.array(50.0)], double_until_oracle, build=double_until, label="rounds", gradient=False,
         batch=()),
    Case("while", [POSITIVE, np.array(-1.0)], double_until_oracle, build=double_until, label="no_rounds",
         gradient=False, batch=()),
    Case("for", [X, COUNT], powers_oracle, build=powers, label="count", dtypes=NUMBERS, gradient=False, batch=(0,),
         tolerance=4),
    Case("for", [X, scalar(0)], powers_oracle, build=powers, label="no_rounds", dtypes=NUMBERS, gradient=False,
         batch=(0,)),
    *(
        Case("for", [scalar(v) for v in bounds], lambda *b: np.array(sum(range(*map(int, b))), np.int32),
             build=sum_of_range, label=label, dtypes=(), batch=())
        for label, bounds in RANGES.items()
    ),
]  # fmt: skip
