"""The time to the first loss of W1 in a fresh process: building the model, compiling and one step; ours and PyTorch.

Importing the framework is measured beside it. Compiled modes of PyTorch run once, with an empty cache of kernels, as on
a machine's first day; they call the C++ compiler and take most of a minute.
"""

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness.machine import Patience
from harness.options import Options, main, progress
from harness.report import OURS, Row, Spread
from harness.sides import Running, Side, ours, torch
from w1_digits import BUILDERS

LIMIT = 200.0  # ms
TITLE = "W1, build, compile and first step in a fresh process"
IMPORT_TITLE = "importing the package, in a fresh process"
IMPORT = "import time; begin = time.perf_counter(); import {}; print(time.perf_counter() - begin)"
PACKAGES = {OURS: "mpsgraph"}


def first_step(side: Side) -> float:
    """Seconds from an imported framework to the first loss."""
    with Running(side) as running:
        return running.setup() + sum(running.steps(1)[0])


def importing(side: Side) -> float:
    """Seconds, in a process that imports nothing else."""
    command = [side.command[0], "-c", IMPORT.format(PACKAGES.get(side.name, "torch"))]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(options: Options) -> list[Row]:
    rows, patience = [], Patience(options.patience)

    def samples(function: Callable[[Side], float], side: Side, repeats: int) -> Spread:
        return Spread.of([1e3 * patience.undisturbed(lambda: function(side))[0] for _ in range(repeats)])

    with progress("first step") as say, tempfile.TemporaryDirectory() as empty:
        eager = torch("W1", ["eager"])[:1] if options.peers else []
        compiled = torch("W1", ["compile"], Path(empty))[:1] if options.peers else []
        headline = None
        for side in [*(ours("w1_digits.py", name) for name in BUILDERS), *eager, *compiled]:
            say(side.label)
            value = samples(first_step, side, options.rounds if side not in compiled else 1)
            headline = headline or value
            ratio = None if value is headline else Spread.of([headline.median / value.median])
            limit = LIMIT if value is headline else None
            rows.append(Row("first step", TITLE, "ms", side.name, side.mode, value, ratio, limit=limit))
        for side in [ours("w1_digits.py", "graph"), *eager]:
            say(f"importing {side.name}")
            value = samples(importing, side, options.rounds)
            rows.append(Row("import", IMPORT_TITLE, "ms", side.name, "import", value))
    return rows


if __name__ == "__main__":
    main(measure)
