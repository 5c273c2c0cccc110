"""A function written in basic operations, which the compiler fuses into one kernel instead of four.

"Build customized ML models" (WWDC20) writes GeLU with constants, a square root, multiplications, the error function,
and an addition, and states that fusion makes it "ten to 50 times faster" and saves memory without any code. This
program measures both, with fusion, and without it, where every operation writes its result to memory.
Run: python examples/gelu.py [--largest 24] [--output DIR]; page: docs/examples/gelu.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mpsgraph as mg
import numpy as np
from mpsgraph._optional import require

SMALLEST = 10  # Exponent of 2, like --largest.
SECONDS = 0.3  # Time for measuring one program with one size.
FORWARD, BACKWARD = "forward", "forward and gradient"


def gelu(g: mg.Graph, x: mg.Tensor) -> mg.Tensor:
    """Build x / 2 * (1 + erf(x * sqrt(1/2))) as in the talk; see Hendrycks and Gimpel, arXiv:1606.08415."""
    one, half = g.constant(1.0), g.constant(0.5)
    root = g.square_root(half)
    scaled = g.multiplication(x, root)
    halved = g.multiplication(x, half)
    return g.multiplication(halved, g.addition(g.erf(scaled), one))


@dataclass
class Program:
    """GeLU, or GeLU and its gradient, compiled for one size, with or without fusion."""

    executable: mg.Executable
    results: list[mg.NDArray]

    def run(self, values: np.ndarray) -> list[mg.NDArray]:
        return self.executable.run([values], self.results)


def programs(size: int, what: str) -> tuple[Program, Program]:
    """Compile the same graph twice, with and without the fusion pass."""
    g = mg.Graph()
    x = g.placeholder((-1,), name="x")
    y = gelu(g, x)
    targets = [y, g.gradients(y, x)[x]] if what == BACKWARD else [y]
    made = []
    for left_out in ([], ["fuse_elementwise"]):
        options = mg.CompilationDescriptor(disabled_passes=left_out)
        executable = g.compile({x: (size,)}, targets, options=options)
        made.append(Program(executable, [mg.NDArray((size,)) for _ in targets]))
    return made[0], made[1]


def seconds_each(both: Sequence[Program], values: np.ndarray, seconds: float) -> list[float]:
    """Return the median seconds per run of each program; they run in turns, so that disturbances affect both."""
    taken: list[list[float]] = [[] for _ in both]
    until = time.perf_counter() + seconds * len(both)
    for program in both:
        program.run(values)  # The first run touches the memory.
    while time.perf_counter() < until or len(taken[0]) < 5:
        for program, times in zip(both, taken, strict=True):
            program.run(values)  # Again, because the other program has evicted the data from the caches.
            began = time.perf_counter()
            program.run(values)
            times.append(time.perf_counter() - began)
    return [float(np.median(times)) for times in taken]


@dataclass
class Row:
    """Measurements: seconds per run and bytes of intermediate results, with and without fusion."""

    what: str
    size: int
    seconds: list[float]
    bytes: list[int]

    @property
    def ratio(self) -> float:
        return self.seconds[1] / self.seconds[0]


def measure(sizes: Sequence[int], seconds: float = SECONDS) -> list[Row]:
    """Measure and print a row for each program and size."""
    print(f"{'':22}{'elements':>12}{'fused':>12}{'unfused':>12}{'ratio':>8}{'intermediate results, bytes':>36}")
    rows = []
    for what in (FORWARD, BACKWARD):
        for size in sizes:
            values = np.random.default_rng(0).standard_normal(size, np.float32)
            both = programs(size, what)
            row = Row(what, size, seconds_each(both, values, seconds), [p.executable.bytes for p in both])
            times = "".join(f"{1000 * s:9.3f} ms" for s in row.seconds)
            print(f"{what:22}{size:12,}{times}{row.ratio:8.1f}{row.bytes[0]:18,}{row.bytes[1]:18,}", flush=True)
            rows.append(row)
    return rows


def draw(path: Path, rows: list[Row]) -> None:
    """Draw the speedup by fusion, and the size of intermediate results, against the number of elements."""
    figure = require("matplotlib.figure", "demo", "the picture").Figure(figsize=(11, 4.4), layout="constrained")
    faster, memory = figure.subplots(1, 2)
    for what, colour in ((FORWARD, "#31688e"), (BACKWARD, "#b5651d")):
        own = [row for row in rows if row.what == what]
        sizes = [row.size for row in own]
        faster.plot(sizes, [row.ratio for row in own], "o-", color=colour, label=what)
        memory.plot(sizes, [row.bytes[1] for row in own], "o-", color=colour, label=f"{what}, unfused")
        memory.plot(sizes, [row.bytes[0] for row in own], "o--", color=colour, label=f"{what}, fused")
    faster.axhline(1, color="#999999", linewidth=1)
    faster.set(xscale="log", ylim=(0, None), title="Speedup of GeLU by fusion")
    memory.set(xscale="log", yscale="log", title="Bytes of intermediate results")
    for axes in (faster, memory):
        axes.set_xlabel("elements")
        axes.legend(frameon=False)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=24, help="exponent of 2 of the largest number of elements")
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    options = parser.parse_args()
    if not SMALLEST <= options.largest <= 30:
        parser.error(f"--largest must be from {SMALLEST} to 30, got {options.largest}")
    options.output.mkdir(parents=True, exist_ok=True)
    for program, name in zip(programs(1 << SMALLEST, FORWARD), ("fused", "unfused"), strict=True):
        print(f"Kernels {name}: {', '.join(program.executable.kernel_names())}")
    rows = measure([1 << power for power in range(SMALLEST, options.largest + 1, 2)])
    draw(options.output / "gelu.png", rows)
    print(f"Picture {options.output / 'gelu.png'}")


if __name__ == "__main__":
    try:
        main()
    except (mg.Error, ImportError, OSError) as error:
        raise SystemExit(f"gelu.py: {error}") from error
