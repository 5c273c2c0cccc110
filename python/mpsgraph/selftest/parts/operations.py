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
    """One a case and element type, first those that show most: of each operation one in each type; quick: in one."""
    cases, case_module = shared.module("cases"), shared.module("harness.case")
    missing = shared.module("harness.device").lacks(device_name(options))
    families = shared.families()
    ranks: dict[int, list[Check]] = {0: [], 1: [], 2: []}
    seen: set[tuple[str, str]] = set()
    for case in cases.ALL:
        has_types = any(case_module.typed(x) for x in case.inputs)
        types = [d for d in case.dtypes if d not in missing] if has_types else ["float32"]
        for dtype in types:
            rank = 0 if (case.operation, "") not in seen else 1 if (case.operation, dtype) not in seen else 2
            seen |= {(case.operation, ""), (case.operation, dtype)}
            ranks[rank].append(
                Check(
                    f"{case.id}-{dtype}",
                    _check(case, dtype, options),
                    reason=shared.known_reason(case, dtype, device_name(options)),
                    group=case.operation,
                    family=families[case.operation],
                )
            )
    return ranks[0] if options.quick else [*ranks[0], *ranks[1], *ranks[2]]


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
