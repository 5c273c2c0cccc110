"""List lines of more than 120 columns in source files, except in Python files, which ruff checks, and in prose.

C++ is included because clang-format leaves comments and strings alone. `make lint` runs this script and fails if it
finds a line. It skips generated files by their folders' names, so it does not need git.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 120
SUFFIXES = {".cpp", ".h", ".inc", ".mm", ".S", ".cmake", ".in", ".ini", ".toml", ".yaml", ".yml"}
NAMES = {"CMakeLists.txt", "Makefile", "run"}
MADE = {"build", "dist", "demo-output", "__pycache__"}
HIDDEN = {".ci", ".github"}  # Hidden folders that are part of the source.


def written() -> list[Path]:
    found = []
    for folder, inside, names in os.walk(ROOT):
        inside[:] = sorted(name for name in inside if name in HIDDEN or not (name.startswith(".") or name in MADE))
        found += [Path(folder, name) for name in names if Path(name).suffix in SUFFIXES or name in NAMES]
    return found


long = [
    f"{path.relative_to(ROOT)}:{number}: {len(line)} columns"
    for path in sorted(written())
    for number, line in enumerate(path.read_text().splitlines(), 1)
    if len(line) > LONGEST
]
print(*long, sep="\n", end="\n" if long else "")
sys.exit(f"{len(long)} lines of more than {LONGEST} columns" if long else 0)
