"""Test cmake/deployment_target.cmake, which chooses the oldest macOS of a build, without a Mac."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = f"""
cmake_minimum_required(VERSION 3.24...4.0)
include({ROOT / "cmake" / "deployment_target.cmake"})
project(example LANGUAGES NONE)
message(NOTICE "variable: ${{CMAKE_OSX_DEPLOYMENT_TARGET}} cache: $CACHE{{CMAKE_OSX_DEPLOYMENT_TARGET}}")
"""


def configure(folder: Path, environment: str | None, *options: str) -> str:
    (folder / "CMakeLists.txt").write_text(PROJECT)
    variables = {name: value for name, value in os.environ.items() if name != "MACOSX_DEPLOYMENT_TARGET"}
    if environment is not None:
        variables["MACOSX_DEPLOYMENT_TARGET"] = environment
    command = ["cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", *options]
    done = subprocess.run(list(map(str, command)), env=variables, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


# conda's compilers set 11.0; cibuildwheel sets the version that pyproject.toml requests.
@pytest.mark.parametrize(
    ("environment", "expected"), [(None, "13.3"), ("", "13.3"), ("11.0", "13.3"), ("13.3", "13.3"), ("14.2", "14.2")]
)
def test_deployment_target_follows_the_environment_but_is_at_least_13_3(tmp_path, environment, expected):
    for configuration in ("first", "second"):  # the first one has no cache yet
        output = configure(tmp_path, environment)
        assert f"variable: {expected} cache: {expected}" in output, configuration


@pytest.mark.parametrize(("option", "expected"), [("12.0", "13.3"), ("15.0", "15.0"), ("16.4", "16.4")])
def test_deployment_target_option_takes_precedence_over_the_environment(tmp_path, option, expected):
    output = configure(tmp_path, "14.0", f"-DCMAKE_OSX_DEPLOYMENT_TARGET={option}")
    assert f"variable: {expected} cache: {expected}" in output
    assert ("raised from 12.0 to 13.3" in output) == (option == "12.0")
