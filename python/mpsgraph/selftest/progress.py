"""Progress display: a line that is updated in place on a terminal, otherwise an occasional line."""

from __future__ import annotations

import sys
import time
from typing import TextIO

EVERY, EVERY_IN_A_LOG = 0.2, 30.0  # Seconds between updates.
WIDTH = 79


class Progress:
    """Progress display of one part of the self-test. It shows nothing if the title is empty."""

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        self.total = 0
        self._title, self._stream = title, stream or sys.stderr
        self._over = bool(title) and self._stream.isatty()
        self._done, self._failed = 0, 0
        self._started = self._shown = time.monotonic()

    def begin(self, name: str) -> None:
        """Record the start of a check and show its name, because it may take long."""
        self._show(name)

    def end(self, failed: bool) -> None:
        """Record that a check has ended."""
        self._done += 1
        self._failed += failed
        self._show("")

    def close(self) -> None:
        """Clear the progress line."""
        if self._over:
            print("\r" + " " * WIDTH + "\r", end="", file=self._stream, flush=True)

    def _show(self, name: str) -> None:
        now = time.monotonic()
        if not self._title or now - self._shown < (EVERY if self._over else EVERY_IN_A_LOG):
            return
        self._shown = now
        failed = f", {self._failed} failed" if self._failed else ""
        text = f"{self._title:10} {self._done:,} of {self.total:,}{failed}, {now - self._started:.0f} s {name}"
        if self._over:
            print("\r" + text[:WIDTH].ljust(WIDTH), end="", file=self._stream, flush=True)
        else:
            print(text.rstrip(), file=self._stream, flush=True)
