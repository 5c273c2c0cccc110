"""Nanoseconds per byte of GeLU, GeLU with its gradient, and three results, by size and by where results lie in memory.

A result of 2^16 to 2^26 floats begins 0, 64, or 2,112 bytes after a multiple of 4,096, or results begin 64 bytes apart.
Bytes are those of the input and all results. Each ratio compares a placement with the fastest of the same size, and
the last row compares the slowest size that fits in no cache with the fastest.
"""

import contextlib
import time
from collections.abc import Sequence
from functools import partial

import mpsgraph as mg
import numpy as np
from measuring import THREADS
from measuring.machine import Patience
from measuring.options import Options, main, progress
from measuring.report import OURS, Row, Spread

EXPONENTS = range(16, 27)
IN_NO_CACHE = 24  # Exponent of a size that fits in no cache.
PLACEMENTS = {"0": (0, 0, 0), "64": (64, 64, 64), "2112": (2112, 2112, 2112), "0, 64, 128": (0, 64, 128)}
TARGET, PAGE = 1.3, 4096
SHORTEST = 0.02  # Seconds that one sample takes at least.


def placed(size: int, offset: int) -> np.ndarray:
    """Return an array that begins `offset` bytes after a multiple of PAGE."""
    memory = np.zeros(4 * size + PAGE + offset, np.uint8)
    begin = -memory.ctypes.data % PAGE + offset
    return memory[begin : begin + 4 * size].view(np.float32)


def program(size: int, results: int) -> mg.Executable:
    """Compile GeLU and, with more results, its gradient and tanh."""
    g = mg.Graph()
    x = g.placeholder((size,), name="x")
    y = g.multiplication(g.multiplication(x, 0.5), g.addition(g.erf(g.multiplication(x, 0.5**0.5)), 1.0))
    return g.compile({x: (size,)}, [y, g.gradients(y, x)[x], g.tanh(x)][:results])


def sample(executable: mg.Executable, x: np.ndarray, memory: Sequence[np.ndarray]) -> float:
    """Return the nanoseconds per byte of a run, over runs that take SHORTEST seconds together."""
    runs, began = 0, time.perf_counter()
    while (taken := time.perf_counter() - began) < SHORTEST or runs == 0:
        executable.run([x], list(memory))
        runs += 1
    return 1e9 * taken / runs / (x.nbytes * (1 + len(memory)))


def measure(options: Options) -> list[Row]:
    patience, rows = Patience(options.patience), []
    with contextlib.ExitStack() as stack:
        say = stack.enter_context(progress("placement"))
        for results in (1, 2, 3):
            by_size: dict[int, float] = {}
            for exponent in EXPONENTS:
                size = 1 << exponent
                executable, x = program(size, results), np.linspace(-3, 3, size, dtype=np.float32)
                memory = {name: [placed(size, o) for o in offsets[:results]] for name, offsets in PLACEMENTS.items()}
                samples: dict[str, list[float]] = {name: [] for name in memory}
                for turn in range(options.rounds + 1):
                    say(f"{results} results, 2^{exponent}, round {turn}")
                    for name, arrays in memory.items():
                        taken, _ = patience.undisturbed(partial(sample, executable, x, arrays))
                        samples[name] += [taken] if turn else []  # The first round touches the memory.
                spreads = {name: Spread.of(values) for name, values in samples.items()}
                fastest = min(spread.median for spread in spreads.values())
                by_size[exponent] = max(spread.median for spread in spreads.values())
                title = f"GeLU, {results} results, 2^{exponent} elements, {THREADS} threads"
                rows += [
                    Row(
                        "placement",
                        title,
                        "ns/byte",
                        OURS,
                        f"offset {name}",
                        spread,
                        ratio=Spread.of([value / fastest for value in samples[name]]),
                        target=TARGET,
                    )
                    for name, spread in spreads.items()
                ]
            large = [value for exponent, value in by_size.items() if exponent >= IN_NO_CACHE]
            title = f"GeLU, {results} results, slowest of 2^{IN_NO_CACHE} and more elements, {THREADS} threads"
            rows.append(
                Row(
                    "placement",
                    title,
                    "ns/byte",
                    OURS,
                    "all offsets",
                    Spread.of([max(large)]),
                    ratio=Spread.of([max(large) / min(by_size.values())]),
                    target=TARGET,
                )
            )
    return rows


if __name__ == "__main__":
    main(measure)
