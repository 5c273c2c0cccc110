"""Test collectives, wire dtypes, custom data and steps, the profiler, and the launch command."""

import doctest
import os
import re
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

pytest.importorskip("mpi4py", reason="mpi4py is not installed: make test-distributed")
import mpsgraph as mg
from harness import process_programs
from harness.processes import results_of


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_collective_calls_combine_processes_or_raise(processes: int):
    for results, refused in results_of(processes, "collective_calls"):
        last = processes - 1
        np.testing.assert_array_equal(results["sum"], np.arange(3.0) * processes + processes * last / 2)
        assert results["mean"].dtype == np.float16 and results["mean"].tolist() == [last / 2, 1]
        assert results["max"].tolist() == [last, 0] and results["max"].dtype == np.int32
        assert results["min"].tolist() == [0] and results["empty"].shape == (0, 2)
        assert results["root"].tolist() == [0, processes, 2 * processes, 3 * processes]
        kinds = {name: text.partition(":")[0] for name, text in refused.items()}
        assert kinds["root"] == "OutOfRangeError" and kinds["nothing"] == kinds["whole"] == "DTypeError"
        if processes > 1:
            assert (kinds["shape"], kinds["dtype"], kinds["operation"]) == ("ShapeError", "DTypeError", "GraphError")
            assert "process 1 passed (2,) float64, process 0 (3,) float64" in refused["shape"]


@pytest.mark.parametrize("processes", [2, 4])
def test_half_precision_communication_matches_float32_on_all_ranks(processes: int):
    common = {"dtype": "float32", "steps": 50, "batch": 16 // processes}
    wires = [None, "bfloat16", "float16"]
    cases = [common | {"distributed": mg.distributed.DataParallel(wire=w, bucket_bytes=3000)} for w in wires]
    by_process = results_of(processes, "many", cases=cases)
    exact, *narrow = (np.array(own["losses"]) for own in by_process[0])
    for wire, losses in zip(wires[1:], narrow, strict=True):
        difference = np.abs(losses - exact).max()
        assert 0 < difference < 0.05, f"{wire} must round slightly, got a difference of {difference}"
    for own in by_process[1:]:
        assert [case["losses"] for case in own] == [case["losses"] for case in by_process[0]]
    # One step of SGD with rate 1 exposes the gradients in the weights; they must be correct to the wire's precision.
    cases = [case | {"steps": 1, "optimizer": "SGD"} for case in cases]
    exact, brain, half = results_of(processes, "many", cases=cases)[0]
    start = process_programs.fitted(**common | {"batch": 16, "steps": 1, "optimizer": "SGD", "distributed": False})
    for path, value in exact["weights"].items():
        np.testing.assert_allclose(value, start["weights"][path], atol=1e-6)
        np.testing.assert_allclose(brain["weights"][path], value, atol=0.1 * 2**-8)
        np.testing.assert_allclose(half["weights"][path], value, atol=0.1 * 2**-11)


def test_mixed_precision_and_loss_scale_agree_in_all_processes():
    options = {"dtype": "float32", "precision": "float16", "model": "network", "steps": 8, "batch": 4}
    first, second = results_of(2, "fitted", **options)
    assert first["history"] == second["history"] and np.isfinite(first["losses"]).all()
    assert first["history"]["loss_scale"][0] == 2**15
    assert first["losses"][-1] < first["losses"][0] * 1.05


def test_unsynchronized_batch_norm_averages_moving_statistics():
    options = {"model": "network", "samples": 96, "steps": 8}
    own, other = results_of(2, "fitted", batch=8, **options)
    alone = process_programs.fitted(batch=16, distributed=False, **options)
    assert np.abs(np.array(own["losses"]) - alone["losses"]).max() > 1e-6, (
        "each process must normalize by its own statistics"
    )
    for path, value in own["weights"].items():
        np.testing.assert_array_equal(value, other["weights"][path])
        # The mean of the processes' means equals the mean of the whole batch, up to differences in the weights.
        if "moving_mean" in path:
            np.testing.assert_allclose(value, alone["weights"][path], rtol=0.2, atol=0.05)


def test_custom_steps_report_means_over_all_processes():
    expected = results_of(1, "custom_step")[0]
    for own in results_of(2, "custom_step"):
        for found, wanted in zip(own, expected, strict=True):
            assert found == pytest.approx(wanted, rel=1e-10)


def test_epoch_ends_when_any_process_runs_out_of_data():
    (first, losses), (second, others) = results_of(2, "own_data", counts=[5, 3])
    assert first == second == 3 and losses == others


def test_gradient_buckets_are_reduced_during_the_backward_pass():
    for steps, statistics in results_of(2, "profiled", path=None):
        most = 0
        for kernels, travels in steps:
            buckets = [travel for travel in travels if "bucket" in travel[0]]
            assert len(buckets) >= 6 and {thread for _, thread, _, _ in travels} == {"communication"}
            gives = [begin for kind, name, begin, _ in kernels if kind == "call" and name.startswith("give")]
            products = [end for kind, _, _, end in kernels if kind.endswith("matrix_multiplication")]
            before = [begin for begin in gives if begin < max(products)]
            assert len(before) >= 5, "most buckets must be submitted before the backward pass ends"
            beside = [t for t in buckets if any(k[2] < t[3] and t[2] < k[3] for k in kernels if k[0] != "call")]
            most = max(most, len(beside))
        # On a busy machine, the communication thread sometimes does not run before a step ends, but this does not
        # happen in all of twelve steps.
        assert most >= 4, "buckets must be reduced while kernels run"
        assert statistics["reductions"] >= 15 * len(gives) and 0 <= statistics["hidden"] <= 1


BY_MACHINES = {
    (0, 0, 0, 0): "4 processes on one machine\nin shared memory: ",
    (0, 0, 1, 1): "4 processes on 2 machines\nin shared memory: ",
    (0, 1, 1, 0): "4 processes on 2 machines\nin shared memory: ",
    (1, 0, 0, 0): "4 processes on 2 machines\nin shared memory: ",
    (0, 1, 2, 3): "4 processes on 4 machines\nby MPI: ",
}


@pytest.mark.parametrize("machines", BY_MACHINES)
def test_processes_use_shared_memory_within_and_mpi_between_machines(machines: tuple[int, ...]):
    """The machines are simulated, but messages between them are sent."""
    options = {"samples": 96, "steps": 8, "model": "network", "optimizer": "SGD"}
    shared = mg.distributed.DataParallel(bucket_bytes=500, synchronize_batch_norm=True)
    results = results_of(4, "by_routes", machines=machines, batch=4, distributed=shared, **options)
    alone = process_programs.fitted(batch=16, distributed=False, **options)
    for own in results:
        assert own["explained"].startswith(BY_MACHINES[machines]), own["explained"]
        assert ("by MPI between the machines" in own["explained"]) == (len(set(machines)) == 2)
        np.testing.assert_allclose(own["losses"], alone["losses"], rtol=0, atol=1e-10)
        for path, value in own["weights"].items():
            np.testing.assert_array_equal(value, results[0]["weights"][path])
            np.testing.assert_allclose(value, alone["weights"][path], rtol=0, atol=1e-10)
        assert own["left"] == []


@pytest.mark.parametrize("wire", ["bfloat16", "float16"])
def test_half_precision_sums_round_once_within_and_between_machines(wire: str):
    options = {"dtype": "float32", "steps": 1, "batch": 4, "optimizer": "SGD"}
    start = process_programs.fitted(batch=16, distributed=False, **{k: v for k, v in options.items() if k != "batch"})
    parallel = mg.distributed.DataParallel(wire=wire, bucket_bytes=3000)
    for machines in ((0, 0, 0, 0), (0, 0, 0, 1)):
        results = results_of(4, "by_routes", machines=machines, distributed=parallel, **options)
        assert "in shared memory" in results[0]["explained"]
        for own in results:
            for path, value in own["weights"].items():
                np.testing.assert_array_equal(value, results[0]["weights"][path])
                step = 2**-8 if wire == "bfloat16" else 2**-11
                np.testing.assert_allclose(value, start["weights"][path], atol=0.1 * step)


@pytest.mark.parametrize("without", [("_of_memory",), ("_of_memory", "_of_folder")])
def test_full_shared_memory_falls_back_to_mpi_with_a_warning(without: tuple[str, ...]):
    options = {"dtype": "float32", "steps": 8, "batch": 8}
    own, other = results_of(2, "by_routes", machines=(0, 0), without=without, **options)
    usual, _ = results_of(2, "fitted", **options)
    assert own["losses"] == other["losses"] == usual["losses"], "sums of two addends must not depend on the route"
    assert own["left"] == []
    if len(without) == 1:
        assert "in shared memory" in own["explained"] and "by MPI" not in own["explained"]
    else:
        assert "in shared memory:" not in own["explained"] and "by MPI: " in own["explained"]
        assert "No space left on device" in own["explained"]


def test_disabled_shared_memory_is_not_used():
    parallel = mg.distributed.DataParallel(shared_memory=False)
    own, _ = results_of(2, "fitted", steps=2, distributed=parallel)
    assert "by MPI: " in own["explained"] and "because shared memory is disabled" in own["explained"]


@pytest.mark.parametrize("module", ["collectives", "partnership"])
def test_docstring_examples_run(module: str):
    found = import_module(f"mpsgraph.distributed.{module}")
    tests = [t for t in doctest.DocTestFinder().find(found, globs={"mg": mg, "np": np}) if t.examples]
    said: list[str] = []
    for test in tests:
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert tests and not said, "".join(said)


def test_distributed_page_code_runs(repository):
    page = (repository / "docs" / "distributed.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    (losses, hidden), (others, _) = results_of(2, "page", code=code)
    assert losses == others and len(losses) == 32 and losses[-1] < losses[0] and 0 <= hidden <= 1


def test_launch_command_starts_processes_and_reports_their_status(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, sys\nimport mpsgraph as mg\n"
        "mine = mg.distributed.rank(), mg.distributed.size(), os.environ['OMP_NUM_THREADS'], sys.argv[1:]\n"
        # Write in one call, because two processes write to the same file.
        "os.write(1, (' '.join(map(str, mine)) + '\\n').encode())\n"
        "mg.distributed.barrier()\nsys.exit(int(sys.argv[1]) if mg.distributed.rank() == 1 else 0)\n"
    )
    command = [sys.executable, "-m", "mpsgraph", "launch", "-n", "2", "--threads", "1", str(script)]
    good = subprocess.run([*command, "0", "-x"], capture_output=True, text=True, timeout=60)
    assert good.returncode == 0 and sorted(good.stdout.splitlines()) == [
        "0 2 1 ['0', '-x']", "1 2 1 ['0', '-x']",
    ], good.stdout + good.stderr  # fmt: skip
    where = tmp_path / "where.py"
    where.write_text("import os\nos.write(1, f'{sorted(os.sched_getaffinity(0))}\\n'.encode())\n")
    available = os.sched_getaffinity(0)
    for unbound in (False, True):
        options = ["-n", "2", "--threads", "1", *(["--unbound"] if unbound else []), str(where)]
        placed = subprocess.run([*command[:4], *options], capture_output=True, text=True, timeout=60)
        processors = [set(map(int, re.findall(r"\d+", line))) for line in placed.stdout.splitlines()]
        assert len(processors) == 2, placed.stdout + placed.stderr
        if unbound or len(available) < 2:
            assert processors == [available] * 2
        else:
            assert [len(own) for own in processors] == [1, 1] and not processors[0] & processors[1]
    bad = subprocess.run([*command, "7"], capture_output=True, text=True, timeout=60)
    assert bad.returncode == 7 and "mpsgraph launch: a process ended with status 7" in bad.stderr
    missing = subprocess.run([*command[:-1], "no.py"], capture_output=True, text=True, timeout=60)
    assert missing.returncode == 1 and "mpsgraph: script not found: no.py" in missing.stderr
