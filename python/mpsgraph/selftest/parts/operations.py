"""Values of every operation against numpy, in every element type that the device has: the tests' own list of cases."""

from __future__ import annotations

from typing import Any

import mpsgraph as mg

from .. import shared
from ..checks import Check, Mismatch, Options, difference


def device_name(options: Options) -> str:
    """Of the device that is tested."""
    return options.device or mg.Device.default().name


def checks(options: Options) -> list[Check]:
    """One a case and element type; quick: one an operation."""
    cases, case_module = shared.module("cases"), shared.module("harness.case")
    missing = shared.module("harness.device").lacks(device_name(options))
    found: list[Check] = []
    seen: set[str] = set()
    for case in cases.ALL:
        has_types = any(case_module.typed(x) for x in case.inputs)
        types = [d for d in case.dtypes if d not in missing] if has_types else ["float32"]
        if options.quick:
            types = types[:1] if case.operation not in seen else []
            seen.add(case.operation)
        for dtype in types:
            reason = shared.known_reason(case, dtype, device_name(options))
            found.append(Check(f"{case.id}-{dtype}", _check(case, dtype, options), reason=reason, group=case.operation))
    return found


def _check(case: Any, dtype: str, options: Options) -> Any:
    running, dtypes = shared.module("harness.running"), shared.module("harness.dtypes")

    def run() -> None:
        built, arrays = running.build(case, dtype), running.feeds(case.inputs, dtype)
        wanted = running.expected(case, arrays, dtype)
        results = running.run(
            built.graph, built.placeholders, arrays, built.results, running.OPTIMISED, device=options.device
        )
        assert len(results) == len(wanted), f"{len(results)} results, expected {len(wanted)}"
        for number, (result, numbers) in enumerate(zip(results, wanted, strict=True)):
            try:
                dtypes.assert_matches(result, numbers, factor=case.tolerance, exact=case.exact, what=f"result {number}")
            except AssertionError as error:
                raise Mismatch(str(error), difference(dtypes.read(result), numbers)) from error

    return run
