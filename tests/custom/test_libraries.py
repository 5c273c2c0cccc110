"""Test libraries of custom operations that are built by users or by Python, used in C, and required by packages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = Path(mg.__file__).parent
INCLUDE = PACKAGE / "include"
LIBRARY = PACKAGE / "lib"
STRICT = ("-Wall", "-Wextra", "-pedantic", "-Werror")

SHIFT = """
void shifted(mpsgraph::custom::Call& call) {
  const auto x = call.operand<float>(0);
  const auto y = call.result<float>(0);
  const float by = static_cast<float>(call.integer("by"));
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] + by;
}
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="builds programs against libmpsgraph.so")


def build(*command: object) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Path:
    library = tmp_path_factory.mktemp("own") / "libown.so"
    build("c++", "-std=c++17", *STRICT, "-shared", "-fPIC", f"-I{INCLUDE}", HERE / "own_library.cpp", "-o", library)
    return library


def python(code: str, *arguments: object) -> str:
    """Run code in a new process, in which no custom operation is registered."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- a user-built library ---------------------------------------------------------------------------------------------


def test_loaded_library_provides_its_custom_operations(own, rng):
    operations = mg.load_custom_operations(own)
    assert sorted(operations) == ["own.cube_root", "own.cube_root_gradient", "own.row_lengths"]
    cube_root, lengths = operations["own.cube_root"], operations["own.row_lengths"]
    g = mg.Graph()
    x = g.placeholder((-1, 3))
    y, n = cube_root(x, shift=2.0), lengths(x)
    assert n.shape == (-1,) and y.name == "cube_root"
    value = rng.uniform(1, 5, (4, 3)).astype(np.float32)
    results = g.run({x: value}, [y, n, gradient := g.gradients(y, [x])[x]])
    np.testing.assert_allclose(results[y].numpy(), np.cbrt(value + 2), rtol=1e-6)
    np.testing.assert_allclose(results[n].numpy(), np.linalg.norm(value, axis=1), rtol=1e-6)
    np.testing.assert_allclose(results[gradient].numpy(), (value + 2) ** (-2 / 3) / 3, rtol=1e-5)
    with pytest.raises(mg.ShapeError, match="must have at least one axis"):
        lengths(g.constant(1.0))
    with pytest.raises(mg.GraphError, match="row_lengths.*has no gradient"):
        g.gradients(n, [x])


def test_library_in_documentation_compiles_strictly_and_has_a_gradient(tmp_path):
    page = (ROOT / "docs" / "custom_operations.md").read_text()
    (sample,) = re.findall(r"```cpp\n(.*?)```", page, re.DOTALL)
    (tmp_path / "cube.cpp").write_text(sample)
    (command,) = re.findall(r"^c\+\+ (.*) -I\S.* cube\.cpp -o cube\.so$", page, re.MULTILINE)
    strict = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")
    build("c++", *command.split(), *strict, f"-I{INCLUDE}", tmp_path / "cube.cpp", "-o", tmp_path / "cube.so")
    cube = mg.load_custom_operations(tmp_path / "cube.so")["own.cube"]
    g = mg.Graph()
    x = g.placeholder((3,))
    y = cube(x)
    results = g.run({x: np.float32([1, 2, -3])}, [y, gradient := g.gradients(y * 2, x)[x]])
    assert results[y].tolist() == [1, 8, -27] and results[gradient].tolist() == [6, 24, 54]


def test_library_operation_can_have_a_gradient_in_python(own, rng):
    def gradient(g):
        (x,), (n,), (incoming,) = g.operands, g.results, g.incoming
        return x / x.graph.expand_dims(n, axes=1) * x.graph.expand_dims(incoming, axes=1)

    lengths = mg.load_custom_operations(own, {"own.row_lengths": gradient})["own.row_lengths"]
    g = mg.Graph()
    x = g.placeholder((2, 3))
    value = rng.normal(size=(2, 3)).astype(np.float32)
    found = g.run({x: value}, g.gradients(lengths(x), [x])[x]).numpy()
    np.testing.assert_allclose(found, value / np.linalg.norm(value, axis=1, keepdims=True), rtol=1e-5)
    with pytest.raises(mg.GraphError, match="gradients has an entry for 'row_lengths', but"):
        mg.load_custom_operations(own, {"row_lengths": gradient})


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("int nothing;", r"exports no mpsgraph_custom_operations\(\)"),
        ("const void* mpsgraph_custom_operations(void) { return 0; }", "returns no operations"),
        (
            "static const unsigned newer[8] = {99}; const void* mpsgraph_custom_operations(void) { return newer; }",
            "returns no operations|version",
        ),
    ],
)
def test_loading_invalid_custom_libraries_raises(tmp_path, source, words):
    (tmp_path / "other.c").write_text(source)
    build("cc", "-shared", "-fPIC", tmp_path / "other.c", "-o", tmp_path / "other.so")
    with pytest.raises(mg.GraphError, match=words):
        mg.load_custom_operations(tmp_path / "other.so")


def test_loading_file_that_is_not_a_library_raises(tmp_path):
    with pytest.raises(mg.GraphError, match="file not found"):
        mg.load_custom_operations(tmp_path / "nowhere.so")
    (tmp_path / "text.so").write_text("text")
    with pytest.raises(mg.GraphError, match="cannot load the library"):
        mg.load_custom_operations(tmp_path / "text.so")


# --- packages --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shifted() -> mg.CustomOperation:
    return mg.custom_operation("shifted", cpu=SHIFT, attributes={"by": 1})


@pytest.fixture(scope="module")
def package(shifted, tmp_path_factory) -> Path:
    g = mg.Graph()
    x = g.placeholder((-1,), name="x")
    path = tmp_path_factory.mktemp("packages") / "shifted.mpsgraph"
    mg.save(path, g, {"x": x}, {"y": shifted(x * 2, by=3)})
    return path


def test_package_lists_its_custom_operations(shifted, package):
    manifest = json.loads((package / "package.json").read_text())
    assert manifest["custom_operations"] == [{"name": "shifted", "key": shifted.key}]
    assert mg.load(package).run({"x": np.float32([1, 2])})["y"].tolist() == [5.0, 7.0]


LOADED = """
import sys, numpy as np, mpsgraph as mg
package, library = sys.argv[1:]
try:
    mg.load(package)
except mg.PackageError as error:
    print(error)
mg.load_custom_operations(library)
print(mg.load(package).run({"x": np.float32([1, 2, 3])})["y"].tolist())
"""


def test_loading_package_requires_its_custom_operations(shifted, package):
    first, second = python(LOADED, package, shifted.library).splitlines()
    assert first.startswith(str(package))
    assert (
        f"needs custom operations that are not defined in this process: 'shifted' with the key '{shifted.key}'" in first
    )
    assert second == "[5.0, 7.0, 9.0]"


def test_loading_package_with_different_code_raises(package):
    program = "import sys, mpsgraph as mg\nmg.custom_operation('shifted', cpu=sys.argv[2], attributes={'by': 1})\n"
    program += "try: mg.load(sys.argv[1])\nexcept mg.PackageError as error: print(error)"
    assert "(an operation with this name but other code is defined)" in python(program, package, SHIFT + "// otherwise")


def test_explicit_version_is_the_custom_operation_key(tmp_path):
    first = mg.custom_operation(
        "versioned", cpu=SHIFT.replace("shifted", "versioned"), attributes={"by": 1}, version="1.0"
    )
    again = mg.custom_operation(
        "versioned", cpu=SHIFT.replace("shifted", "versioned") + "// mended", attributes={"by": 1}, version="1.0"
    )
    assert first.key == again.key == "1.0" and first.library != again.library


def test_package_without_custom_operations_lists_none(tmp_path):
    g = mg.Graph()
    x = g.placeholder((2,), name="x")
    mg.save(tmp_path / "plain", g, {"x": x}, {"y": x * 2})
    assert "custom_operations" not in json.loads((tmp_path / "plain" / "package.json").read_text())


def test_package_stores_shapes_inferred_in_python(tmp_path):
    source = """void doubled_rows(mpsgraph::custom::Call& c) {
      const auto x = c.operand<float>(0); const auto y = c.result<float>(0);
      for (int64_t i = 0; i < y.size(); ++i) y[i] = x[i / 2];
    }"""

    def infer(x):
        return mg.TensorType(x.dtype, (-1 if x.shape[0] < 0 else 2 * x.shape[0],))

    doubled = mg.custom_operation("doubled_rows", cpu=source, infer=infer)
    for size in (3, -1):
        g = mg.Graph()
        x = g.placeholder((size,), name="x")
        mg.save(tmp_path / f"package{size}", g, {"x": x}, {"y": doubled(x)})
    assert python(LOADED, tmp_path / "package3", doubled.library).splitlines()[-1] == "[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]"
    program = LOADED.replace("print(mg.load", "try:\n  mg.load").replace(
        ".tolist())", "\nexcept mg.ShapeError as e: print(e)"
    )
    assert "no shape inference function" in python(program, tmp_path / "package-1", doubled.library)


# --- C ---------------------------------------------------------------------------------------------------------------


def test_c_program_runs_package_with_custom_operation(shifted, package, tmp_path):
    program = tmp_path / "program"
    options = (f"-I{INCLUDE}", f"-L{LIBRARY}", "-lmpsgraph", f"-Wl,-rpath,{LIBRARY}")
    build("cc", "-std=c99", *STRICT, "-fsanitize=address", "-g", HERE / "program.c", "-o", program, *options)
    done = subprocess.run([program, package, shifted.library], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    refusal, of_package, own, last = done.stdout.splitlines()
    assert "'shifted' with the key" in refusal
    assert (of_package, own, last) == ("5 7 -3", "2.5 5 -7.5", "done")


def test_custom_operation_header_compiles_as_c99_and_cpp17(tmp_path):
    for compiler, name in ((("cc", "-std=c99"), "a.c"), (("c++", "-std=c++17"), "a.cpp")):
        (tmp_path / name).write_text("#include <mpsgraph/custom_operation.h>\nint main(void) { return 0; }\n")
        build(*compiler, *STRICT, f"-I{INCLUDE}", "-c", tmp_path / name, "-o", tmp_path / "a.o")
