"""Link C programs to the library with CMake and pkg-config, from the wheel and from an installation, and statically."""

import os
import re
import subprocess
import sys
from pathlib import Path

import mpsgraph as mg
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD_DIR = ROOT / os.environ.get("MPSGRAPH_BUILD_DIR", "build/release")
WHEEL = Path(mg.__file__).parent

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="builds programs against libmpsgraph.so"),
    pytest.mark.skipif(not BUILD_DIR.is_dir(), reason="requires the build directory"),
]


def run(*command, **options) -> str:
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True, timeout=300, **options)
    assert done.returncode == 0, f"{command[0]} failed ({done.returncode}):\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> Path:
    """Install with `cmake --install`, including the static library, and return the prefix."""
    directory = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", BUILD_DIR, "--prefix", directory)
    run("cmake", "--install", BUILD_DIR, "--component", "static", "--prefix", directory)
    (config,) = directory.rglob("mpsgraphConfig.cmake")
    return config.parents[3]


def application(installed: Path, build: Path, *options: str) -> Path:
    """Build the consumer with the CMake package of an installation."""
    found = f"-DCMAKE_PREFIX_PATH={installed / 'lib' / 'cmake'}"
    run("cmake", "-S", HERE / "consumer", "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", found, *options)
    run("cmake", "--build", build)
    return build / "application"


def needed(program: Path) -> str:
    return run("readelf", "-d", program)


def test_cmake_find_package_works_with_wheel(tmp_path):
    assert run(application(WHEEL, tmp_path)) == "done\n"


def test_cmake_find_package_works_with_installed_library(prefix, tmp_path):
    program = application(prefix, tmp_path)
    assert "libmpsgraph.so" in needed(program)
    assert run(program) == "done\n"


def test_static_linking_includes_all_kernels(prefix, tmp_path):
    """Kernels and operations register themselves and are not referenced by name, so the linker must not drop them."""
    program = application(prefix, tmp_path, "-DSTATIC=ON")
    assert "libmpsgraph" not in needed(program)
    assert run(program) == "done\n"


@pytest.mark.parametrize(
    ("languages", "has_archive", "advice"),
    [("C CXX", False, "--component static"), ("C", True, r"project\(NAME LANGUAGES C CXX\)")],
    ids=["archive_missing", "cxx_not_enabled"],
)
def test_static_linking_reports_what_is_missing(languages, has_archive, advice, prefix, tmp_path):
    lines = [
        f"cmake_minimum_required(VERSION 3.24)\nproject(one LANGUAGES {languages})",
        "find_package(mpsgraph CONFIG REQUIRED)",
        f"add_executable(one {HERE / 'blocks.c'})",
        "target_link_libraries(one PRIVATE mpsgraph::static)",
    ]
    (tmp_path / "CMakeLists.txt").write_text("\n".join(lines))
    found = f"-DCMAKE_PREFIX_PATH={(prefix if has_archive else WHEEL) / 'lib' / 'cmake'}"
    command = ["cmake", "-S", tmp_path, "-B", tmp_path / "build", "-G", "Ninja", found]
    done = subprocess.run(list(map(str, command)), text=True, capture_output=True, timeout=300)
    assert done.returncode != 0
    assert re.search(advice, " ".join(done.stderr.split())), done.stderr


def test_shared_library_links_in_a_project_with_c_alone(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(one LANGUAGES C)\nfind_package(mpsgraph CONFIG REQUIRED)\n"
        f"add_executable(application {HERE / 'blocks.c'})\ntarget_link_libraries(application mpsgraph::mpsgraph)\n"
    )
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={WHEEL / 'lib' / 'cmake'}")
    run("cmake", "--build", tmp_path / "build")
    assert run(tmp_path / "build" / "application") == "done\n"


def test_native_examples_build_with_cmake(tmp_path):
    """test_talks.py checks the results."""
    found = f"-DCMAKE_PREFIX_PATH={WHEEL / 'lib' / 'cmake'}"
    run("cmake", "-S", ROOT / "examples" / "native", "-B", tmp_path, "-G", "Ninja", found)
    run("cmake", "--build", tmp_path, "--target", "wwdc22")
    assert "range 3 7 11 15 19 23" in run(tmp_path / "wwdc22")


def package_config(installed: Path, *options: str) -> list[str]:
    environment = os.environ | {"PKG_CONFIG_PATH": str(installed / "lib" / "pkgconfig")}
    try:
        return run("pkg-config", *options, "mpsgraph", env=environment).split()
    except FileNotFoundError:
        pytest.skip("requires pkg-config")


@pytest.mark.parametrize("where", ["wheel", "installation"])
def test_pkg_config_flags_build_a_working_program(where, prefix, tmp_path):
    """With the variable rpath, the program starts without LD_LIBRARY_PATH."""
    installed = WHEEL if where == "wheel" else prefix
    flags = package_config(installed, "--cflags", "--libs") + package_config(installed, "--variable=rpath")
    run("cc", "-std=c99", HERE / "blocks.c", *flags, "-o", tmp_path / "application")
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    assert run(tmp_path / "application", env=environment) == "done\n"


def test_pkg_config_flags_link_statically(prefix, tmp_path):
    flags = package_config(prefix, "--cflags") + package_config(prefix, "--variable=static_libs")
    run("cc", "-std=c99", HERE / "blocks.c", *flags, "-o", tmp_path / "application")
    assert "libmpsgraph" not in needed(tmp_path / "application")
    assert run(tmp_path / "application") == "done\n"
