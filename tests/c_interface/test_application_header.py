"""application.hpp must cover the C API, work without memory errors, and compile without warnings."""

import re
import shutil
import sys
from pathlib import Path

import pytest
from harness.native_programs import INCLUDE, STRICTER, build, run

HERE = Path(__file__).resolve().parent
HEADERS = sorted((INCLUDE / "mpsgraph" / "application").glob("*.hpp"))

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="builds programs against libmpsgraph.so")


def used_functions(headers: list[Path]) -> set[str]:
    return set(re.findall(r"\bmpsgraph_(\w+)(?=\(|[,;)\s])", "".join(path.read_text() for path in headers)))


def test_cpp_classes_use_every_function_of_the_c_api():
    """The function table lists the functions of mpsgraph.h."""
    functions = set(re.findall(r"\(\*(\w+)\)", (INCLUDE / "mpsgraph" / "function_table.h").read_text()))
    assert len(functions) > 100 and functions - used_functions(HEADERS) == set()
    without_execution = [path for path in HEADERS if path.name != "execution.hpp"]
    assert "queue_create" in functions - used_functions(without_execution), "the comparison must detect a gap"


def test_cpp_classes_work_without_memory_errors(tmp_path):
    """Run every class under AddressSanitizer and UndefinedBehaviorSanitizer, which also detect leaks."""
    sanitizers = "-fsanitize=address,undefined"
    program = build(HERE / "interface.cpp", tmp_path / "program", sanitizers, "-fno-sanitize-recover=all", "-g")
    assert run(program, tmp_path / "saved.mpsgraph") == "done\n"


def clang() -> str | None:
    """Return clang's name, which contains a version on Debian."""
    return next((name for name in ("clang", "clang-14", "clang-19") if shutil.which(name)), None)


@pytest.mark.parametrize("family", ["gcc", "clang"])
@pytest.mark.parametrize("standard", ["c99", "c17", "c++17", "c++20"])
def test_headers_compile_without_warnings(family, standard, tmp_path):
    language = "c++" if "++" in standard else "c"
    compiler = {"gcc": "g++" if language == "c++" else "gcc", "clang": clang()}[family]
    if compiler is None or not shutil.which(compiler):
        pytest.skip(f"requires {family}")
    names = ["mpsgraph.h", "function_table.h", "custom_operation.h"]
    names += (
        ["mpsgraph.hpp", "application.hpp", *(f"application/{path.name}" for path in HEADERS)]
        if standard == "c++20"
        else []
    )
    for name in names:  # Each header must also compile by itself.
        source = tmp_path / ("one.cpp" if language == "c++" else "one.c")
        source.write_text(f"#include <mpsgraph/{name}>\n#include <mpsgraph/{name}>\nint main(void) {{ return 0; }}\n")
        # -isystem would silence warnings inside of the headers.
        run(compiler, "-x", language, f"-std={standard}", *STRICTER, "-fsyntax-only", f"-I{INCLUDE}", source)
