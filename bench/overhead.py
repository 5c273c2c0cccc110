"""Overhead of mpsgraph: what a step costs in addition to its arithmetic, and what each further kernel costs.

For the cost of a step, an executable with one kernel on one number is started in every way that Python offers. For the
cost of a kernel, it reports the slope of the step time over chains of tiny kernels that cannot be fused; this includes
their arithmetic.
"""

import statistics
import time
from collections.abc import Callable, Sequence

import mpsgraph as mg
import numpy as np
from measuring.machine import Patience
from measuring.options import Options, main, progress
from measuring.report import OURS, Row, Spread

CHAIN = (10, 50, 100, 200)
KINDS: dict[str, Callable[[mg.Graph, mg.Tensor], mg.Tensor]] = {
    "softmax 8 x 8": lambda g, t: g.softmax(t),
    "matrix product 8 x 8 x 8": lambda g, t: t @ g.constant(np.eye(8, dtype=np.float32)),
}


def per_call(function: Callable[[], object], options: Options, patience: Patience) -> list[tuple[float, float]]:
    """Return for each round the nanoseconds per call and the share of the machine that other processes used."""
    for _ in range(50):
        function()
    begin = time.perf_counter()
    function()
    calls = max(20, int(options.turn_seconds / (time.perf_counter() - begin)))

    def turn() -> float:
        begin = time.perf_counter_ns()
        for _ in range(calls):
            function()
        return (time.perf_counter_ns() - begin) / calls

    return [patience.undisturbed(turn) for _ in range(options.rounds)]


def steps() -> dict[str, Callable[[], object]]:
    """Return the ways to run one tiny kernel, and a training step of the smallest model."""
    g = mg.Graph()
    x = g.placeholder((1,), name="x")
    y = x + 1
    value, result = np.zeros(1, np.float32), np.zeros(1, np.float32)
    feeds, executable = {x: value}, g.compile({x: (1,)}, [y])
    inputs, results = [value], [result]

    model = mg.nn.Sequential(mg.nn.Linear(1))
    trainer = mg.Trainer(model, loss="mean_squared_error", metrics=())
    batch = np.ones((1, 1), np.float32)
    return {
        "Executable.run": lambda: executable.run(inputs),
        "Executable.run into results": lambda: executable.run(inputs, results),
        "Graph.run with feeds": lambda: g.run(feeds, y),
        "Trainer.train_step, loss read": lambda: float(trainer.train_step(batch, batch)),
    }


def chain(kind: str, length: int) -> Callable[[], object]:
    """Return a step of `length` kernels of a kind, each applied to the previous result."""
    g = mg.Graph()
    x = g.placeholder((8, 8), name="x")
    y = x
    for _ in range(length):
        y = KINDS[kind](g, y)
    executable = g.compile({x: (8, 8)}, [y])
    kernels = len(executable.kernel_names())
    if kernels != length:
        raise RuntimeError(
            f"{length} x {kind} must compile to {length} kernels, got {kernels}: choose an operation that is not fused"
        )
    inputs, results = [np.ones((8, 8), np.float32)], [np.empty((8, 8), np.float32)]
    return lambda: executable.run(inputs, results)


def measure(options: Options) -> list[Row]:
    rows, patience = [], Patience(options.patience)

    def add(title: str, mode: str, nanoseconds: Sequence[float], shares: Sequence[float]) -> None:
        value = Spread.of([n / 1e3 for n in nanoseconds])
        rows.append(Row("overhead", title, "us", OURS, mode, value, disturbed=statistics.median(shares)))

    with progress("overhead") as say:
        for mode, function in steps().items():
            say(mode)
            add("step of one tiny kernel", mode, *zip(*per_call(function, options, patience), strict=True))
        for kind in KINDS:
            times: list[tuple[float, ...]] = []
            shares: list[float] = []
            for length in CHAIN:
                say(f"{length} times {kind}")
                values, disturbed = zip(*per_call(chain(kind, length), options, patience), strict=True)
                times.append(values)
                shares += disturbed
            slopes = [statistics.linear_regression(CHAIN, values).slope for values in zip(*times, strict=True)]
            add("time added by one more kernel", kind, slopes, shares)
    return rows


if __name__ == "__main__":
    main(measure)
