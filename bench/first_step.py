"""Time to the first loss in a fresh process: build the model, compile, and run one step, in mpsgraph and in PyTorch.

It measures W1 to W12 (two of the operations of W9), the networks of networks.py, and W2's training step loaded from a
package that another process has saved. Separately, it measures the time to import each framework. The ratio of a peer's
row is our time divided by its time. Compiled modes of PyTorch run only once, with an empty kernel cache, as on a newly
installed machine; they call the C++ compiler and take most of a minute.
"""

import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import workloads as sizes
from measuring.machine import Patience
from measuring.options import Options, main, progress
from measuring.report import OURS, Row, Spread
from measuring.sides import Running, Side, SideFailed, ours, peer

IMPORT_TITLE = "import in a fresh process"
IMPORT = """
import time
begin = time.perf_counter()
import {}
print(time.perf_counter() - begin)
from importlib.metadata import version
print(version({!r}))
"""
IMPORT_LIMIT = 150.0  # Limit in ms.
PACKAGES = {OURS: "mpsgraph", "PyTorch": "torch", "JAX": "jax"}


Sample = tuple[float, str]
"""Seconds, and the version of the measured package."""


@dataclass(frozen=True)
class Beginning:
    """A first step to measure. sides[0] is the headline, whose time is limited."""

    title: str
    sides: Sequence[Side]
    limit: float | None  # Limit in ms.
    workload: str  # The workload's name in the peer scripts.


BEGINNINGS = (
    Beginning(
        "W1, build, compile and first step in a fresh process",
        [ours("w1_digits.py", "Trainer"), ours("w1_digits.py", "graph")],
        200.0,
        "W1",
    ),
    Beginning(
        "W2, build, compile and first step in a fresh process",
        [ours("w2_resnet50.py", "Trainer")],
        1000.0,
        "W2 float32",
    ),
    Beginning(
        "W2, load, compile and first step in a second process",
        [ours("w2_resnet50.py", "package")],
        300.0,
        "W2 float32",
    ),
    *(
        Beginning(f"{name}, build, compile and first step in a fresh process", [ours(script, mode)], None, name)
        for name, script, mode in (
            ("W3", "w3_conv_lstm.py", "Trainer"),
            ("W4", "w4_gan.py", "graph"),
            ("W5 forward+backward", "w5_gelu.py", "backward"),
            ("W6", "w6_mlp.py", "Trainer"),
            ("W7", "w7_character.py", "graph"),
            ("W8 batch 1", "w8_inference.py", "as trained, batch 1"),
            ("W9 sort float32", "w9_operations.py", "sort float32"),
            ("W9 grid sample", "w9_operations.py", "grid sample"),
            ("W10", "w10_decoding.py", "graph"),
            ("W11 256 causal", "w11_attention.py", "W11 256 causal"),
            ("W12 words", "w12_language_model.py", "W12 words"),
            ("W12 characters", "w12_language_model.py", "W12 characters"),
            *((name, "networks.py", name) for name in sizes.NETWORKS),
        )
    ),
)


def first_step(side: Side) -> Sample:
    """Return the seconds from an imported framework to the first loss."""
    with Running(side) as running:
        return running.setup() + sum(running.steps(1)[0]), running.version


def importing(side: Side) -> Sample:
    """Return the seconds that the import takes in a fresh process."""
    package = PACKAGES[side.name]
    command = [side.command[0], "-c", IMPORT.format(package, package)]
    seconds, version = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(seconds), version


def measure(options: Options) -> list[Row]:
    rows, patience = [], Patience(options.patience)

    def samples(function: Callable[[Side], Sample], side: Side, repeats: int) -> tuple[Spread, str]:
        found = [patience.undisturbed(lambda: function(side))[0] for _ in range(repeats)]
        return Spread.of([1e3 * seconds for seconds, _ in found]), found[0][1]

    def chosen(workload: str, mode: str, compiled: Path) -> list[Side]:
        sides = peer("PyTorch", workload, [mode], compiled)[:1] if options.peers else []
        return [side for side in sides if re.search(options.modes, side.label)]

    with progress("first step") as say, tempfile.TemporaryDirectory() as empty:
        for number, beginning in enumerate(BEGINNINGS):
            if not re.search(options.workloads, beginning.title):
                continue
            if any(side.mode == "package" for side in beginning.sides):
                first_step(ours("w2_resnet50.py", "save"))
            eager = chosen(beginning.workload, "eager", Path(empty))
            folder = Path(empty) / str(number)  # A folder name that is safe on a compiler's command line.
            compiled = [] if options.quick else chosen(beginning.workload, "compile", folder)
            headline = None
            for side in [*beginning.sides, *eager, *compiled]:
                say(f"{beginning.title}: {side.label}")
                try:
                    value, version = samples(first_step, side, options.rounds if side not in compiled else 1)
                except SideFailed as failure:
                    if side in beginning.sides:
                        raise
                    say.keep(str(failure))
                    continue
                headline = headline or value
                ratio = None if value is headline else Spread.of([headline.median / value.median])
                limit = beginning.limit if value is headline else None
                what = "first step", beginning.title, "ms", side.name, side.mode
                rows.append(Row(*what, value, ratio, limit=limit, version=version))
        for side in [ours("w1_digits.py", "graph"), *chosen("W1", "eager", Path(empty))]:
            say(f"importing {side.name}")
            value, version = samples(importing, side, options.rounds)
            limit = IMPORT_LIMIT if side.name == OURS else None
            row = Row("import", IMPORT_TITLE, "ms", side.name, "import", value, limit=limit, version=version)
            rows.append(row)
    return rows


if __name__ == "__main__":
    main(measure)
