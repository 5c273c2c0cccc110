"""Write selftest_as_expected.json and selftest_with_failures.json: reports of a few checks, as Macs might send them.

    python tests/data/make_selftest_reports.py [FOLDER]

tests/project/test_from_report.py generates them again, so that they keep the self-test's format. The contents are
invented, not measured on a Mac.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mpsgraph.selftest.checks import (
    CRASHED,
    DIFFERS,
    FAILED,
    HUNG,
    KNOWN,
    NOTED,
    PASSED,
    REFUSED,
    UNSUPPORTED,
    WRONG,
    Options,
)
from mpsgraph.selftest.outcome import Outcome
from mpsgraph.selftest.report import Report

HERE = Path(__file__).parent
PEERS = {"digit network, training step at batch 64": (2.1, 3.4, 1.9), "perceptron with Adam": (0.9, 0.92, 0.5)}
FIVE = "[16777217, 1832780943, 2143289345, 1, 3]"


def begun(chip: str, macos: str) -> Report:
    """Return a report with the entries that both reports share."""
    report = Report(Options("metal"))
    versions = {"mpsgraph": "0.1.0", "device": f"metal: Metal: {chip}, unified memory, macOS {macos}"}
    versions |= {"system": f"macOS {macos}", "chip": f"{chip}, Mac14,2, 16 GB", "numpy": "2.3.1"}
    report.add(Outcome("versions", "versions", PASSED, numbers=versions))
    for family, name in [("activation", "relu"), ("activation", "tanh"), ("matrix", "matrix_multiplication")]:
        report.add(Outcome("operations", f"{name}-float32", PASSED, seconds=0.02, family=family))
        report.add(Outcome("operations", f"{name}-float16", PASSED, seconds=0.01, family=family))
        report.add(Outcome("gradients", f"{name}-float32", PASSED, seconds=0.05, family=family))
    report.add(
        Outcome("operations", "cast-float64", UNSUPPORTED, "no graphics processor of Apple's has float64", how=REFUSED)
    )
    report.add(Outcome("nodes", "a network of nodes learns", PASSED, numbers={"accuracy": 1.0}, family="network"))
    report.add(Outcome("nodes", "value of neuron_relu-default", PASSED, family="neuron"))
    report.add(Outcome("runtime", "an_event_orders_two_queues", PASSED, seconds=0.3))
    for name, (ours, torch, mlx) in PEERS.items():
        sides: dict[str, Any] = {"mpsgraph metal": {"median ms": ours, "quartiles ms": [ours, ours], "samples": [ours]}}
        for peer, ms in (("PyTorch MPS", torch), ("MLX", mlx)):
            sides[peer] = {
                "median ms": ms,
                "quartiles ms": [ms, ms],
                "samples": [ms],
                "ratio of mpsgraph to this": ours / ms,
            }
        report.add(Outcome("speed", name, NOTED, f"{ours} ms", sides, 4.0))
    return report


def probe(report: Report, name: str, answer: str, how: str = "") -> None:
    """Add the answer of a probe; `how` is how its process ended, if it did not finish."""
    if how:
        report.add(Outcome("probes", name, NOTED, f"the process was terminated by SIGABRT\n{answer}", how=how))
        return
    numbers = {"question": "A question?", "method": "a method", "answer": answer, "meaning": "What it would change."}
    report.add(Outcome("probes", name, NOTED, f"A question?\nAnswer: {answer}", numbers))


def ended(report: Report) -> Report:
    """Mark all parts as run."""
    for part, seconds in {
        "operations": 101.0,
        "gradients": 80.5,
        "nodes": 9.0,
        "runtime": 20.0,
        "digits": 31.0,
    }.items():
        report.finish(part, "", seconds)
    for part in ("speed", "probes", "oracle"):
        report.finish(part, "", 12.0)
    return report


def as_expected() -> Report:
    """Return a report in which everything passes and probes answer as in tests/apple/behaviour.md."""
    report = begun("Apple M2", "15.5")
    report.add(Outcome("digits", "training", PASSED, numbers={"accuracy": 0.978}, seconds=30.0))
    probe(report, "gathered_integers", f"of {FIVE}: [16777216, 1832780928, 2143289344, 1, 3]")
    probe(report, "divided_integers", "16777217 / 1, -7 / 2, 7 / -2, 2147483647 / 3: [16777217, -3, -3, 715827882]")
    probe(report, "order_of_many", "0 of 4194305 places are wrong")
    probe(report, "long_products", "2x40000 by 40000x2 of ones: [40000, 40000, 40000, 40000]")
    probe(report, "large_inverse", "MPSMatrixDecompositionLU.mm: failed assertion", CRASHED)
    probe(report, "package_without_a_folder", "creating .mpsgraphpackage directory failed", CRASHED)
    probe(report, "extrema_of_bfloat16", "not asked: this macOS is older than what is asked about")
    report.add(Outcome("oracle", "tanh", PASSED, family="activation"))
    return ended(report)


def with_failures() -> Report:
    """Return a report with wrong values, crashes, hangs, a refusal, and answers that contradict the expected ones."""
    report = begun("Apple M4", "26.1")
    for dtype, found in (("float32", "3.0"), ("float16", "5.0")):
        numbers = {"wrong": 2, "of": 6, "largest difference": 3.0, "largest expected": 6.0, "at": [1, 0]}
        numbers |= {"found": found, "expected": "6.0"}
        name = f"cumulative_sum-reverse-{dtype}"
        report.add(Outcome("operations", name, FAILED, "result 0\nnot equal", numbers, 0.03, WRONG, "cumulative"))
    died = "the process was terminated by SIGABRT\nMPSMatrixDecompositionLU.mm:1131: failed assertion `rows <= 1024'"
    report.add(Outcome("gradients", "matrix_inverse-float32", FAILED, died, how=CRASHED, family="matrix_inverse"))
    report.add(Outcome("operations", "top_k-int8", FAILED, "no kernel of int8", how=REFUSED, family="top_k"))
    apart = "Not equal to tolerance: convolution-3x3"
    report.add(Outcome("nodes", "gradient of convolution-3x3", FAILED, apart, how=WRONG, family="convolution"))
    hung = "the process hung: no output for 600 seconds"
    report.add(Outcome("runtime", "a_handler_may_run_graphs", FAILED, hung, how=HUNG))
    report.add(Outcome("runtime", "graphs_are_released", KNOWN, "known: grows on M4\nby 40 MB", how="raised"))
    listed = {"listed": "hung on Apple M1, macOS 14.1"}
    report.add(
        Outcome(
            "runtime", "many_threads_run_one_executable", PASSED, "passes, but is listed as a known failure", listed
        )
    )
    report.add(Outcome("digits", "the end of the process", FAILED, "the process exited with status 5", how=CRASHED))
    probe(report, "gathered_integers", f"of {FIVE}: {FIVE}")
    probe(report, "long_products", "2x40000 by 40000x2 of ones: [0, 0, 0, 0]")
    probe(report, "indices_of_64_bits", "of [10, 20, 30] at 2, 0, 1: [0, 0, 0]")
    probe(report, "order_of_many", "3 of 4194305 places are wrong")
    probe(report, "bounds_with_a_dimension", "failed assertion", CRASHED)
    probe(report, "a_probe_without_a_rule", "an answer | with a bar")
    report.add(
        Outcome(
            "oracle", "tanh", DIFFERS, "Apple differs", {"input 0": "Apple provides no gradient"}, family="activation"
        )
    )
    report.leave_out("operations", 8120)
    return ended(report)


def main(folder: Path) -> None:
    """Write both reports."""
    as_expected().write(folder / "selftest_as_expected.json", interrupted=False)
    with_failures().write(folder / "selftest_with_failures.json", interrupted=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
