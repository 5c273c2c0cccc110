"""Check the workflows of continuous integration without running them.

A mistake in a workflow otherwise appears only when GitHub runs it, and one in the publishing job only at a release.
test_supply_chain.py checks the pins and permissions of the same files.
"""

from __future__ import annotations

import fnmatch
import functools
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib  # type: ignore[no-redef]

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = {path.stem: path for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WHEELS = PROJECT["tool"]["cibuildwheel"]

# GitHub's runners: the platform of the wheels that each builds, and the version of macOS.
RUNNERS = {
    "ubuntu-24.04": ("linux-x86_64", None),
    "ubuntu-24.04-arm": ("linux-aarch64", None),
    "macos-15": ("macos-arm64", 15),
    "macos-15-intel": ("macos-x86_64", 15),
    "macos-26": ("macos-arm64", 26),
}
LONGEST_JOB = 360  # minutes, after which GitHub cancels a job

pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="the source distribution contains no workflows")


def read(text: str) -> dict:
    return YAML(typ="safe").load(text)


def combinations(job: dict) -> list[dict]:
    """Return the values of each entry of a job's matrix, or one empty entry if it has none."""
    matrix = dict(job.get("strategy", {}).get("matrix", {}))
    assert "exclude" not in matrix, "this function does not implement exclude"
    extra = matrix.pop("include", [])
    found = [dict(zip(matrix, values, strict=True)) for values in itertools.product(*matrix.values())] if matrix else []
    # An `include` that changes a value of every entry adds an entry; this function does not implement the other kind.
    assert all(any(entry[key] != added[key] for key in entry) for entry in found for added in extra)
    return found + extra or [{}]


def fill(value, values: dict):
    """Return a part of a job with the values of a matrix entry in place of expressions such as `${{ matrix.x }}`."""
    if isinstance(value, dict):
        return {key: fill(inside, values) for key, inside in value.items()}
    if isinstance(value, list):
        return [fill(inside, values) for inside in value]
    if isinstance(value, str):
        return re.sub(r"\$\{\{ matrix\.(\w+) \}\}", lambda match: str(values.get(match[1], match[0])), value)
    return value


def jobs(workflow: dict) -> Iterator[tuple[str, dict, dict]]:
    """Yield name, matrix entry, and definition of each job, once per matrix entry."""
    for name, job in workflow["jobs"].items():
        for values in combinations(job):
            yield name, values, fill({key: part for key, part in job.items() if key != "strategy"}, values)


def dry_run(step: dict) -> subprocess.CompletedProcess:
    """Run a step that calls make, which prints its commands instead of running them."""
    return dry_run_command(step["run"], tuple((name, str(value)) for name, value in step.get("env", {}).items()))


@functools.cache
def dry_run_command(run: str, variables: tuple) -> subprocess.CompletedProcess:
    # Variables of an outer make, such as MAKEFLAGS, would change the behavior of the inner make.
    environment = {"PATH": os.environ["PATH"], **dict(variables)}
    command = f'make() {{ command make --dry-run "$@"; }}\n{run}'
    return subprocess.run(["bash", "-ec", command], cwd=ROOT, env=environment, capture_output=True, text=True)


@functools.cache
def syntax_error(run: str) -> str:
    return subprocess.run(["bash", "-n"], input=run, capture_output=True, text=True).stderr


def commands(job: dict) -> str:
    """Return all commands of a job, including those that make would run."""
    lines = []
    for step in job["steps"]:
        run = step.get("run", "")
        lines.append(dry_run(step).stdout if run.startswith("make ") else run)
        if "python -m build" in run:
            lines.append("dist/")  # the default output folder
    return "\n".join(lines)


def inputs(job: dict, action: str) -> list[dict]:
    """Return the inputs of each step of a job that uses an action."""
    return [step.get("with", {}) for step in job["steps"] if step.get("uses", "").startswith(f"{action}@")]


# --- complaints -------------------------------------------------------------------------------------------------------
def in_structure(workflow: dict) -> Iterator[str]:
    for name, job in workflow["jobs"].items():
        if not 0 < job.get("timeout-minutes", 0) <= LONGEST_JOB:
            yield f"{name}: timeout-minutes must be at most {LONGEST_JOB}"
        for needed in needs(job):
            if needed not in workflow["jobs"]:
                yield f"{name}: needs the unknown job {needed}"
    for name, _, job in jobs(workflow):
        for key in re.findall(r"\$\{\{ matrix\.(\w+)", str(job)):
            yield f"{name}: a matrix entry has no value {key}"


def in_scripts(workflow: dict) -> Iterator[str]:
    for name, job in workflow["jobs"].items():
        for step in job["steps"]:
            run = step.get("run", "")
            if "${{" in run:
                yield f"{name}: expressions in `run` can inject commands; pass them through `env`"
            if error := syntax_error(run):
                yield f"{name}: {error}"


def in_make_targets(workflow: dict) -> Iterator[str]:
    for name, _, job in jobs(workflow):
        for step in job["steps"]:
            if step.get("run", "").startswith("make "):
                done = dry_run(step)
                # A target without a rule is not an error if the Makefile lists it in .PHONY.
                if done.returncode or "Nothing to be done" in done.stdout:
                    yield f"{name}: {done.stdout}{done.stderr}"


def in_files(workflow: dict) -> Iterator[str]:
    """Every script and requirements file that a job names must be in the repository and checked out."""
    for name, _, job in jobs(workflow):
        checkouts = inputs(job, "actions/checkout")
        folders = [one["sparse-checkout"].split() for one in checkouts if "sparse-checkout" in one]
        for word in " ".join(step.get("run", "") for step in job["steps"]).split():
            if not re.fullmatch(r"[\w./-]+\.(py|sh|toml|txt)", word) and word != "make":
                continue
            path = "Makefile" if word == "make" else word
            if not (ROOT / path).is_file():
                yield f"{name}: the repository has no file {path}"
            # A sparse checkout also has the files of the root.
            partial = bool(folders) and "/" in path and not path.startswith(tuple(f"{one}/" for one in folders[0]))
            if not checkouts or partial:
                yield f"{name}: {path} is not checked out"


def in_runners(workflow: dict) -> Iterator[str]:
    for name, values, job in jobs(workflow):
        runner = job["runs-on"]
        if runner not in RUNNERS:
            yield f"{name}: unknown runner {runner}"
        elif values.get("platform", RUNNERS[runner][0]) != RUNNERS[runner][0]:
            yield f"{name}: {runner} is {RUNNERS[runner][0]}, not {values['platform']}"


def in_artifacts(workflow: dict) -> Iterator[str]:
    uploads: dict[str, tuple[str, str]] = {}
    for name, _, job in jobs(workflow):
        for upload in inputs(job, "actions/upload-artifact"):
            if upload["name"] in uploads:
                yield f"{name}: artifact {upload['name']} is uploaded twice"
            uploads[upload["name"]] = (name, upload["path"])
            made, _, _ = upload["path"].partition("*")
            if made.rstrip("/") not in commands(job):
                yield f"{name}: no command writes {upload['path']}"
    for name, _, job in jobs(workflow):
        contents: dict[str, list[str]] = {}
        for download in inputs(job, "actions/download-artifact"):
            pattern = download.get("name") or download["pattern"]
            found = [artifact for artifact in uploads if fnmatch.fnmatchcase(artifact, pattern)]
            if not found or not {uploads[artifact][0] for artifact in found} <= set(needs(job)):
                yield f"{name}: no needed job uploads {pattern}"
            contents.setdefault(download["path"], []).extend(Path(uploads[one][1]).name for one in found)
        if not contents:
            continue
        used = [word for word in re.split(r'["$()\s]+', commands(job)) if "/*" in word]
        used += [
            path for given in inputs(job, "actions/attest") for key, path in given.items() if key.endswith("-path")
        ]
        for path in used:
            folder, _, file = path.partition("/")
            if folder not in contents or ("*" not in file and file not in contents[folder]):
                yield f"{name}: {path} is not downloaded"


def needs(job: dict) -> list[str]:
    found = job.get("needs", [])
    return [found] if isinstance(found, str) else found


CHECKS = [in_structure, in_scripts, in_make_targets, in_files, in_runners, in_artifacts]


@pytest.mark.parametrize("name", WORKFLOWS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_workflows_are_consistent(name: str, check):
    assert list(check(read(WORKFLOWS[name].read_text()))) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "complaint"),
    [
        ("ci", "timeout-minutes: 15", "timeout-minutes: 600", "lint: timeout-minutes must be at most 360"),
        ("wheels", "needs: wheels", "needs: wheel", "metal: needs the unknown job wheel"),
        ("ci", "matrix.python", "matrix.pythons", "test: a matrix entry has no value pythons"),
        ("nightly", '"$TARGET"', "${{ matrix.target }}", "fuzz: expressions in `run` can inject commands"),
        ("wheels", '.whl)[demo]"', ".whl)[demo]", "metal: bash: line 1: unexpected EOF while looking for matching"),
        ("ci", "run: make lint", "run: make lnit", "lint: make: *** No rule to make target"),
        ("ci", "tools/clang.py", "tools/clan.py", "test: the repository has no file tools/clan.py"),
        ("wheels", "sparse-checkout: .github", "sparse-checkout: docs", "metal: .github/metal_selftest.py is not chec"),
        ("ci", "runs-on: ubuntu-24.04", "runs-on: ubuntu-24.4", "lint: unknown runner ubuntu-24.4"),
        ("wheels", "runner: ubuntu-24.04-arm", "runner: ubuntu-24.04", "is linux-x86_64, not linux-aarch64"),
        ("wheels", "runner: macos-26", "runner: macos-15", "metal: artifact selftest-macos-15 is uploaded twice"),
        ("wheels", "--output-dir wheelhouse", "--output-dir wheel", "wheels: no command writes wheelhouse/*.whl"),
        ("nightly", "path: build/site/html", "path: build/html", "site: no command writes build/html"),
        ("wheels", "name: wheels-${{ matrix.platform }}", "name: wheel", "metal: no needed job uploads wheels-"),
        ("wheels", "pattern: wheels-*", "pattern: wheel_*", "publish: no needed job uploads wheel_*"),
        ("wheels", "needs: [sdist, wheels, metal]", "needs: [wheels, metal]", "publish: no needed job uploads sdist"),
        ("wheels", "path: wheels\n", "path: packages\n", "metal: wheels/*-cp313-cp313-*.whl is not downloaded"),
        ("wheels", "sbom/mpsgraph.cdx.json", "sbom/sbom.json", "publish: sbom/sbom.json is not downloaded"),
    ],
)
def test_each_mistake_in_a_workflow_is_found(name: str, old: str, new: str, complaint: str):
    text = WORKFLOWS[name].read_text()
    assert old in text
    broken = read(text.replace(old, new, 1))
    found = [line for check in CHECKS for line in check(broken)]
    assert any(complaint in line for line in found), found


# --- schema -----------------------------------------------------------------------------------------------------------
def schema_errors(schema: str, *paths: Path) -> str:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_workflows_match_the_schema():
    assert not schema_errors("github-workflows", *WORKFLOWS.values())


def test_dependabot_settings_match_the_schema():
    assert not schema_errors("dependabot", ROOT / ".github" / "dependabot.yml")


def test_schema_rejects_a_misspelled_key(tmp_path):
    broken = tmp_path / "ci.yml"
    broken.write_text(WORKFLOWS["ci"].read_text().replace("timeout-minutes", "timeout-minuts", 1))
    assert "timeout-minuts" in schema_errors("github-workflows", broken)


# --- versions and platforms -------------------------------------------------------------------------------------------
def wheel_pythons() -> list[str]:
    """Return the Python versions that cibuildwheel builds for, e.g. ["3.10", "3.11"]."""
    return [f"3.{minor}" for minor in re.fullmatch(r"cp3\{([\d,]+)\}-\*", WHEELS["build"])[1].split(",")]


def test_oldest_and_newest_python_of_the_wheels_are_tested():
    tested = read(WORKFLOWS["ci"].read_text())["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert tested == [wheel_pythons()[0], wheel_pythons()[-1]]
    assert PROJECT["project"]["requires-python"] == f">={wheel_pythons()[0]}"


@pytest.mark.parametrize("name", WORKFLOWS)
def test_jobs_use_a_python_that_has_wheels(name: str):
    for job, _, definition in jobs(read(WORKFLOWS[name].read_text())):
        for given in inputs(definition, "actions/setup-python"):
            version = given["python-version"]
            assert version in wheel_pythons(), f"{job}: Python {version}"
            tags = set(re.findall(r"\bcp(3)(\d+)-", commands(definition)))
            assert tags <= {tuple(version.split("."))}, f"{job}: installs a wheel for another Python than {version}"


def test_wheels_are_built_for_each_platform_and_tested_on_each_mac():
    workflow = list(jobs(read(WORKFLOWS["wheels"].read_text())))
    built = [values["platform"] for name, values, _ in workflow if name == "wheels"]
    assert sorted(built) == ["linux-aarch64", "linux-x86_64", "macos-arm64", "macos-x86_64"]
    tested = {values["platform"] for name, values, _ in workflow if name == "metal"}
    assert tested == {platform for platform in built if platform.startswith("macos")}
    for platform in built:
        system, _, architecture = platform.partition("-")
        assert system == "macos" or WHEELS[f"manylinux-{architecture}-image"] == "manylinux_2_28"


def test_wheels_and_build_have_the_same_deployment_target():
    cmake = (ROOT / "cmake" / "deployment_target.cmake").read_text()
    ios, macos = re.findall(r"set\(mpsgraph_oldest ([\d.]+)\)", cmake)
    assert WHEELS["macos"]["environment"] == {"MACOSX_DEPLOYMENT_TARGET": macos}
    script = (ROOT / "swift" / "make_xcframework.sh").read_text()
    assert re.findall(r"system=(\w+) .* oldest=([\d.]+)", script) == [("Darwin", macos), ("iOS", ios), ("iOS", ios)]
    for name in WORKFLOWS:
        for _, _, job in jobs(read(WORKFLOWS[name].read_text())):
            _, version = RUNNERS[job["runs-on"]]
            assert version is None or version >= float(macos), job["runs-on"]


# --- fuzzing ----------------------------------------------------------------------------------------------------------
def fuzzed(step: dict) -> list[str]:
    """Return the targets that a step with `make fuzz` runs one after the other."""
    loops = re.findall(r"^for target in ([\w ]*);", dry_run(step).stdout, re.MULTILINE)
    return [target for loop in loops for target in loop.split()]


@pytest.mark.parametrize("name", ["ci", "nightly"])
def test_fuzzing_covers_each_target_and_ends_before_the_timeout(name: str):
    every = fuzzed({"run": "make fuzz"})
    assert {"graph", "json", "onnx", "idx"} <= set(every)
    covered = []
    for job, values, definition in jobs(read(WORKFLOWS[name].read_text())):
        if job != "fuzz":
            continue
        (step,) = [one for one in definition["steps"] if one.get("run", "").startswith("make fuzz")]
        seconds = int(re.search(r'== fuzz: \$target for (\d+) s"', dry_run(step).stdout)[1])
        covered += fuzzed(step)
        # Half an hour remains for the build.
        assert len(fuzzed(step)) * seconds / 60 + 30 <= definition["timeout-minutes"], values
    assert sorted(covered) == sorted(every)
