"""Test the self-test on the Metal device with the mock: its parts run, and the frameworks' answers are reported.

The answers come from the mock, so they contain no information about a Mac. The tests check only that answers are
collected and reported.
"""

from __future__ import annotations

import json
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from harness.runtime import run_program
from mpsgraph import _core
from mpsgraph.cli import main
from mpsgraph.selftest.checks import DIFFERS, NOTED, PASSED, UNSUPPORTED, Options, perform
from mpsgraph.selftest.parts import digits, nodes, oracle, probes

# The mock rejects calls for which Apple promises nothing or aborts the process.
REFUSED = (
    "elements_beyond_2_31",
    "elements_beyond_2_32",
    "bytes_beyond_2_32",
    "results_beyond_2_32",
    "depthwise_with_unread_rows",
    "groups_of_rows",
    "large_inverse",
    "sum_of_uint32",
    "all_and_any_of_bool",
    "sorted_int64",
    "gathered_bools",
    "gathered_bytes",
    "scattered_products",
    "padding_beyond_the_axis",
    "indices_of_64_bits",
    "large_scalars_of_uint32",
    "scan_of_five_axes",
    "scatter_along_a_last_axis_of_one",
    "gather_along_a_last_axis_of_one",
    "attention_pattern",
    "gradient_of_varying_gamma",
    "package_without_a_folder",
    "package_without_a_manifest",
    *(f"extrema_of_{name}" for name in ("int8", "uint8", "int16", "uint16", "uint32", "bfloat16")),
    "bounds_with_a_dimension",
    "rank_0",
    "gather_out_of_bounds",
    "philox_normal_numbers",
    "philox_advance_of_normals",
)


# Probes that need a newer macOS than the oldest supported one.
OLDEST_MACOS = {
    "extrema_of_bfloat16": 14,
    "package_without_a_folder": 14,
    "package_without_a_manifest": 14,
    "four_bit_constants": 15,
    "four_bit_words": 15,
    "groups_of_rows": 15,
}
MACOS = float(device.OLD_SYSTEM or 26.4)


@pytest.fixture(autouse=True)
def workers_find_the_stand_in(monkeypatch):
    """Preload the mock in worker processes, which import the package before anything else."""
    monkeypatch.setenv("MPSGRAPH_MOCK", str(device.LIBRARY))
    monkeypatch.setenv("LD_PRELOAD", str(device.LIBRARY))


def run(tmp_path: Path, *arguments: str) -> tuple[int, dict]:
    path = tmp_path / "report.json"
    status = main(["selftest", "--device", "metal", "--quick", "--json", str(path), *arguments])
    return status, json.loads(path.read_text())


def test_runtime_part_passes(tmp_path, capsys):
    status, report = run(tmp_path, "--only", "runtime")
    assert status == 0, capsys.readouterr().out
    assert report["versions"]["device"].startswith("metal: ") and report["parts"]["runtime"]["counts"][PASSED] > 20


def test_selftest_operations_and_gradients_pass_on_mock(tmp_path, capsys):
    status, report = run(tmp_path, "--only", "operations", "--only", "gradients")
    assert status == 0, capsys.readouterr().out
    assert (
        report["parts"]["operations"]["counts"][PASSED] > 200 and report["parts"]["gradients"]["counts"][PASSED] > 150
    )


@pytest.mark.parametrize(
    ("macos", "gpu"), [("26.4", "10"), ("27.0", "10"), ("26.4", "7")], ids=["macos26_m5", "macos27_m5", "macos26_m1"]
)
def test_repeats_part_passes_on_reported_systems(macos: str, gpu: str, tmp_path, capsys, monkeypatch):
    """The mock has the faults that were reported for these systems, and the lowering avoids them."""
    monkeypatch.setenv("MPSGRAPH_MOCK_MACOS", macos)
    monkeypatch.setenv("MPSGRAPH_MOCK_GPU", gpu)
    status, report = run(tmp_path, "--only", "repeats")
    assert status == 0, capsys.readouterr().out
    assert report["parts"]["repeats"]["counts"] == {PASSED: 21}
    assert f"macOS {macos}" in report["versions"]["device"] and f"Apple {gpu}" in report["versions"]["device"]


def test_nodes_part_passes(tmp_path, capsys):
    status, report = run(tmp_path, "--only", "nodes")
    assert status == 0, capsys.readouterr().out
    counts = report["parts"]["nodes"]["counts"]
    assert counts[PASSED] > 95 and counts.keys() == {PASSED, UNSUPPORTED}
    assert report["parts"]["nodes"]["families"]["network"] == {PASSED: 3}


def test_known_unsupported_nodes_are_reported_as_unsupported():
    found = {c.name: c for c in nodes.checks(Options("metal"))}
    refused = perform(found["value of lanczos_scale-1x1"])
    assert refused.status == UNSUPPORTED and "shrinks" in refused.message
    undefined = perform(found["gradient of pooling_max-ties"])
    assert undefined.status == UNSUPPORTED and "does not document" in undefined.message


def test_selftest_first_step_losses_match_the_cpu():
    check = next(c for c in digits.checks(Options("metal", quick=True)) if "losses" in c.name)
    assert perform(check).status == PASSED


def test_training_that_takes_too_long_is_noted_with_its_progress(monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr(digits, "LONGEST", 0.0)
    result = digits.training(Options("metal", quick=True))
    assert result.status == NOTED and 0 < result.numbers["iterations"] < digits.QUICK_ITERATIONS
    assert "of 40 iterations" in result.message


def test_every_selftest_probe_returns_an_answer():
    made = probes.checks(Options("metal"))
    assert len({check.name for check in made}) == len(made) > 12
    for check in made:
        result = perform(check)
        assert result.status == NOTED and set(result.numbers) == {"question", "method", "answer", "meaning"}
        if result.numbers["answer"].startswith("not asked: "):
            older = MACOS < OLDEST_MACOS.get(check.name, 0)  # The simulated macOS version lacks the feature.
            assert older or check.name == "large_products" or "less than 16 GB" in result.message
            continue
        refused = check.name in REFUSED or (check.name == "scattered_integers" and MACOS < 15)
        refused |= MACOS >= {"recurrent_layers_again": 26, "small_buffers": 27}.get(check.name, 99)
        assert result.numbers["answer"].startswith("refused: ") == refused, result.message
        assert "unrecognized selector" not in result.message


def test_probe_of_large_products_finds_the_fault_of_m1(monkeypatch):
    """The mock returns zeros for the result, which has 2 GB. The generation of the GPU is read at the start."""
    run = run_program(
        "from mpsgraph.selftest.checks import Options; from mpsgraph.selftest.parts import probes\n"
        "(check,) = [c for c in probes.checks(Options('metal')) if c.name == 'large_products']\n"
        "print(check.run().numbers['answer'])",
        timeout=300,
        MPSGRAPH_MOCK_GPU="7",
    )
    count = run.stdout.split()[0]
    assert int(count) > 50_000 and run.stdout.startswith(f"{count} of {count} numbers of an outer product"), run.stderr


def test_gather_probe_reports_unsupported_in_every_repetition():
    """The mock sometimes commits what it has encoded so far, as Apple's MPSGraph may do."""
    check = next(c for c in probes.checks(Options("metal")) if c.name == "gather_out_of_bounds")
    answers = {perform(check).numbers["answer"].split(": ")[0] for _ in range(30)}
    assert answers == {"refused"}


@pytest.mark.parametrize("kind", ["tanh", "multiplication", "softmax", "matrix_multiplication"])
def test_gradients_match_mpsgraph_gradients(kind: str):
    checks = [c for c in oracle.checks(Options("metal", quick=True)) if c.name.split("-")[0] == kind]
    assert checks
    for check in checks:
        result = perform(check)
        assert result.status == PASSED, result.message


def test_mismatching_gradient_is_reported_with_numbers(monkeypatch):
    original = _core.apple_gradients

    def off(*arguments):
        return [mg.asarray(g.numpy() * np.float32(1.5)) for g in original(*arguments)]

    monkeypatch.setattr(_core, "apple_gradients", off)
    check = next(c for c in oracle.checks(Options("metal", quick=True)) if c.name.startswith("tanh"))
    result = perform(check)
    assert result.status == DIFFERS and result.numbers["input 0"]["wrong"] > 0


def test_mpsgraph_gradients_of_unused_inputs_are_zero():
    g = mg.Graph()
    x, unused = g.placeholder((2,)), g.placeholder((3,))
    y = g.reduction_sum(g.square(x))
    arrays = [np.array([1.0, 2.0], np.float32), np.zeros(3, np.float32)]
    found = _core.apple_gradients("metal", [x, unused], arrays, y)
    np.testing.assert_allclose(found[0].numpy(), [2, 4], rtol=1e-4)
    assert found[1] is None
    with pytest.raises(mg.UnsupportedError, match="own automatic differentiation"):
        _core.apple_gradients("cpu", [x, unused], arrays, y)
    v = g.variable(np.ones(2, np.float32))
    with pytest.raises(mg.UnsupportedError, match="variables"):
        _core.apple_gradients("metal", [x], arrays[:1], g.reduction_sum(x * v))
