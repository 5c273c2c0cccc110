"""Build and run C and C++ programs with the installed package's headers and library."""

import subprocess
from pathlib import Path

import mpsgraph as mg

PACKAGE = Path(mg.__file__).parent
LIBRARY = PACKAGE / "lib" / "libmpsgraph.so"
INCLUDE = PACKAGE / "include"
STRICT = ("-Wall", "-Wextra", "-pedantic", "-Werror")
STRICTER = (*STRICT, "-Wshadow", "-Wconversion")


def run(*command, **options) -> str:
    """Run a command and return its output. Fail with the output if the command fails."""
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True, timeout=300, **options)
    assert done.returncode == 0, f"{command[0]} failed ({done.returncode}):\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(source: Path, program: Path, *options, strict: tuple[str, ...] = STRICT) -> Path:
    """Compile a C99 or C++20 program, link it with the library, and return its path."""
    compiler = ("cc", "-std=c99") if source.suffix == ".c" else ("c++", "-std=c++20")
    link = (f"-L{LIBRARY.parent}", "-lmpsgraph", "-lm", "-pthread", f"-Wl,-rpath,{LIBRARY.parent}")
    run(*compiler, *strict, *options, f"-I{INCLUDE}", source, "-o", program, *link)
    return program
