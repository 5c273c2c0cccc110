"""Ours and the peers in one run: rounds in which ours and each peer take turns, so that both see the same machine.

A turn is about half a second of steps. Turns that other processes disturbed are repeated, a bounded number of times,
and the least disturbed one counts. Our ratio to a peer is that of turns that stood side by side.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from .machine import OthersLoad
from .options import Options, progress
from .report import OURS, Row, Spread
from .sides import Running, Side, SideFailed

QUIET = 0.03  # of all processors: what others may use during a turn
WARM_UP = 5
PAUSE = 0.02  # seconds between turns, in which the last one's worker threads go to sleep


@dataclass(frozen=True)
class Workload:
    """What is compared. Training workloads must have a loss that falls."""

    name: str
    title: str
    target: float  # the ratio to the best peer that we want to reach
    trains: bool = True


@dataclass
class Contender:
    """A side that takes part: its process and what its turns gave."""

    running: Running
    per_turn: int = 0
    first_value: float | None = None
    last_value: float | None = None
    seconds: list[float] = field(default_factory=list)
    disturbance: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)  # ours to this one, a value a round

    @property
    def side(self) -> Side:
        return self.running.side

    def prepare(self, turn_seconds: float) -> None:
        self.running.setup()
        _, self.first_value = self.running.steps(1)  # compiles
        seconds, _ = self.running.steps(WARM_UP)
        self.per_turn = min(2000, max(3, math.ceil(turn_seconds / min(seconds))))

    def turn(self, attempts: int) -> float:
        """Takes a turn. Result: the median of its steps."""
        best: tuple[float, list[float]] | None = None
        for attempt in range(attempts):
            time.sleep(PAUSE + attempt)  # whatever disturbed the last attempt may end
            self.running.steps(2)  # caches and threads come back
            load = OthersLoad(self.running.id)
            seconds, self.last_value = self.running.steps(self.per_turn)
            share = load.share()
            if best is None or share < best[0]:
                best = share, seconds
            if share <= QUIET:
                break
        self.disturbance.append(best[0])
        self.seconds += best[1]
        return statistics.median(best[1])

    def check(self, trains: bool) -> None:
        """A side that computes nonsense is not measured."""
        values = [value for value in (self.first_value, self.last_value) if value is not None]
        if not all(map(math.isfinite, values)) or (trains and not self.last_value < self.first_value):
            raise SideFailed(f"{self.side.label} does not train: its loss went {' -> '.join(map(str, values))}")

    def row(self, workload: Workload, **more: float) -> Row:
        return Row(
            workload=workload.name,
            title=workload.title,
            unit="ms",
            side=self.side.name,
            mode=self.side.mode,
            value=Spread.of([1e3 * s for s in self.seconds]),
            ratio=Spread.of(self.ratios) if self.ratios else None,
            disturbed=max(self.disturbance),
            **more,
        )


def compare(workload: Workload, sides: Sequence[Side], options: Options) -> list[Row]:
    """Measures sides[0], ours, against each of the others, which may be ours too. Result: a row for each side.

    A peer that fails is left out with a word; ours must not fail. Errors: SideFailed.
    """
    with contextlib.ExitStack() as stack, progress(workload.name) as say:
        contenders: list[Contender] = []
        for side in sides:
            say(f"{side.label}: importing, building, compiling")
            try:
                contender = Contender(stack.enter_context(Running(side)))
                contender.prepare(options.turn_seconds)
            except SideFailed as failure:
                if side.name == OURS:
                    raise
                say.keep(str(failure))
            else:
                contenders.append(contender)
        headline, *others = contenders
        for number in range(options.rounds):
            for contender in others:
                say(f"round {number + 1} of {options.rounds}: {contender.side.label}")
                ours = headline.turn(options.attempts)
                contender.ratios.append(ours / contender.turn(options.attempts))
            if not others:
                headline.turn(options.attempts)
    for contender in contenders:
        contender.check(workload.trains)
    peers = [contender for contender in others if contender.side.name != OURS]
    if peers:
        best = min(peers, key=lambda peer: statistics.median(peer.seconds))
        headline.ratios = best.ratios
    return [
        headline.row(workload, target=workload.target),
        *(contender.row(workload) for contender in others),
    ]
