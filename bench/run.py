"""All benchmarks, or those that are named: tables on the terminal, a CSV and a picture in bench/results/.

`make bench` runs it. `run.py w1_digits memory` measures two, `--quick` shows in a minute or two that everything works,
`--name reference` writes reference.csv, the one that is kept in the repository.
"""

import argparse
import importlib
import os
import time

from harness import BENCH, THREADS
from harness.machine import copy_bandwidth, processor
from harness.options import Options
from harness.picture import draw
from harness.report import Row, Spread, print_rows, write_csv

BENCHMARKS = (
    "w1_digits",
    "w2_resnet50",
    "w3_conv_lstm",
    "w4_gan",
    "w5_gelu",
    "w6_mlp",
    "w7_character",
    "w8_inference",
    "first_step",
    "memory",
    "overhead",
    "compile_time",
    "operations",
)
RESULTS = BENCH / "results"


def machine() -> Row:
    """What the numbers were measured on."""
    return Row(
        "machine",
        f"{processor()}, {THREADS} threads",
        "GB/s",
        "memory",
        "copy, read + written",
        Spread.of([copy_bandwidth(THREADS)]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmarks", nargs="*", metavar="benchmark", help=f"of {', '.join(BENCHMARKS)}; none: all")
    parser.add_argument("--name", default="latest", help="of the CSV (%(default)s)")
    Options.add_to(parser)
    arguments = parser.parse_args()
    options = Options.of(arguments)
    if unknown := set(arguments.benchmarks) - set(BENCHMARKS):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}: choose from {', '.join(BENCHMARKS)}")

    load = os.getloadavg()[0]
    if load > 1:
        print(f"The load average is {load:.1f}: others use this machine, and the numbers will be worth little.")
    started = time.perf_counter()
    rows: list[Row] = []
    for name in arguments.benchmarks or BENCHMARKS:
        found = [machine(), *importlib.import_module(name).measure(options)]
        print_rows(found)
        rows += found
        write_csv(rows, RESULTS / f"{arguments.name}.csv")  # after each, so that nothing is lost
    print(f"\n{time.perf_counter() - started:.0f} s; {RESULTS.name}/{arguments.name}.csv", end="")
    print(f", {RESULTS.name}/ratios.png" if draw(rows, RESULTS / "ratios.png") else "")


if __name__ == "__main__":
    main()
