"""Part operations: compares every operation in every dtype of the device with numpy, using the test suite's cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpsgraph as mg

from .. import shared
from ..checks import Check, Mismatch, Options, described, difference


def device_name(options: Options) -> str:
    """Return the name of the device to test."""
    return options.device or mg.Device.default().name


def checks(options: Options) -> list[Check]:
    """Return one check for each case and dtype, the most informative ones first.

    The order is: one case per operation, then one per operation and dtype, then all others. With `quick`, only the
    first group is returned.
    """
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
                    about=described_inputs(case, dtype),
                )
            )
    return ranks[0] if options.quick else [*ranks[0], *ranks[1], *ranks[2]]


def described_inputs(case: Any, dtype: str) -> Callable[[], str]:
    """Return a function that describes the inputs and attributes of a case."""
    dtype_of = shared.module("harness.running").feed_dtype
    return lambda: described([(dtype_of(x, dtype), x) for x in case.inputs], case.attributes)


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
