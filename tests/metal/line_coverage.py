"""Line coverage of the Metal backend by its tests on the mock: a table by file, and the lines that were not run.

Run `line_coverage.py BUILD [--lines] [--at-least PERCENT]` after the tests. BUILD must be configured with
MPSGRAPH_COVERAGE=ON, and LLVM_PROFILE_FILE must name files in BUILD/profiles.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src/backends/metal"


def tool(name: str) -> str:
    """Return the path of an LLVM tool that belongs to the clang that compiled the backend."""
    clang = subprocess.run([sys.executable, ROOT / "tools/clang.py"], capture_output=True, text=True, check=True)
    beside = Path(clang.stdout.strip()).resolve().with_name(name)
    return str(beside) if beside.exists() else shutil.which(name) or sys.exit(f"there is no {name}")


def covered_lines(build: Path) -> dict[str, dict[int, bool]]:
    """Return for each file its lines of code and whether they ran."""
    profile = build / "merged.profdata"
    raw = sorted(map(str, (build / "profiles").glob("*.profraw")))
    if not raw:
        sys.exit(f"no profiles in {build / 'profiles'}: run the tests first")
    subprocess.run([tool("llvm-profdata"), "merge", "-sparse", *raw, "-o", profile], check=True)
    command = [tool("llvm-cov"), "export", "-format=lcov", build / "libmpsgraph.so", f"-instr-profile={profile}"]
    lcov = subprocess.run([*command, SOURCES], capture_output=True, text=True, check=True).stdout
    files: dict[str, dict[int, bool]] = {}
    for line in lcov.splitlines():
        key, _, value = line.partition(":")
        if key == "SF":
            path = Path(value).resolve()
            within = path.is_relative_to(SOURCES)
            lines = files.setdefault(str(path.relative_to(SOURCES)), {}) if within else {}
        elif key == "DA":
            number, count = value.split(",")[:2]
            lines[int(number)] = lines.get(int(number), False) or int(count) > 0
    return files


def ranges(numbers: list[int]) -> str:
    """Format line numbers as ranges, such as "1-3, 7"."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--lines", action="store_true", help="also print the lines that did not run")
    parser.add_argument("--at-least", type=float, default=0, help="fail if a smaller percentage of all lines ran")
    arguments = parser.parse_args()
    files = covered_lines(arguments.build)
    (arguments.build / "coverage.json").write_text(json.dumps(files))
    reached = total = 0
    for name, lines in sorted(files.items()):
        missed = [number for number, ran in sorted(lines.items()) if not ran]
        reached, total = reached + len(lines) - len(missed), total + len(lines)
        share = 100 * (1 - len(missed) / max(1, len(lines)))
        print(f"{name:28} {len(lines):5} lines  {share:6.1f} %  {ranges(missed)}")
        if arguments.lines:
            text = (SOURCES / name).read_text().splitlines()
            for number in missed:
                print(f"  {number:5}  {text[number - 1]}")
    percent = 100 * reached / max(1, total)
    print(f"{'all':28} {total:5} lines  {percent:6.2f} %")
    if percent < arguments.at_least:
        sys.exit(f"{percent:.2f} % of the lines ran; {arguments.at_least} % are asked for")


if __name__ == "__main__":
    main()
