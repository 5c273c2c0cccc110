"""Check what releases are made from: pinned actions, requirements with hashes, and the bill of materials."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib  # type: ignore[no-redef]

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LOCKS = sorted((ROOT / ".github" / "requirements").glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

# Actions whose commit could not be looked up when they were added, with the reason. This should be empty.
UNPINNED: dict[str, str] = {}

needs_workflows = pytest.mark.skipif(not WORKFLOWS, reason="the source distribution contains no workflows")


def unpinned(text: str) -> list[str]:
    """Return the actions of a workflow that are not pinned by commit with their version in a comment."""
    used = re.findall(r"^\s*-?\s*uses:\s*(\S+)(.*)$", text, re.MULTILINE)
    pinned = re.compile(r"[\w./-]+@[0-9a-f]{40}")
    return [
        action
        for action, comment in used
        if not action.startswith("./")
        and action not in UNPINNED
        and not (pinned.fullmatch(action) and re.fullmatch(r"  # v\d+\.\d+\.\d+", comment))
    ]


@needs_workflows
@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit(workflow):
    text = workflow.read_text()
    assert "uses:" in text
    assert not unpinned(text), "pin actions as owner/name@<40 hex digits>  # v1.2.3"


def test_tags_branches_and_missing_versions_count_as_unpinned():
    commit = "0123456789abcdef0123456789abcdef01234567"
    lines = ["a/b@v4", "a/b@main", f"a/b@{commit[:39]}", f"a/b@{commit}", f"a/b@{commit}  # v1.2.3", "./local"]
    found = unpinned("\n".join(f"      - uses: {line}" for line in lines))
    assert found == ["a/b@v4", "a/b@main", f"a/b@{commit[:39]}", f"a/b@{commit}"]


@needs_workflows
def test_every_use_of_an_action_is_pinned_to_the_same_commit():
    commits: dict[str, set[str]] = {}
    for workflow in WORKFLOWS:
        for name, commit in re.findall(r"uses:\s*([\w./-]+)@(.+)", workflow.read_text()):
            commits.setdefault(name, set()).add(commit)
    assert all(len(found) == 1 for found in commits.values()), commits


@needs_workflows
@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_have_minimal_permissions(workflow):
    text = workflow.read_text()
    assert re.search(r"^permissions:\n  contents: read$", text, re.MULTILINE)
    assert text.count("uses: actions/checkout@") == text.count("persist-credentials: false")
    assert "secrets." not in text, "releases use trusted publishing, so no workflow needs a secret"


@needs_workflows
def test_only_the_publishing_job_can_sign():
    text = (ROOT / ".github" / "workflows" / "wheels.yml").read_text()
    before, publish = text.split("\n  publish:\n")
    assert "id-token: write" not in before and "id-token: write" in publish
    assert "environment: pypi" in publish and "startsWith(github.ref, 'refs/tags/v')" in publish
    assert publish.count("uses: actions/attest@") == 2 and "sbom-path:" in publish
    assert not [path for path in WORKFLOWS if path.name != "wheels.yml" and "id-token" in path.read_text()]


def locked(path: Path) -> dict[str, list[tuple[str, int]]]:
    """Return the versions in a file of locked requirements, each with the number of its hashes, keyed by name."""
    found: dict[str, list[tuple[str, int]]] = {}
    for entry in re.split(r"\n(?=[\w-])", "\n" + re.sub(r"(?m)^#.*\n", "", path.read_text())):
        if entry.strip():
            name, version = re.match(r"\s*([\w.-]+)==([\w.]+)", entry).groups()
            found.setdefault(name, []).append((version, len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry))))
    return found


def satisfies(version: str, requirement: str) -> bool:
    """Return whether a version satisfies a requirement that uses only == and >=."""
    numbers = lambda text: [int(part) for part in re.findall(r"\d+", text)]  # noqa: E731
    for relation, bound in re.findall(r"(==|>=)([\w.]+)", requirement.partition(";")[0]):
        if not (version == bound if relation == "==" else numbers(version) >= numbers(bound)):
            return False
    return True


@needs_workflows
def test_locked_requirements_have_hashes():
    assert {path.name for path in LOCKS} == {"build.txt", "release.txt"}
    for path in LOCKS:
        assert locked(path), path
        assert all(hashes for versions in locked(path).values() for _, hashes in versions), path


@needs_workflows
def test_locked_requirements_satisfy_pyproject():
    versions = locked(ROOT / ".github" / "requirements" / "build.txt")
    wanted = PROJECT["build-system"]["requires"] + PROJECT["project"]["optional-dependencies"]["build"]
    for requirement in wanted:
        name = re.match(r"[\w-]+", requirement)[0]
        assert name in versions, f"{requirement} is missing in .github/requirements/build.txt"
        assert all(satisfies(version, requirement) for version, _ in versions[name]), requirement
    assert satisfies("2.10", ">=2.9") and not satisfies("2.8", ">=2.9") and not satisfies("1.0", "==2.0")


@needs_workflows
def test_wheels_are_built_from_locked_requirements():
    wheels = PROJECT["tool"]["cibuildwheel"]
    assert "--require-hashes -r {project}/.github/requirements/build.txt" in wheels["before-build"]
    assert wheels["build-frontend"]["args"] == ["--no-build-isolation"]
    text = (ROOT / ".github" / "workflows" / "wheels.yml").read_text()
    installs = re.findall(r"pip install (.*)", text)
    assert all("--require-hashes" in line or "wheels/" in line for line in installs), installs


def bill() -> dict:
    command = [sys.executable, "cmake/sbom.py", "pyproject.toml"]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def test_bill_of_materials_lists_compiled_in_and_required_packages():
    document = bill()
    assert document["bomFormat"] == "CycloneDX" and document["specVersion"] == "1.6"
    assert document["metadata"]["component"]["version"] == PROJECT["project"]["version"]
    names = {component["name"] for component in document["components"]}
    assert names == {"pybind11", "nlohmann-json", "numpy"}
    references = [component["bom-ref"] for component in document["components"]]
    assert document["dependencies"][0]["dependsOn"] == references
    assert all(component["licenses"] for component in document["components"])
    assert bill() == document


def test_security_policy_matches_the_repository():
    text = (ROOT / "SECURITY.md").read_text()
    for word in ("Report a vulnerability", "Threat model", "mg.limits(nodes=", "tests/fuzzing"):
        assert word in text
