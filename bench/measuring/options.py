"""The command line of every benchmark, and the line on the terminal that says what is being done."""

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
    """How long to measure."""

    rounds: int = 9
    turn_seconds: float = 0.5
    patience: float = 120.0  # seconds that a workload may spend on repeating what others disturbed
    peers: bool = True
    modes: str = ""  # a regular expression: the peers' modes that take part
    workloads: str = ""  # likewise, of the workloads that are compared
    quick: bool = False  # of each peer one mode, and nothing that compiles for long

    @classmethod
    def add_to(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--rounds", type=int, default=cls.rounds, help="turns of each side (%(default)s)")
        parser.add_argument(
            "--patience",
            type=float,
            default=cls.patience,
            help="seconds a workload may spend on repeating (%(default)s)",
        )
        parser.add_argument(
            "--quick", action="store_true", help="two short rounds, one mode a peer: shows that it works"
        )
        parser.add_argument("--no-peers", action="store_true", help="ours alone")
        parser.add_argument("--peers", default="", metavar="REGEX", help="only modes such as 'PyTorch eager, tcmalloc'")
        parser.add_argument("--only", default="", metavar="REGEX", help="only workloads such as 'W8 batch 1'")

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Options:
        chosen = {"peers": not arguments.no_peers, "modes": arguments.peers, "workloads": arguments.only}
        if arguments.quick:
            return cls(rounds=2, turn_seconds=0.05, patience=0.0, quick=True, **chosen)
        return cls(rounds=arguments.rounds, patience=arguments.patience, **chosen)


def main(measure: Callable[[Options], list[Row]], builders: Mapping[str, Callable[[], Step]] | None = None) -> None:
    """What a benchmark does as a command: measure and print, or be the measured process."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    Options.add_to(parser)
    if builders:
        parser.add_argument("--serve", choices=list(builders), help="be the measured process of this side")
    arguments = parser.parse_args()
    if builders and arguments.serve:
        serve(builders[arguments.serve], OURS)
    else:
        print_rows(measure(Options.of(arguments)))


class Progress:
    """One line on a terminal that is written over; elsewhere a line a message that matters."""

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
    """Says what is being done, until the block ends."""
    line = Progress(title)
    try:
        yield line
    finally:
        line.clear()
