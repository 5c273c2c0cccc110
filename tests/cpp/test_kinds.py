"""Test that C++ code with a misspelt kind of operation does not compile."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
USES = {
    "is": 'bool f(const Operation& o) { return o.is("KIND"); }',
    "is one of": 'bool f(const Operation& o) { return o.is({"square", "KIND"}); }',
    "comparison": 'bool f(Kind kind) { return kind == "KIND"; }',
    "builder": 'Tensor* f(Builder& b, Tensor* x) { return b.unary("KIND", x); }',
    "graph": 'Tensor* f(Graph& g, Tensor* x) { return g.add("KIND", {x}); }',
    "definition": 'OperationDefinition d{.name = "KIND"};',
    "set": 'constexpr KindSet kinds{"square", "KIND"};',
    "table": 'const KindTable<int> table{{"KIND", 1}};',
}


@pytest.mark.skipif("MPSGRAPH_BUILD_DIR" not in os.environ, reason="requires the C++ tests, run `make test-cpp`")
def test_misspelt_kind_does_not_compile(tmp_path):
    cache = (ROOT / os.environ["MPSGRAPH_BUILD_DIR"] / "CMakeCache.txt").read_text()
    (compiler,) = re.findall(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.MULTILINE)
    source = tmp_path / "uses.cpp"
    lines = [
        '#include "core/definition.h"',
        '#include "core/kind_table.h"',
        '#include "mpsgraph/core/builder.h"',
        "using namespace mpsgraph;",
    ]

    def rejected(kind: str) -> set[str]:
        """Return the uses in which the compiler rejects the kind."""
        uses = [f"namespace use{i} {{ {use.replace('KIND', kind)} }}" for i, use in enumerate(USES.values())]
        source.write_text("\n".join(lines + uses))
        command = [compiler, "-std=c++20", "-fsyntax-only", f"-I{ROOT}/src", f"-I{ROOT}/include", source]
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
        found = {int(line) for line in re.findall(rf"{re.escape(source.name)}:(\d+):\d+", run.stderr)}
        assert (run.returncode == 0) == (not found), run.stderr
        return {name for number, name in enumerate(USES, len(lines) + 1) if number in found}

    assert rejected("negative") == set()
    assert rejected("negatve") == set(USES)
