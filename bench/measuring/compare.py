"""Compare mpsgraph with its peers in one run, taking turns so that all of them see the same machine state.

All modes of a peer are tried first, one process at a time; the fastest ones take part in the rounds. A turn is about
half a second of steps. Turns that other processes disturbed are repeated while patience lasts. Turns that stay
disturbed are ignored if there are enough others. The ratio to a peer compares adjacent turns.
"""

from __future__ import annotations

import contextlib
import math
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .machine import QUIET, Patience
from .options import Options, progress
from .report import OURS, Row, Spread
from .sides import Running, Side, SideFailed, peer

WARM_UP = 5
PAUSE = 0.02  # Seconds between turns, so that the previous side's worker threads go to sleep.
ENOUGH = 3  # The number of undisturbed turns that suffices.
TRIALS = 2  # Turns in which a mode is tried.
NEAR, FINALISTS = 1.1, 2  # A mode takes part if its time is at most NEAR times its peer's best; at most FINALISTS do.


@dataclass(frozen=True)
class Workload:
    """A workload to compare. The loss of a training workload must decrease."""

    name: str
    title: str
    target: float | None  # Target for the ratio to the best peer, or None.
    trains: bool = True
    peers: Mapping[str, Sequence[str]] = field(default_factory=dict)  # The modes of each peer.


@dataclass(frozen=True)
class Turn:
    """The seconds of each step of a turn, and the share of the machine that other processes used."""

    seconds: list[float]
    disturbed: float

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass
class Contender:
    """A side that takes part: its process, its turns, and for each turn the adjacent turn of mpsgraph."""

    running: Running
    part: str = ""  # Name of the workload that the side's process builds, if the process can build several.
    per_turn: int = 0
    first_result: float = 0.0  # Seconds to build the model and run the first step, without imports.
    first_value: float | None = None
    last_value: float | None = None
    turns: list[Turn] = field(default_factory=list)
    beside: list[Turn] = field(default_factory=list)

    @property
    def side(self) -> Side:
        return self.running.side

    def prepare(self, turn_seconds: float) -> None:
        built = self.running.setup(self.part)
        (first,), self.first_value = self.running.steps(1)  # The first step compiles.
        self.first_result = built + first
        seconds, _ = self.running.steps(WARM_UP)
        self.per_turn = min(2000, max(3, math.ceil(turn_seconds / min(seconds))))

    def turn(self, patience: Patience) -> Turn:
        """Take a turn and return it."""

        def steps() -> list[float]:
            time.sleep(PAUSE)
            self.running.steps(2)  # Warm up caches and threads again.
            seconds, self.last_value = self.running.steps(self.per_turn)
            return seconds

        self.turns.append(Turn(*patience.undisturbed(steps, self.running.id)))
        return self.turns[-1]

    def seconds(self) -> list[float]:
        """Return the seconds of all steps in the turns that count."""
        quiet = [turn for turn in self.turns if turn.disturbed <= QUIET]
        return [second for turn in (quiet if len(quiet) >= ENOUGH else self.turns) for second in turn.seconds]

    def median(self) -> float:
        """Return the median in seconds over all steps that count."""
        return statistics.median(self.seconds())

    def ratios(self) -> list[float]:
        """Return the ratio of our time to this side's in each round that counts."""
        pairs = list(zip(self.beside, self.turns, strict=True))
        quiet = [pair for pair in pairs if max(turn.disturbed for turn in pair) <= QUIET]
        return [ours.median / its.median for ours, its in (quiet if len(quiet) >= ENOUGH else pairs)]

    def check(self, trains: bool) -> None:
        """Raise SideFailed if the loss of this side is not finite or does not decrease."""
        values = [value for value in (self.first_value, self.last_value) if value is not None]
        if not all(map(math.isfinite, values)) or (trains and not self.last_value < self.first_value):
            expected = "be finite and decrease" if trains else "be finite"
            raise SideFailed(f"the loss of {self.side.label} must {expected}, got {' -> '.join(map(str, values))}")

    def row(self, workload: Workload, ratios: Sequence[float], target: float | None = None) -> Row:
        return Row(
            workload=workload.name,
            title=workload.title,
            unit="ms",
            side=self.side.name,
            mode=self.side.mode,
            value=Spread.of([1e3 * second for second in self.seconds()]),
            ratio=Spread.of(ratios) if ratios else None,
            target=target,
            disturbed=statistics.median(turn.disturbed for turn in self.turns),
            version=self.running.version,
        )


def compare(workload: Workload, own: Sequence[Side], options: Options) -> list[Row]:
    """Measure own[0] against our other sides and against the workload's peers; return a row for each side.

    A peer that fails is skipped with a message. If one of our sides fails, raise SideFailed.
    """
    if not re.search(options.workloads, workload.name):
        return []
    with contextlib.ExitStack() as stack, progress(workload.name) as say:

        def started(side: Side) -> Contender:
            say(f"{side.label}: importing, building, compiling")
            contender = Contender(stack.enter_context(Running(side)))
            contender.prepare(options.turn_seconds)
            return contender

        contenders = [started(side) for side in own]
        beaten: list[Contender] = []
        for name, modes in workload.peers.items() if options.peers else ():
            tried: list[Contender] = []
            sides = [side for side in peer(name, workload.name, modes) if re.search(options.modes, side.label)]
            for side in sides[:1] if options.quick else sides:
                try:
                    tried.append(started(side))
                except SideFailed as failure:
                    say.keep(str(failure))
                    continue
                for _ in range(TRIALS):
                    tried[-1].turn(Patience(0.0))
                tried = first_places(tried, beaten)
            for contender in tried:
                contender.turns.clear()
            contenders += tried
        take_turns(contenders, options, say)
    return rows_of(workload, contenders) + [contender.row(workload, []) for contender in beaten]


def first_places(tried: Sequence[Contender], beaten: list[Contender]) -> list[Contender]:
    """Return the modes of a peer that take part in the rounds; close the other processes and add them to beaten."""
    places = sorted(tried, key=Contender.median)
    staying = [one for one in places[:FINALISTS] if one.median() <= NEAR * places[0].median()]
    for contender in places[len(staying) :]:
        contender.running.close()
        beaten.append(contender)
    return staying


def take_turns(contenders: Sequence[Contender], options: Options, say: Callable[[str], None]) -> None:
    """Run the rounds, after all contenders have been prepared."""
    headline, *others = contenders
    patience = Patience(options.patience)
    for number in range(options.rounds):
        for contender in others or [headline]:
            say(f"round {number + 1} of {options.rounds}: {contender.side.label}")
            if others:
                contender.beside.append(headline.turn(patience))
            contender.turn(patience)


def rows_of(workload: Workload, contenders: Sequence[Contender]) -> list[Row]:
    """Return a row for each contender; raise SideFailed if a loss is not finite or does not decrease."""
    for contender in contenders:
        contender.check(workload.trains)
    headline, *others = contenders
    peers = [contender for contender in others if contender.side.name != OURS]
    best = min(peers, key=Contender.median, default=None)
    return [
        headline.row(workload, best.ratios() if best else [], workload.target),
        *(contender.row(workload, contender.ratios()) for contender in others),
    ]
