"""Test that timeouts, Ctrl-C, and Execution.cancel end runs and leave variables unchanged, and runs inside runs."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

ENDLESS = 2_000_000_000


def counting(g: mg.Graph, times: int, *, before: bool = False, inside: bool = False, after: bool = False):
    """Return a variable, and operations that assign it before, inside, and after a loop of `times` iterations."""
    v = g.variable(np.zeros(3, np.float32), name="v")
    operations = [g.assign(v, v + 1.0)] if before else []

    def body(i: mg.Tensor, total: mg.Tensor) -> list[mg.Tensor]:
        if inside:
            return [g.control_dependency([g.assign(v, v + 2.0)], lambda: total + 1.0)]
        return [total + 1.0]

    (total,) = g.for_(times, initial=[g.constant(np.float32(0))], body=body)
    if after:
        operations.append(g.assign(v, v + total))
    return v, total, operations


PLACES = [{}, {"before": True}, {"inside": True}, {"before": True, "inside": True, "after": True}]


@pytest.mark.parametrize("places", PLACES, ids=lambda places: "-".join(places) or "no assigns")
def test_timeout_ends_a_loop_and_restores_variables(places: dict[str, bool]):
    g = mg.Graph()
    v, total, operations = counting(g, ENDLESS, **places)
    begin = time.monotonic()
    with pytest.raises(mg.TimeoutError, match="did not end within 0.1 s and was cancelled; variables have the values"):
        g.run({}, total, operations, timeout=0.1)
    assert time.monotonic() - begin < 5
    assert g.variable_value(v).tolist() == [0, 0, 0]


def test_timeout_ends_executable_run():
    g = mg.Graph()
    n = g.placeholder((), mg.int32)
    (total,) = g.for_(n, initial=[g.constant(np.float32(0))], body=lambda i, total: [total + 1.0])
    executable = g.compile({n: ()}, [total])
    with pytest.raises(mg.TimeoutError):
        executable.run([np.int32(ENDLESS)], timeout=0.05)
    assert executable.run([np.int32(7)], timeout=60)[0].tolist() == 7


def test_timeout_ends_a_while_loop():
    g = mg.Graph()
    results = g.while_([g.constant(np.float32(0))], before=lambda x: (x < 1.0, [x]), after=lambda x: [x * 1.0])
    with pytest.raises(mg.TimeoutError):
        g.run({}, results[0], timeout=0.05)


@pytest.mark.both_devices
def test_run_that_ends_in_time_returns_its_results():
    g = mg.Graph()
    v, total, operations = counting(g, 5, before=True, inside=True, after=True)
    assert g.run({}, total, operations, timeout=60).tolist() == 5
    assert g.variable_value(v).tolist() == [16, 16, 16]


@pytest.mark.parametrize("timeout", [-1.0, 0.0])
def test_timeout_of_zero_cancels_a_run_at_once(timeout: float):
    g = mg.Graph()
    _, total, operations = counting(g, ENDLESS, inside=True)
    with pytest.raises(mg.TimeoutError):
        g.run({}, total, operations, timeout=timeout)


def test_cancelled_execution_raises_and_restores_variables():
    g = mg.Graph()
    v, total, operations = counting(g, ENDLESS, before=True, inside=True)
    execution = g.run_async({}, total, operations)
    with pytest.raises(mg.TimeoutError):
        execution.wait(0.05)
    assert not execution.done, "waiting with a timeout must not cancel a run that the caller started"
    execution.cancel()
    with pytest.raises(mg.CancelledError, match="the run was cancelled"):
        execution.wait(30)
    assert isinstance(execution.error, mg.CancelledError) and isinstance(execution.error, mg.DeviceError)
    assert g.variable_value(v).tolist() == [0, 0, 0]


@pytest.mark.both_devices
def test_execution_can_be_cancelled_before_it_starts():
    g = mg.Graph()
    v = g.variable(np.zeros(2, np.float32))
    event = mg.SharedEvent()
    descriptor = mg.ExecutionDescriptor()
    descriptor.wait_for_event(event, 1)
    execution = g.run_async({}, [], [g.assign(v, v + 1.0)], descriptor=descriptor)
    execution.cancel()
    event.signal(1)
    with pytest.raises(mg.CancelledError):
        execution.wait(30)
    assert g.variable_value(v).tolist() == [0, 0]
    assert g.run({}, v + 1.0).tolist() == [1, 1], "the queue must continue after a cancelled run"


def test_cancelling_a_finished_execution_has_no_effect():
    g = mg.Graph()
    execution = g.run_async({}, g.constant(np.float32(3)) + 1.0)
    execution.wait()
    execution.cancel()
    assert execution.results.tolist() == 4


def interrupted(run: Callable[[], object], after: float) -> float:
    """Send SIGINT to the main thread during a run, and return the time until KeyboardInterrupt."""
    sent = [0.0]

    def interrupt() -> None:
        sent[0] = time.monotonic()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    timer = threading.Timer(after, interrupt)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run()
            time.sleep(30)
        return time.monotonic() - sent[0]
    finally:
        timer.join()


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals need the main thread")
@pytest.mark.parametrize("places", PLACES, ids=lambda places: "-".join(places) or "no assigns")
def test_ctrl_c_ends_a_run_and_restores_variables(places: dict[str, bool]):
    g = mg.Graph()
    v, total, operations = counting(g, ENDLESS, **places)
    took = interrupted(lambda: g.run({}, total, operations), 0.2)
    assert took < 2, took  # 0.1 s on an idle machine
    assert g.variable_value(v).tolist() == [0, 0, 0]
    assert g.run({}, v + 1.0).tolist() == [1, 1, 1]


def test_long_kernels_end_between_their_parts():
    g = mg.Graph()
    x = g.placeholder((4096, 4096))
    target = g.sort(x, axis=1)
    for _ in range(50):
        target = g.sort(-target, axis=1)
    feeds = {x: np.random.default_rng(0).normal(size=(4096, 4096)).astype(np.float32)}
    begin = time.monotonic()
    with pytest.raises(mg.TimeoutError):
        g.run(feeds, target, timeout=0.05)
    assert time.monotonic() - begin < 10


SLOW_COPY = """
#include <chrono>
#include <thread>

void slow_copy(mpsgraph::custom::Call& call) {
  const auto x = call.operand<float>(0);
  const auto y = call.result<float>(0);
  call.parallel_for(64, 1, [&](int64_t begin, int64_t end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20) * (end - begin));
  });
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i];
}
"""


def test_run_cancelled_during_a_custom_kernel_raises_timeout_error_and_restores_variables():
    slow_copy = mg.custom_operation("slow_copy", cpu=SLOW_COPY)
    g = mg.Graph()
    v = g.variable(np.zeros(3, np.float32))
    change = g.assign(v, v + 1.0)
    copied = slow_copy(v + 0.0)
    (total,) = g.for_(ENDLESS, initial=[copied], body=lambda i, total: [total + 1.0])
    with pytest.raises(mg.TimeoutError):
        g.run({}, total, [change], timeout=0.1)
    assert g.variable_value(v).tolist() == [0, 0, 0]
    assert g.run({}, copied).tolist() == [0, 0, 0], "kernel must be able to run again"


# --- runs inside runs -------------------------------------------------------------------------------------------------
def inner_run(name: str, function: Callable[[np.ndarray], object]) -> mg.CustomOperation:
    return mg.python_operation(name, lambda x: np.asarray(function(x), np.float32), infer=lambda x: x)


@pytest.mark.both_devices
def test_python_operation_can_run_another_graph():
    inner = mg.Graph()
    a = inner.placeholder((3,))
    v = inner.variable(np.zeros(3, np.float32))
    step = inner.assign(v, v + a)

    def run(x: np.ndarray) -> object:
        inner.run_async({a: x}, [], [step]).wait()
        return inner.run({a: x}, a * 2.0)

    double = inner_run("runs_another_graph", run)
    g = mg.Graph()
    x = g.placeholder((3,))
    results = []
    worker = threading.Thread(
        target=lambda: results.append(g.run({x: np.ones(3, np.float32)}, double(x) + 1.0)), daemon=True
    )
    worker.start()
    worker.join(60)
    assert not worker.is_alive(), "the nested run is deadlocked"
    assert results[0].tolist() == [3, 3, 3]
    assert inner.variable_value(v).tolist() == [1, 1, 1]


def test_python_operation_can_run_its_own_graph_if_neither_run_changes_variables():
    g = mg.Graph()
    x, y = g.placeholder((2,)), g.placeholder((2,))
    other = y * 3.0
    g.run({y: np.ones(2, np.float32)}, other)  # compiled here, because compiling excludes runs
    triple = inner_run("runs_own_graph", lambda value: g.run({y: value}, other))
    assert g.run({x: np.ones(2, np.float32)}, triple(x)).tolist() == [3, 3]


def test_python_operation_that_changes_variables_of_its_own_graph_raises():
    g = mg.Graph()
    x = g.placeholder((2,))
    v = g.variable(np.zeros(2, np.float32))
    step = g.assign(v, v + 1.0)
    nested = inner_run("changes_own_graph", lambda value: (g.run({}, [], [step]), value)[1])
    with pytest.raises(mg.DeviceError, match="from within its own run"):
        g.run({x: np.ones(2, np.float32)}, nested(x))
    assert g.variable_value(v).tolist() == [0, 0]


@pytest.mark.parametrize("timeout", [None, 30.0])
def test_python_operation_that_waits_for_its_own_run_raises(timeout: float | None):
    held: list[mg.Execution] = []
    started = threading.Event()

    def wait(x: np.ndarray) -> np.ndarray:
        started.wait(30)
        held[0].wait(timeout)
        return x

    g = mg.Graph()
    x = g.placeholder((2,))
    y = inner_run(f"waits_for_its_own_run_{timeout is None}", wait)(x)
    held.append(g.run_async({x: np.ones(2, np.float32)}, [y]))
    started.set()
    with pytest.raises(mg.DeviceError, match="the wait would never end"):
        held[0].wait(60)


def test_saving_a_trainer_inside_its_own_step_raises(tmp_path):
    class Saving(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(1)

        def forward(self, x: mg.Tensor) -> mg.Tensor:
            return self.linear(x) + inner_run("saves_its_trainer", save)(x.mean())

    def save(value: np.ndarray) -> np.ndarray:
        trainer.save(tmp_path / "inside")
        return value

    trainer = mg.Trainer(Saving(), loss="mse", optimizer=mg.optim.SGD(0.1))
    # The operation may run before the trainer has counted the step, so that `save` does not wait for it.
    with pytest.raises(mg.DeviceError, match="the wait would never end|from within its own run"):
        trainer.train_step(np.ones((2, 3), np.float32), np.ones((2, 1), np.float32)).wait(60)


def test_thread_of_a_python_operation_can_run_a_graph_on_a_queue_of_its_own():
    inner = mg.Graph()
    a = inner.placeholder((3,))
    twice = inner.compile({a: (3,)}, [a * 2.0])
    queue = mg.CommandQueue()

    def run(x: np.ndarray) -> np.ndarray:
        results: list[np.ndarray] = []
        thread = threading.Thread(target=lambda: results.append(twice.run([x], queue=queue)[0].numpy().copy()))
        thread.start()
        thread.join()
        return results[0]

    g = mg.Graph()
    x = g.placeholder((3,))
    assert g.run({x: np.ones(3, np.float32)}, inner_run("runs_in_a_thread", run)(x)).tolist() == [2, 2, 2]
