"""Run all benchmarks, or those named: print tables and update bench/results.csv and the pages of document.py.

`make bench` runs this. `run.py w1_digits memory` measures two benchmarks and adds them to the results. `--quick` checks
in a few minutes that everything works, and writes to build/bench/ instead.
"""

import argparse
import datetime
import importlib
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import mpsgraph as mg
from bounds import Ceilings, bounded, ceilings
from document import RESULTS, write
from measuring import BENCH, THREADS
from measuring.machine import processor
from measuring.options import Options
from measuring.report import OURS, Row, Spread, print_rows
from measuring.results import enter

BENCHMARKS = (
    "w1_digits",
    "w2_resnet50",
    "w3_conv_lstm",
    "w4_gan",
    "w5_gelu",
    "w6_mlp",
    "w7_character",
    "w8_inference",
    "w9_operations",
    "w10_decoding",
    "w11_attention",
    "w12_language_model",
    "w13_adapters",
    "networks",
    "first_step",
    "application_start",
    "memory",
    "checkpointing",
    "growth",
    "placement",
    "compile_time",
    "overhead",
    "branches",
    "recurrent_layer",
    "busy_machine",
    "operations",
)
QUICK = BENCH.parent / "build" / "bench" / "quick.csv"


def machine(at: Ceilings) -> list[Row]:
    """Return rows that describe the machine."""
    where = f"{processor()}, {THREADS} threads"
    rates = {f"matmul, {name}": ("GFLOP/s", rate / 1e9) for name, rate in at.operations.items()}
    rates["memory copy, read + write"] = ("GB/s", at.memory / 1e9)
    rates["cache read"] = ("GB/s", at.cache / 1e9)
    return [Row("machine", where, unit, OURS, mode, Spread.of([rate])) for mode, (unit, rate) in rates.items()]


def version() -> str:
    """Return our version, with the commit if this is a Git checkout."""
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=BENCH, capture_output=True, text=True)
    return f"{mg.__version__}+{found.stdout.strip()}" if found.returncode == 0 else mg.__version__


def dated(rows: list[Row], benchmark: str, own: str) -> list[Row]:
    """Return the rows with the benchmark, date, and machine filled in, and `own` as the version of our rows."""
    common: dict[str, Any] = {
        "benchmark": benchmark,
        "measured": datetime.date.today().isoformat(),
        "machine": processor(),
    }
    return [replace(row, version=own if row.side == OURS else row.version, **common) for row in rows]


def run(benchmarks: list[str], options: Options, path: Path) -> None:
    """Run the benchmarks in order, storing the results of each as soon as it is done."""
    own = version()  # Read it before measuring, because HEAD may change in the meantime.
    for name in benchmarks:
        at = ceilings()
        found = machine(at) + bounded(importlib.import_module(name).measure(options), at)
        print_rows(found)
        enter(dated(found, name, own), path, BENCHMARKS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "benchmarks", nargs="*", metavar="benchmark", help=f"benchmarks to run (default all): {', '.join(BENCHMARKS)}"
    )
    Options.add_to(parser)
    arguments = parser.parse_args()
    if unknown := set(arguments.benchmarks) - set(BENCHMARKS):
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}: choose from {', '.join(BENCHMARKS)}")

    load = os.getloadavg()[0]
    if load > 1:
        print(f"The load average is {load:.1f}: other processes use this machine, so results will be unreliable.")
    started = time.perf_counter()
    run(arguments.benchmarks or list(BENCHMARKS), Options.of(arguments), QUICK if arguments.quick else RESULTS)
    written = [] if arguments.quick else write()
    files = [path.relative_to(BENCH.parent).as_posix() for path in [QUICK if arguments.quick else RESULTS, *written]]
    print(f"\n{time.perf_counter() - started:.0f} s; {', '.join(files)}")


if __name__ == "__main__":
    main()
