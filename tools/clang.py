"""Print the path of a clang++ that compiles Objective-C++ with ARC, which tests of the Metal backend need.

Usage: python tools/clang.py [16]. The argument is the oldest version, by default 14. The fuzz targets need 16: older
versions do not let lambdas capture structured bindings, which the CPU kernels do.

If there is no such compiler, the script installs Debian's clang of that version with its sanitizers and coverage tools,
provided that it runs as root and apt exists. Otherwise, it says what to install and fails.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = int(sys.argv[1]) if __name__ == "__main__" and sys.argv[1:] else 14
PACKAGES = [f"clang-{OLDEST}", f"libclang-rt-{OLDEST}-dev", f"llvm-{OLDEST}"]
PROBE = "#include <memory>\nint main() { @autoreleasepool { __strong id object = 0; return object != 0; } }\n"
OPTIONS = ["-std=c++20", "-x", "objective-c++", "-fobjc-arc", "-fobjc-runtime=gnustep-2.0", "-fblocks"]


def works(path: str) -> bool:
    """Return whether a compiler is new enough, finds a C++ library, and supports Objective-C."""
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
    """Return whether the compiler's sanitizers and llvm-cov are installed as well."""
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
            f"clang++ {OLDEST} or newer with its sanitizers and llvm-cov is missing: install {' '.join(PACKAGES)} with "
            "apt-get, or your system's equivalents"
        )
    print(found)


if __name__ == "__main__":
    main()
