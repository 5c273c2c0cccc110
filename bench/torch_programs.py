"""Training steps of PyTorch programs on mpsgraph, with each way to run them, and on PyTorch itself.

    .venv-conformance/bin/python bench/torch_programs.py             with mpsgraph importable, as in `make test-torch`
    .venv-conformance/bin/python bench/torch_programs.py --quick     six programs in three rounds
    .venv-conformance/bin/python bench/torch_programs.py --models 'resnet|bert' --json part.json

It reports the times of a step and of the first step. The sides are Trainer, compile_step, and the torch.compile backend
of mpsgraph, and PyTorch's eager mode and Inductor, which needs a C++ compiler and starts with an empty cache. Each side
runs in a separate process with the same number of threads; they take turns, and waiting sides sleep. A side whose
losses differ from those of eager mode is not counted. Progress goes to stderr, the table to stdout. This is separate
from the other benchmarks, whose environment for mpsgraph does not contain PyTorch.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import torch_models

OURS, PEERS = ("trainer", "compile_step", "backend"), ("eager", "inductor")
SIDES = (*OURS, *PEERS)
QUICK = ("perceptron", "convolutions", "transformer", "LSTM", "resnet18", "bert")
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
STEPS = 5
"""Steps whose losses are compared before anything is timed."""


def stepping(side: str, made: torch_models.Made, fused: bool) -> Callable[[], float]:
    """Return a function that runs a training step and returns its loss; fused selects PyTorch's fused Adam."""
    import torch

    module, loss, inputs, labels = made
    module.train()
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-4, fused=fused or None)
    if side == "trainer" or side == "compile_step":
        import mpsgraph as mg

        if side == "trainer":
            trainer = mg.torch.Trainer(module, loss, optimizer)
            return lambda: float(trainer.train_step(inputs, *labels))
        step = mg.torch.compile_step(module, loss, optimizer)
        return lambda: float(step(inputs, *labels))
    compiled = module
    if side == "backend":
        import mpsgraph as mg

        compiled = mg.torch.compile(module)
    elif side == "inductor":
        compiled = torch.compile(module)

    def run() -> float:
        optimizer.zero_grad()
        found = loss(compiled(*inputs), *labels)
        found.backward()
        optimizer.step()
        return float(found.detach())

    return run


def serve(side: str, threads: int, clock: Callable[[], float], fused: bool) -> None:
    """Answer each line [program name, number of steps] with [times, losses], keeping one program at a time."""
    import torch

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Output of other packages must not mix with the answers.
    torch.set_num_threads(threads)
    first = torch.nn.Linear(3, 2), torch.nn.functional.cross_entropy, (torch.randn(4, 3),), (torch.arange(4) % 2,)
    stepping(side, first, fused)()  # Do imports and one-time setup now.
    name, step = "", None
    for line in sys.stdin:
        wanted, steps = json.loads(line)
        try:
            if wanted != name:
                step = None
                torch._dynamo.reset()
                gc.collect()
                made = torch_models.made(wanted)
                name, began = wanted, time.perf_counter()
                step = stepping(side, made, fused)
                # Wall time, because compilers run in separate processes.
                losses, times = [step()], [time.perf_counter() - began]
                steps -= 1
            else:
                losses, times = [], []
            assert step
            began = clock()
            for _ in range(steps):
                losses.append(step())
                ended = clock()
                times.append(ended - began)
                began = ended
            answer: Any = [times, losses]
        except Exception as error:  # For example, Inductor without a compiler.
            cause = getattr(error, "inner_exception", error)
            answer, name, step = [None, f"{type(cause).__name__}: {cause}".splitlines()[0][:200]], "", None
        print(json.dumps(answer), file=answers, flush=True)


class Sides:
    """The processes of all sides."""

    def __init__(self, names: list[str], threads: int, clock: str, fused: bool, cache: str) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "TORCHINDUCTOR_CACHE_DIR": cache}
        command = [sys.executable, __file__, "--threads", str(threads), "--clock", clock, *["--fused"] * fused]
        self.processes = {
            side: subprocess.Popen(
                [*command, "--serve", side],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
            )
            for side in names
        }  # fmt: skip

    def ask(self, side: str, name: str, steps: int) -> tuple[list[float] | None, Any]:
        process = self.processes[side]
        assert process.stdin and process.stdout
        process.stdin.write(json.dumps([name, steps]) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            return None, "the process ended"
        times, found = json.loads(answer)
        return times, found

    def end(self) -> None:
        for process in self.processes.values():
            process.communicate()


def measured(sides: Sides, name: str, rounds: int, seconds: float) -> dict[str, Any]:
    """Measure a program on each side: seconds of the first step and of all timed steps."""
    first, losses, times, failed = {}, {}, {}, {}
    for side in sides.processes:
        progress(f"{name}: first steps, {side}")
        found, said = sides.ask(side, name, STEPS)
        if found is None:
            failed[side] = said
            continue
        first[side], losses[side], times[side] = found[0], said, [min(found[1:])]
    for side in losses:
        if "eager" in losses and not _equal(losses[side], losses["eager"]):
            failed[side] = f"its losses are {losses[side]}, those of eager mode {losses['eager']}"
            del times[side], first[side]
    counts = {side: max(2, min(30, round(seconds / found[0]))) for side, found in times.items()}
    times = {side: [] for side in times}
    for number in range(rounds):
        progress(f"{name}: round {number + 1} of {rounds}")
        for side in times:
            found, said = sides.ask(side, name, counts[side] + 1)
            assert found is not None, (name, side, said)
            times[side] += found[1:]  # The first step runs with the caches full of another side's data.
    return {"first": first, "times": times, "failed": failed}


def _equal(found: list[float], expected: list[float]) -> bool:
    """Return whether the first losses are equal and the later ones, after float32 updates, are close."""
    near = all(math.isclose(a, b, rel_tol=2e-2, abs_tol=1e-3) for a, b in zip(found, expected, strict=True))
    return near and math.isclose(found[0], expected[0], rel_tol=1e-3)


def progress(text: str) -> None:
    print(f"\r{time.strftime('%H:%M:%S')} {text:60}", end="", file=sys.stderr, flush=True)


def told(results: dict[str, Any], names: list[str]) -> str:
    """Return the table: median ms per step with quartiles, ratio to PyTorch's better mode, first steps, and means."""
    lines = ["| | " + " | ".join(names) + " | first step, s |", "|---|" + "---|" * (len(names) + 1)]
    ratios: dict[str, list[float]] = {side: [] for side in OURS}
    begun: list[float] = []
    for program, found in results.items():
        medians = {side: statistics.median(times) for side, times in found["times"].items()}
        best = min((medians[side] for side in PEERS if side in medians), default=math.nan)
        cells = []
        for side in names:
            if side not in medians:
                cells.append("does not run")
                continue
            low, _, high = statistics.quantiles(found["times"][side], n=4)
            cell = f"{medians[side] * 1e3:.2f} ({low * 1e3:.2f}–{high * 1e3:.2f})"
            if side in ratios:
                ratios[side].append(medians[side] / best)
                cell += f", {ratios[side][-1]:.2f}"
            cells.append(cell)
        firsts = ", ".join(f"{found['first'][side]:.1f}" if side in found["first"] else "–" for side in names)
        if "inductor" in found["first"] and "backend" in found["first"]:
            begun.append(found["first"]["backend"] / found["first"]["inductor"])
        lines.append(f"| {program} | " + " | ".join(cells) + f" | {firsts} |")
    means = [f"{statistics.geometric_mean(ratios[side]):.2f}" if ratios.get(side) else "" for side in names]
    mean = f"{statistics.geometric_mean(begun):.2f} of Inductor's" if begun else ""
    lines.append("| geometric mean | " + " | ".join(means) + f" | {mean} |")
    lines += [
        f"{program}: {side} does not run: {why}"
        for program, found in results.items()
        for side, why in found["failed"].items()
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="", help="run only programs whose name matches this regular expression")
    parser.add_argument("--quick", action="store_true", help="run six programs in three rounds")
    parser.add_argument("--rounds", type=int, default=0, help="rounds (default 5, or 3 with --quick)")
    parser.add_argument(
        "--seconds", type=float, default=0.5, help="approximate seconds per side in a round (default 0.5)"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--clock",
        default="wall",
        choices=CLOCKS,
        help="clock to use; on a busy machine, use processor together with --threads 1",
    )
    parser.add_argument(
        "--fused", action="store_true", help="use Adam(fused=True) on all sides that run PyTorch's optimizer"
    )
    parser.add_argument("--without", nargs="*", default=[], choices=SIDES, help="sides to skip")
    parser.add_argument("--json", help="file for all times; its earlier contents are included in the table")
    parser.add_argument("--serve", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.threads, CLOCKS[options.clock], options.fused)
        return
    names = [side for side in SIDES if side not in options.without]
    results: dict[str, Any] = {}
    if options.json and Path(options.json).exists():
        results = json.loads(Path(options.json).read_text(encoding="utf-8"))
    wanted = [name for name in torch_models.available() if re.search(options.models, name)]
    wanted = [name for name in wanted if not options.quick or options.models or name in QUICK]
    with tempfile.TemporaryDirectory() as cache:
        sides = Sides(names, options.threads, options.clock, options.fused, cache)
        for name in wanted:
            results[name] = measured(sides, name, options.rounds or (3 if options.quick else 5), options.seconds)
            if options.json:
                Path(options.json).write_text(json.dumps(results), encoding="utf-8")
        sides.end()
    progress("")
    print(file=sys.stderr)
    print(told(results, names))


if __name__ == "__main__":
    main()
