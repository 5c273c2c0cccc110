"""Scaling of data-parallel training: ResNet-50 (32 x 32) and a GPT on 1, 2, 4, and 8 processes with 2 cores each.

It needs Linux on x86-64 with 16 cores, nothing else running, and Python 3.10 or newer:

    pip wheel --no-deps -w dist .                   # on a machine that can build; then copy dist/*.whl and bench/
    pip install mpsgraph-*.whl mpi4py mpich matplotlib
    python bench/distributed.py --output results    # under 8 minutes; writes distributed.json, .png, overlap.png, .json

The batch of each process stays the same (weak scaling). Processes and their communication threads are pinned to
separate cores. One launch measures three modes in turns: "shared" reduces gradients in shared memory, "messages"
reduces them with MPI, and "apart" trains independent copies at the same time, which shows the cost of sharing memory,
caches, and clock frequency without any communication.

The columns of the table: `effic.` is the throughput of n processes divided by n times that of a single process,
`/apart` the throughput relative to n independent copies, and `hidden` the share of communication time that no step
waited for. The next columns count per step: CPU time over all threads of the process, system time, page faults, and
involuntary and voluntary context switches.

Every launch first measures the machine itself in all processes at once: matmuls that fit in the cache, which follow the
clock frequency, and 64 MB copies, which follow memory bandwidth. No program can recover what these lose as n grows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
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
WAYS = ("apart", "messages", "shared")
WORDS, WINDOW, WIDTH, LAYERS, HEADS = 512, 128, 256, 4, 4
WARM_UP, ROUNDS = 2, 3


# --- one process ------------------------------------------------------------------------------------------------------


def pin(number: int, processes: int, cores: int) -> None:
    """Pin this process, and all threads that it starts from now on, to its own cores."""
    from mpsgraph.distributed.placement import own_places

    own = own_places(os.sched_getaffinity(0), number, processes, cores)
    if len(own) != cores:
        raise SystemExit(
            f"{processes} processes x {cores} cores do not fit on this machine: "
            "use fewer processes (--processes) or fewer cores (--cores)"
        )
    os.sched_setaffinity(0, own)


def trainer_of(name: str, way: str, options: argparse.Namespace) -> tuple[Any, Any, Any]:
    """Return a trainer and this process's batch of inputs and labels."""
    import mpsgraph as mg
    import numpy as np
    from mpsgraph import nn

    rng = np.random.default_rng(mg.distributed.rank())
    shared = way == "shared"
    together: Any = way != "apart" and mg.distributed.DataParallel(wire=options.wire, shared_memory=shared)
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


def used() -> dict[str, float]:
    """Return the resources that this process has used so far."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "processor milliseconds": (own.ru_utime + own.ru_stime) * 1e3,
        "system milliseconds": own.ru_stime * 1e3,
        "page faults": own.ru_minflt + own.ru_majflt,
        "put aside": own.ru_nivcsw,
        "waited for": own.ru_nvcsw,
    }


def of_machine() -> dict[str, float]:
    """Return the times in ms of two machine probes that all processes run at once; the slowest process counts."""
    import mpsgraph as mg
    import numpy as np

    g = mg.Graph()
    x = g.placeholder((192, 192))
    y = x
    for _ in range(200):
        y = g.matrix_multiplication(y, x)
    products = g.on("cpu").compile({x: (mg.float32, (192, 192))}, [y])
    small = np.eye(192, dtype=np.float32)
    big, other = (np.ones(16 << 20, np.float32) for _ in range(2))
    took: dict[str, list[float]] = {"products": [], "copies": []}
    for _ in range(6):
        for name, work in (("products", lambda: products.run([small])), ("copies", lambda: np.copyto(big, other))):
            mg.distributed.barrier()
            begin = time.perf_counter()
            work()
            took[name].append(float(mg.distributed.all_reduce(time.perf_counter() - begin, "max")))
    return {name: statistics.median(times[1:]) * 1e3 for name, times in took.items()}


class Way:
    """A trainer in one of the modes of `WAYS`, with its measurements."""

    def __init__(self, name: str, way: str, options: argparse.Namespace) -> None:
        self.way = way
        self.trainer, self.x, self.y = trainer_of(name, way, options)
        self.rounds: list[float] = []
        self.spent: dict[str, float] = {}
        self.first = self.steps(1)
        self.took = self.slowest(self.steps(WARM_UP))
        self.count = max(2, int(options.seconds / ROUNDS / self.took))

    def steps(self, count: int) -> float:
        import mpsgraph as mg

        mg.distributed.barrier()
        begin = time.perf_counter()
        for _ in range(count):
            self.trainer.train_step(self.x, self.y)
        self.trainer.wait()
        return (time.perf_counter() - begin) / count

    @staticmethod
    def slowest(seconds: float) -> float:
        import mpsgraph as mg

        return float(mg.distributed.all_reduce(seconds, "max"))

    def state(self) -> dict[str, float]:
        import mpsgraph as mg

        found = mg.distributed.statistics(self.trainer)
        said = {f"{key} milliseconds": found[key] * 1e3 for key in ("communication", "waited", "copied")}
        return used() | said

    def round(self) -> None:
        before = self.state()
        self.rounds.append(self.slowest(self.steps(self.count)))
        for key, value in self.state().items():
            self.spent[key] = self.spent.get(key, 0) + (value - before[key]) / (self.count * ROUNDS)

    def result(self) -> dict[str, Any]:
        import mpsgraph as mg

        means = {key: float(mg.distributed.all_reduce(value, "mean")) for key, value in self.spent.items()}
        spoke, waited = means["communication milliseconds"], means["waited milliseconds"]
        return {
            "way": self.way,
            "milliseconds": statistics.median(self.rounds) * 1e3,
            "spread": [min(self.rounds) * 1e3, max(self.rounds) * 1e3],
            "steps": self.count * ROUNDS,
            "first step": self.first,
            "batch": len(self.x),
            **means,
            "hidden": max(1 - waited / spoke, 0.0) if spoke else None,
            "said": mg.distributed.explain(self.trainer),
        }


def process(name: str, options: argparse.Namespace) -> None:
    """Train in all modes; the process with rank 0 writes the results."""
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank()
    pin(rank, MPI.COMM_WORLD.Get_size(), options.cores)
    os.environ["OMP_NUM_THREADS"] = str(options.cores)
    sys.path.insert(0, str(HERE))
    import mpsgraph as mg

    machine_itself = of_machine()
    ways = [Way(name, way, options) for way in options.ways if mg.distributed.size() > 1 or way == "apart"]
    for _ in range(ROUNDS):
        for way in ways:
            way.round()
    results = [way.result() | machine_itself for way in ways]
    if options.profile:
        with mg.profiler.profile() as profile:
            ways[-1].steps(2)
    if rank == 0:
        Path(options.result).write_text(json.dumps(results))
        if options.profile:
            picture(profile, Path(options.profile))


def picture(profile: Any, path: Path) -> None:
    """Save the timeline of two steps as a picture and as a trace for ui.perfetto.dev."""
    import matplotlib

    matplotlib.use("Agg")
    axes = profile.plot()
    axes.set_title("two steps of ResNet-50 in the first process: kernels, and the gradient buckets sent alongside them")
    axes.figure.savefig(path, dpi=130)
    profile.save_chrome_trace(path.with_suffix(".json"))


# --- the launcher -----------------------------------------------------------------------------------------------------


def measured(name: str, processes: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Launch that many processes and return a row for each mode."""
    from mpsgraph.distributed.launch import mpiexec

    result = options.output / "one.json"
    result.unlink(missing_ok=True)
    command = [mpiexec(), "-n", str(processes), sys.executable, __file__]
    command += ["--process", name, "--result", result, "--cores", str(options.cores), "--ways", *options.ways]
    command += ["--seconds", str(options.seconds), *(["--batch", str(options.batch)] if options.batch else [])]
    command += [*(["--wire", options.wire] if options.wire else [])]
    if name == "resnet50" and processes == options.processes[-1] and not options.no_picture:
        command += ["--profile", options.output / "overlap.png"]
    environment = os.environ | {"OMP_NUM_THREADS": str(options.cores)}
    subprocess.run([str(part) for part in command], env=environment, check=True, timeout=240)
    rows: list[dict[str, Any]] = json.loads(result.read_text())
    result.unlink()
    return [{"model": name, "processes": processes, **row} for row in rows]


def add_ratios(rows: list[dict[str, Any]]) -> None:
    """Add the efficiency relative to one process and to the same number of independent processes."""
    times = {(row["model"], row["processes"], row["way"]): row["milliseconds"] for row in rows}
    for row in rows:
        alone = times.get((row["model"], 1, "apart"))
        row["efficiency"] = None if alone is None else alone / row["milliseconds"]
        apart = times.get((row["model"], row["processes"], "apart"))
        row["beside"] = None if apart is None or row["way"] == "apart" else apart / row["milliseconds"]
        row["samples a second"] = row["batch"] * row["processes"] / row["milliseconds"] * 1e3


def draw(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for name, colour in zip(MODELS, ("#4c72b0", "#dd8452"), strict=True):
        for way, style in zip(WAYS, ("x--", ".:", "o-"), strict=True):
            own = [r for r in rows if r["model"] == name and r["way"] == way and r["efficiency"] is not None]
            if not own:
                continue
            label = f"{TITLES[name]}, batch {own[0]['batch']}, {way}"
            left.plot([r["processes"] for r in own], [r["efficiency"] for r in own], style, color=colour, label=label)
            own = [r for r in own if r["hidden"] is not None]
            right.plot([r["processes"] for r in own], [r["hidden"] for r in own], style, color=colour, label=label)
    most = max(row["efficiency"] or 0 for row in rows)
    left.set(
        ylabel="throughput / (n x throughput of one process)", title=f"efficiency, {options.cores} cores per process"
    )
    right.set(ylabel="share", title="communication hidden behind computation")
    for axes in (left, right):
        axes.set(xlabel="processes", ylim=(0, max(1.08, 1.05 * most)), xticks=options.processes)
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
    figure.savefig(options.output / "distributed.png", dpi=130)


def machine() -> dict[str, Any]:
    """Describe the machine and versions that the results belong to."""
    import mpsgraph as mg
    from mpsgraph.distributed.placement import places, siblings

    names = [line.partition(": ")[2] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    available = os.sched_getaffinity(0)
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": len(available),
        "places": places(available),
        "threads of a core": sorted({siblings(number) for number in available}),
        "system": platform.platform(),
        "mpsgraph": mg.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("build/bench/distributed"), help="folder for the results")
    parser.add_argument(
        "--processes", type=int, nargs="+", default=[1, 2, 4, 8], help="process counts (default 1 2 4 8)"
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--cores", type=int, default=2, help="cores per process (default 2)")
    parser.add_argument("--seconds", type=float, default=6, help="seconds to measure each mode in a launch (default 6)")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--no-picture", action="store_true", help="do not draw charts; needs no matplotlib")
    parser.add_argument(
        "--batch", type=int, help="batch of each process (default 64 images, or 16 sequences of 128 tokens)"
    )
    parser.add_argument(
        "--wire", choices=("bfloat16", "float16"), help="dtype in which gradients are sent (default: unchanged)"
    )
    for hidden in ("--process", "--result", "--profile"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        process(options.process, options)
        return
    options.output.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    print(f"{machine()}\n{'':28}    ms/step  effic.  /apart  hidden    cpu  sys  faults    inv    vol  matmul  copies")
    for name in options.models:
        for processes in options.processes:
            rows += measured(name, processes, options)
            add_ratios(rows)
            for row in rows:
                if (row["model"], row["processes"]) == (name, processes):
                    print(line(row), flush=True)
            print("  " + rows[-1]["said"].replace("\n", "\n  "), flush=True)
    file = {"machine": machine(), "cores": options.cores, "wire": options.wire, "rows": rows}
    (options.output / "distributed.json").write_text(json.dumps(file, indent=1) + "\n")
    if not options.no_picture:
        draw(rows, options)


def line(row: dict[str, Any]) -> str:
    """Format a row of the table."""
    shares = [row["efficiency"], row["beside"], row["hidden"]]
    words = f"{row['model']:9} {row['batch']:4} {row['processes']} {row['way']:9} {row['milliseconds']:12.1f}"
    words += "".join(f"{'' if share is None else format(share, '.3f'):>8}" for share in shares)
    words += f"{row['processor milliseconds']:7.0f}{row['system milliseconds']:5.0f}{row['page faults']:8.0f}"
    return words + f"{row['put aside']:7.0f}{row['waited for']:7.0f}{row['products']:7.1f}{row['copies']:8.1f}"


if __name__ == "__main__":
    main()
