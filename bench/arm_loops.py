"""Instructions in the inner loops of the Arm kernels, counted from the disassembly of a cross-compiled build.

There is no Arm machine to measure on, so this shows what can be known without one: for the hot loop of each kernel,
the instructions of one iteration, how many of them are vector multiply-adds (or dot products of integers), and the
bound of a machine with four 128-bit units, which is one multiply-add per unit and cycle. Usage:

    arm_loops.py build/arm64 [--all | --scalar]

The column "bound" is the share of a loop that consists only of its multiply-adds and loads. Convolutions by taps read
rows in place, without im2col. Six rows by four vectors of columns need, for four steps, six loads of one vector of
factors each and eight loads of pairs of vectors of the panel, for 96 multiply-adds: at most 0.87. (Ten rows by two
vectors would need 14 loads for 80.) The weight gradient reads other rows for each 24 multiply-adds. For four steps, it
loads four addresses in pairs, eight vectors of rows, and four times four vectors of the panel with one instruction
each: at most 0.87, too. These instructions count once although they read several vectors, as they take one slot of
the decoder. The numbers are those of clang, which builds the wheel. g++ 12 moves two sums out of their registers in
the loop of the taps, whose share is then 0.81.

`--all` lists every inner loop that contains multiply-adds, instead of the goals of GOALS. `--scalar` lists the
functions whose inner loops compute with floating-point numbers one at a time only. Loops for the last elements of a row
do not count, as the same function has a loop for whole vectors.
"""

import argparse
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MULTIPLY_ADDS = re.compile(r"^(fmla|fmls|fmlal2?|bfmmla|bfdot|sdot|udot|usdot|smmla|ummla|usmmla)$")
SCALAR = re.compile(r"^f(n?madd|n?msub|mul|add|sub|div)$")
VECTOR = re.compile(r"\bv\d+\.\d+[bhsd]")  # operands such as v3.4s
GOAL = 0.85
GOALS = {
    "matmul": ("gemm_tiles", r"multiply.*Li8ELi3"),
    "convolution by taps": ("convolution_tiles", r"MicroKernelsIff.*multiply_rowsILi6ELi4"),
    "convolution by taps, bfloat16": ("convolution_tiles", r"MicroKernels.*BFloat16ES.*multiply_rowsILi6ELi4"),
    "its weight gradient": ("convolution_tiles", r"MicroKernelsIffLi4.*add_productsILi6"),
    "its weight gradient, bfloat16": ("convolution_tiles", r"MicroKernels.*BFloat16ES.*Li4.*add_productsILi6"),
}
"""Per kernel, the stem of its object file and an expression for the (mangled) functions of its largest tile."""


@dataclass
class Loop:
    """An inner loop: its function, its instructions per iteration, and how many of them are multiply-adds."""

    function: str
    instructions: int
    multiply_adds: int
    loads: int

    @property
    def share(self) -> float:
        return self.multiply_adds / self.instructions

    @property
    def bound(self) -> float:
        """Return the share that the loop would have without counters, additions to pointers, and the branch."""
        return self.multiply_adds / (self.multiply_adds + self.loads)


def functions(path: Path, objdump: str) -> Iterator[tuple[str, list[tuple[int, str, str]]]]:
    """Yield each function of an object file with its instructions: address, mnemonic, operands."""
    text = subprocess.run(
        [objdump, "-d", "--no-show-raw-insn", str(path)], capture_output=True, text=True, check=True
    ).stdout
    for part in re.split(r"\n(?=[0-9a-f]{16} <)", text)[1:]:
        head, *lines = part.splitlines()
        found = (re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)", line) for line in lines)
        name = head[head.index("<") + 1 : head.rindex(">")]
        yield name, [(int(m[1], 16), m[2], m[3]) for m in found if m]


def inner_ranges(code: list[tuple[int, str, str]]) -> Iterator[list[tuple[int, str, str]]]:
    """Yield the instructions of each loop of a function that contains no other loop."""
    index = {address: i for i, (address, _, _) in enumerate(code)}
    ranges = []
    for i, (_, mnemonic, operands) in enumerate(code):
        target = re.search(r"\b([0-9a-f]+) <", operands)
        if target and re.match(r"b(\.|$)|cbn?z|tbn?z", mnemonic):
            begin = index.get(int(target[1], 16), len(code))
            if begin <= i:
                ranges.append((begin, i))
    for begin, end in ranges:
        if not any((b, e) != (begin, end) and begin <= b and e <= end for b, e in ranges):
            yield code[begin : end + 1]


def inner_loops(name: str, code: list[tuple[int, str, str]]) -> Iterator[Loop]:
    """Count the instructions in the inner loops of a function."""
    for body in inner_ranges(code):
        mnemonics = [mnemonic for _, mnemonic, _ in body]
        yield Loop(
            name,
            len(mnemonics),
            sum(bool(MULTIPLY_ADDS.match(m)) for m in mnemonics),
            sum(m.startswith("ld") for m in mnemonics),
        )


def only_scalar(code: list[tuple[int, str, str]]) -> bool:
    """Return whether a function computes with floating-point numbers in inner loops, but in none with vectors."""
    loops = list(inner_ranges(code))
    return not any(VECTOR.search(operands) for body in loops for _, _, operands in body) and any(
        SCALAR.match(mnemonic) for body in loops for _, mnemonic, _ in body
    )


def kernels(build: Path, stem: str = "") -> list[Path]:
    """Return the object files that are compiled for NEON or its extensions."""
    return [path for path in build.rglob("*.o") if stem in path.name and "neon" in str(path)]


def loops_of(build: Path, stem: str, pattern: str, objdump: str) -> list[Loop]:
    paths = kernels(build, stem)
    found = [
        loop
        for path in paths
        for name, code in functions(path, objdump)
        if re.search(pattern, name)
        for loop in inner_loops(name, code)
    ]
    return sorted((loop for loop in found if loop.multiply_adds > 0), key=lambda loop: -loop.multiply_adds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, help="build folder for aarch64")
    parser.add_argument("--all", action="store_true", help="list all inner loops with multiply-adds")
    parser.add_argument("--scalar", action="store_true", help="list functions whose inner loops do not use vectors")
    parser.add_argument("--objdump", default="aarch64-linux-gnu-objdump")
    options = parser.parse_args()
    if options.scalar:
        found = kernels(options.build)
        for path in found:
            for name, code in functions(path, options.objdump):
                if only_scalar(code):
                    print(f"{path.stem}: {name}")
        return print(f"{len(found)} object files") if found else parser.error(f"{options.build} has no Arm kernels")
    goals = {"": ("", "")} if options.all else GOALS
    print(f"{'kernel':40s} {'instructions':>12s} {'multiply-adds':>13s} {'loads':>5s} {'share':>6s} {'bound':>6s}")
    for kernel, (stem, pattern) in goals.items():
        loops = loops_of(options.build, stem, pattern, options.objdump)
        if not loops:
            raise SystemExit(
                f"{kernel}: no loop with multiply-adds in {options.build}/**/*{stem}*.o; is it an Arm build?"
            )
        for loop in loops if options.all else loops[:1]:
            title = kernel or loop.function
            shares = f"{loop.share:6.2f} {loop.bound:6.2f}"
            print(
                f"{title:40s} {loop.instructions:12d} {loop.multiply_adds:13d} {loop.loads:5d} {shares}"
                + ("" if options.all or loop.share >= GOAL else f"   below {GOAL}")
            )


if __name__ == "__main__":
    main()
