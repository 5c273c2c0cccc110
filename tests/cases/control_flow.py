"""Cases of the control_flow family: both branches, zero iterations, several loop variables, and nesting."""

import numpy as np
from harness.case import ANY, NUMBERS, Case, apart, values

X = apart(2, 3, seed=130)
YES, NO = np.array(True), np.array(False)
COUNT = np.array(3, np.int32)
POSITIVE = values(2, 3, seed=131, low=0.4, high=1.6)
SQUARE = values(3, 3, seed=133, low=-1.0, high=1.0)


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
    """Double x while its sum is below the limit, and count the iterations."""

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


def newton_like(graph, x, w, limit):
    """A while loop that computes in both blocks and whose results differ from its loop variables."""

    def before(value, rounds):
        image = graph.sin(value) @ w
        total = graph.reshape(graph.reduction_sum(graph.square(value)), ())
        return total < limit, [image, value, rounds]

    def after(image, value, rounds):
        return [value * 1.25 + graph.cos(image) * 0.1, rounds + 1]

    return graph.while_([x, graph.constant(0, dtype="int32")], before, after)


def newton_like_oracle(x, w, limit):
    rounds = 0
    while np.square(x).sum() < limit:
        x, rounds = x * 1.25 + np.cos(np.sin(x) @ w) * 0.1, rounds + 1
    return [np.sin(x) @ w, x, np.array(rounds, np.int32)]


def scaled_by_index(graph, x, lower, upper, step):
    return graph.for_(lower, upper, step, [x], lambda i, v: graph.sin(v) * (graph.cast(i, x.dtype) * 0.25 + 1.0))


def scaled_by_index_oracle(x, lower, upper, step):
    for i in range(int(lower), int(upper), int(step)):
        x = np.sin(x) * (i * 0.25 + 1)
    return x


def recurrence(graph, x, w, count):
    """A loop that uses outer weights in each iteration."""
    return graph.for_(count, initial=[x], body=lambda i, h: graph.tanh(h @ w * 0.5 + x))


def recurrence_oracle(x, w, count):
    h = x
    for _ in range(int(count)):
        h = np.tanh(h @ w * 0.5 + x)
    return h


def nested_loops(graph, x, w, count):
    """Nested loops in which the length and body of the inner loop depend on the outer one."""

    def outer(i, h):
        def inner(j, u):
            return graph.tanh(u @ w * 0.5) * (graph.cast(j, x.dtype) + 1.0) + h

        return graph.for_(0, i, initial=[graph.sin(h)], body=inner)[0]

    return graph.for_(count, initial=[x], body=outer)


def nested_loops_oracle(x, w, count):
    h = x
    for i in range(int(count)):
        u = np.sin(h)
        for j in range(i):
            u = np.tanh(u @ w * 0.5) * (j + 1) + h
        h = u
    return h


def square_loops(graph, x, w, count):
    """Nested loops of equal length."""

    def outer(i, h):
        scaled = graph.sin(h) * (graph.cast(i, x.dtype) * 0.5 + 1.0)
        return graph.for_(count, initial=[scaled], body=lambda j, u: graph.tanh(u @ w * 0.5) + h)[0]

    return graph.for_(count, initial=[x], body=outer)


def square_loops_oracle(x, w, count):
    h = x
    for i in range(int(count)):
        u = np.sin(h) * (i * 0.5 + 1)
        for _ in range(int(count)):
            u = np.tanh(u @ w * 0.5) + h
        h = u
    return h


def by_turns(graph, x, count):
    def body(i, v):
        return graph.if_(graph.equal(i % 2, 0), lambda: graph.sin(v) * x, lambda: v * v)[0]

    return graph.for_(count, initial=[x], body=body)


def by_turns_oracle(x, count):
    v = x
    for i in range(int(count)):
        v = v * v if i % 2 else np.sin(v) * x
    return v


def exchange(graph, x, y, count):
    return graph.for_(count, initial=[x, y], body=lambda i, a, b: [b * 0.5 + a * b, a])


def exchange_oracle(x, y, count):
    for _ in range(int(count)):
        x, y = y * 0.5 + x * y, x
    return [x, y]


def scalar(value):
    return np.array(value, np.int32)


def always(build, *constants):
    """Replace the trailing inputs by constants that are known at compile time."""
    return lambda graph, *inputs: build(graph, *inputs, *(graph.constant(c) for c in constants))


RANGES = {"up": (2, 7, 2), "exact": (0, 6, 3), "down": (5, -1, -2), "none": (3, 3, 1), "wrong_way": (3, 0, 1)}

CASES = [
    Case("if", [YES, X, POSITIVE], chosen, build=choose, label="then", batch=(1, 2)),
    Case("if", [NO, X, POSITIVE], chosen, build=choose, label="else", batch=(1, 2)),
    Case("if", [YES, X], lambda p, x: x, build=from_outside, label="outer", dtypes=ANY, batch=(1,), exact=True),
    *(
        Case("if", [o, i, X], nested_oracle, build=nested, label=f"nested_{bool(o)}_{bool(i)}", batch=(2,), tolerance=4)
        for o, i in ((YES, YES), (YES, NO), (NO, YES))
    ),
    Case("while", [POSITIVE, np.array(50.0)], double_until_oracle, build=double_until, label="rounds", batch=()),
    Case("while", [POSITIVE, np.array(-1.0)], double_until_oracle, build=double_until, label="no_rounds", batch=()),
    Case("while", [POSITIVE, values(3, 3, seed=132), np.array(9.0)], newton_like_oracle, build=newton_like,
         label="both_blocks", batch=(), tolerance=8),
    Case("for", [X, COUNT], powers_oracle, build=powers, label="count", dtypes=NUMBERS, batch=(0,), tolerance=4),
    Case("for", [X, scalar(0)], powers_oracle, build=powers, label="no_rounds", dtypes=NUMBERS, batch=(0,)),
    *(
        Case("for", [POSITIVE, *(scalar(v) for v in bounds)], scaled_by_index_oracle, build=scaled_by_index,
             label=f"index_{label}", batch=(0,), tolerance=4)
        for label, bounds in RANGES.items()
    ),
    *(
        Case("for", [POSITIVE], lambda x, bounds=bounds: scaled_by_index_oracle(x, *bounds),
             build=always(scaled_by_index, *(scalar(v) for v in bounds)), label=f"constant_index_{label}", batch=(0,),
             tolerance=4)
        for label, bounds in RANGES.items()
    ),
    Case("for", [X], lambda x: powers_oracle(x, 3), build=always(powers, COUNT), label="constant_count",
         dtypes=NUMBERS, batch=(0,), tolerance=4),
    Case("for", [X, SQUARE], lambda x, w: recurrence_oracle(x, w, 3), build=always(recurrence, COUNT),
         label="constant_weights", batch=(0,), tolerance=16),
    Case("for", [POSITIVE], lambda x: by_turns_oracle(x, 3), build=always(by_turns, COUNT),
         label="constant_if_inside", batch=(0,), tolerance=4),
    Case("for", [POSITIVE, X], lambda x, y: exchange_oracle(x, y, 3), build=always(exchange, COUNT),
         label="constant_exchange", batch=(0, 1), tolerance=4),
    Case("for", [POSITIVE, SQUARE], lambda x, w: square_loops_oracle(x, w, 3), build=always(square_loops, COUNT),
         label="constant_nested", batch=(), tolerance=16),
    Case("for", [X, SQUARE, COUNT], recurrence_oracle, build=recurrence, label="weights", batch=(0,), tolerance=16),
    Case("for", [POSITIVE, SQUARE, COUNT], nested_loops_oracle, build=nested_loops, label="nested", batch=(),
         tolerance=16),
    Case("for", [POSITIVE, COUNT], by_turns_oracle, build=by_turns, label="if_inside", batch=(0,), tolerance=4),
    Case("for", [POSITIVE, X, COUNT], exchange_oracle, build=exchange, label="exchange", batch=(0, 1), tolerance=4),
    *(
        Case("for", [scalar(v) for v in bounds], lambda *b: np.array(sum(range(*map(int, b))), np.int32),
             build=sum_of_range, label=label, dtypes=(), batch=())
        for label, bounds in RANGES.items()
    ),
]  # fmt: skip
