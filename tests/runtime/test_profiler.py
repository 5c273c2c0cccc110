"""Test the profiler: the records of a run, the sizes it reports for kernels, its table, and its trace.

No test depends on durations. Intervals must nest or follow one another, byte and operation counts must match the
shapes, and nothing may be recorded outside a profile.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from harness.runtime import SECONDS, Doubling, waiting_for
from mpsgraph.cli import main

F = np.float32
SCRIPT = """
import sys
import mpsgraph as mg
import numpy as np

g = mg.Graph()
x = g.placeholder((2, 2))
assert g.run({x: np.eye(2, dtype=np.float32)}, g.exponent(x @ x), device="cpu").shape == (2, 2)
sys.exit(int(sys.argv[1]))
"""
LIMITS = mg.profiler.Limits(flops=1e12, bandwidth=1e11)


@pytest.fixture
def d() -> Doubling:
    return Doubling()


def profiled(g: mg.Graph, feeds: dict, targets: list, operations: tuple = (), **options: object) -> mg.profiler.Profile:
    with mg.profiler.profile() as p:
        g.run(feeds, targets, list(operations), device="cpu", **options)
    return p


def only(p: mg.profiler.Profile, kind: str) -> mg.profiler.Kernel:
    (record,) = [r for r in p.kernels if r.kernel.kind.endswith(kind)]
    return record.kernel


# --- byte and operation counts ----------------------------------------------------------------------------------------
def test_profiled_matmul_operations_match_its_shapes():
    g = mg.Graph()
    a, b = g.placeholder((5, 3, 7)), g.placeholder((5, 7, 11))
    p = profiled(g, {a: np.ones((5, 3, 7), F), b: np.ones((5, 7, 11), F)}, [a @ b])
    kernel = only(p, "matrix_multiplication")
    assert kernel.flops == 2 * 5 * 3 * 7 * 11
    assert kernel.bytes_read == 4 * 5 * (3 * 7 + 7 * 11) and kernel.bytes_written == 4 * 5 * 3 * 11
    assert kernel.types == "float32[5,3,7], float32[5,7,11] -> float32[5,3,11]" and kernel.dtype == "float32"
    assert kernel.implementation and kernel.location.startswith("test_profiler.py:")


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("padding, taps", [("TF_VALID", 3 * 3 * 9), ("TF_SAME", (3 * 5 - 2) ** 2)])
def test_profiled_convolution_operations_exclude_padding(padding: str, taps: int, groups: int):
    g = mg.Graph()
    x = g.placeholder((2, 5, 5, 4))
    w = g.variable(np.ones((3, 3, 4 // groups, 6), F), name="w")
    y = g.convolution2d(x, w, padding=padding, groups=groups)
    gradients = g.gradients(g.reduction_sum(y * y), [x, w])
    p = profiled(g, {x: np.ones((2, 5, 5, 4), F)}, [y, *gradients.values()])
    flops = 2 * 2 * taps * 4 * 6 // groups
    kernels = [r.kernel for r in p.kernels if "convolution" in r.kernel.kind]
    assert [k.flops for k in kernels] == [flops] * 3
    assert {k.kind.removeprefix("fused_") for k in kernels} == {
        "convolution2d",
        "convolution2d_data_gradient",
        "convolution2d_weights_gradient",
    }


def test_profiled_depthwise_convolution_counts_one_input_per_channel():
    g = mg.Graph()
    x = g.placeholder((1, 4, 4, 3))
    y = g.depthwise_convolution2d(x, g.constant(np.ones((2, 2, 3, 2), F)))
    assert only(profiled(g, {x: np.ones((1, 4, 4, 3), F)}, [y]), "convolution2d").flops == 2 * 9 * 4 * 3 * 2


def test_profiled_fused_kernel_counts_only_its_inputs_and_outputs():
    g = mg.Graph()
    x = g.placeholder((8, 16))
    p = profiled(g, {x: np.ones((8, 16), F)}, [g.exponent(x * 2.0 + 1.0)])
    kernel = only(p, "fused_elementwise")
    assert kernel.flops == 3 * 8 * 16
    assert kernel.bytes_written == 4 * 8 * 16 and 4 * 8 * 16 <= kernel.bytes_read <= 4 * 8 * 16 + 8
    assert len(p.kernels) == 1


def test_profiled_batch_normalization_counts_match_formula():
    g = mg.Graph()
    x = g.placeholder((64, 16))
    m = g.mean(x, 0)
    y = g.relu(g.normalization(x, m, g.variance(x, m, 0)))
    profile = profiled(g, {x: np.ones((64, 16), F)}, [y])
    for kind, written in (("fused_batch_moments", 2 * 16), ("fused_batch_normalization", 64 * 16)):
        kernel = only(profile, kind)
        assert kernel.flops == 4 * 64 * 16 and kernel.bytes_written == 4 * written


def test_profiled_slice_counts_only_elements_it_reads():
    g = mg.Graph()
    x = g.placeholder((1000, 4))
    kernel = only(profiled(g, {x: np.ones((1000, 4), F)}, [x[10:20, 1:3]]), "slice")
    assert kernel.bytes_read == kernel.bytes_written == 4 * 10 * 2 and kernel.flops == 0


def test_profiled_recurrent_layer_counts_matmuls_of_its_steps():
    g = mg.Graph()
    x = g.placeholder((-1, 6, 3))
    y = mg.nn.LSTM(5)(x)
    kernel = only(profiled(g, {x: np.ones((2, 6, 3), F)}, [y]), "recurrent_sequence")
    assert kernel.flops == 2 * 6 * 2 * 4 * 5 * 5


# --- intervals --------------------------------------------------------------------------------------------------------
def check_threads(p: mg.profiler.Profile) -> None:
    """Assert that the intervals of each thread are nested or disjoint."""
    for thread in {r.thread for r in p.records}:
        open_intervals: list[mg.profiler.Record] = []
        for record in (r for r in p.records if r.thread == thread and r.shape == "interval"):
            while open_intervals and open_intervals[-1].end <= record.begin:
                open_intervals.pop()
            assert not open_intervals or record.end <= open_intervals[-1].end, (open_intervals[-1], record)
            open_intervals.append(record)


def test_profiled_kernel_intervals_lie_within_their_run(d: Doubling):
    with mg.profiler.profile() as p:
        for _ in range(3):
            d.g.run(d.feeds(1), d.y, device="cpu")
    check_threads(p)
    runs = [r for r in p.records if r.category == "run"]
    assert len(runs) == 3 and len({r.command_buffer for r in runs}) == 3
    for kernel in p.kernels:
        within = [run for run in runs if run.begin <= kernel.begin and kernel.end <= run.end]
        assert len(within) == 1 and within[0].thread == kernel.thread
    assert all(0 <= r.begin and r.end <= p.duration for r in p.records) and p.dropped == 0
    assert [r.begin for r in p.records] == sorted(r.begin for r in p.records)
    commits = {r.command_buffer: r for r in p.records if r.category == "commit"}
    waits = {r.command_buffer: r for r in p.records if r.category == "queue"}
    for run in runs:
        assert commits[run.command_buffer].begin <= run.begin  # on the thread of the queue, or on the waiting thread
        assert waits[run.command_buffer].shape == "overlapping" and waits[run.command_buffer].end <= run.begin


def test_nested_kernels_are_excluded_from_self_time():
    g = mg.Graph()
    x = g.placeholder((4,))
    p = profiled(g, {x: np.ones(4, F)}, g.for_(5, initial=[x], body=lambda i, y: g.exponent(-y)))
    loop = next(r for r in p.kernels if r.kernel.kind == "for")
    inner = [r for r in p.kernels if loop.begin <= r.begin and r.end <= loop.end and r is not loop]
    assert len(inner) == 5 and loop.kernel.flops == loop.kernel.bytes == 0
    assert loop.own == pytest.approx(loop.duration - sum(r.duration for r in inner), abs=1e-9)
    assert all(r.own == pytest.approx(r.duration, abs=1e-9) for r in inner)
    check_threads(p)


def test_profile_records_compilation_passes(d: Doubling):
    p = profiled(d.g, d.feeds(1), [d.y])
    passes = [r.name for r in p.records if r.category == "pass"]
    assert passes[:2] == ["specialize", "prune"] and passes[-2:] == ["schedule", "lower"] and "expand" in passes
    (compiled,) = [r for r in p.records if r.category == "compile"]
    assert all(compiled.begin <= r.begin and r.end <= compiled.end for r in p.records if r.name == "fuse_elementwise")
    again = profiled(d.g, d.feeds(1), [d.y])
    assert not [r for r in again.records if r.category in ("compile", "pass")]


def test_profile_records_events_and_handlers_on_their_threads(d: Doubling):
    event, handled = mg.SharedEvent(), threading.Event()
    d.g.run(d.feeds(1), d.y, device="cpu")
    with mg.profiler.profile() as p:
        buffer = mg.CommandQueue("cpu").command_buffer()
        buffer.encode_wait_for_event(event, 1)
        d.g.encode(buffer, d.feeds(1), d.y)
        buffer.add_completed_handler(lambda _: handled.set())
        buffer.commit()
        event.signal(1)
        buffer.wait_until_completed()
        assert handled.wait(SECONDS)
    by = {(r.category, r.name): r for r in p.records}
    wait, signal, run = by["event", "wait for event"], by["event", "signal event"], by["run", d.y.name]
    assert wait.thread == run.thread and wait.end <= run.begin and signal.shape == "instant"
    assert by["handler", "handler"].thread == "handlers" and ("wait", "wait until completed") in by
    check_threads(p)


# --- start and end of recording ---------------------------------------------------------------------------------------
def test_profiler_records_nothing_outside_a_profile(d: Doubling):
    d.g.run(d.feeds(1), d.y, device="cpu")
    with mg.profiler.profile() as p:
        pass
    d.g.run(d.feeds(1), d.y, device="cpu")
    assert p.records == [] and p.kernels == []


def test_profile_excludes_runs_submitted_before_it_started(d: Doubling):
    event = mg.SharedEvent()
    d.g.run(d.feeds(1), d.y)
    with mg.profiler.profile() as first:
        execution = d.g.run_async(d.feeds(1), d.y, descriptor=waiting_for(event))
    with mg.profiler.profile() as second:
        event.signal(1)
        execution.wait()
    assert not [r for r in first.records if r.category in ("run", "kernel")]
    # Depending on timing, the thread of the queue may reach the event during either profile.
    assert not [r for r in second.records if r.category == "queue"] and all(r.begin >= 0 for r in second.records)


def test_profile_cannot_be_started_or_stopped_twice(d: Doubling):
    with pytest.raises(mg.DeviceError, match="no profile was started"):
        mg.profiler.stop()
    mg.profiler.start()
    d.g.run(d.feeds(1), d.y, device="cpu")
    with pytest.raises(mg.DeviceError, match="already being recorded"), mg.profiler.profile():
        pass
    with pytest.raises(mg.DeviceError, match="already being recorded"):
        mg.profiler.start()
    p = mg.profiler.stop()
    assert len(p.kernels) == 1, "the failed second start must not affect the profile"
    with mg.profiler.profile() as other:
        with pytest.raises(mg.DeviceError, match="no profile was started"):
            mg.profiler.stop()
        with pytest.raises(mg.DeviceError, match="still being recorded"):
            other.table()
        d.g.run(d.feeds(1), d.y, device="cpu")
    assert len(other.kernels) == 1


def test_exception_inside_profile_leaves_it_usable(d: Doubling):
    with pytest.raises(ZeroDivisionError), mg.profiler.profile() as p:
        d.g.run(d.feeds(1), d.y, device="cpu")
        raise ZeroDivisionError
    assert len(p.kernels) == 1 and p.table(limits=LIMITS)


def test_failed_run_is_recorded_in_profile(d: Doubling):
    x, step = d.g.placeholder((2,)), d.g.placeholder((), mg.int32)
    (sum,) = d.g.for_(0, 4, step, initial=[x], body=lambda i, y: y * y)
    feeds = {x: np.ones(2, F), step: np.array(0, np.int32)}
    with mg.profiler.profile() as p:
        with pytest.raises(mg.GraphError, match="step"):
            d.g.run(feeds, sum, device="cpu")
        d.g.run(d.feeds(1), d.y, device="cpu")
    assert [r.name for r in p.records if r.category == "run"] == [sum.name, d.y.name]
    assert "for" in {r.kernel.kind for r in p.kernels}
    check_threads(p)


def test_profile_over_capacity_keeps_the_newest_records(d: Doubling):
    d.g.run(d.feeds(1), d.y, device="cpu")
    with mg.profiler.profile(capacity=16) as p:
        for _ in range(20):
            d.g.run(d.feeds(1), d.y, device="cpu")
    assert len(p.records) == 16 and p.dropped > 0 and "records are missing" in p.table(limits=LIMITS)
    with pytest.raises(mg.GraphError, match="capacity must be at least 1 record, got 0"):
        mg.profiler.start(0)


def test_runs_of_concurrent_threads_are_profiled():
    g = mg.Graph()
    x = g.placeholder((64, 64))
    executable = g.compile({x: (64, 64)}, [g.softmax(x @ x)], device="cpu")
    rounds = 10

    def work() -> None:
        queue = mg.CommandQueue("cpu")
        for _ in range(rounds):
            executable.run([np.ones((64, 64), F)], queue=queue)

    with mg.profiler.profile() as p:
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    check_threads(p)
    runs = [r for r in p.records if r.category == "run"]
    assert len(runs) == 2 * rounds
    for run in runs:
        within = [r for r in p.kernels if r.thread == run.thread and run.begin <= r.begin and r.end <= run.end]
        assert len(within) == len(p.kernels) // len(runs) > 0


def test_training_steps_are_profiled():
    trainer = mg.Trainer(mg.nn.Sequential(mg.nn.Linear(8), mg.nn.ReLU(), mg.nn.Linear(3)), device="cpu")
    x, y = np.ones((4, 5), F), np.zeros(4, np.int32)
    with mg.profiler.profile() as p:
        for _ in range(2):
            trainer.train_step(x, y)
        trainer.wait()
    assert len([r for r in p.records if r.category == "run"]) == 2
    kinds = {r.kernel.kind for r in p.kernels}
    assert "fused_elementwise" in kinds and kinds & {"softmax_cross_entropy", "class_cross_entropy"}


# --- table, limits, and trace -----------------------------------------------------------------------------------------
def test_profile_table_shows_times_and_sizes_of_kernels():
    g = mg.Graph()
    x = g.placeholder((256, 128), name="x")
    product = g.matrix_multiplication(x, g.constant(np.ones((128, 64), F)), name="product")
    with mg.profiler.profile() as p:
        for _ in range(3):
            g.run({x: np.ones((256, 128), F)}, [g.sort(product, 1)], device="cpu")
    head, *rows = p.table(limits=LIMITS).splitlines()
    assert head.split() == "kernel calls ms share median µs MB GB/s MFLOP GFLOP/s of bound details".split()
    (row,) = [row.split() for row in rows if row.startswith("product")]
    assert row[1] == "3" and row[5] == f"{4 * (256 * 128 + 128 * 64 + 256 * 64) / 1e6:.3f}"
    assert row[7] == f"{2 * 256 * 128 * 64 / 1e6:.2f}" and row[3].endswith("%") and row[9].endswith("%")
    by_kind = p.table("kind", top=1, limits=LIMITS).splitlines()
    assert by_kind[0].startswith("kind") and by_kind[2].startswith("1 more")
    with pytest.raises(mg.GraphError, match="by must be 'kernel' or 'kind', got 'colour'"):
        p.table("colour")
    with pytest.raises(mg.GraphError, match="top must be a number of rows"):
        p.table(top=-1)


def test_profile_bound_is_maximum_of_compute_and_memory_time():
    def kernel(**sizes: float) -> mg.profiler.Kernel:
        known = {"flops": 0.0, "bytes_read": 0.0, "bytes_written": 0.0} | sizes
        return mg.profiler.Kernel("k", "kind", "bfloat16[1] -> bfloat16[1]", "", "", **known)

    limits = mg.profiler.Limits(flops=100.0, bandwidth=10.0, by_dtype={"bfloat16": 200.0})
    assert limits.bound(kernel(flops=400.0, bytes_read=5.0, bytes_written=5.0)) == 2.0
    assert limits.bound(kernel(flops=4.0, bytes_read=20.0, bytes_written=10.0)) == 3.0


def test_profile_machine_limits_are_measured_once():
    limits = mg.profiler.machine_limits("cpu")
    assert limits is not None and limits.flops > 1e8 and limits.bandwidth > 1e8
    assert mg.profiler.machine_limits("cpu") == limits
    assert limits.by_dtype.get("int8") == limits.by_dtype.get("uint8")
    assert limits.by_dtype.get("int8", np.inf) > 2 * limits.flops, (
        "each int8 instruction performs four times as many operations"
    )


@pytest.mark.parametrize("rates", [(0.0, 1.0, {}), (1.0, -1.0, {}), (1.0, 1.0, {"int8": 0.0})])
def test_nonpositive_profile_limits_raise(rates):
    with pytest.raises(mg.GraphError, match="all rates must be positive"):
        mg.profiler.Limits(*rates)


def test_chrome_trace_is_well_formed(d: Doubling, tmp_path):
    with mg.profiler.profile() as p:
        for _ in range(2):
            d.g.run(d.feeds(1), d.y, device="cpu")
    path = tmp_path / "trace.json"
    p.save_chrome_trace(path)
    trace = json.loads(path.read_text())
    assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"}
    allowed = {
        "M": {"name", "ph", "pid", "tid", "args"},
        "X": {"name", "ph", "cat", "pid", "tid", "ts", "dur", "args"},
        "i": {"name", "ph", "cat", "pid", "tid", "ts", "s", "args"},
        "b": {"name", "ph", "cat", "pid", "tid", "ts", "id", "args"},
        "e": {"name", "ph", "cat", "pid", "tid", "ts", "id", "args"},
        "s": {"name", "ph", "cat", "pid", "tid", "ts", "id"},
        "f": {"name", "ph", "cat", "pid", "tid", "ts", "id", "bp"},
    }
    events = trace["traceEvents"]
    for event in events:
        assert set(event) == allowed[event["ph"]]
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int) and event["name"]
        assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {r.thread for r in p.records}
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert len(kernels) == len(p.kernels) and kernels[0]["args"]["bytes read"] == p.kernels[0].kernel.bytes_read
    for phase, other in (("b", "e"), ("s", "f")):
        ids = [sorted(e["id"] for e in events if e["ph"] == x) for x in (phase, other)]
        assert ids[0] and ids[0] == ids[1], "every begin event needs an end event"


def test_profile_command_runs_a_script(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    script, trace = tmp_path / "script.py", tmp_path / "trace.json"
    script.write_text(SCRIPT)
    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setattr("sys.path", [*sys.path])
    assert main(["profile", "--trace", str(trace), str(script), "3"]) == 3, "the exit status must be that of the script"
    printed = capsys.readouterr().out
    assert "matrix_multiplication" in printed and "2 kernel runs" in printed
    assert json.loads(trace.read_text())["traceEvents"]
    assert main(["profile", str(tmp_path / "none.py")]) == 1 and "script not found" in capsys.readouterr().err
