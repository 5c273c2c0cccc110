"""Real ONNX files in mpsgraph and ONNX Runtime, in turns, with one and with two threads.

    make .venv-bench/onnx/installed     # the environment of ONNX Runtime
    python bench/onnx_files.py

onnx_wheels.py lists the files and downloads the wheels that contain them, half a gigabyte on the first run; therefore
`make bench` does not include this benchmark. Both sides read the unmodified file and run it in the usual way, mpsgraph
after optimizing for inference. For each file it measures a run, the time from an imported package to the first result,
and the peak resident memory, and it reports results that differ by more than rounding. Rows are written to
build/bench/onnx_files.csv.
"""

from __future__ import annotations

import atexit
import os
import re
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from measuring import BENCH
from measuring.compare import Contender, take_turns
from measuring.machine import processor
from measuring.options import Options, main, progress
from measuring.protocol import Step, serve
from measuring.report import OURS, Row, Spread
from measuring.results import enter
from measuring.sides import Running, Side, SideFailed, python_of

PEER, MODULE = "ONNX Runtime", "peers.onnx_files_peer"
THREADS = (1, 2)
# For the geometric means of our values divided by ONNX Runtime's.
TARGETS = {"run": 0.75, "first result": 1.2, "memory": 1.2}
SLOWER = 1.0  # Limit for the ratio of any single file's run.
CLOSE = 1e-3  # Tolerance relative to the largest element: different summation orders in deep networks.
RESULTS = BENCH.parent / "build" / "bench" / "onnx_files.csv"
NAME = "onnx_files"


def serve_model(path: str, feeds: str, results: str, threads: str) -> None:
    """Serve our side of an ONNX file.

    Args:
        path: The ONNX file.
        feeds: The .npz file with its inputs.
        results: The .npz file in which to save the last run's results on exit.
        threads: Number of threads.
    """
    os.environ["OMP_NUM_THREADS"] = threads
    import mpsgraph as mg
    import mpsgraph.onnx

    fed = dict(np.load(feeds))
    last: dict[str, mg.NDArray] = {}
    atexit.register(lambda: np.savez(results, *(array.numpy() for array in last.values())))

    def build() -> Step:
        model = mg.onnx.load(path)
        if not isinstance(model, mg.onnx.DeferredModel):
            model = model.optimize_for_inference()
        return lambda: last.update(model.run(fed))

    serve(build, OURS)


def difference(own: Path, other: Path) -> float:
    """Return the largest difference of two result files, relative to each array's largest element.

    It is infinite if shapes or positions of NaN differ.
    """
    with np.load(own) as ours, np.load(other) as theirs:
        pairs = [(ours[key], theirs[key]) for key in theirs.files]
    worst = 0.0
    for a, b in pairs:
        if a.shape != b.shape or (np.isnan(a) != np.isnan(b)).any():
            return float("inf")
        if a.size:
            most = np.nanmax(np.abs(b.astype(np.float64)), initial=0.0)
            apart = np.nanmax(np.abs(a.astype(np.float64) - b), initial=0.0)
            worst = max(worst, apart / most if most > 1e-3 else apart)
    return float(worst)


class Sides:
    """Both sides' commands for one file.

    Args:
        path: The ONNX file.
        feeds: Input arrays by name.
        folder: Where inputs and results are stored.
        threads: Number of threads.
    """

    def __init__(self, path: Path, feeds: dict[str, np.ndarray], folder: Path, threads: int) -> None:
        np.savez(folder / "feeds.npz", allow_pickle=False, **dict[str, Any](feeds))
        mode = "1 thread" if threads == 1 else f"{threads} threads"
        self.results = [folder / f"{name}{threads}.npz" for name in ("ours", "theirs")]
        own, other = ([str(path), str(folder / "feeds.npz"), str(file), str(threads)] for file in self.results)
        self.own = Side(OURS, mode, (sys.executable, f"{NAME}.py", "--serve", *own))
        python = python_of(PEER)
        self.peer = Side(PEER, mode, (str(python), "-m", MODULE, *other)) if python else None


def rows_of_file(name: str, sides: Sides, options: Options, say) -> list[Row]:
    """Measure one file and return three rows per side: a run, the first result, and memory."""
    both = [side for side in (sides.own, sides.peer) if side and (side is sides.own or options.peers)]
    samples: dict[str, list[list[float]]] = {what: [[] for _ in both] for what in TARGETS}
    for _ in range(1 if options.quick else 3):  # The processes of the last iteration take turns.
        contenders = []
        try:
            for side in both:
                say(f"{name}, {side.mode}: {side.name}")
                contenders.append(Contender(Running(side)))
                contenders[-1].prepare(options.turn_seconds)
            if len(samples["memory"][0]) == (0 if options.quick else 2):
                take_turns(contenders, options, say)
            for i, contender in enumerate(contenders):
                samples["first result"][i].append(1e3 * contender.first_result)
                samples["memory"][i].append(contender.running.peak_memory())
        finally:
            for contender in contenders:
                contender.running.close()
    if len(both) == 2 and (apart := difference(*sides.results)) > CLOSE:
        say.keep(f"{name}, {both[0].mode}: results differ by {apart:.1e} relative to the largest element")
    rows = []
    for what, unit in (("run", "ms"), ("first result", "ms"), ("memory", "MB")):
        values = samples[what]
        if what == "run":
            values = [[1e3 * second for second in contender.seconds()] for contender in contenders]
        ratios = [a / b for a, b in zip(values[0], values[-1], strict=False)] if len(both) == 2 else []
        if what == "run" and len(both) == 2:
            ratios = contenders[1].ratios()
        for i, side in enumerate(both):
            ratio = Spread.of(ratios) if ratios and i == 0 else None
            title, version = f"{name}, {what}", contenders[i].running.version
            rows.append(Row(NAME, title, unit, side.name, side.mode, Spread.of(values[i]), ratio, version=version))
    return rows


def means(rows: Sequence[Row]) -> list[Row]:
    """Return the geometric mean of the ratios over all files, for each thread count and each quantity."""
    result = []
    for what, target in TARGETS.items():
        for mode in dict.fromkeys(row.mode for row in rows):
            of_mode = [row for row in rows if row.mode == mode and row.title.endswith(f", {what}") and row.ratio]
            if of_mode:
                mean = statistics.geometric_mean([row.ratio.median for row in of_mode])
                title = f"{what}, geometric mean of {len(of_mode)} files"
                spread = Spread.of([mean])
                result.append(Row(NAME, title, "", OURS, mode, spread, spread, target=target))
    return result


def measure(options: Options) -> list[Row]:
    from onnx_wheels import MODELS

    rows: list[Row] = []
    with progress(NAME) as say, tempfile.TemporaryDirectory() as folder:
        for file in MODELS:
            if not re.search(options.workloads, file.name):
                continue
            say(f"{file.name}: locating {file.wheel}")
            path, feeds = file.located(), file.feeds()
            for threads in THREADS:
                try:
                    found = rows_of_file(file.name, Sides(path, feeds, Path(folder), threads), options, say)
                except SideFailed as failure:
                    say.keep(str(failure))
                    continue
                told_apart = [replace(row, benchmark=NAME, machine=processor()) for row in found]
                enter(told_apart, RESULTS, (NAME,))
                rows += found
                run = found[0]
                told = f"{run.ratio.median:.2f} ({run.ratio.q1:.2f} .. {run.ratio.q3:.2f})" if run.ratio else ""
                firsts = [row.ratio.median for row in found if row.ratio][1:]
                more = ", ".join(f"{of} {ratio:.2f}" for of, ratio in zip(list(TARGETS)[1:], firsts, strict=False))
                say.keep(f"{file.name}, {run.mode}: {run.value.median:.3f} ms, of {PEER} {told}, {more}")
    return [*rows, *means(rows)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve_model(*sys.argv[2:])
    else:
        main(measure)
