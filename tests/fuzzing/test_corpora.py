"""Load the stored inputs of the importers again, and a fixed number of mutated files.

The corpora of the targets in C++ are replayed by tests/cpp/test_fuzz_corpora.cpp.
"""

import re
from pathlib import Path

import pytest
from fuzzing.importers import CORPORA, TARGETS, Mutator, problem

ROOT = Path(__file__).resolve().parents[2]
MUTATIONS = 40


def skip_without_packages(name):
    if name == "onnx":
        pytest.importorskip("onnx")


@pytest.mark.parametrize("name", TARGETS)
def test_valid_files_load(name, tmp_path):
    skip_without_packages(name)
    target = TARGETS[name]
    for data in target.seeds():
        target.run(data, tmp_path)


@pytest.mark.parametrize("name", TARGETS)
def test_stored_fuzzing_inputs_give_results_or_mpsgraph_errors(name, tmp_path):
    skip_without_packages(name)
    for path in sorted((CORPORA / name).glob("*")):
        found = problem(TARGETS[name], path.read_bytes(), tmp_path)
        assert not found, f"{path.relative_to(ROOT)}\n{found}"


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_files_give_results_or_mpsgraph_errors(name, tmp_path):
    skip_without_packages(name)
    target = TARGETS[name]
    mutator = Mutator(1, target.seeds(), target.wire)
    for index in range(MUTATIONS):
        data = mutator.next()
        found = problem(target, data, tmp_path)
        assert not found, f"mutation {index}\n{found}"


def test_every_fuzz_target_runs_in_make_fuzz_and_nightly_workflow():
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^IMPORTERS := (.*)$", makefile, re.MULTILINE)[1].split() == list(TARGETS)
    nightly = ROOT / ".github" / "workflows" / "nightly.yml"
    if nightly.exists():
        cxx = {path.stem for path in Path(__file__).parent.glob("*.cpp")} - {"fuzz", "libfuzzer"}
        text = nightly.read_text()
        listed = re.search(r"target: \[(.*)\]", text)[1].split(", ")
        assert set(listed) == cxx
        assert re.search(r"- \{target: importers, seconds: \d+\}", text), "the importers have a time of their own"


def test_fuzzing_reports_exceptions_that_are_not_mpsgraph_errors(tmp_path):
    target = TARGETS["idx"]
    broken = type(target)(lambda path: [][0], "file", target.seeds)
    assert "IndexError" in problem(broken, b"", tmp_path)
    assert not problem(target, b"", tmp_path)
