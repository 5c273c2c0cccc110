"""Scaling over processes: ResNet-50 on 32 x 32 and a GPT with 1, 2, 4 and 8 processes of 2 cores; a curve and JSON.

On a machine with nothing but Python 3.10 or newer (Linux on x86-64, 16 cores, nothing else running):

    pip wheel --no-deps -w dist .                   # where the source builds; carry dist/*.whl and bench/ over
    pip install mpsgraph-*.whl mpi4py mpich matplotlib
    python bench/distributed.py --output results    # under 8 minutes; writes distributed.json, .png, overlap.png, .json

Each process has a batch of its own, always the same: weak scaling. Processes are pinned to cores of their own, their
communication threads, too. `efficiency` is the throughput of n over n times that of one. `beside` is the same
with n processes that train apart, at the same time: what sharing memory, caches and clocks costs without any
communication. `hidden` is the share of communication that no step waited for.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MODELS = ("resnet50", "gpt")
TITLES = {"resnet50": "ResNet-50 on 32 × 32", "gpt": "GPT, 4 layers of 256"}
BATCHES = {"resnet50": 64, "gpt": 16}
WORDS, WINDOW, WIDTH, LAYERS, HEADS = 512, 128, 256, 4, 4
WARM_UP, ROUNDS = 4, 3


# --- a process --------------------------------------------------------------------------------------------------------


def pin(number: int, cores: int) -> None:
    """This process runs on cores of its own, from now on and in all threads that it starts."""
    available = sorted(os.sched_getaffinity(0))
    own = available[number * cores : (number + 1) * cores]
    if len(own) < cores:
        raise SystemExit(f"process {number} finds no {cores} cores of its own among {len(available)}")
    os.sched_setaffinity(0, own)


def trainer_of(name: str, options: argparse.Namespace) -> tuple[Any, Any, Any]:
    """A trainer, and the batch of this process."""
    import mpsgraph as mg
    import numpy as np
    from mpsgraph import nn

    rng = np.random.default_rng(mg.distributed.rank())
    together: Any = mg.distributed.DataParallel(wire=options.wire) if not options.apart else False
    batch = options.batch or BATCHES[name]
    if name == "resnet50":
        import w2_resnet50

        x: Any = rng.standard_normal((batch, 32, 32, 3), np.float32)
        y = rng.integers(10, size=batch, dtype=np.int32)
        model: Any = w2_resnet50.network()
        optimizer: Any = mg.optim.SGD(0.01)
    else:

        class GPT(nn.Module):
            def __init__(self) -> None:
                self.embedding = nn.Embedding(WORDS, WIDTH)
                layer = nn.TransformerEncoderLayer(
                    WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", norm_first=True, positions=nn.RotaryPositions()
                )
                self.layers = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm())
                self.next = nn.Linear(WORDS)

            def forward(self, x: Any) -> Any:
                return self.next(self.layers(self.embedding(x), is_causal=True))

        text = rng.integers(WORDS, size=(batch, WINDOW + 1), dtype=np.int32)
        x, y, model, optimizer = text[:, :-1].copy(), text[:, 1:].copy(), GPT(), mg.optim.AdamW(1e-3)
    return mg.Trainer(model, optimizer=optimizer, metrics=(), device="cpu", distributed=together), x, y


def process(name: str, options: argparse.Namespace) -> None:
    """Trains, and the first process writes what was measured."""
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank()
    pin(rank, options.cores)
    os.environ["OMP_NUM_THREADS"] = str(options.cores)
    sys.path.insert(0, str(HERE))
    import mpsgraph as mg

    trainer, x, y = trainer_of(name, options)

    def steps(count: int) -> float:
        mg.distributed.barrier()
        begin = time.perf_counter()
        for _ in range(count):
            trainer.train_step(x, y)
        trainer.wait()
        return (time.perf_counter() - begin) / count

    first = steps(1)
    took = mg.distributed.all_reduce(steps(WARM_UP), "max")
    count = max(2, int(options.seconds / ROUNDS / took))
    before = mg.distributed.statistics(trainer)
    rounds = [float(mg.distributed.all_reduce(steps(count), "max")) for _ in range(ROUNDS)]  # of the slowest process
    after = mg.distributed.statistics(trainer)
    spent = {key: (after[key] - before[key]) / (count * ROUNDS) for key in ("communication", "waited", "copied")}
    means = {key: float(mg.distributed.all_reduce(value, "mean")) for key, value in spent.items()}
    if options.profile:
        with mg.profiler.profile() as profile:
            steps(2)
    if rank == 0:
        result = {
            "milliseconds": statistics.median(rounds) * 1e3,
            "spread": [min(rounds) * 1e3, max(rounds) * 1e3],
            "steps": count * ROUNDS,
            "first step": first,
            "batch": len(x),
            "loss": float(trainer.train_step(x, y)) if options.apart else None,
            **{f"{key} milliseconds": value * 1e3 for key, value in means.items()},
            "hidden": max(1 - means["waited"] / means["communication"], 0.0) if means["communication"] else None,
        }
        Path(options.result).write_text(json.dumps(result))
        if options.profile:
            picture(profile, Path(options.profile))


def picture(profile: Any, path: Path) -> None:
    """The timeline of two steps, and a trace of them for ui.perfetto.dev."""
    import matplotlib

    matplotlib.use("Agg")
    axes = profile.plot()
    axes.set_title("two steps of ResNet-50 in the first process: kernels, and buckets that travel beside them")
    axes.figure.savefig(path, dpi=130)
    profile.save_chrome_trace(path.with_suffix(".json"))


# --- all of them ------------------------------------------------------------------------------------------------------


def measured(name: str, processes: int, apart: bool, options: argparse.Namespace) -> dict[str, Any]:
    """One start of so many processes."""
    result = options.output / "one.json"
    result.unlink(missing_ok=True)
    command = [Path(sys.executable).parent / "mpiexec", "-n", str(processes), sys.executable, __file__]
    command += ["--process", name, "--result", result, "--cores", str(options.cores)]
    command += ["--seconds", str(options.seconds), *(["--batch", str(options.batch)] if options.batch else [])]
    command += [*(["--wire", options.wire] if options.wire else []), *(["--apart"] if apart else [])]
    if name == "resnet50" and not apart and processes == options.processes[-1]:
        command += ["--profile", options.output / "overlap.png"]
    environment = os.environ | {"OMP_NUM_THREADS": str(options.cores)}
    subprocess.run([str(part) for part in command], env=environment, check=True, timeout=240)
    row: dict[str, Any] = json.loads(result.read_text())
    result.unlink()
    return {"model": name, "processes": processes, "apart": apart, **row}


def add_ratios(rows: list[dict[str, Any]]) -> None:
    """Efficiency against one process, and against as many that train apart."""
    times = {(row["model"], row["processes"], row["apart"]): row["milliseconds"] for row in rows}
    for row in rows:
        alone = times.get((row["model"], 1, False)) or times[row["model"], row["processes"], row["apart"]]
        row["efficiency"] = alone / row["milliseconds"]
        apart = times.get((row["model"], row["processes"], True))
        row["beside"] = None if apart is None or row["apart"] else apart / row["milliseconds"]
        row["samples a second"] = row["batch"] * row["processes"] / row["milliseconds"] * 1e3


def draw(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for name, colour in zip(MODELS, ("#4c72b0", "#dd8452"), strict=True):
        for apart, style in ((False, "o-"), (True, "x--")):
            own = [row for row in rows if row["model"] == name and row["apart"] == apart]
            label = f"{TITLES[name]}, {'apart' if apart else 'together'}"
            left.plot([r["processes"] for r in own], [r["efficiency"] for r in own], style, color=colour, label=label)
        own = [row for row in rows if row["model"] == name and row["hidden"] is not None]
        right.plot([r["processes"] for r in own], [r["hidden"] for r in own], "o-", color=colour, label=TITLES[name])
    left.set(ylabel="throughput over n times that of one", title=f"efficiency, {options.cores} cores a process")
    right.set(ylabel="share", title="communication that no step waited for")
    for axes in (left, right):
        axes.set(xlabel="processes", ylim=(0, 1.08), xticks=options.processes)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.savefig(options.output / "distributed.png", dpi=130)


def machine() -> dict[str, Any]:
    """Of what the numbers are."""
    import mpsgraph as mg

    names = [line.partition(": ")[2] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "mpsgraph": mg.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("build/bench/distributed"), help="folder for the results")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8], help="how many (default 1 2 4 8)")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--cores", type=int, default=2, help="of each process (default 2)")
    parser.add_argument("--seconds", type=float, default=12, help="that are measured in each start (default 12)")
    parser.add_argument("--batch", type=int, help="of each process (default 64 images, 16 texts of 128)")
    parser.add_argument("--wire", choices=("bfloat16", "float16"), help="what gradients travel as (default their own)")
    for hidden in ("--process", "--result", "--profile"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--apart", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        process(options.process, options)
        return
    options.output.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for name in options.models:
        for processes in options.processes:
            for apart in (False, True) if processes > 1 else (False,):
                rows.append(measured(name, processes, apart, options))
                add_ratios(rows)
                last = rows[-1]
                said = f"{TITLES[name]}: {processes} processes {'apart' if apart else 'together'}, "
                said += f"{last['milliseconds']:.1f} ms a step, efficiency {last['efficiency']:.3f}"
                print(said + (f", hidden {last['hidden']:.2f}" if last["hidden"] is not None else ""), flush=True)
    add_ratios(rows)
    file = {"machine": machine(), "cores": options.cores, "wire": options.wire, "rows": rows}
    (options.output / "distributed.json").write_text(json.dumps(file, indent=1) + "\n")
    draw(rows, options)


if __name__ == "__main__":
    main()
