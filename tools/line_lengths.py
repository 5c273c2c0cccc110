"""Names lines of more than 120 columns in what people write, but for Python, whose lines ruff measures, and for prose.

C++ is measured because clang-format leaves comments and strings as they are. `make lint` runs it; it fails if it
finds one. What git ignores is not looked at.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 120
SUFFIXES = {".cpp", ".h", ".inc", ".mm", ".S", ".cmake", ".in", ".ini", ".toml", ".yaml", ".yml"}
NAMES = {"CMakeLists.txt", "Makefile", "run"}


def written() -> list[Path]:
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    paths = [ROOT / name for name in dict.fromkeys(names)]
    return [path for path in paths if path.is_file() and (path.suffix in SUFFIXES or path.name in NAMES)]


long = [
    f"{path.relative_to(ROOT)}:{number}: {len(line)} columns"
    for path in written()
    for number, line in enumerate(path.read_text().splitlines(), 1)
    if len(line) > LONGEST
]
print("\n".join(long))
sys.exit(f"{len(long)} lines of more than {LONGEST} columns" if long else 0)
