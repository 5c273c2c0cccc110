"""Part probes: runs experiments that answer open questions about Apple's frameworks, which only a Mac can answer.

Each answer is reported with its consequences for the code; none counts as a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpsgraph as mg
from mpsgraph import _core

from ..checks import NOTED, Check, Options, Result
from .operations import device_name


def checks(options: Options) -> list[Check]:
    """Return one check for each open question that the device defines."""
    found = _core.probes(mg.Device(device_name(options)))
    return [Check(probe.name, _asked(probe), died=NOTED) for probe in found]


def _asked(probe: Any) -> Callable[[], Result]:
    def ask() -> Result:
        try:
            answer = probe.ask()
        except mg.Error as error:
            answer = f"refused: {error}"
        texts = {"question": probe.question, "method": probe.method, "answer": answer, "meaning": probe.meaning}
        return Result(NOTED, f"{probe.question}\nAnswer: {answer}\nMeaning: {probe.meaning}", texts)

    return ask
