"""Part gradients: compares float32 gradients on the device with float64 gradients on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import shared
from ..checks import Check, Mismatch, Options, difference
from .operations import described_inputs, device_name

SINGLE = {"float64": "float32", "complex128": "complex64"}
TOLERANCE = 4e-5


def comparable(options: Options) -> list[tuple[Any, str]]:
    """Return the cases to check, each with the dtype in which the exact gradient is computed.

    One case for each operation comes first. With `quick`, only these are returned.
    """
    derivatives, running = shared.module("harness.derivatives"), shared.module("harness.running")
    found: list[tuple[Any, str]] = []
    later: list[tuple[Any, str]] = []
    seen: set[str] = set()
    for case in shared.module("cases").ALL:
        inputs = case.float_inputs()
        exact = case.exact_dtypes
        if not (case.gradient and inputs and exact and all(case.inputs[i].size for i in inputs)):
            continue
        if options.quick and case.operation in seen:
            continue
        if not any(derivatives.has_slope(r) for r in running.build(case, exact[0]).results):
            continue
        chosen = [(case, d) for d in (exact[:1] if options.quick else exact) if SINGLE[d] in case.dtypes]
        (later if case.operation in seen else found).extend(chosen)
        seen.add(case.operation)
    return found + later


def checks(options: Options) -> list[Check]:
    """Return one check for each case and exact dtype."""
    return [
        Check(
            f"{case.id}-{SINGLE[dtype]}",
            _check(case, dtype, options),
            reason=shared.known_reason(case, SINGLE[dtype], device_name(options), gradient=True),
            group=case.operation,
            family=shared.families()[case.operation],
            about=described_inputs(case, SINGLE[dtype]),
        )
        for case, dtype in comparable(options)
    ]


def _check(case: Any, dtype: str, options: Options) -> Any:
    derivatives, running = shared.module("harness.derivatives"), shared.module("harness.running")

    def run() -> None:
        built, loss, wanted, arrays = derivatives.loss_of(case, dtype)
        gradients = list(built.graph.gradients(loss, wanted).values())
        exact = running.run(built.graph, built.placeholders, arrays, gradients, device="cpu")
        single = running.build(case, SINGLE[dtype])
        of = derivatives.weighed_sum(single.graph, single.results, seed=11)
        made = single.graph.gradients(of, [single.placeholders[i] for i in case.float_inputs()])
        found = running.run(
            single.graph,
            single.placeholders,
            running.feeds(case.inputs, SINGLE[dtype]),
            list(made.values()),
            running.OPTIMISED,
            device=options.device,
        )
        for i, a, b in zip(case.float_inputs(), exact, found, strict=True):
            compare(b.numpy(), a.numpy(), f"gradient of input {i}")

    return run


def compare(found: np.ndarray, wanted: np.ndarray, what: str, tolerance: float = TOLERANCE) -> None:
    """Raise Mismatch if an element differs by more than tolerance * (|expected element| + scale).

    scale is the largest absolute value that is expected, but at least 1.
    """
    scale = max(1.0, float(np.abs(wanted).max(initial=0)))
    try:
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * scale, err_msg=what)
    except AssertionError as error:
        raise Mismatch(str(error), difference(found, wanted)) from error
