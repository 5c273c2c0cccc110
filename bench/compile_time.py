"""How mpsgraph's build and compile times grow from 100 to 10,000 operations; the goal is nearly linear growth.

One graph is the training step of a deep residual perceptron, with forward pass, gradients, and updates. The other is a
long chain of element-wise operations, which becomes a single fused element-wise kernel. The reported exponent is the
slope in a log-log plot.
"""

import math
import statistics
import time
from collections.abc import Callable

import mpsgraph as mg
import numpy as np
from measuring.options import Options, main, progress
from measuring.report import OURS, Row, Spread

SIZES = (100, 300, 1000, 3000, 10_000)
WIDTH = 16
Compile = Callable[[], object]


def perceptron(operations: int) -> tuple[mg.Graph, Compile]:
    """Build layers h = h + relu(h w + b) up to that many operations, with gradients and variable updates."""

    def built(layers: int) -> tuple[mg.Graph, Compile]:
        g = mg.Graph()
        x = g.placeholder((-1, WIDTH), name="x")
        h = x
        for _ in range(layers):
            w, b = g.variable(np.zeros((WIDTH, WIDTH), np.float32)), g.variable(np.zeros(WIDTH, np.float32))
            h = h + g.relu(h @ w + b)
        loss = g.reshape(g.mean(g.square(h)), ())
        gradients = g.gradients(loss, g.trainable_variables)
        updates = [g.apply_stochastic_gradient_descent(0.01, v, d) for v, d in gradients.items()]
        return g, lambda: g.compile({x: (4, WIDTH)}, [loss], updates)

    one, two = built(1)[0].operation_count, built(2)[0].operation_count
    return built(max(1, round((operations - one) / (two - one)) + 1))


def element_wise(operations: int) -> tuple[mg.Graph, Compile]:
    """Build a chain that alternates sin, adding x, and multiplying by x."""
    g = mg.Graph()
    x = g.placeholder((-1,), name="x")
    y = x
    steps = (g.sin, lambda t: t + x, lambda t: t * x)
    for i in range(operations - 1):
        y = steps[i % len(steps)](y)
    return g, lambda: g.compile({x: (64,)}, [y])


GRAPHS = {"training step of a residual MLP": perceptron, "a chain of element-wise operations": element_wise}


def measure(options: Options) -> list[Row]:
    rows = []
    with progress("compile time") as say:
        for title, graph in GRAPHS.items():
            counts, building, compiling = [], [], []
            for operations in SIZES:
                say(f"{title}, {operations} operations")
                build_seconds, compile_seconds = [], []
                for _ in range(max(2, min(options.rounds, 3000 // operations))):
                    begin = time.perf_counter()
                    g, compile_ = graph(operations)
                    middle = time.perf_counter()
                    compile_()
                    build_seconds.append(middle - begin)
                    compile_seconds.append(time.perf_counter() - middle)
                counts.append(g.operation_count)
                building.append(build_seconds)
                compiling.append(compile_seconds)
            for what, samples in (("build", building), ("compile", compiling)):
                for count, seconds in zip(counts, samples, strict=True):
                    value = Spread.of([1e3 * s for s in seconds])
                    rows.append(Row("compile time", title, "ms", OURS, f"{what} {count:,} operations", value))
                exponent = Spread.of([growth(counts, [min(seconds) for seconds in samples])])
                rows.append(Row("compile time", title, "", OURS, f"{what}, exponent", exponent))
    return rows


def growth(counts: list[int], seconds: list[float]) -> float:
    """Return the exponent p of a fit where time grows as count^p."""
    return statistics.linear_regression([math.log(c) for c in counts], [math.log(s) for s in seconds]).slope


if __name__ == "__main__":
    main(measure)
