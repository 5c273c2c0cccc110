"""Command line options and progress output of all benchmarks."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from .protocol import Step, serve
from .report import OURS, Row, print_rows


@dataclass(frozen=True)
class Options:
    """What to measure, and for how long."""

    rounds: int = 9
    turn_seconds: float = 0.5
    patience: float = 120.0  # Seconds that a workload may spend on repeating disturbed turns.
    peers: bool = True
    modes: str = ""  # Regular expression that selects the modes of the peers.
    workloads: str = ""  # Regular expression that selects the workloads.
    quick: bool = False  # One mode per peer, and none that takes long to compile.

    @classmethod
    def add_to(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--rounds", type=int, default=cls.rounds, help="turns per side (%(default)s)")
        parser.add_argument(
            "--patience",
            type=float,
            default=cls.patience,
            help="seconds per workload for repeating disturbed turns (%(default)s)",
        )
        parser.add_argument(
            "--quick", action="store_true", help="check that everything works: two short rounds and one mode per peer"
        )
        parser.add_argument("--no-peers", action="store_true", help="measure only mpsgraph")
        parser.add_argument(
            "--peers",
            default="",
            metavar="REGEX",
            help="compare only with peer modes that match, such as 'PyTorch eager, tcmalloc'",
        )
        parser.add_argument(
            "--only", default="", metavar="REGEX", help="run only workloads that match, such as 'W8 batch 1'"
        )

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Options:
        chosen = {"peers": not arguments.no_peers, "modes": arguments.peers, "workloads": arguments.only}
        if arguments.quick:
            return cls(rounds=2, turn_seconds=0.05, patience=0.0, quick=True, **chosen)
        return cls(rounds=arguments.rounds, patience=arguments.patience, **chosen)


def main(measure: Callable[[Options], list[Row]], builders: Mapping[str, Callable[[], Step]] | None = None) -> None:
    """Run a benchmark as a command: measure and print the rows or, with --serve, act as the measured process."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    Options.add_to(parser)
    if builders:
        parser.add_argument("--serve", choices=list(builders), help="act as the measured process of this side")
    arguments = parser.parse_args()
    if builders and arguments.serve:
        serve(builders[arguments.serve], OURS)
    else:
        print_rows(measure(Options.of(arguments)))


class Progress:
    """Progress output: a status line that is overwritten on a terminal; elsewhere only messages to keep are printed."""

    def __init__(self, title: str) -> None:
        self._title, self._terminal = title, sys.stderr.isatty()

    def __call__(self, message: str) -> None:
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{f'{self._title}: {message}'[:width]}", end="", file=sys.stderr, flush=True)

    def keep(self, message: str) -> None:
        self.clear()
        print(f"{self._title}: {message}", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress(title: str) -> Iterator[Progress]:
    """Show progress messages under a title until the block ends."""
    line = Progress(title)
    try:
        yield line
    finally:
        line.clear()
