"""Test the cache of compiled sources: what triggers a compilation, included files, and concurrent processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph.custom import compiling

SOURCE = """
#include "factor.h"
void scaled(mpsgraph::custom::Call& call) {
  const auto x = call.operand<float>(0);
  const auto y = call.result<float>(0);
  for (int64_t i = 0; i < x.size(); ++i) y[i] = FACTOR * x[i];
}
"""


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("MPSGRAPH_CUSTOM_CACHE", str(folder))
    return folder


@pytest.fixture
def compilations(monkeypatch) -> list[list[str]]:
    """Record the commands that are run to compile."""
    seen, whole = [], subprocess.run

    def run(command, **options):
        if "-o" in command:
            seen.append(list(command))
        return whole(command, **options)

    monkeypatch.setattr(subprocess, "run", run)
    return seen


def value(operation: mg.CustomOperation) -> float:
    g = mg.Graph()
    x = g.placeholder((1,))
    return g.run({x: np.float32([1])}, operation(x)).tolist()[0]


def test_custom_operation_source_is_compiled_once(cache, compilations):
    text = SOURCE.replace('#include "factor.h"', "#define FACTOR 3")
    for _ in range(3):
        operation = mg.custom_operation("scaled", cpu=text)
    assert value(operation) == 3 and len(compilations) == 1
    assert operation.library.parent == cache and operation.library.suffix == compiling.SUFFIX
    mg.custom_operation("scaled", cpu=text, flags=["-DOTHER"])
    mg.custom_operation("scaled", cpu=text, attributes={"size": 1})
    assert value(mg.custom_operation("scaled", cpu=text + "// more")) == 3
    assert len(compilations) == 4
    assert not [path.name for path in cache.iterdir() if path.name.startswith("making-")]


def test_compiler_version_is_part_of_the_cache_key(cache, compilations, monkeypatch, tmp_path):
    text = SOURCE.replace('#include "factor.h"', "#define FACTOR 3")
    mg.custom_operation("scaled", cpu=text)
    wrapper = tmp_path / "compiler"
    wrapper.write_text(f'#!/bin/sh\nexec {compiling.compiler()[0]} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CXX", f"{wrapper} -O1")
    assert value(mg.custom_operation("scaled", cpu=text)) == 3
    assert [command[0] for command in compilations][1:] == [str(wrapper)] and compilations[1][1] == "-O1"


def test_changed_source_or_included_header_is_recompiled(cache, compilations, tmp_path):
    (tmp_path / "factor.h").write_text("#define FACTOR 2\n")
    source = tmp_path / "scaled.cpp"
    source.write_text(SOURCE)
    assert value(mg.custom_operation("scaled", cpu=source)) == 2
    assert value(mg.custom_operation("scaled", cpu=source)) == 2 and len(compilations) == 1
    (tmp_path / "factor.h").write_text("#define FACTOR 5\n")
    assert value(mg.custom_operation("scaled", cpu=source)) == 5 and len(compilations) == 2
    (tmp_path / "factor.h").write_text("#define FACTOR unknown\n")
    with pytest.raises(mg.GraphError, match="factor.h:1"):
        mg.custom_operation("scaled", cpu=source)


@pytest.mark.parametrize("damage", ["index", "library", "words"])
def test_damaged_compilation_cache_entry_is_rebuilt(cache, compilations, damage):
    text = SOURCE.replace('#include "factor.h"', "#define FACTOR 4")
    mg.custom_operation("scaled", cpu=text)
    (index,) = cache.glob("*.json")
    if damage == "library":
        (cache / json.loads(index.read_text())["library"]).unlink()
    else:
        index.write_text("{" if damage == "index" else "[1]")
    assert value(mg.custom_operation("scaled", cpu=text)) == 4 and len(compilations) == 2


PROGRAM = """
import sys, numpy as np, mpsgraph as mg
from mpsgraph.custom import compiling
whole, count = compiling._compile, 0
def counted(*arguments):
    global count
    count += 1
    return whole(*arguments)
compiling._compile = counted
operation = mg.custom_operation("scaled", cpu=sys.stdin.read())
g = mg.Graph()
x = g.placeholder((1,))
print(count, g.run({x: np.float32([1])}, operation(x)).tolist()[0])
"""


def test_concurrent_processes_compile_a_source_once(cache):
    text = SOURCE.replace('#include "factor.h"', "#define FACTOR 6")
    command = [sys.executable, "-c", PROGRAM]
    (cache.parent / "source.cpp").write_text(text)
    started = []
    for _ in range(4):
        with open(cache.parent / "source.cpp") as source:
            started.append(subprocess.Popen(command, stdin=source, stdout=subprocess.PIPE, text=True))
    lines = [process.communicate(timeout=120)[0].split() for process in started]
    assert [process.returncode for process in started] == [0] * 4
    assert sum(int(count) for count, _ in lines) == 1 and {number for _, number in lines} == {"6.0"}


@pytest.mark.parametrize("attack", ["other library", "altered library", "writable library", "writable index", "link"])
def test_cached_library_that_others_could_have_changed_is_not_loaded(cache, compilations, attack, tmp_path):
    text = SOURCE.replace('#include "factor.h"', "#define FACTOR 6")
    library = mg.custom_operation("scaled", cpu=text).library
    assert library.stat().st_mode & 0o077 == 0 and cache.stat().st_mode & 0o022 == 0
    (index,) = cache.glob("*.json")
    outside = tmp_path / "outside.so"
    outside.write_bytes(library.read_bytes())
    if attack == "other library":
        index.write_text(json.dumps({**json.loads(index.read_text()), "library": str(outside)}))
    elif attack == "altered library":
        replacement = library.with_suffix(".new")
        replacement.write_bytes(library.read_bytes() + b"\0")
        replacement.chmod(0o700)
        replacement.replace(library)
    elif attack == "link":
        library.unlink()
        library.symlink_to(outside)
    else:
        (library if attack == "writable library" else index).chmod(0o666)
    assert mg.custom_operation("scaled", cpu=text).library.parent == cache
    assert len(compilations) == 2


def test_cache_directory_that_others_can_write_to_is_made_private(cache):
    cache.mkdir()
    cache.chmod(0o777)
    mg.custom_operation("scaled", cpu=SOURCE.replace('#include "factor.h"', "#define FACTOR 7"))
    assert cache.stat().st_mode & 0o022 == 0
