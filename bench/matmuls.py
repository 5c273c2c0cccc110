"""Rate of float32 matmuls in GFLOP/s, compared with numpy, which uses OpenBLAS.

The two sides alternate in one process and have the same number of threads: two, or BENCH_THREADS. Operands are
multiplied plainly and, as in training, with the left or the right one transposed.
"""

from measuring import THREADS  # isort: skip  # sets the number of OpenBLAS's threads, so it comes before numpy
import time
from collections.abc import Callable
from functools import partial

import mpsgraph as mg
import numpy as np
from measuring.machine import Patience
from measuring.options import Options, main, progress
from measuring.report import OURS, Row, Spread

# Rows, steps, and columns: squares, dense layers of a GPT with 2,048 or 8,192 tokens, and those of small batches.
SIZES = (
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 768, 768),
    (2048, 768, 3072),
    (2048, 3072, 768),
    (2048, 8192, 768),
    (8192, 768, 768),
    (128, 768, 768),
    (256, 768, 3072),
)
TRANSPOSES = {"a b": (False, False), "a b^T": (False, True), "a^T b": (True, False)}
SPINNING = 0.03  # Seconds for which OpenBLAS's threads occupy their processors after a matmul.


def sides(size: tuple[int, int, int], transposes: tuple[bool, bool]) -> dict[str, Callable[[], object]]:
    """Return a function for each side that multiplies the same matrices into an array that is kept."""
    rows, steps, columns = size
    rng = np.random.default_rng(0)
    shapes = [
        shape[::-1] if turn else shape
        for shape, turn in zip(((rows, steps), (steps, columns)), transposes, strict=True)
    ]
    arrays = [rng.standard_normal(shape, np.float32) for shape in shapes]
    g = mg.Graph()
    tensors = [g.placeholder(shape) for shape in shapes]
    a, b = (g.transpose(t, (1, 0)) if turn else t for t, turn in zip(tensors, transposes, strict=True))
    executable = g.compile({t: t.shape for t in tensors}, [a @ b])
    fed = dict(zip(tensors, arrays, strict=True))
    inputs = [fed[t] for t in executable.feeds]
    ours, theirs = np.empty((rows, columns), np.float32), np.empty((rows, columns), np.float32)
    left, right = (array.T if turn else array for array, turn in zip(arrays, transposes, strict=True))

    def multiply() -> None:
        np.matmul(left, right, out=theirs)

    functions: dict[str, Callable[[], object]] = {OURS: lambda: executable.run(inputs, [ours]), "numpy": multiply}
    for function in functions.values():
        function()
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * steps**0.5)
    return functions


def turn(function: Callable[[], object], options: Options) -> float:
    """Return the seconds per call."""
    time.sleep(SPINNING)
    function()
    calls, begin = 0, time.perf_counter()
    while calls < 3 or time.perf_counter() - begin < options.turn_seconds / 2:
        function()
        calls += 1
    return (time.perf_counter() - begin) / calls


def turns_of(functions: dict[str, Callable[[], object]], options: Options) -> list[float]:
    return [turn(function, options) for function in functions.values()]


def measure(options: Options) -> list[Row]:
    rows, patience = [], Patience(options.patience)
    with progress("matmuls") as say:
        for size in SIZES:
            for mode, transposes in TRANSPOSES.items():
                say(f"{' x '.join(map(str, size))}, {mode}")
                functions = sides(size, transposes)
                turns = [patience.undisturbed(partial(turns_of, functions, options)) for _ in range(options.rounds)]
                seconds = [times for times, _ in turns]
                flops = 2e-9 * size[0] * size[1] * size[2]
                title = f"{size[0]:,} x {size[1]:,} times {size[1]:,} x {size[2]:,}, {THREADS} threads"
                shares = sorted(share for _, share in turns)
                for i, side in enumerate(functions):
                    ratio = None if side == OURS else Spread.of([times[0] / times[i] for times in seconds])
                    value = Spread.of([flops / times[i] for times in seconds])
                    rows.append(
                        Row("matmul", title, "GFLOP/s", side, mode, value, ratio, disturbed=shares[len(shares) // 2])
                    )
    return rows


if __name__ == "__main__":
    main(measure)
