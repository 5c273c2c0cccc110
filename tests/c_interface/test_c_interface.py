"""Test the C API of the installed package with programs in C and C++, ctypes, old headers, and invalid handles."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from harness.trained_package import batches, trained

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = Path(mg.__file__).parent
LIBRARY = PACKAGE / "lib" / "libmpsgraph.so"
INCLUDE = PACKAGE / "include"
STRICT = ("-Wall", "-Wextra", "-pedantic", "-Werror")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="builds programs against libmpsgraph.so")


def run(*command, **options) -> str:
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True, timeout=300, **options)
    assert done.returncode == 0, f"{command[0]} failed ({done.returncode}):\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(source: Path, program: Path, *options) -> Path:
    compiler = ("cc", "-std=c99") if source.suffix == ".c" else ("c++", "-std=c++20")
    link = (f"-L{LIBRARY.parent}", "-lmpsgraph", "-lm", "-pthread", f"-Wl,-rpath,{LIBRARY.parent}")
    run(*compiler, *STRICT, *options, f"-I{INCLUDE}", source, "-o", program, *link)
    return program


@pytest.mark.parametrize("name", ["program.c", "program.cpp"])
def test_c_and_cpp_programs_train_save_and_run_a_model(name, tmp_path):
    """The program checks its own results; the C++ version also uses 8 threads."""
    program = build(HERE / name, tmp_path / "program")
    assert run(program, tmp_path / "line.mpsgraph").endswith("done\n")


def test_cpp_custom_operations_run_without_memory_errors(tmp_path):
    """Under AddressSanitizer, use an operation with a gradient, one from a library, and a kernel that throws."""
    library = tmp_path / "libown.so"
    own = ROOT / "tests" / "custom" / "own_library.cpp"
    run("c++", "-std=c++17", "-shared", "-fPIC", f"-I{INCLUDE}", own, "-o", library)
    program = build(HERE / "custom.cpp", tmp_path / "program", "-fsanitize=address", "-g")
    assert run(program, library, tmp_path).endswith("done\n")


def test_control_flow_in_c(tmp_path):
    """Build if, while, and for with blocks, gradients, and invalid use, under AddressSanitizer."""
    program = build(HERE / "blocks.c", tmp_path / "program", "-fsanitize=address", "-g")
    assert run(program).endswith("done\n")


def test_c_program_does_not_leak_memory(tmp_path):
    """The program runs under AddressSanitizer, which detects leaks."""
    program = build(HERE / "program.c", tmp_path / "program", "-fsanitize=address", "-g")
    assert run(program, tmp_path / "line.mpsgraph").endswith("done\n")


@pytest.mark.parametrize("name", ["train.c", "train.cpp"])
def test_continued_training_matches_python_bitwise(name, tmp_path):
    """Steps, learning rates, evaluation, prediction, and saved state must equal those of the same trainer in Python."""
    trainer = trained()
    mg.save(tmp_path / "trained", trainer)
    (tmp_path / "batches").write_bytes(b"".join(x.tobytes() + y.tobytes() for x, y in batches(3, 12)))
    options = ("-fsanitize=address", "-g") if name == "train.c" else ()
    program = build(HERE / name, tmp_path / "program", *options)
    lines = run(program, tmp_path / "trained", tmp_path / "batches", 9, tmp_path / "saved").splitlines()
    assert lines[-1] == "done"
    found = [(line.split()[0], [float.fromhex(number) for number in line.split()[1:]]) for line in lines[:-1]]
    steps = [trainer.train_step(x, y).values for x, y in batches(3, 12)]
    assert [numbers for what, numbers in found if what == "step"] == [list(values.values()) for values in steps]
    others = {what: numbers for what, numbers in found if what != "step"}
    x, y = next(iter(batches(11, 12)))
    assert others["evaluated"] == list(trainer.evaluate(x, y).values())
    assert others["rate"] == [np.float32(trainer.learning_rate)]
    assert others["scores"] == trainer.predict(x).ravel().tolist()
    again = mg.load(tmp_path / "saved")
    assert again.step == trainer.step == 12
    assert [float(again.train_step(x, y)) for x, y in batches(12, 15)] == [
        float(trainer.train_step(x, y)) for x, y in batches(12, 15)
    ]


@pytest.mark.parametrize("seed", [1, 2])
def test_invalid_handles_return_an_error_status(seed, tmp_path):
    """Call each function about 60 times with NULL, released, foreign, and invented handles."""
    mg.save(tmp_path / "trained.mpsgraph", trained())
    table = INCLUDE / "mpsgraph" / "function_table.h"
    text = run(sys.executable, "-X", "faulthandler", HERE / "fuzz.py", LIBRARY, table, seed, 6000, tmp_path)
    statuses = re.search(r"statuses (.*)", text)[1]
    assert "2: " in statuses and "0: " in statuses and "13: " not in statuses


def members(table: Path) -> list[str]:
    return re.findall(r"\(\*(\w+)\)", table.read_text())


def test_function_table_begins_with_the_entries_of_its_first_version():
    """Programs built with the first header must find every function at its position."""
    now = members(ROOT / "include/mpsgraph/function_table.h")
    first = members(HERE / "function_table_1.h")
    assert now[: len(first)] == first
    run(sys.executable, ROOT / "tools" / "function_table.py", "--check")


OLD_PROGRAM = """
#include "mpsgraph/mpsgraph.h"
int main(void) {
  const mpsgraph_functions *api = mpsgraph_get_functions(1);
  mpsgraph_graph graph;
  if (!api || api->size %s sizeof(mpsgraph_functions) || mpsgraph_get_functions(1000)) return 1;
  if (%s) return 2;
  return api->graph_create(0, &graph) != MPSGRAPH_OK || api->release(graph) != MPSGRAPH_OK;
}
"""


@pytest.mark.parametrize("missing", [0, 20], ids=["the_first_header", "a_header_before_some_functions"])
def test_programs_with_old_headers_run_with_current_library(missing, tmp_path):
    """Functions keep their positions in the table. Its size tells a program that the table may be longer than in the
    header that the program was built with.
    """
    old = tmp_path / "mpsgraph"
    old.mkdir()
    for name in ("mpsgraph.h", "export.h"):
        (old / name).write_text((INCLUDE / "mpsgraph" / name).read_text())
    table = (HERE / "function_table_1.h").read_text()
    known = members(HERE / "function_table_1.h")
    if missing:
        known = known[:-missing]
        cut = table.index(";", table.index(f"(*{known[-1]})")) + 1
        table = table[:cut] + "\n" + table[table.index("} mpsgraph_functions;") :]
    (old / "function_table.h").write_text(table)
    elsewhere = " || ".join(f"api->{name} != mpsgraph_{name}" for name in known)
    (tmp_path / "old.c").write_text(OLD_PROGRAM % ("<=" if missing else "<", elsewhere))
    run(build(tmp_path / "old.c", tmp_path / "old", f"-I{tmp_path}"))


def test_ctypes_runs_package_saved_by_python(tmp_path):
    g = mg.Graph()
    x = g.placeholder((2, 3), name="x")
    mg.save(tmp_path / "sum.mpsgraph", g, [x], {"y": g.matrix_multiplication(x, g.variable(np.ones((3, 1), "f4")))})
    library = ctypes.CDLL(str(LIBRARY))
    graph, executable, array, result = (ctypes.c_void_p() for _ in range(4))
    assert library.mpsgraph_graph_open(os.fsencode(tmp_path / "sum.mpsgraph"), None, ctypes.byref(graph)) == 0
    assert library.mpsgraph_graph_compile(graph, None, ctypes.c_size_t(0), ctypes.byref(executable)) == 0
    kind = (ctypes.c_int64 * 17)(2 << 32, 2, 3)  # float32, rank 2
    data = np.arange(6, dtype=np.float32)
    assert library.mpsgraph_array_create(kind, ctypes.byref(array)) == 0
    assert library.mpsgraph_array_write(array, ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(24)) == 0
    one = ctypes.c_size_t(1)
    assert library.mpsgraph_executable_run(executable, ctypes.byref(array), one, ctypes.byref(result), one) == 0
    out = np.empty(2, np.float32)
    assert library.mpsgraph_array_read(result, ctypes.c_void_p(out.ctypes.data), ctypes.c_size_t(8)) == 0
    assert out.tolist() == [3, 12]
    for handle in (graph, executable, array, result):
        assert library.mpsgraph_release(handle) == 0


def test_ctypes_trains(tmp_path):
    trainer = trained()
    mg.save(tmp_path / "trained", trainer)
    library = ctypes.CDLL(str(LIBRARY))
    handle, two = ctypes.c_void_p(), ctypes.c_size_t(2)
    assert library.mpsgraph_trainer_open(os.fsencode(tmp_path / "trained"), None, ctypes.byref(handle)) == 0
    arrays, results = (ctypes.c_void_p * 2)(), (ctypes.c_double * 2)()
    for place, kind in enumerate([(2 << 32, 16, 6), (1 << 32 | 6, 16)]):  # rank and dtype, dimensions
        assert library.mpsgraph_array_create((ctypes.c_int64 * 17)(*kind), ctypes.byref(arrays, place * 8)) == 0
    for batch in batches(3, 6):
        for array, data in zip(arrays, batch, strict=True):
            into = ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(data.nbytes)
            assert library.mpsgraph_array_write(ctypes.c_void_p(array), *into) == 0
        assert library.mpsgraph_trainer_train_step(handle, None, arrays, two, results, two) == 0
        assert list(results) == list(trainer.train_step(*batch).values.values())
    for each in (handle, *map(ctypes.c_void_p, arrays)):
        assert library.mpsgraph_release(each) == 0


def test_opening_package_without_training_step_as_trainer_fails(tmp_path):
    g = mg.Graph()
    x = g.placeholder((2,), name="x")
    mg.save(tmp_path / "plain", g, [x], {"y": x * 2})
    library, handle = ctypes.CDLL(str(LIBRARY)), ctypes.c_void_p()
    library.mpsgraph_error_message.restype = ctypes.c_char_p
    assert library.mpsgraph_trainer_open(os.fsencode(tmp_path / "plain"), None, ctypes.byref(handle)) == 7
    assert b"has no training step" in library.mpsgraph_error_message() and not handle


@pytest.mark.parametrize(("page", "suffix"), [("c.md", ".c"), ("cpp.md", ".cpp")])
def test_programs_in_documentation_compile_and_run(page, suffix, tmp_path):
    """All programs must compile; the last ones, with custom operations, must also run."""
    blocks = re.findall(rf"```{suffix[1:]}\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    assert len(blocks) == {".c": 3, ".cpp": 4}[suffix]
    for number, block in enumerate(blocks):
        source = tmp_path / f"{number}{suffix}"
        source.write_text(block)
        build(source, tmp_path / f"program{number}")
    if suffix == ".cpp":
        losses = [float(line) for line in run(tmp_path / "program2").split()]
        assert len(losses) == 10 and losses == sorted(losses, reverse=True) and losses[-1] < losses[0] / 2
        assert run(tmp_path / "program3") == "1 2 3 "
        return
    program = tmp_path / "program2"
    softshrink = mg.custom_operation("softshrink", cpu="void softshrink(mpsgraph::custom::Call&) {}")
    g = mg.Graph()
    x = g.placeholder((3,), name="x")
    mg.save(tmp_path / "denoise.mpsgraph", g, [x], {"y": softshrink(x)})
    done = subprocess.run([program], cwd=tmp_path, text=True, capture_output=True, timeout=60)
    assert done.returncode == 1 and "cannot load the library" in done.stderr and "softshrink.so" in done.stderr
    shutil.copy(softshrink.library, tmp_path / "softshrink.so")
    assert run(program, cwd=tmp_path) == "1 results\n"


def test_failed_graph_check_returns_its_own_status_code(tmp_path):
    g = mg.Graph()
    x = g.placeholder((2,), name="x")
    mg.save(tmp_path / "checked.mpsgraph", g, [x], {"y": g.check(x > 0, "x must be positive", on=x) * 2})
    library = ctypes.CDLL(str(LIBRARY))
    library.mpsgraph_error_message.restype = ctypes.c_char_p
    graph, executable, array, result = (ctypes.c_void_p() for _ in range(4))
    assert library.mpsgraph_graph_open(os.fsencode(tmp_path / "checked.mpsgraph"), None, ctypes.byref(graph)) == 0
    assert library.mpsgraph_graph_compile(graph, None, ctypes.c_size_t(0), ctypes.byref(executable)) == 0
    kind, one = (ctypes.c_int64 * 17)(1 << 32, 2), ctypes.c_size_t(1)  # float32, rank 1
    assert library.mpsgraph_array_create(kind, ctypes.byref(array)) == 0
    for data, status in ((np.float32([1, 2]), 0), (np.float32([1, -2]), 14)):  # MPSGRAPH_CHECK_FAILED
        assert library.mpsgraph_array_write(array, ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(8)) == 0
        run = library.mpsgraph_executable_run(executable, ctypes.byref(array), one, ctypes.byref(result), one)
        assert run == status
    assert b"x must be positive; false at (1)" in library.mpsgraph_error_message()
    library.mpsgraph_status_name.restype = ctypes.c_char_p
    assert library.mpsgraph_status_name(14) == b"check failed"
    for handle in (graph, executable, array, result):
        assert library.mpsgraph_release(handle) == 0


def test_library_is_small_and_exports_only_header_functions(tmp_path):
    """The library must be small enough for an application, and export exactly the C functions in the header."""
    run("strip", "-o", tmp_path / "stripped", LIBRARY)
    assert (tmp_path / "stripped").stat().st_size < 12e6
    names = {line.split()[-1] for line in run("nm", "-D", "--defined-only", LIBRARY).splitlines()}
    wanted = {f"mpsgraph_{name}" for name in members(INCLUDE / "mpsgraph/function_table.h")}
    assert {name for name in names if name.startswith("mpsgraph_")} == wanted | {"mpsgraph_get_functions"}


def test_pkg_config_file_has_paths_and_version():
    text = (LIBRARY.parent / "pkgconfig" / "mpsgraph.pc").read_text()
    assert "prefix=${pcfiledir}/../.." in text and "-lmpsgraph" in text and mg.__version__ in text
