"""Peak resident memory of W1, ours and PyTorch, each side in a process of its own.

Shown whole, and without what was resident when everything was imported. The target is about the whole, because that is
what a machine must have; the ratio is to the peer's leanest mode.
"""

from harness.compare import Workload
from harness.options import Options, main, progress
from harness.report import OURS, Row, Spread
from harness.sides import Running, Side, ours, torch
from w1_digits import BUILDERS, TORCH_MODES

WORKLOAD = Workload("memory", "W1, peak resident", target=0.6)
STEPS = 30


def peak(side: Side) -> tuple[float, float]:
    """MB at most, and MB after importing."""
    with Running(side) as running:
        running.setup()
        running.steps(STEPS)
        return running.peak_memory(), running.resident_after_import


def measure(options: Options) -> list[Row]:
    peers = torch("W1", TORCH_MODES) if options.peers else []
    repeats = min(3, options.rounds)
    whole: dict[Side, list[float]] = {}
    own: dict[Side, list[float]] = {}
    with progress(WORKLOAD.name) as say:
        for side in [*(ours("w1_digits.py", name) for name in BUILDERS), *peers]:
            say(side.label)
            samples = [peak(side) for _ in range(repeats)]
            whole[side] = [most for most, _ in samples]
            own[side] = [most - imported for most, imported in samples]
    return rows(WORKLOAD.title, whole, WORKLOAD.target) + rows("W1, what building and 30 steps add", own, None)


def rows(title: str, samples: dict[Side, list[float]], target: float | None) -> list[Row]:
    """The first side is the headline; its ratio is to the leanest peer."""
    spreads = {side: Spread.of(values) for side, values in samples.items()}
    headline = next(iter(spreads))
    peers = [side for side in spreads if side.name != OURS]
    leanest = min(peers, key=lambda side: spreads[side].median, default=None)

    def ratio(side: Side | None) -> Spread | None:
        return Spread.of([spreads[headline].median / spreads[side].median]) if side else None

    return [
        Row(
            WORKLOAD.name,
            title,
            "MB",
            side.name,
            side.mode,
            spread,
            ratio(side if side != headline else leanest if target else None),
            target if side == headline else None,
        )
        for side, spread in spreads.items()
    ]


if __name__ == "__main__":
    main(measure)
