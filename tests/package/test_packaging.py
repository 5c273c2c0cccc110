"""Test the wheel as a user installs it.

The wheel is built once and installed into an empty environment outside the source tree. There it is imported,
type-checked, run from the command line, and linked from a C++ application.
"""

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.begins_early

ROOT = Path(__file__).resolve().parents[2]
# The build directory of `make`: its objects are already compiled, so the wheel builds quickly.
BUILD_DIR = os.environ.get("MPSGRAPH_BUILD_DIR", "build/release")


def run(*command, cwd: Path, timeout: float = 600, **environment: str) -> str:
    """Run a command without the source tree on Python's path and return its output.

    Fails with the complete output if the command fails.
    """
    env = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH"}}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env | environment, text=True, capture_output=True, timeout=timeout
    )
    assert done.returncode == 0, f"{command[0]} failed ({done.returncode}):\n{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass
class Installed:
    """A virtual environment that contains only the wheel and its dependencies."""

    wheel: Path
    directory: Path  # Working directory, outside the source tree.

    @property
    def binaries(self) -> Path:
        return self.directory / "environment" / "bin"

    def python(self, *arguments, **environment: str) -> str:
        return run(self.binaries / "python", *arguments, cwd=self.directory, **environment)

    def evaluate(self, program: str) -> str:
        return self.python("-c", program).strip()

    @property
    def package(self) -> Path:
        return Path(self.evaluate("import mpsgraph; print(mpsgraph.__file__)")).parent


def install(wheel: Path, directory: Path) -> Installed:
    venv.create(directory / "environment", with_pip=True)
    installed = Installed(wheel, directory)
    installed.python("-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    return installed


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Installed:
    wheels = tmp_path_factory.mktemp("wheel")
    run(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
        *(f"--config-settings=build-dir={BUILD_DIR}", "--wheel-dir", wheels, ROOT),
        cwd=ROOT,
        timeout=1800,
    )
    (wheel,) = wheels.glob("mpsgraph-*.whl")
    return install(wheel, tmp_path_factory.mktemp("outside"))


def test_wheel_contains_the_whole_package(installed):
    names = set(zipfile.ZipFile(installed.wheel).namelist())
    assert any(re.fullmatch(r"mpsgraph/_core\.[\w.-]+\.so", name) for name in names)
    assert names >= {
        "mpsgraph/__init__.py",
        "mpsgraph/_core.pyi",
        "mpsgraph/py.typed",
        "mpsgraph/lib/libmpsgraph.so",
        "mpsgraph/lib/cmake/mpsgraph/mpsgraphConfig.cmake",
        "mpsgraph/lib/cmake/mpsgraph/mpsgraphConfigVersion.cmake",
        "mpsgraph/lib/cmake/mpsgraph/mpsgraphTargets.cmake",
        "mpsgraph/include/mpsgraph/mpsgraph.h",
        "mpsgraph/include/mpsgraph/mpsgraph.hpp",
        "mpsgraph/include/mpsgraph/application.hpp",
        "mpsgraph/lib/pkgconfig/mpsgraph.pc",
        "mpsgraph/include/mpsgraph/core/graph.h",
        "mpsgraph/selftest/tests/cases/pooling.py",
        "mpsgraph/selftest/tests/harness/running.py",
        "mpsgraph/selftest/tests/harness/unsupported.py",
    }
    assert not [name for name in names if name.endswith(".cpp") or "__pycache__" in name]
    assert not [name for name in names if name.split("/")[0] not in {"mpsgraph", f"mpsgraph-{version()}.dist-info"}]


def test_wheel_contains_a_bill_of_materials(installed):
    name = f"mpsgraph-{version()}.dist-info/sboms/mpsgraph.cdx.json"  # PEP 770
    bill = json.loads(zipfile.ZipFile(installed.wheel).read(name))
    assert bill["metadata"]["component"]["version"] == version()
    # The versions of what was compiled in are known at build time.
    versions = {component["name"]: component.get("version") for component in bill["components"]}
    assert versions["pybind11"] and versions["nlohmann-json"]


def version() -> str:
    """Return the version from the only file that defines it."""
    (line,) = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    return line


def test_headers_included_by_installed_headers_are_installed(installed):
    """Every header that an installed header includes is installed."""
    include = installed.package / "include"
    for header in include.rglob("*.h"):
        for name in re.findall(r'#include "([^"]+)"', header.read_text()):
            assert (include / name).is_file(), f"{header.relative_to(include)} includes {name}"


def test_wheel_contains_no_build_paths(installed):
    for name in zipfile.ZipFile(installed.wheel).namelist():
        content = zipfile.ZipFile(installed.wheel).read(name)
        assert str(ROOT).encode() + b"/" not in content, f"{name} contains the path of the source tree"
        assert sys.prefix.encode() + b"/" not in content, f"{name} contains the path of the build environment"


def test_imported_package_has_version_of_wheel(installed):
    program = "import mpsgraph, importlib.metadata as m; print(mpsgraph.__version__, m.version('mpsgraph'))"
    assert installed.evaluate(program) == f"{version()} {version()}"
    assert ROOT not in installed.package.parents


def test_import_is_lazy(installed):
    modules = installed.evaluate("import sys, mpsgraph; print(*sorted({m.split('.')[0] for m in sys.modules}))").split()
    assert not set(modules) & {"tqdm", "matplotlib", "onnx", "safetensors", "sklearn", "scipy", "asyncio", "unittest"}


def test_installed_commands_print_help_version_and_folders(installed):
    assert "demo" in run(installed.binaries / "mpsgraph", "--help", cwd=installed.directory)
    assert "demo" in installed.python("-m", "mpsgraph", "--help")
    assert version() in installed.python("-m", "mpsgraph", "--version")
    assert "convert" in run(installed.binaries / "mpsgraphtool", "--help", cwd=installed.directory)
    cmake_dir = Path(installed.python("-m", "mpsgraph", "--cmake-dir").strip())
    include_dir = Path(installed.python("-m", "mpsgraph", "--include-dir").strip())
    assert (cmake_dir / "mpsgraphConfig.cmake").is_file()
    assert (include_dir / "mpsgraph" / "mpsgraph.h").is_file()


def test_installed_package_includes_selftest_cases(installed):
    command = [installed.binaries / "mpsgraph", "selftest", "--device", "cpu", "--quick", "--only", "operations"]
    assert "nothing failed" in run(*command, cwd=installed.directory)


def readme_examples() -> list[str]:
    """Return the Python examples of the README: one with a Trainer, one with a graph."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_readme_examples_are_short_and_run(installed):
    """The graph example needs only the package. The Trainer example needs an extra and is run in pages/."""
    with_trainer, with_graph = readme_examples()
    assert len(with_trainer.splitlines()) <= 16 and len(with_graph.splitlines()) == 20
    loss, accuracy = re.fullmatch(r"loss ([\d.]+), accuracy ([\d.]+)%", installed.evaluate(with_graph)).groups()
    assert float(loss) < 0.3 and float(accuracy) > 90


@pytest.fixture(scope="module")
def consumer(installed, tmp_path_factory) -> Path:
    """Build an application that uses find_package(mpsgraph) and return its path."""
    cmake_dir = installed.python("-m", "mpsgraph", "--cmake-dir").strip()
    build = tmp_path_factory.mktemp("consumer")
    run(
        *("cmake", "-S", ROOT / "tests" / "consumer", "-B", build, "-G", "Ninja"),
        *(f"-DCMAKE_PREFIX_PATH={cmake_dir}", "-DCMAKE_BUILD_TYPE=Release"),
        cwd=build,
    )
    run("cmake", "--build", build, cwd=build)
    return build / "consumer"


def test_consumer_application_trains_and_reloads_a_model(consumer, tmp_path):
    """The program itself checks its results."""
    output = run(consumer, cwd=tmp_path)
    losses = [float(value) for value in re.findall(r"loss ([\d.e+-]+)", output)]
    assert len(losses) >= 2 and losses[-1] < 0.1 * losses[0]
    assert "ShapeError" in output and "loaded from the package: y = 2" in output


def test_consumer_application_runs_package_saved_by_python(installed, consumer, tmp_path):
    """A C++ application runs the package without Python."""
    program = """
import mpsgraph as mg, numpy as np
g = mg.Graph()
x = g.placeholder((-1, 3), name="x")
y = g.matrix_multiplication(x, g.variable(np.float32([[1], [2], [3]]), name="w"))
mg.save("line.mpsgraph", g, [x], {"y": y})
"""
    installed.python("-c", program)
    assert run(consumer, installed.directory / "line.mpsgraph", cwd=tmp_path) == "y: 6 6\n"


def public_headers() -> list[str]:
    """Return the public headers as applications include them."""
    return sorted(path.relative_to(ROOT / "include").as_posix() for path in (ROOT / "include").rglob("*.h*"))


def test_only_public_headers_are_installed(installed):
    include = Path(installed.python("-m", "mpsgraph", "--include-dir").strip())
    assert sorted(path.relative_to(include).as_posix() for path in include.rglob("*") if path.is_file()) == (
        public_headers()
    )


def test_every_public_header_compiles_on_its_own(installed, tmp_path):
    """Each header compiles when it is included first, and when it is included twice."""
    include = installed.python("-m", "mpsgraph", "--include-dir").strip()
    for header in public_headers():
        (tmp_path / "alone.cpp").write_text(f"#include <{header}>\n#include <{header}>\nint main() {{}}\n")
        run(
            "c++",
            "-std=c++20",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsyntax-only",
            f"-I{include}",
            "alone.cpp",
            cwd=tmp_path,
        )


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF symbol tables")
def test_library_exports_only_public_symbols(installed):
    """Check that the library exports every class and function of the public headers, and no symbols of passes,
    kernels, backends or other libraries.
    """
    library = installed.package / "lib" / "libmpsgraph.so"
    exported = {line.split(" ", 2)[2] for line in run("nm", "-DC", "--defined-only", library, cwd=ROOT).splitlines()}
    of_ours = re.compile(r"(typeinfo (name )?for |vtable for |(non-)?virtual thunk to )?mpsgraph(::|_)")
    assert [name for name in exported if not of_ours.match(name)] == []
    inside = {name.split("(")[0] for name in exported if re.match(r"mpsgraph::(ops|cpu|metal|compiler)::", name)}
    for_the_python_module = {"mpsgraph::cpu::Philox::generate", "mpsgraph::compiler::specialize"}
    for_the_python_module |= {"mpsgraph::compiler::expanded"}
    assert inside == for_the_python_module | {"mpsgraph::compiler::tensors_to_quantize"}
    for name in (
        "Graph::add",
        "gradients",
        "runtime::Device::get",
        "runtime::Package::load",
        "runtime::Executable::run",
    ):
        assert any(symbol.startswith(f"mpsgraph::{name}(") for symbol in exported), name
    assert "typeinfo for mpsgraph::ShapeError" in exported, (
        "exceptions must keep their types across the library boundary"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF symbol tables")
def test_python_module_exports_only_its_init_function(installed):
    """Check that the extension module exports no symbols of the C++ standard library.

    A process uses only one definition of some templates of that library. If the module exported them, a later import of
    PyTorch would bind to our definitions and free memory that it did not allocate.
    """
    (module,) = installed.package.glob("_core*.so")
    offered = run("nm", "-D", "--defined-only", module, cwd=ROOT).split()
    assert offered[-1:] == ["PyInit__core"] and len(offered) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF symbol tables")
@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="Py_AddPendingCall does not depend on the calling thread since Python 3.12"
)
def test_python_module_does_not_use_pending_calls(installed):
    """Check that the module does not use Py_AddPendingCall.

    That function reads the interpreter from the state of the thread that has the GIL, and crashes if that thread is
    just ending, as handler threads do after each call.
    """
    (module,) = installed.package.glob("_core*.so")
    used = run("nm", "-D", "--undefined-only", module, cwd=ROOT).split()
    assert "Py_AddPendingCall" not in used and "_PyEval_AddPendingCall" in used


USER_PROGRAM = """
import numpy as np
import mpsgraph as mg

g = mg.Graph(seed=1)
x = g.placeholder((-1, 4), mg.float32, name="x")
w = g.variable(np.ones((4, 2), np.float32), name="w")
loss = g.reduction_sum(g.relu(g.matrix_multiplication(x, w) + 1.0))
gradients: dict[mg.Tensor, mg.Tensor] = g.gradients(loss, [w])
updates: list[mg.Operation] = [g.assign(v, v - 0.1 * d) for v, d in gradients.items()]
result: mg.NDArray = g.run({x: np.ones((3, 4), np.float32)}, [loss], updates)[loss]
value: float = float(result)
same: bool = x is w
near: mg.Tensor = loss == 0.0
"""


def test_installed_type_stubs_pass_strict_mypy(installed):
    """The stubs and annotations pass mypy --strict for a correct program and reject a wrong one."""
    arguments = ("-m", "mypy", "--strict", "--python-executable", installed.binaries / "python")
    (installed.directory / "right.py").write_text(USER_PROGRAM)
    run(sys.executable, *arguments, "right.py", cwd=installed.directory)
    installed.python("right.py")
    (installed.directory / "wrong.py").write_text("import mpsgraph as mg\n\nmg.Graph().placeholder(shpe=(1,))\n")
    with pytest.raises(AssertionError, match="shpe"):
        run(sys.executable, *arguments, "wrong.py", cwd=installed.directory)


def test_package_passes_mypy():
    run(sys.executable, "-m", "mypy", cwd=ROOT)


def test_stubs_are_up_to_date(tmp_path):
    run(sys.executable, ROOT / "tools" / "stubs.py", tmp_path, cwd=tmp_path)
    for stub in ("_core.pyi", "ops/derived.pyi"):
        generated = (tmp_path / "mpsgraph" / stub).read_text()
        assert generated == (ROOT / "python" / "mpsgraph" / stub).read_text(), "run `make stubs`"


@pytest.mark.slow
def test_isolated_install_needs_only_compiler_and_pypi(tmp_path):
    """`pip install .` in an empty environment needs only a compiler and PyPI."""
    isolated = install(ROOT, tmp_path)
    assert isolated.evaluate("import mpsgraph; print(mpsgraph.__version__)") == version()
    assert "accuracy 9" in isolated.evaluate(readme_examples()[1])
    isolated.python("-m", "mpsgraph", "selftest", "--quick")
