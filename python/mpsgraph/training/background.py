"""Writer: writes checkpoints in a background thread, one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Writer:
    """Runs one job at a time in a background thread. The interpreter waits for the thread before it ends."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, job: Callable[[], None]) -> None:
        """Wait for the previous job, and start another.

        Args:
            job: The job, which must not use anything that training changes.

        Raises:
            Error: If the previous job failed; this is its own error.
        """
        self.wait()

        def run() -> None:
            try:
                job()
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=run, name="mpsgraph-checkpoint")
        self._thread.start()

    def wait(self) -> None:
        """Wait for the current job, and raise its error if it failed."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error
