"""Ours and the peers in one run: rounds in which ours and each peer take turns, so that both see the same machine.

A peer's modes are tried first, one process at a time; those near its best take part in the rounds. A turn is about
half a second of steps. Turns that other processes disturbed are repeated, as long as patience lasts; those that stay
disturbed do not count where there are enough others. Our ratio to a peer is that of turns that stood side by side.
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
PAUSE = 0.02  # seconds between turns, in which the last one's worker threads go to sleep
ENOUGH = 3  # undisturbed turns
TRIALS = 2  # turns by which a mode is tried
NEAR, FINALISTS = 1.1, 2  # what a mode may take of its peer's best to take part, and how many of a peer do


@dataclass(frozen=True)
class Workload:
    """What is compared. Training workloads must have a loss that falls."""

    name: str
    title: str
    target: float | None  # the ratio to the best peer that we want to reach, where one has been set
    trains: bool = True
    peers: Mapping[str, Sequence[str]] = field(default_factory=dict)  # modes by peer


@dataclass(frozen=True)
class Turn:
    """The seconds of its steps, and the share of the machine that others used."""

    seconds: list[float]
    disturbed: float

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass
class Contender:
    """A side that takes part: its process, its turns, and for each the turn of ours that stood beside it."""

    running: Running
    part: str = ""  # which of several workloads its process is to build
    per_turn: int = 0
    first_result: float = 0.0  # seconds that building and the first step took, imports done
    first_value: float | None = None
    last_value: float | None = None
    turns: list[Turn] = field(default_factory=list)
    beside: list[Turn] = field(default_factory=list)

    @property
    def side(self) -> Side:
        return self.running.side

    def prepare(self, turn_seconds: float) -> None:
        built = self.running.setup(self.part)
        (first,), self.first_value = self.running.steps(1)  # compiles
        self.first_result = built + first
        seconds, _ = self.running.steps(WARM_UP)
        self.per_turn = min(2000, max(3, math.ceil(turn_seconds / min(seconds))))

    def turn(self, patience: Patience) -> Turn:
        """Takes a turn."""

        def steps() -> list[float]:
            time.sleep(PAUSE)
            self.running.steps(2)  # caches and threads come back
            seconds, self.last_value = self.running.steps(self.per_turn)
            return seconds

        self.turns.append(Turn(*patience.undisturbed(steps, self.running.id)))
        return self.turns[-1]

    def seconds(self) -> list[float]:
        """Of all steps that count."""
        quiet = [turn for turn in self.turns if turn.disturbed <= QUIET]
        return [second for turn in (quiet if len(quiet) >= ENOUGH else self.turns) for second in turn.seconds]

    def median(self) -> float:
        """Of all steps that count, in seconds."""
        return statistics.median(self.seconds())

    def ratios(self) -> list[float]:
        """Ours to this one, in the rounds that count."""
        pairs = list(zip(self.beside, self.turns, strict=True))
        quiet = [pair for pair in pairs if max(turn.disturbed for turn in pair) <= QUIET]
        return [ours.median / its.median for ours, its in (quiet if len(quiet) >= ENOUGH else pairs)]

    def check(self, trains: bool) -> None:
        """A side that computes nonsense is not measured."""
        values = [value for value in (self.first_value, self.last_value) if value is not None]
        if not all(map(math.isfinite, values)) or (trains and not self.last_value < self.first_value):
            raise SideFailed(f"{self.side.label} does not train: its loss went {' -> '.join(map(str, values))}")

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
    """Measures own[0] against our other sides and against the workload's peers. Result: a row for each side.

    A peer that fails is left out with a word; ours must not fail. Errors: SideFailed.
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
    """Those of one peer's modes that take part in the rounds; the others' processes end, and they join the beaten."""
    places = sorted(tried, key=Contender.median)
    staying = [one for one in places[:FINALISTS] if one.median() <= NEAR * places[0].median()]
    for contender in places[len(staying) :]:
        contender.running.close()
        beaten.append(contender)
    return staying


def take_turns(contenders: Sequence[Contender], options: Options, say: Callable[[str], None]) -> None:
    """The rounds, after everybody has prepared."""
    headline, *others = contenders
    patience = Patience(options.patience)
    for number in range(options.rounds):
        for contender in others or [headline]:
            say(f"round {number + 1} of {options.rounds}: {contender.side.label}")
            if others:
                contender.beside.append(headline.turn(patience))
            contender.turn(patience)


def rows_of(workload: Workload, contenders: Sequence[Contender]) -> list[Row]:
    """A row for each. Errors: SideFailed for one that computes nonsense."""
    for contender in contenders:
        contender.check(workload.trains)
    headline, *others = contenders
    peers = [contender for contender in others if contender.side.name != OURS]
    best = min(peers, key=Contender.median, default=None)
    return [
        headline.row(workload, best.ratios() if best else [], workload.target),
        *(contender.row(workload, contender.ratios()) for contender in others),
    ]
