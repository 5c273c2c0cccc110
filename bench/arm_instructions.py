"""Instructions per training step on Arm, relative to those on x86-64 with AVX2, counted in qemu.

Without Arm hardware, the number of executed instructions is the best available estimate of a step's work: NEON has half
the vector length of AVX2, so twice the instructions are expected where vectors do the work. Both sides run the same
programs in qemu's user mode with the plugin bench/instruction_counter.c, on one thread, and count one step after two
others. It needs Debian's package qemu-user, gcc, and what `make arm` has built:

    arm_instructions.py build/arm64 [W1 W2 W6 GPT]
"""

import argparse
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
GOAL = 2.2
MARK = 987654  # as in instruction_counter.c
WORKLOADS = {
    "W1": ("w1_digits", "Trainer"),
    "W2": ("w2_resnet50", "Trainer"),
    "W6": ("w6_mlp", "Trainer"),
    "GPT": ("networks", "GPT 4 x 256"),
}
"""For each workload, the module in this folder and the name of its builder."""


def count_here(workload: str) -> None:
    """Build a workload and run a step between two marks. Runs in qemu."""
    module, builder = WORKLOADS[workload]
    step = importlib.import_module(module).BUILDERS[builder]()
    for _ in range(2):
        step()
    mark()
    step()
    mark()


def mark() -> None:
    try:
        os.write(MARK, b"")
    except OSError:
        return  # a bad file descriptor, which the plugin sees


def counted(command: list[str | Path], environment: dict[str, str], workload: str) -> int:
    run = subprocess.run(
        [*command, HERE / "arm_instructions.py", "--count", workload],
        env=os.environ | environment | {"BENCH_THREADS": "1", "OMP_NUM_THREADS": "1"},
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    marks = [int(found) for found in re.findall(r"^instructions (\d+)$", run.stderr, re.M)]
    if run.returncode != 0 or len(marks) != 2:
        sys.exit(f"{command[0]}: {workload} failed:\n{run.stderr[-2000:]}")
    return marks[1] - marks[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, nargs="?", help="the folder of `make arm`")
    parser.add_argument("workloads", nargs="*", help=", ".join(WORKLOADS))
    parser.add_argument("--count", choices=WORKLOADS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.count:
        return count_here(options.count)
    if options.build is None:
        parser.error("name the folder of `make arm`, such as build/arm64")
    for name in ("qemu-aarch64", "qemu-x86_64", "gcc"):
        if shutil.which(name) is None:
            sys.exit(f"{name} is not on the PATH; install Debian's packages qemu-user and gcc")
    build = options.build.resolve()
    plugin = build / "instruction_counter.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", plugin, HERE / "instruction_counter.c"], check=True)
    emulated: list[str | Path] = ["qemu-aarch64", "-L", build / "root", "-cpu", "neoverse-n1", "-plugin", plugin]
    arm = [*emulated, *(build / "root" / "usr" / "bin").glob("python3.*[0-9]")]
    intel = ["qemu-x86_64", "-cpu", "max", "-plugin", plugin, sys.executable]
    packages = os.pathsep.join(map(str, (build / "unpacked", build / "site")))
    print(f"{'workload':10s} {'Arm':>16s} {'AVX2':>16s} {'ratio':>6s}")
    for workload in options.workloads or WORKLOADS:
        ours = counted(arm, {"PYTHONPATH": packages}, workload)
        theirs = counted(intel, {"MPSGRAPH_INSTRUCTION_SET": "AVX2"}, workload)
        ratio = ours / theirs
        print(f"{workload:10s} {ours:16,} {theirs:16,} {ratio:6.2f}" + (f"   above {GOAL}" if ratio > GOAL else ""))


if __name__ == "__main__":
    main()
