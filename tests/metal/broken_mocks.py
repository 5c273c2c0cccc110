"""The faults of the mock, the parts of the self-test that meet them, and what a report must say about each.

`python tests/metal/broken_mocks.py FOLDER` writes the report of each fault, as a user would send it, for readers who
judge whether the report names the fault. It needs the mock (`make mock`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HANGS_AFTER = 10.0  # Seconds, instead of the self-test's two minutes.
LIBRARY = Path(__file__).resolve().parents[2] / "build/mock/libmpsgraph.so"


@dataclass(frozen=True)
class Fault:
    """One fault of the mock (tests/mock/README.md)."""

    name: str
    parts: tuple[str, ...]
    verdict: tuple[str, ...]  # Texts in the report's verdict.
    evidence: tuple[str, ...]  # Texts in the messages of the failed checks.
    match: str = ""  # Only these checks are run.
    quick: bool = True
    hangs: bool = False


FAULTS = (
    Fault(
        "wrong_tanh",
        ("operations",),
        ("wrong numbers in tanh",),
        ("All elements are the expected ones times 1.0625",),
        match="tanh",
    ),
    Fault(
        "exponent_of_float16",
        ("operations",),
        ("wrong numbers in exponent (float16 only)",),
        ("elements are infinite or NaN instead of finite",),
        match="exponent-",
        quick=False,
    ),
    Fault(
        "zero_weight_gradients",
        ("gradients",),
        ("wrong numbers in convolution2d",),
        ("input 1", "All elements are the expected ones times 0"),
        match="convolution2d",
    ),
    Fault("changing_matmuls", ("repeats",), ("wrong numbers in matmul",), ("runs differ from the first run",)),
    Fault("wrong_sums", ("repeats",), ("sum of 1.1 million numbers",), ("5 have wrong results",)),
    Fault(
        "abort_in_inverse",
        ("operations",),
        ("a crash in matrix_inverse",),
        ("SIGABRT", "failed assertion `[MPSNDArrayMatrixInverse encode] the matrix must have a multiple of 16 rows'"),
        match="inverse",
    ),
    Fault("crash_in_sort", ("operations",), ("a crash in sort",), ("SIGSEGV", "in run"), match="sort"),
    Fault(
        "exception_in_gather",
        ("operations",),
        ("an error in gather_along_axis",),
        ("MPSNDArrayGatherAlongAxis: indices must be UInt32",),
        match="gather_along_axis",
    ),
    Fault(
        "hang_in_scatter",
        ("operations",),
        ("a hang in scatter_along_axis",),
        ("no output for", "in run"),
        match="scatter_along_axis",
        hangs=True,
    ),
    Fault(
        "lost_assignments",
        ("runtime",),
        ("variables_are_shared_by_executables",),
        ("after a batch of 1, the variable is",),
        match="variables",
    ),
    Fault("memory_leak", ("runtime",), ("leave_no_memory",), ("the process grew by",), match="memory"),
    Fault(
        "crash_at_exit",
        ("operations",),
        ("a crash in the end of the process",),
        ("-[MTLDebugDevice dealloc]:1214: failed assertion `device released with 3 command buffers in flight'",),
        match="relu",
    ),
    Fault(
        "missing_selector",
        ("operations",),
        ("cumulative_sum",),
        ("cumulativeSumWithTensor:axis:exclusive:reverse:name:]: unrecognized selector",),
        match="cumulative",
    ),
    Fault(
        "no_bfloat16",
        ("operations",),
        ("the same error in", "data type bfloat16 is not supported on this device"),
        ("data type bfloat16 is not supported on this device",),
        match="tanh",
        quick=False,
    ),
    Fault(
        "compiler_abort",
        ("operations",),
        ("a crash in resize",),
        ("'mps.resize' op failed to infer its result type", "LLVM ERROR: Failed to infer result type(s)."),
        match="resize",
    ),
    Fault("slow_compilation", ("operations",), ("Nothing failed",), (), match="convolution2d"),
    Fault(
        "validation_failure",
        ("operations", "validation"),
        ("a crash in pad",),
        ("Set Buffer Validation", "offset(64) must be < [buffer length](64)."),
        match="pad",
    ),
    Fault(
        "unsignaled_events",
        ("runtime",),
        ("a hang in", "two_queues_take_turns_by_events"),  # Other checks hang, too, if the machine is busy.
        ("no output for", "in two_queues_take_turns_by_events"),
        match="event",
        hangs=True,
    ),
    Fault(
        "gpu_timeouts",
        ("operations",),
        ("the same error in", "Caused GPU Timeout Error"),
        ("Caused GPU Timeout Error",),
        match="-float",
    ),
    # A probe never fails; its answer is that the process ended.
    Fault("abort_of_large_tensors", ("probes",), ("Nothing failed",), (), match="beyond_2_3"),
    Fault("no_device", ("operations",), ("The device could not be opened",), ("metal",)),
    Fault(
        "wrong_pooling_node",
        ("nodes",),
        ("wrong numbers in pooling_max",),
        ("elements",),
        match="pooling",
    ),
)


def environment(fault: Fault, library: Path = LIBRARY) -> dict[str, str]:
    """Return the environment in which the self-test's processes meet a fault."""
    return {
        "MPSGRAPH_TEST_DEVICE": "metal",
        "MPSGRAPH_MOCK": str(library),
        "LD_PRELOAD": str(library),
        "MPSGRAPH_MOCK_BROKEN": fault.name,
    }


def arguments(fault: Fault, report: Path) -> list[str]:
    """Return the arguments of the self-test that meets a fault quickly."""
    parts = [word for part in fault.parts for word in ("--only", part)]
    amount = ["--quick"] if fault.quick else []
    match = [f"--match={fault.match}"] if fault.match else []
    return ["selftest", "--device", "metal", "--json", str(report), *amount, *parts, *match]


def main(folder: Path) -> None:
    """Write the report and the terminal's text of each fault, numbered so that the names do not tell the faults."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, fault in enumerate(sorted(FAULTS, key=lambda fault: fault.name[::-1]), 1):
        report = folder / f"{number:02}.json"
        program = (
            "import sys; from mpsgraph import cli; from mpsgraph.selftest import supervisor\n"
            f"supervisor.LONGEST_CHECK = {HANGS_AFTER if fault.hangs else 120.0}\nsys.exit(cli.main(sys.argv[1:]))"
        )
        command = [sys.executable, "-c", program, *arguments(fault, report)]
        ran = subprocess.run(command, env={**os.environ, **environment(fault)}, capture_output=True, text=True)
        (folder / f"{number:02}.txt").write_text(ran.stdout + ran.stderr)
        print(number, fault.name, ran.returncode, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
