"""Peak resident memory of W1, W2, and W13, in mpsgraph, PyTorch, and (for W2) MLX, each side in a separate process.

Reported in total and without the memory that was resident after the imports. The target applies to the total, because a
machine must have that much memory. The ratio compares with the peer mode that uses the least memory.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import w1_digits
import w2_resnet50
import w13_adapters
from measuring.options import Options, main, progress
from measuring.report import OURS, Row, Spread
from measuring.sides import Running, Side, ours, peer

TARGET = 0.6
STEPS = 30
LONG = 20.0  # Seconds after which no more steps, or samples, are started.
MEASURED = {
    "W1": [ours("w1_digits.py", "Trainer"), ours("w1_digits.py", "graph")],
    "W2 float32": [ours("w2_resnet50.py", "Trainer")],
    "W13": [ours("w13_adapters.py", "Trainer")],
}
PEERS: dict[str, dict[str, tuple[str, ...]]] = {
    "W1": {"PyTorch": w1_digits.TORCH_MODES},
    "W2 float32": {"PyTorch": w2_resnet50.TORCH_MODES, "MLX": ("compile",)},
    "W13": {"PyTorch": w13_adapters.TORCH_MODES},
}


@dataclass(frozen=True)
class Sample:
    """Peak MB and MB after importing of one process, and the version of the package."""

    most: float
    imported: float
    version: str

    @property
    def added(self) -> float:
        return self.most - self.imported


def peak(side: Side) -> Sample:
    """Measure a sample in a fresh process."""
    with Running(side) as running:
        running.setup()
        running.steps(1)
        begin = time.perf_counter()
        for _ in range(STEPS):
            running.steps(1)
            if time.perf_counter() - begin > LONG:
                break
        return Sample(running.peak_memory(), running.resident_after_import, running.version)


def peaks(side: Side, most: int) -> list[Sample]:
    """Measure up to `most` samples, fewer if they take long."""
    begin, samples = time.perf_counter(), [peak(side)]
    while len(samples) < most and time.perf_counter() - begin < LONG:
        samples.append(peak(side))
    return samples


def measure(options: Options) -> list[Row]:
    rows = []
    with progress("memory") as say:
        for workload, own in MEASURED.items():
            if not re.search(options.workloads, workload):
                continue
            samples: dict[Side, list[Sample]] = {}
            known = PEERS[workload] if options.peers else {}
            peers = [side for name, modes in known.items() for side in peer(name, workload, modes)]
            peers = [side for side in peers if re.search(options.modes, side.label)]
            for side in [*own, *(peers[:1] if options.quick else peers)]:
                say(f"{workload}: {side.label}")
                samples[side] = peaks(side, min(3, options.rounds))
            rows += rows_of(f"{workload}, peak memory", samples, lambda sample: sample.most, TARGET)
            rows += rows_of(
                f"{workload}, memory added by building and {STEPS} steps", samples, lambda sample: sample.added
            )
    return rows


def rows_of(
    title: str, samples: dict[Side, list[Sample]], megabytes: Callable[[Sample], float], target: float | None = None
) -> list[Row]:
    """Return a row for each side. The first side is the headline, compared with the peer that uses the least memory."""
    spreads = {side: Spread.of([megabytes(sample) for sample in its]) for side, its in samples.items()}
    headline = next(iter(spreads))
    peers = [side for side in spreads if side.name != OURS]
    leanest = min(peers, key=lambda side: spreads[side].median, default=None)

    def ratio(side: Side | None) -> Spread | None:
        return Spread.of([spreads[headline].median / spreads[side].median]) if side else None

    return [
        Row(
            "memory",
            title,
            "MB",
            side.name,
            side.mode,
            spread,
            ratio(side if side != headline else leanest if target else None),
            target if side == headline else None,
            version=samples[side][0].version,
        )
        for side, spread in spreads.items()
    ]


if __name__ == "__main__":
    main(measure)
