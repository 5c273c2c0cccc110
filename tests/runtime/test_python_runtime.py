"""Test queues, command buffers, events, handlers, and the executable cache from Python, and process exit."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from harness.runtime import wait_for

pytestmark = pytest.mark.both_devices

ONES = np.ones(3, np.float32)


@pytest.fixture
def doubler() -> tuple[mg.Graph, mg.Tensor, mg.Tensor]:
    g = mg.Graph()
    x = g.placeholder((-1,), name="x")
    return g, x, x * 2


def python(code: str) -> str:
    """Run code in a new process that must exit successfully, and return its output."""
    run = subprocess.run([sys.executable, "-c", device.prelude() + code], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_tensors_have_one_python_object_and_keep_their_graph_alive():
    g = mg.Graph()
    x = g.placeholder((2,), name="x")
    y = x * 2
    assert y.operation.inputs[0] is x and x.graph is g and g.find("x").outputs[0] is x
    seen = weakref.ref(g)
    del g, x
    gc.collect()
    assert type((y + 1).graph) is mg.Graph
    del y
    gc.collect()
    assert seen() is None


def test_graph_holding_its_own_tensors_is_collected():
    g = mg.Graph()
    g.held = [g, g.variable([1.0])]
    g.run({}, g.held[1])
    seen = weakref.ref(g)
    del g
    gc.collect()
    assert seen() is None


def test_execution_descriptor_orders_runs_with_events(doubler):
    g, x, y = doubler
    event, between = mg.SharedEvent(), mg.NDArray((3,))
    waits, signals = mg.ExecutionDescriptor(), mg.ExecutionDescriptor()
    waits.wait_for_event(event, 1)
    signals.signal_event(event, 1)
    second = g.run_async({x: between}, y, descriptor=waits, queue=mg.CommandQueue())
    with pytest.raises(mg.TimeoutError):
        second.wait(0.05)
    assert not second.done
    g.run_async({x: ONES}, y, results=between, descriptor=signals, queue=mg.CommandQueue())
    assert second.results.tolist() == [4, 4, 4]
    assert event.signaled_value == 1


def test_waiting_for_unsignaled_event_times_out(doubler):
    g, x, y = doubler
    event = mg.SharedEvent(timeout=0.05)
    with pytest.raises(TimeoutError, match="did not reach value 1") as caught:
        event.wait(1)
    assert isinstance(caught.value, (mg.TimeoutError, mg.DeviceError))
    descriptor = mg.ExecutionDescriptor()
    descriptor.wait_for_event(event, 2)
    with pytest.raises(mg.TimeoutError, match="value 2"):
        g.run_async({x: ONES}, y, descriptor=descriptor).wait()
    assert g.run({x: ONES}, y).tolist() == [2, 2, 2]


def test_handler_receives_results_and_its_exception_reaches_the_waiter(doubler):
    g, x, y = doubler
    seen: list[object] = []

    def completed(results: list[mg.NDArray], error: BaseException | None) -> None:
        seen.append((results[0].tolist(), error, threading.current_thread() is threading.main_thread()))

    g.run_async({x: ONES}, y, descriptor=mg.ExecutionDescriptor(completed_handler=completed)).wait()
    assert seen == [([2, 2, 2], None, False)]

    def fails(results: list[mg.NDArray], error: BaseException | None) -> None:
        raise KeyError("from a handler")

    execution = g.run_async({x: ONES}, y, descriptor=mg.ExecutionDescriptor(completed_handler=fails))
    for _ in range(2):
        with pytest.raises(KeyError, match="from a handler"):
            execution.wait()
    assert isinstance(execution.error, KeyError)


def test_handlers_and_feeds_are_released_without_waiting(doubler):
    g, x, y = doubler

    class Handler:
        def __call__(self, results, error) -> None: ...

    handler, array = Handler(), np.ones(3, np.float32)
    seen, count = weakref.ref(handler), sys.getrefcount(array)
    g.run_async({x: array}, y, descriptor=mg.ExecutionDescriptor(completed_handler=handler))
    del handler
    wait_for(lambda: seen() is None and sys.getrefcount(array) == count)


def test_command_buffer_runs_encoded_work_in_order(doubler):
    g, x, y = doubler
    order: list[str] = []
    buffer = mg.CommandQueue().command_buffer()
    result = g.encode(buffer, {x: ONES}, y)
    again = g.encode(buffer, {x: result}, y)
    buffer.add_scheduled_handler(lambda b: order.append("scheduled"))
    buffer.add_completed_handler(lambda b: order.append(b.status))
    assert buffer.status == "not_enqueued"
    with pytest.raises(mg.DeviceError, match="has not been committed"):
        buffer.wait_until_completed()
    buffer.commit()
    buffer.wait_until_completed()
    assert again.tolist() == [4, 4, 4] and order == ["scheduled", "completed"]
    for late in (buffer.commit, lambda: g.encode(buffer, {x: ONES}, y)):
        with pytest.raises(mg.DeviceError, match="already been committed"):
            late()


def test_semaphore_limits_double_buffering_to_two_runs(doubler):
    g, x, y = doubler
    semaphore = mg.Semaphore(2)
    most = in_flight = 0

    def release(results, error) -> None:
        nonlocal in_flight
        in_flight -= 1
        semaphore.signal()

    for _ in range(50):
        semaphore.wait()
        in_flight += 1
        most = max(most, in_flight)
        last = g.run_async({x: ONES}, y, descriptor=mg.ExecutionDescriptor(completed_handler=release))
    last.wait()
    assert most <= 2 and semaphore.value == 2
    with pytest.raises(mg.TimeoutError):
        mg.Semaphore(0).wait(0.01)


def test_threads_run_one_graph_concurrently(doubler):
    g, x, y = doubler
    g.run({x: ONES}, y)
    wrong: list[int] = []

    def work() -> None:
        wrong.extend(i for i in range(100) if g.run({x: ONES * i}, y).tolist() != [2 * i] * 3)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and g.on().cache.compiles == 1


def test_thousand_batch_sizes_keep_the_cache_within_its_limit(doubler):
    g, x, y = doubler
    for n in range(1, 1001):
        assert g.run({x: np.ones(n, np.float32)}, y).shape == (n,)
    cache = g.on().cache
    assert (cache.count, cache.count_limit, cache.misses, cache.evictions) == (64, 64, 1000, 936)
    g.run({x: np.ones(1000, np.float32)}, y)
    assert g.on().cache.hits == 1


def test_variables_are_read_and_set_in_order():
    g = mg.Graph()
    v = g.variable(np.zeros(4, np.float32))
    step = g.assign(v, v + 1)
    for _ in range(10):
        g.run_async({}, [], [step])
    assert g.variable_value(v).tolist() == [10] * 4
    g.set_variable(v, np.arange(4, dtype=np.float32)[::-1])
    assert g.run({}, v).tolist() == [3, 2, 1, 0]
    for wrong, error in ((np.zeros(3, np.float32), mg.ShapeError), (np.zeros(4), mg.DTypeError)):
        with pytest.raises(error):
            g.set_variable(v, wrong)
    with pytest.raises(mg.GraphError, match="must be a variable of this graph"):
        g.variable_value(g.constant(1.0))
    assert g.variable_value(v).tolist() == [3, 2, 1, 0]


def test_invalid_feeds_leave_graph_usable(doubler):
    g, x, y = doubler
    other = mg.Graph()
    foreign = other.placeholder((-1,))
    for feeds, targets in [
        ({}, y),
        ({x: ONES, foreign: ONES}, y),
        ({y: ONES}, y),
        ({x: ONES}, foreign),
        ({x: ONES}, []),
    ]:
        with pytest.raises(mg.GraphError):
            g.run(feeds, targets)
    with pytest.raises(mg.ShapeError):
        g.run({x: np.ones((2, 2), np.float32)}, y)
    with pytest.raises(mg.DeviceError, match="cpu"):
        mg.Device("abacus")
    assert g.run({x: ONES}, y).tolist() == [2, 2, 2] and g.on().cache.count == 1


def test_observe_receives_passes_and_its_exceptions_propagate(doubler):
    g, x, y = doubler
    seen: list[str] = []
    g.compile({x: (3,)}, [y], options=mg.CompilationDescriptor(observe=lambda name, text: seen.append(name)))
    assert seen[0] == "specialize" and len(seen) > 2

    def fails(name: str, text: str) -> None:
        raise LookupError(name)

    with pytest.raises(LookupError, match="specialize"):
        g.compile({x: (4,)}, [y], options=mg.CompilationDescriptor(observe=fails))
    assert g.on().cache.count == 1


def test_exit_with_pending_runs_neither_hangs_nor_crashes():
    out = python("""
import numpy as np, mpsgraph as mg, time
g = mg.Graph(); x = g.placeholder((-1,)); y = x * 2
def handled(results, error): time.sleep(0.01); print("handled", flush=True)
for _ in range(5):
    g.run_async({x: np.ones(1000, np.float32)}, y, descriptor=mg.ExecutionDescriptor(completed_handler=handled))
stuck = mg.ExecutionDescriptor(completed_handler=lambda r, e: print("stuck", type(e).__name__, flush=True))
stuck.wait_for_event(mg.SharedEvent(timeout=None), 1)
g.run_async({x: np.ones(10, np.float32)}, y, descriptor=stuck, queue=mg.CommandQueue())
""")
    assert out.count("handled") == 5 and "stuck DeviceError" in out


def test_keyboard_interrupt_ends_a_wait():
    out = python("""
import mpsgraph as mg, os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try: mg.SharedEvent(timeout=None).wait(1)
except KeyboardInterrupt: print("interrupted")
""")
    assert out == "interrupted\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="requires fork")
def test_use_after_fork_raises():
    out = python("""
import gc, os, sys, numpy as np, mpsgraph as mg
g = mg.Graph(); x = g.placeholder((-1,)); y = x * 2; v = g.variable([1.0])
started = g.run_async({x: np.ones(3, np.float32)}, y)
queue = mg.CommandQueue(); event = mg.SharedEvent()
uses = [lambda: g.run({x: np.ones(3, np.float32)}, y), lambda: g.compile({x: (5,)}, [y]), lambda: g.variable_value(v),
        mg.CommandQueue, started.wait, mg.Device.default, lambda: event.wait(1),
        lambda: queue.command_buffer().commit()]
child = os.fork()
if child == 0:
    for use in uses:
        try: use()
        except mg.DeviceError as error: assert "before fork" in str(error), error
        else: os._exit(9)
    assert mg.asarray(np.ones(3), copy=True).tolist() == [1, 1, 1]
    del uses, queue, event, started, g, x, y, v; gc.collect()
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), g.run({x: np.ones(1, np.float32)}, y).tolist())
""")
    assert out == "7 [2.0]\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="requires fork")
def test_fork_while_other_threads_release_arrays_does_not_deadlock():
    """A lock held by another thread at the time of the fork is never released in the child."""
    out = python("""
import os, numpy as np, mpsgraph as mg
g = mg.Graph(); x = g.placeholder((-1,)); y = x * 2
g.run({x: np.ones(3, np.float32)}, y)
for turn in range(500):
    started = [g.run_async({x: np.ones(3, np.float32)}, y) for _ in range(8)]
    child = os.fork()
    if child == 0:
        kept = mg.asarray(np.ones(3), copy=True); del kept
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    for run in started: run.wait()
print("all ended")
""")
    assert out == "all ended\n"


def test_threads_release_arrays_safely_after_a_subinterpreter_existed():
    # From then on, PyGILState_Check() returns true on every thread, whether or not it holds the GIL.
    interpreters = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    pytest.importorskip(interpreters)
    code = f"""
import {interpreters} as interpreters, numpy as np, mpsgraph as mg
interpreters.destroy(interpreters.create())
g = mg.Graph()
x = g.placeholder((4,))
program, queue = g.on("cpu").compile({{x: (mg.float32, (4,))}}, [x * 2]), mg.CommandQueue("cpu")
for _ in range(40000):
    runs = [program.run_async([np.ones(4, np.float32)], queue=queue) for _ in range(3)]
print(runs[-1].results[0].numpy())
"""
    assert python(code) == "[2. 2. 2. 2.]\n"


def test_variable_from_tensor_takes_its_current_value():
    g = mg.Graph()
    w = g.variable(np.array([1.0, 2.0], np.float32))
    g.set_variable(w, np.float32([3, 4]))
    doubled = g.variable_from_tensor(w * 2, name="doubled")
    z = g.variable_from_tensor(g.constant(1 + 2j, (2,)), trainable=False)
    half = g.variable_from_tensor(g.constant([1.5], dtype="bfloat16"))
    assert g.variable_value(doubled).tolist() == [6, 8] and doubled.name == "doubled"
    assert g.variable_value(z).tolist() == [1 + 2j] * 2 and half.dtype == mg.bfloat16
    assert g.trainable_variables == [w, doubled, half]
    d = g.gradients(g.reduction_sum(doubled * doubled), [doubled, w])
    found = g.run({}, list(d.values()))
    assert found[d[doubled]].tolist() == [12, 16] and found[d[w]].tolist() == [0, 0]
    with pytest.raises(mg.GraphError, match="fed"):
        g.variable_from_tensor(g.placeholder((2,), name="fed") + 1)


def test_complex_constants_have_given_dtype_and_shape():
    """The three forms of constantWithRealPart:imaginaryPart:."""
    g = mg.Graph()
    widest = "complex128" if device.has("complex128") else "complex64"
    alone, typed = g.constant(1 - 2j), g.constant(3 + 0.5j, dtype=widest)
    filled = g.constant(1j, (2, 1), mg.complex64)
    found = g.run({}, [alone, typed, filled])
    assert (alone.dtype, typed.dtype, filled.dtype) == (mg.complex64, mg.DType(widest), mg.complex64)
    assert found[alone].item() == 1 - 2j and found[typed].item() == 3 + 0.5j
    assert found[filled].tolist() == [[1j], [1j]]


def test_execution_converts_first_result_to_float():
    g = mg.Graph()
    x = g.placeholder((3,))
    device_graph, array = g.on(), np.array([1, 2, 4], np.float32)
    total, as_integer = g.reduction_sum(x), g.cast(g.reduction_sum(x), mg.int32)
    assert float(device_graph.run_async({x: array}, [total])) == 7
    assert float(device_graph.run_async({x: array}, [as_integer, x])) == 7
    with pytest.raises(ValueError, match="size 1"):
        float(device_graph.run_async({x: array}, [x]))
    counter = g.variable(np.float32(0))
    with pytest.raises(TypeError, match="without targets"):
        float(device_graph.run_async({}, [], [g.assign(counter, g.constant(1.0))]))


def test_executions_share_one_class_and_keep_their_own_results():
    g = mg.Graph()
    x = g.placeholder((2,), name="x")
    y, z = x * 2, x + 1
    fed = {x: np.float32([1, 2])}
    one, both = g.run_async(fed, y), g.run_async(fed, (t for t in [y, z]))
    on_device, compiled = g.on().run_async(fed, [y, z]), g.compile(fed, [y, z]).run_async([fed[x]])
    for execution in (one, both, on_device, compiled):
        assert type(execution) is mg.Execution
        assert execution.wait(60) is execution and execution.done and execution.error is None
        assert execution.pending_results[0].tolist() == [2, 4]
    assert one.results.tolist() == [2, 4]
    assert {t: a.tolist() for t, a in both.results.items()} == {y: [2, 4], z: [2, 3]}
    for execution in (on_device, compiled):
        assert [a.tolist() for a in execution.results] == [[2, 4], [2, 3]]
    assert float(g.run_async({}, g.constant(3.0))) == 3.0
    assert g.run_async({}, [], [g.assign(g.variable([1.0]), g.constant([2.0]))]).results == {}
