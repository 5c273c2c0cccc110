"""Part oracle: compares Apple's own gradients with ours, for every case that Apple can differentiate.

Apple's gradientForPrimaryTensor:withTensors:name: is used only here. If its gradient differs from ours or does not
exist, the report contains the numbers, but this is not a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mpsgraph as mg
from mpsgraph import _core

from .. import shared
from ..checks import DIFFERS, UNSUPPORTED, Check, Options, Result, difference
from .gradients import SINGLE, comparable
from .operations import device_name

TOLERANCE = 2e-3  # The tolerance is generous, because Apple may use other formulas or half precision.


def checks(options: Options) -> list[Check]:
    """Return one check for each case with real-valued inputs, or none if the device does not use Apple's frameworks."""
    device = device_name(options)
    if device != "metal":
        return []
    return [
        Check(
            case.id,
            _check(case, device),
            died=DIFFERS,
            group=case.operation,
            family=shared.families()[case.operation],
        )
        for case, dtype in comparable(options)
        if SINGLE[dtype] == "float32"
    ]


def _check(case: Any, device: str) -> Callable[[], Result | None]:
    derivatives, running = shared.module("harness.derivatives"), shared.module("harness.running")

    def run() -> Result | None:
        built = running.build(case, "float32")
        of = derivatives.weighed_sum(built.graph, built.results, seed=11)
        wanted = [built.placeholders[i] for i in case.float_inputs()]
        arrays = running.feeds(case.inputs, "float32")
        gradients = built.graph.gradients(of, wanted)
        try:
            ours = running.run(built.graph, built.placeholders, arrays, list(gradients.values()), device=device)
        except mg.Error as error:
            return Result(UNSUPPORTED, f"mpsgraph has no gradient to compare: {error}")
        try:
            apples = _core.apple_gradients(device, built.placeholders, arrays, of)
        except mg.Error as error:
            return Result(UNSUPPORTED, f"Apple provides no gradient: {error}")
        numbers: dict[str, Any] = {}
        for i, mine in zip(case.float_inputs(), ours, strict=True):
            apple = apples[i]
            if apple is None:
                numbers[f"input {i}"] = "Apple provides no gradient"
                continue
            a, b = apple.numpy(), mine.numpy()
            scale = max(1.0, float(np.abs(b).max(initial=0)))
            if a.shape != b.shape or not np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True):
                numbers[f"input {i}"] = difference(a, b)
        if not numbers:
            return None
        text = "; ".join(f"{name}: {found}" for name, found in numbers.items())
        wrong = any(isinstance(found, dict) for found in numbers.values())
        return Result(DIFFERS if wrong else UNSUPPORTED, f"Apple differs from ours: {text}" if wrong else text, numbers)

    return run
