"""Write the C++ and Swift functions of all operations.

    python tools/native [--check]

With --check, nothing is written; the program fails if a file is not up to date. The modules: model.py reads the schema
of operations, for_cpp.py writes C++, and for_swift.py writes Swift.
"""

from __future__ import annotations

import sys
from pathlib import Path

import for_cpp
import for_swift
from model import operations

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str]) -> None:
    found = operations()
    files = {
        ROOT / "include" / "mpsgraph" / "application" / "operations.hpp": for_cpp.header(found),
        ROOT / "swift" / "Sources" / "Mpsgraph" / "Operations.swift": for_swift.source(found),
        ROOT / "swift" / "Sources" / "MpsgraphApple" / "Operations.swift": for_swift.apple(found),
    }
    if arguments not in ([], ["--check"]):
        sys.exit(f"the only option is --check, got {' '.join(arguments)}")
    for path, text in files.items():
        if not arguments:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path.relative_to(ROOT)} is not up to date: run make stubs")


if __name__ == "__main__":
    main(sys.argv[1:])
