"""Prints the path of a clang++, 14 or newer, that compiles Objective-C++ with ARC: tests of the Metal backend need one.

`python tools/clang.py`. Where there is none, Debian's clang-14 with its sanitizers and coverage tools is installed if
this runs as root and apt is there; else it says what to install and fails.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = 14
PACKAGES = ["clang-14", "libclang-rt-14-dev", "llvm-14"]
PROBE = "#include <memory>\nint main() { @autoreleasepool { __strong id object = 0; return object != 0; } }\n"
OPTIONS = ["-std=c++20", "-x", "objective-c++", "-fobjc-arc", "-fobjc-runtime=gnustep-2.0", "-fblocks"]


def works(path: str) -> bool:
    """Whether it is new enough, finds a C++ library, and knows Objective-C."""
    stated = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
    version = re.search(r"clang version (\d+)", stated)
    if not version or int(version[1]) < OLDEST:
        return False
    command = [path, *OPTIONS, "-fsyntax-only", "-"]
    return subprocess.run(command, input=PROBE, capture_output=True, text=True).returncode == 0


def find() -> str | None:
    names = [f"clang++-{version}" for version in range(OLDEST, 40)] + ["clang++"]
    paths = (shutil.which(name) for name in names)
    return next((path for path in paths if path and works(path)), None)


def complete(path: str) -> bool:
    """Whether its sanitizers and llvm-cov are there too."""
    command = [path, "-fsanitize=address,undefined", "-x", "c++", "-", "-o", os.devnull]
    done = subprocess.run(command, input="int main() {}\n", capture_output=True, text=True)
    beside = Path(path).resolve().with_name("llvm-cov")
    return done.returncode == 0 and (beside.exists() or shutil.which("llvm-cov") is not None)


def main() -> None:
    found = find()
    if not (found and complete(found)) and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *PACKAGES]
        for command in (["apt-get", "update", "--quiet"], install):
            subprocess.run(command, env=environment, stdout=sys.stderr, check=False)
        found = find()
    if not found:
        sys.exit(
            f"The tests of the Metal backend need clang++ {OLDEST} or newer with its sanitizers and llvm-cov: "
            f"apt-get install {' '.join(PACKAGES)}, or what your system calls them."
        )
    print(found)


if __name__ == "__main__":
    main()
