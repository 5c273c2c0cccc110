"""`mpsgraphtool run`, which runs a model on arrays from files, and `bench`, which times it."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from .. import _core
from ..errors import GraphError
from . import models

WARM_UP = 3


def add_to(commands: Any) -> None:
    """Add the commands and their options to the parser."""
    run_it = commands.add_parser("run", help="run a model on .npy files and write its outputs to .npy files")
    models.add_model(run_it)
    models.add_cases(run_it)
    run_it.add_argument(
        "--input", type=models.pair, action="append", default=[], metavar="NAME=FILE.npy", help="array of an input"
    )
    run_it.add_argument(
        "--output", type=Path, default=Path("."), metavar="DIR", help="directory for NAME.npy (default: .)"
    )
    run_it.set_defaults(command_runs=run)
    bench_it = commands.add_parser("bench", help="time a model on arrays from files or on random numbers")
    models.add_model(bench_it)
    models.add_cases(bench_it)
    bench_it.add_argument("--input", type=models.pair, action="append", default=[], metavar="NAME=FILE.npy")
    bench_it.add_argument("--runs", type=int, default=50, metavar="N", help="number of timed runs (default: 50)")
    bench_it.add_argument("--threads", type=int, default=0, metavar="N", help="number of CPU threads (default: all)")
    bench_it.set_defaults(command_runs=bench)


def run(options: argparse.Namespace) -> str:
    """Run the model once. Return a message with a line for each output and its file."""
    model = models.opened(options)
    given = _given(options)
    for name in given:
        if name not in model.inputs:
            raise GraphError(f"the model has no input '{name}'; its inputs are {', '.join(model.inputs)}")
    missing = [name for name in model.inputs if name not in given]
    if missing:
        raise GraphError(f"no values for the inputs {', '.join(missing)}; pass --input {missing[0]}=FILE.npy")
    results = model.run(given)
    options.output.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, result in results.items():
        path = options.output / f"{name.replace('/', '_')}.npy"
        np.save(path, result.numpy())
        lines.append(f"{path}  {result.dtype}{list(result.shape)}")
    return "\n".join(lines)


def bench(options: argparse.Namespace) -> str:
    """Run the model many times. Return a message with the time to the first result and statistics of later runs."""
    if options.runs < 1:
        raise GraphError(f"--runs must be at least 1, got {options.runs}")
    if options.threads:
        _core.set_num_threads(options.threads)
    start = time.perf_counter()
    model = models.opened(options)
    opened = time.perf_counter()
    feeds = models.arrays_for(model, _given(options), options, seed=0)
    begun = time.perf_counter()
    model.run(feeds)
    first = time.perf_counter()
    for _ in range(WARM_UP):
        model.run(feeds)
    times = []
    for _ in range(options.runs):
        before = time.perf_counter()
        model.run(feeds)
        times.append(1e3 * (time.perf_counter() - before))
    low, middle, high = np.percentile(times, [25, 50, 75])
    return (
        f"opened in {1e3 * (opened - start):.1f} ms, compiled and first run in {1e3 * (first - begun):.1f} ms\n"
        f"{options.runs} runs: median {middle:.3f} ms, quartiles {low:.3f} to {high:.3f} ms"
    )


def _given(options: argparse.Namespace) -> dict[str, np.ndarray]:
    return {name: models.array_from(Path(path)) for name, path in options.input}
