"""Link C programs to the library with CMake and pkg-config, from the wheel and from an installation, and statically."""

import os
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


@pytest.mark.parametrize("where", ["wheel", "installation"])
def test_pkg_config_flags_build_a_working_program(where, prefix, tmp_path):
    installed = WHEEL if where == "wheel" else prefix
    environment = os.environ | {"PKG_CONFIG_PATH": str(installed / "lib" / "pkgconfig")}
    try:
        flags = run("pkg-config", "--cflags", "--libs", "mpsgraph", env=environment).split()
    except FileNotFoundError:
        pytest.skip("requires pkg-config")
    path = f"-Wl,-rpath,{installed / 'lib'}"
    run("cc", "-std=c99", HERE / "blocks.c", *flags, path, "-o", tmp_path / "application")
    assert run(tmp_path / "application") == "done\n"
