"""Results of the example programs for several seeds: the numbers that the pages of the examples state.

Each example runs with its default settings as `python examples/NAME.py --seed SEED`. Names as arguments select
examples. A test of the slow suite holds each example to the range in docs/measurements.md.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


class Result(NamedTuple):
    """What an example prints: the number in the first group of `pattern`, taken from the last match."""

    what: str
    pattern: str


RESULTS = {
    "activity_classifier": Result("test windows correct, %", r"([\d.]+)% of"),
    "activity_classifier_layers": Result("test windows correct, %", r"([\d.]+)% of"),
    "digits_nodes": Result("test digits correct, %", r"accuracy ([\d.]+)%"),
    "inception": Result("test digits correct, %", r"accuracy ([\d.]+)%"),
    "object_detector": Result("mAP", r"mAP ([\d.]+)"),
    "resnet50": Result("test digits correct, %", r"accuracy ([\d.]+)%"),
    "gpt": Result("nats per character in training", r"([\d.]+) nats per character"),
    "text_generation": Result("nats per character, held out", r"([\d.]+) held out"),
}


def run(example: str, seed: int, threads: int) -> tuple[float, float]:
    """Run an example, and return its result and the seconds it took.

    Raises:
        RuntimeError: If the example fails or does not print its result.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(EXAMPLES / f"{example}.py"), "--seed", str(seed), "--output", folder]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        seconds = time.perf_counter() - began
    found = re.findall(RESULTS[example].pattern, done.stdout + done.stderr)
    if done.returncode or not found:
        raise RuntimeError(f"{example} with seed {seed} ended with status {done.returncode}:\n{done.stderr[-2000:]}")
    return float(found[-1]), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("examples", nargs="*", metavar="NAME", help=f"of {', '.join(RESULTS)}; default: all")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="threads of each run")
    parser.add_argument("--together", type=int, default=1, help="runs at the same time")
    options = parser.parse_args()
    if unknown := set(options.examples) - set(RESULTS):
        parser.error(f"examples are {', '.join(RESULTS)}; got {', '.join(sorted(unknown))}")
    names = options.examples or list(RESULTS)
    with ThreadPoolExecutor(options.together) as pool:
        runs = {
            name: [pool.submit(run, name, seed, options.threads) for seed in range(options.seeds)] for name in names
        }
        for name in names:
            values, seconds = zip(*(future.result() for future in runs[name]), strict=True)
            listed = ", ".join(f"{value:g}" for value in values)
            print(
                f"{name}: {RESULTS[name].what}: {min(values):g} to {max(values):g} ({listed});"
                f" {statistics.median(seconds):.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
