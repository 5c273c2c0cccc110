"""Run swift/make_xcframework.sh on any machine: stubs of Apple's tools record their arguments and write empty files."""

import os
import plistlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADERS = {"mpsgraph.h", "custom_operation.h", "function_table.h", "export.h"}

RECORD = 'echo "$(basename "$0") $*" >> "$LOG"\n'
STUBS = {
    "uname": "echo Darwin\n",
    "xcodebuild": RECORD,
    "xcrun": RECORD,
    "install_name_tool": RECORD,
    # lipo -create INPUT... -output OUTPUT
    "lipo": RECORD + 'for output in "$@"; do :; done\n: > "$output"\n',
    # cmake -S SOURCE -B BUILD OPTION..., and cmake --build BUILD
    "cmake": RECORD,
    # -m venv FOLDER copies this stub; -c checks the version, which is $PYTHON_IS.
    "python3": """case "$1 $2" in
  "-m venv") mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; cp "$(dirname "$0")/cmake" "$3/bin/cmake" ;;
  "-c "*) [ "$PYTHON_IS" != 3.9 ] ;;
  "--version "*) echo "Python $PYTHON_IS" ;;
esac
""",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of what the script reads, in a folder whose name has a space, with stubs of the tools in bin."""
    root = tmp_path / "a checkout"
    shutil.copytree(ROOT / "include", root / "include")
    (root / "swift").mkdir()
    shutil.copy(ROOT / "swift" / "make_xcframework.sh", root / "swift")
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / "bin").mkdir()
    for name, body in STUBS.items():
        stub = root / "bin" / name
        stub.write_text(f"#!/bin/sh\n{body}")
        stub.chmod(0o755)
    return root


def make(root: Path, *sdks: str, python: str = "3.13", **variables: str) -> subprocess.CompletedProcess:
    environment = {"PATH": f"{root / 'bin'}:{os.environ['PATH']}", "LOG": str(root / "log"), "PYTHON_IS": python}
    command = ["sh", str(root / "swift" / "make_xcframework.sh"), *sdks]
    return subprocess.run(command, env=environment | variables, capture_output=True, text=True)


def calls(root: Path, tool: str) -> list[str]:
    """Return the arguments of each call of a tool."""
    lines = (root / "log").read_text().splitlines()
    return [line.removeprefix(f"{tool} ") for line in lines if line.startswith(f"{tool} ")]


@pytest.mark.parametrize("target", [None, "11.0", "13.3"])
def test_each_architecture_targets_the_oldest_system_regardless_of_the_environment(checkout: Path, target: str | None):
    done = make(checkout, **({} if target is None else {"MACOSX_DEPLOYMENT_TARGET": target}))
    assert done.returncode == 0, done.stderr
    configured = [call for call in calls(checkout, "cmake") if call.startswith("-S")]
    option = {
        name: [re.search(rf"-DCMAKE_{name}=(\S+)", call)[1] for call in configured]
        for name in ("SYSTEM_NAME", "OSX_SYSROOT", "OSX_ARCHITECTURES", "OSX_DEPLOYMENT_TARGET")
    }
    assert list(zip(*option.values(), strict=True)) == [
        ("Darwin", "macosx", "arm64", "13.3"),
        ("Darwin", "macosx", "x86_64", "13.3"),
        ("iOS", "iphoneos", "arm64", "16.4"),
        ("iOS", "iphonesimulator", "arm64", "16.4"),
        ("iOS", "iphonesimulator", "x86_64", "16.4"),
    ]
    frameworks = " ".join(f"-framework {sdk}/CMpsgraph.framework" for sdk in ("macosx", "iphoneos", "iphonesimulator"))
    assert calls(checkout, "xcodebuild") == [f"-create-xcframework {frameworks} -output CMpsgraph.xcframework"]


@pytest.mark.parametrize(
    ("sdk", "inside", "resources", "oldest"),
    [
        ("macosx", "Versions/A", "Versions/A/Resources", {"LSMinimumSystemVersion": "13.3"}),
        ("iphoneos", ".", ".", {"MinimumOSVersion": "16.4"}),
        ("iphonesimulator", ".", ".", {"MinimumOSVersion": "16.4"}),
    ],
)
def test_frameworks_have_the_layout_of_their_system(
    checkout: Path, sdk: str, inside: str, resources: str, oldest: dict
):
    done = make(checkout, sdk)
    assert done.returncode == 0, done.stderr
    framework = checkout / "swift" / "build" / sdk / "CMpsgraph.framework"
    binary, headers, modules = (framework / inside / name for name in ("CMpsgraph", "Headers", "Modules"))
    assert binary.is_file()
    path = "@rpath/CMpsgraph.framework/" + ("" if inside == "." else f"{inside}/") + "CMpsgraph"
    assert calls(checkout, "install_name_tool")[0].startswith(f"-id {path} ")
    properties = plistlib.loads((framework / resources / "Info.plist").read_bytes())
    assert {key: value for key, value in properties.items() if "Minimum" in key} == oldest
    assert properties["CFBundleShortVersionString"] in (ROOT / "pyproject.toml").read_text()
    assert {path.name for path in (headers / "mpsgraph").iterdir()} == HEADERS
    named = re.findall(r'header "mpsgraph/(.+)"', (modules / "module.modulemap").read_text())
    assert set(named) == HEADERS
    # Within a framework, a header is found only by the framework's name.
    included = [
        re.findall(r'#include [<"](.*mpsgraph/.*)[>"]', (headers / "mpsgraph" / name).read_text()) for name in HEADERS
    ]
    assert sum(included, []) and {path.rpartition("/")[0] for paths in included for path in paths} == {
        "CMpsgraph/mpsgraph"
    }
    if sdk == "macosx":
        for part in ("CMpsgraph", "Headers", "Modules", "Resources"):
            assert os.readlink(framework / part) == f"Versions/Current/{part}" and (framework / part).exists()


def test_too_old_python_is_reported_before_the_build_starts(checkout: Path):
    done = make(checkout, python="3.9")
    assert done.returncode == 2 and not (checkout / "swift" / "build").exists()
    assert done.stderr == (
        "make_xcframework.sh requires Python 3.10 or later, got Python 3.9; set PYTHON to a newer one\n"
    )


def test_unknown_sdk_is_reported(checkout: Path):
    done = make(checkout, "watchos")
    assert done.returncode == 2
    assert done.stderr == "make_xcframework.sh knows macosx, iphoneos and iphonesimulator, not watchos\n"
