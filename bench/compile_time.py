"""How mpsgraph's build and compile times grow with the number of operations; the goal is nearly linear growth.

Two graphs have from 100 to 10,000 operations. One is the training step of a deep residual perceptron, with forward
pass, gradients, and updates. The other is a long chain of element-wise operations, which becomes a single fused
element-wise kernel. Chains of one kind of operation have up to 200,000 operations. One of them is also parsed from its
text. The reported exponent is the slope in a log-log plot.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import mpsgraph as mg
import numpy as np
from measuring.options import Options, main, progress
from measuring.report import OURS, Row, Spread

SIZES = (100, 300, 1000, 3000, 10_000)
LONG_SIZES = (20_000, 60_000, 200_000)
WIDTH = 16
Compile = Callable[[], object]
Chain = Callable[[mg.Graph, mg.Tensor, int], tuple[list[mg.Tensor], list[mg.Operation]]]


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


def unary(g: mg.Graph, x: mg.Tensor, operations: int):
    for i in range(operations):
        x = g.tanh(x) if i % 2 else -x
    return [x], []


def all_targets(g: mg.Graph, x: mg.Tensor, operations: int):
    targets = []
    for i in range(operations):
        x = g.tanh(x) if i % 2 else -x
        targets.append(x)
    return targets, []


def constants(g: mg.Graph, x: mg.Tensor, operations: int):
    for i in range(operations // 2):
        x = x + g.constant(np.float32(i))
    return [x], []


def assigns(g: mg.Graph, x: mg.Tensor, operations: int):
    variable = g.variable(np.zeros(4, np.float32))
    return [x], [g.assign(variable, variable + 1.0) for _ in range(operations // 4)]


def checks_and_assigns(g: mg.Graph, x: mg.Tensor, operations: int):
    variables = [g.variable(np.zeros(4, np.float32)) for _ in range(operations // 7)]
    target_operations = []
    for i in range(operations // 7):
        x = g.tanh(x)
        target_operations.append(g.check(g.reduction_and(x < 5.0), "too large"))
        target_operations.append(g.assign(variables[i], x))
    return [x], target_operations


def binary(dtype: mg.DType) -> Chain:
    """Return a chain that alternates addition and multiplication in the dtype."""

    def chain(g: mg.Graph, x: mg.Tensor, operations: int):
        x = y = g.cast(x, dtype)
        for i in range(operations):
            y = y + x if i % 2 else y * x
        return [y], []

    return chain


def casts(g: mg.Graph, x: mg.Tensor, operations: int):
    for _ in range(operations // 2):
        x = g.cast(g.cast(x, mg.float16), mg.float32)
    return [x], []


def reshapes(g: mg.Graph, x: mg.Tensor, operations: int):
    for _ in range(operations // 6):
        x = g.reshape(g.tanh(g.reshape(-x, (2, 2))), (4,))
    return [x], []


def slices(g: mg.Graph, x: mg.Tensor, operations: int):
    for _ in range(operations // 3):
        x = g.concat([g.slice_axis(x, 0, 2, 2), g.slice_axis(x, 0, 0, 2)], 0)
    return [x], []


def matmuls(g: mg.Graph, x: mg.Tensor, operations: int):
    weights, y = g.constant(np.eye(4, dtype=np.float32)), g.reshape(x, (1, 4))
    for _ in range(operations):
        y = y @ weights
    return [y], []


def reductions(g: mg.Graph, x: mg.Tensor, operations: int):
    for _ in range(operations // 2):
        x = x - g.reduction_sum(x, 0)
    return [x], []


def gradients(g: mg.Graph, x: mg.Tensor, operations: int):
    y = x
    for i in range(operations // 5):
        y = g.tanh(y) if i % 2 else y * x
    return [g.gradients(g.reduction_sum(y, 0), [x])[x]], []


GRAPHS = {"training step of a residual MLP": perceptron, "a chain of element-wise operations": element_wise}
CHAINS: dict[str, Chain] = {
    "unary": unary,
    "unary, all results targets": all_targets,
    "constants": constants,
    "assigns": assigns,
    "checks and assigns": checks_and_assigns,
    "binary, float32": binary(mg.float32),
    "binary, float16": binary(mg.float16),
    "binary, float64": binary(mg.float64),
    "casts": casts,
    "reshapes": reshapes,
    "slices": slices,
    "matmuls": matmuls,
    "reductions": reductions,
    "gradients": gradients,
}


def long_chain(chain: Chain, operations: int) -> tuple[mg.Graph, Compile]:
    """Build a chain of that many operations."""
    g = mg.Graph()
    x = g.placeholder((4,), name="x")
    targets, target_operations = chain(g, x, operations)
    return g, lambda: g.compile({x: (4,)}, targets, target_operations)


def measure(options: Options) -> list[Row]:
    rows = []
    with progress("compile time") as say:
        for title, graph in GRAPHS.items():
            rows += measured(title, graph, SIZES, options, say)
        sizes = SIZES[:3] if options.quick else LONG_SIZES
        for title, chain in CHAINS.items():
            rows += measured(f"chain, {title}", partial(long_chain, chain), sizes, options, say)
        rows += parsed("chain, unary", unary, sizes, options, say)
    return rows


def measured(
    title: str,
    graph: Callable[[int], tuple[mg.Graph, Compile]],
    sizes: Sequence[int],
    options: Options,
    say: Callable[[str], None],
) -> list[Row]:
    """Measure building and compiling a graph of each size."""
    counts, building, compiling = [], [], []
    for operations in sizes:
        say(f"{title}, {operations} operations")
        build_seconds, compile_seconds = [], []
        for _ in range(rounds(operations, options)):
            begin = time.perf_counter()
            g, compile_ = graph(operations)
            middle = time.perf_counter()
            compile_()
            build_seconds.append(middle - begin)
            compile_seconds.append(time.perf_counter() - middle)
        counts.append(g.operation_count)
        building.append(build_seconds)
        compiling.append(compile_seconds)
    return growth_rows(title, "build", counts, building) + growth_rows(title, "compile", counts, compiling)


def parsed(title: str, chain: Chain, sizes: Sequence[int], options: Options, say: Callable[[str], None]) -> list[Row]:
    """Measure parsing the text of a chain of each length."""
    counts, samples = [], []
    for operations in sizes:
        say(f"{title}, parse {operations} operations")
        g, _ = long_chain(chain, operations)
        text, seconds = str(g), []
        for _ in range(rounds(operations, options)):
            begin = time.perf_counter()
            mg.parse(text)
            seconds.append(time.perf_counter() - begin)
        counts.append(g.operation_count)
        samples.append(seconds)
    return growth_rows(title, "parse", counts, samples)


def rounds(operations: int, options: Options) -> int:
    return max(2, min(options.rounds, 3000 // operations))


def growth_rows(title: str, what: str, counts: list[int], samples: list[list[float]]) -> list[Row]:
    """Return a row for each number of operations, and a row for the exponent."""
    rows = []
    for count, seconds in zip(counts, samples, strict=True):
        value = Spread.of([1e3 * s for s in seconds])
        rows.append(Row("compile time", title, "ms", OURS, f"{what} {count:,} operations", value))
    exponent = Spread.of([growth(counts, [min(seconds) for seconds in samples])])
    return [*rows, Row("compile time", title, "", OURS, f"{what}, exponent", exponent)]


def growth(counts: list[int], seconds: list[float]) -> float:
    """Return the exponent p of a fit where time grows as count^p."""
    return statistics.linear_regression([math.log(c) for c in counts], [math.log(s) for s in seconds]).slope


if __name__ == "__main__":
    main(measure)
