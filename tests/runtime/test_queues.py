"""Test queues, command buffers, handlers, events, semaphores, all ways to run a graph, and the executable cache.

Events make the state of a queue observable: work that waits for an event stays pending until the test signals the
event, so no test depends on timing. Threads and processes are tested in test_process.py, zero copy in
test_zero_copy.py, and invalid feeds in test_bad_input.py.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from harness.runtime import SECONDS, Doubling, waiting_for

pytestmark = pytest.mark.both_devices


@pytest.fixture
def d() -> Doubling:
    return Doubling()


# --- run, run_async, encode -------------------------------------------------------------------------------------------
def test_run_returns_requested_targets(d: Doubling):
    assert d.g.run(d.feeds(1), d.y).tolist() == [2]
    both = d.g.run(d.feeds(1), [d.y, d.x])
    assert list(both) == [d.y, d.x] and both[d.y].tolist() == [2] and both[d.x].tolist() == [1]
    assert d.g.run(d.feeds(1), [], [d.step]) == {}
    assert d.g.run(target_operations=[d.step]) == {} and d.counted() == 2
    twice = d.g.run(d.feeds(3), [d.y, d.y])
    assert twice[d.y].tolist() == [6]


def test_run_async_returns_before_the_run_starts(d: Doubling):
    event = mg.SharedEvent()
    execution = d.g.run_async(d.feeds(1, 2), d.y, [d.step], descriptor=waiting_for(event))
    assert not execution.done and execution.error is None
    with pytest.raises(mg.TimeoutError):
        execution.wait(0.01)
    event.signal(1)
    assert execution.results.tolist() == [2, 4] and execution.done
    execution.wait()
    assert execution.wait(0) is execution, "waiting again must return at once"
    assert d.counted() == 1


def test_execution_descriptor_can_wait_until_completed(d: Doubling):
    execution = d.g.run_async(d.feeds(1), [d.y], descriptor=mg.ExecutionDescriptor(wait_until_completed=True))
    assert execution.done and execution.results[d.y].tolist() == [2]


def test_encoded_work_runs_in_order_after_commit(d: Doubling):
    buffer = mg.CommandQueue().command_buffer()
    assert buffer.status == "not_enqueued"
    before = d.g.encode(buffer, d.feeds(1), [d.y, d.g.read(d.count)], [d.step])
    after = d.g.encode(buffer, d.feeds(5), d.y, [d.step])
    assert d.counted() == 0 and not buffer.done
    buffer.commit()
    buffer.wait_until_completed(SECONDS)
    assert buffer.status == "completed" and buffer.error is None
    assert before[d.y].tolist() == [2] and after.tolist() == [10] and d.counted() == 2


def test_preallocated_results_work_with_encode_and_run_async(d: Doubling):
    target, other = np.zeros(1, np.float32), np.zeros(1, np.float32)
    buffer = mg.CommandQueue().command_buffer()
    d.g.encode(buffer, d.feeds(4), d.y, results=target)
    buffer.commit()
    buffer.wait_until_completed(SECONDS)
    d.g.run_async(d.feeds(5), [d.y], results={d.y: other}).wait(SECONDS)
    assert target.tolist() == [8] and other.tolist() == [10]


def test_executable_runs_encodes_and_reports_its_properties(d: Doubling):
    executable = d.g.compile({d.x: (3,)}, [d.y], [d.step])
    assert (executable.feeds, executable.targets, executable.target_operations) == ([d.x], [d.y], [d.step])
    assert executable.feed_types == [(mg.float32, (3,))] and executable.target_types == [(mg.float32, (3,))]
    assert executable.device == mg.Device.default() and executable.bytes >= 0 and executable.kernel_names()
    x = np.array([1, 2, 3], np.float32)
    assert executable.run([x])[0].tolist() == [2, 4, 6]
    assert executable.run_async([x]).results[0].tolist() == [2, 4, 6]
    buffer = mg.CommandQueue().command_buffer()
    (result,) = executable.encode(buffer, [x])
    buffer.commit()
    buffer.wait_until_completed(SECONDS)
    assert result.tolist() == [2, 4, 6] and d.counted() == 3


# --- command buffers --------------------------------------------------------------------------------------------------
def test_command_buffer_is_committed_only_once(d: Doubling):
    buffer = mg.CommandQueue().command_buffer()
    d.g.encode(buffer, d.feeds(1), d.y, [d.step])
    buffer.commit()
    with pytest.raises(mg.DeviceError, match="commit"):
        buffer.commit()
    with pytest.raises(mg.DeviceError, match="commit"):
        d.g.encode(buffer, d.feeds(1), d.y)
    with pytest.raises(mg.DeviceError, match="commit"):
        buffer.add_completed_handler(lambda b: None)
    buffer.wait_until_completed(SECONDS)
    assert d.counted() == 1, "the work must have run once"


def test_waiting_for_uncommitted_buffer_raises(d: Doubling):
    buffer = mg.CommandQueue().command_buffer()
    with pytest.raises(mg.DeviceError, match="commit"):
        buffer.wait_until_completed(SECONDS)
    buffer.commit()
    buffer.wait_until_completed(SECONDS)
    assert buffer.status == "completed"


def test_queue_runs_in_order():
    queue, event, order = mg.CommandQueue(), mg.SharedEvent(), []
    buffers = []
    for i in range(10):
        buffer = queue.command_buffer()
        if i == 0:
            buffer.encode_wait_for_event(event, 1, SECONDS)
        buffer.add_completed_handler(lambda b, i=i: order.append(i))
        buffer.commit()
        buffers.append(buffer)
    assert order == [] and not any(b.done for b in buffers)
    event.signal(1)
    buffers[-1].wait_until_completed(SECONDS)
    assert order == list(range(10))


def test_uncommitted_buffer_has_no_effect_when_deleted(d: Doubling):
    buffer = mg.CommandQueue().command_buffer()
    d.g.encode(buffer, d.feeds(1), d.y, [d.step])
    del buffer
    gc.collect()
    assert d.counted() == 0


def test_deleted_queue_finishes_its_work(d: Doubling):
    queue, event = mg.CommandQueue(), mg.SharedEvent()
    buffer = queue.command_buffer()
    buffer.encode_wait_for_event(event, 1, SECONDS)
    d.g.encode(buffer, {}, [], [d.step])
    buffer.commit()
    del queue
    event.signal(1)
    buffer.wait_until_completed(SECONDS)
    assert d.counted() == 1


def test_closed_queue_rejects_work():
    queue = mg.CommandQueue()
    buffer = queue.command_buffer()
    queue.close()
    with pytest.raises(mg.DeviceError, match="closed|shut"):
        buffer.commit()
    queue.close()


# --- handlers ---------------------------------------------------------------------------------------------------------
def test_buffer_handlers_receive_their_buffer_on_another_thread(d: Doubling):
    seen = []
    buffer = mg.CommandQueue().command_buffer()
    d.g.encode(buffer, d.feeds(1), d.y)
    buffer.add_scheduled_handler(lambda b: seen.append(("scheduled", b is buffer, threading.get_ident())))
    buffer.add_completed_handler(lambda b: seen.append(("completed", b.done or b.status, threading.get_ident())))
    buffer.commit()
    buffer.wait_until_completed(SECONDS)
    assert [s[0] for s in seen] == ["scheduled", "completed"] and seen[0][1]
    assert threading.get_ident() not in {s[2] for s in seen}


def test_run_handlers_receive_the_results(d: Doubling):
    seen = []
    descriptor = mg.ExecutionDescriptor(
        scheduled_handler=lambda results, error: seen.append(("scheduled", error)),
        completed_handler=lambda results, error: seen.append(("completed", results[0].tolist(), error)),
    )
    d.g.run_async(d.feeds(21), d.y, descriptor=descriptor).wait(SECONDS)
    assert seen == [("scheduled", None), ("completed", [42.0], None)]


def test_handler_may_use_the_runtime(d: Doubling):
    """Handlers run without locks held, so they may run graphs, commit buffers, and signal events."""
    found, event = [], mg.SharedEvent()

    def handler(results, error):
        found.append(d.g.run(d.feeds(5), d.y).tolist())
        event.signal(1)

    d.g.run_async(d.feeds(1), d.y, descriptor=mg.ExecutionDescriptor(completed_handler=handler))
    event.wait(1, SECONDS)
    assert found == [[10]]


@pytest.mark.parametrize("which", ["scheduled_handler", "completed_handler"])
def test_exception_in_run_handler_reaches_the_waiter(d: Doubling, which: str):
    def handler(results, error):
        raise KeyError("mine")

    execution = d.g.run_async(d.feeds(1), d.y, [d.step], descriptor=mg.ExecutionDescriptor(**{which: handler}))
    with pytest.raises(KeyError, match="mine") as raised:
        execution.wait(SECONDS)
    assert any("handler" in frame.name for frame in raised.traceback), "the traceback must include the handler"
    with pytest.raises(KeyError, match="mine"):
        _ = execution.results
    assert isinstance(execution.error, KeyError)
    assert d.g.run(d.feeds(1), d.y).tolist() == [2] and d.counted() == 1


def test_exception_in_buffer_handler_reaches_every_waiter(d: Doubling):
    buffer = mg.CommandQueue().command_buffer()
    buffer.add_completed_handler(lambda b: 1 / 0)
    later = []
    buffer.add_completed_handler(lambda b: later.append(1))
    buffer.commit()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            buffer.wait_until_completed(SECONDS)
    assert buffer.status == "error" and later == [1], "the other handlers must still run"


def test_handlers_are_released_after_the_run():
    class Handler:
        def __call__(self, buffer):
            pass

    handler = Handler()
    alive = weakref.ref(handler)
    buffer = mg.CommandQueue().command_buffer()
    buffer.add_completed_handler(handler)
    buffer.commit()
    buffer.wait_until_completed(SECONDS)
    del handler, buffer
    deadline = time.monotonic() + SECONDS
    while alive() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert alive() is None


# --- events and semaphores --------------------------------------------------------------------------------------------
def test_event_orders_two_queues(d: Doubling):
    """The work of the second queue is committed first and waits for that of the first."""
    event, order = mg.SharedEvent(), []
    consumer, producer = mg.CommandQueue().command_buffer(), mg.CommandQueue().command_buffer()
    consumer.encode_wait_for_event(event, 5, SECONDS)
    value = d.g.encode(consumer, {}, d.count)
    consumer.add_completed_handler(lambda b: order.append("consumer"))
    consumer.commit()
    d.g.encode(producer, {}, [], [d.step])
    producer.add_completed_handler(lambda b: order.append("producer"))
    producer.encode_signal_event(event, 5)
    assert not consumer.done
    producer.commit()
    consumer.wait_until_completed(SECONDS)
    producer.wait_until_completed(SECONDS)
    assert value.item() == 1 and event.signaled_value == 5 and sorted(order) == ["consumer", "producer"]


def test_two_queues_run_concurrently(d: Doubling):
    """A blocked queue must not block the other."""
    event = mg.SharedEvent()
    held = mg.CommandQueue().command_buffer()
    held.encode_wait_for_event(event, 1, SECONDS)
    held.commit()
    assert d.g.run(d.feeds(1), d.y, queue=mg.CommandQueue()).tolist() == [2]
    assert not held.done
    event.signal(1)
    held.wait_until_completed(SECONDS)


def test_execution_descriptor_signals_events_when_scheduled_or_done(d: Doubling):
    event, gate = mg.SharedEvent(), mg.SharedEvent()
    descriptor = waiting_for(gate)
    descriptor.signal_event(event, 1, at="scheduled")
    descriptor.signal_event(event, 2)
    execution = d.g.run_async(d.feeds(1), d.y, descriptor=descriptor)
    gate.signal(1)
    execution.wait(SECONDS)
    event.wait(2, SECONDS)
    assert event.signaled_value == 2
    with pytest.raises(mg.DeviceError, match="scheduled"):
        descriptor.signal_event(event, 3, at="sometime")


def test_event_value_never_decreases():
    event = mg.SharedEvent()
    assert event.signaled_value == 0
    event.signal(3)
    event.signal(2)
    assert event.signaled_value == 3
    event.wait(1, 0)
    event.wait(3, 0)


def test_waiting_for_unsignaled_event_times_out(d: Doubling):
    event = mg.SharedEvent()
    start = time.monotonic()
    with pytest.raises(mg.TimeoutError, match="1"):
        event.wait(1, 0.05)
    assert 0.04 < time.monotonic() - start < 10
    with pytest.raises(TimeoutError):
        mg.SharedEvent(timeout=0.01).wait(1)
    buffer = mg.CommandQueue().command_buffer()
    buffer.encode_wait_for_event(event, 1, 0.05)
    d.g.encode(buffer, {}, [], [d.step])
    buffer.commit()
    with pytest.raises(mg.TimeoutError):
        buffer.wait_until_completed(SECONDS)
    assert d.counted() == 0, "work after the wait must be skipped"
    assert d.g.run(d.feeds(1), d.y, [d.step]).tolist() == [2] and d.counted() == 1


def test_failed_signal_fails_its_waiters(d: Doubling):
    """A queue that waits for failed work must get an error at once instead of a timeout."""
    never, event = mg.SharedEvent(), mg.SharedEvent()
    failing, waiting = mg.CommandQueue().command_buffer(), mg.CommandQueue().command_buffer()
    failing.encode_wait_for_event(never, 1, 0.05)
    failing.encode_signal_event(event, 1)
    waiting.encode_wait_for_event(event, 1, SECONDS)
    waiting.commit()
    failing.commit()
    with pytest.raises(mg.DeviceError):
        waiting.wait_until_completed(SECONDS / 2)
    with pytest.raises(mg.DeviceError):
        event.wait(1, SECONDS)


def test_invalid_timeouts_raise():
    with pytest.raises(mg.DeviceError, match="number"):
        mg.SharedEvent().wait(1, float("nan"))
    with pytest.raises(mg.TimeoutError):
        mg.SharedEvent().wait(1, -1)
    with pytest.raises((mg.Error, TypeError)):
        mg.SharedEvent().signal(-1)


def test_semaphore_blocks_at_zero_until_signaled():
    semaphore = mg.Semaphore(2)
    semaphore.wait(0)
    semaphore.wait(0)
    with pytest.raises(mg.TimeoutError):
        semaphore.wait(0.01)
    threading.Timer(0.05, semaphore.signal).start()
    semaphore.wait(SECONDS)
    assert semaphore.value == 0
    with pytest.raises(mg.DeviceError):
        mg.Semaphore(-1)


def test_double_buffering_keeps_at_most_two_runs_in_flight(d: Doubling):
    """With a semaphore of two that completed handlers signal, at most two runs are in flight."""
    semaphore, flying, most = mg.Semaphore(2), [], []

    def completed(results, error):
        flying.pop()
        semaphore.signal()

    descriptor = mg.ExecutionDescriptor(completed_handler=completed)
    for i in range(20):
        semaphore.wait(SECONDS)
        flying.append(i)
        most.append(len(flying))
        last = d.g.run_async(d.feeds(i), d.y, [d.step], descriptor=descriptor)
    last.wait(SECONDS)
    assert max(most) <= 2 and d.counted() == 20


# --- the cache --------------------------------------------------------------------------------------------------------
def test_executable_cache_counts_hits_misses_and_compilations(d: Doubling):
    g = d.g
    for _ in range(3):
        g.run(d.feeds(1), d.y)
    assert (g.cache.compiles, g.cache.misses, g.cache.hits, g.cache.count) == (1, 1, 2, 1)
    g.run(d.feeds(1, 2), d.y)
    g.run(d.feeds(1), [d.y, d.x])
    assert (g.cache.compiles, g.cache.count) == (3, 3) and g.cache.seconds > 0 and g.cache.bytes >= 0
    z = g.placeholder((-1,))
    total = d.x + z
    fed = d.feeds(1)
    g.run(fed | {z: fed[d.x]}, total)
    g.run({z: fed[d.x]} | fed, total)
    assert g.cache.compiles == 4, "the order of feeds must not matter"
    g.clear_cache()
    assert g.cache.count == 0 and g.cache.evictions == 0
    g.run(d.feeds(1), d.y)
    assert g.cache.compiles == 5


def test_thousand_batch_sizes_keep_the_cache_within_its_limits(d: Doubling):
    for n in range(1, 1001):
        assert d.g.run({d.x: np.ones(n, np.float32)}, d.y).shape == (n,)
    cache = d.g.cache
    assert cache.compiles == 1000 and cache.count <= cache.count_limit < 1000
    assert cache.evictions == 1000 - cache.count and cache.bytes <= cache.byte_limit
    assert d.g.run({d.x: np.ones(1000, np.float32)}, d.y).shape == (1000,)
    assert d.g.cache.compiles == 1000, "the newest one must be cached"


def test_executable_cache_evicts_least_recently_used(d: Doubling):
    g = d.g
    g.set_cache_limits(2, 2**30)
    for n in (1, 2, 1, 3):  # evicts 2
        g.run({d.x: np.ones(n, np.float32)}, d.y)
    compiles = g.cache.compiles
    g.run({d.x: np.ones(1, np.float32)}, d.y)
    assert (g.cache.count, g.cache.compiles) == (2, compiles)
    g.run({d.x: np.ones(2, np.float32)}, d.y)
    assert g.cache.compiles == compiles + 1


def test_executable_cache_is_limited_in_bytes():
    g = mg.Graph()
    x = g.placeholder((-1, 64))
    y = g.softmax(g.transpose(g.softmax(x), [1, 0]))
    g.set_cache_limits(64, 1)
    for n in (100, 200, 300):
        g.run({x: np.ones((n, 64), np.float32)}, y)
    assert g.cache.count == 1, "the newest one is always kept"


def test_evicted_executable_still_runs(d: Doubling):
    executable = d.g.compile({d.x: (2,)}, [d.y])
    d.g.clear_cache()
    assert executable.run([np.ones(2, np.float32)])[0].tolist() == [2, 2]


def test_deleted_graph_and_its_memory_are_released():
    d = Doubling()
    d.g.run(d.feeds(1), d.y)
    executable = d.g.compile({d.x: (2,)}, [d.y])
    alive = weakref.ref(d.g)
    result = executable.run([np.ones(2, np.float32)])[0]
    del d, executable
    gc.collect()
    assert alive() is None and result.tolist() == [2, 2]


# --- devices and the profiler -----------------------------------------------------------------------------------------
def test_devices_compare_by_name():
    cpu = mg.Device("cpu")
    assert cpu == mg.Device("cpu") and hash(cpu) == hash(mg.Device("cpu")) and cpu.name == "cpu"
    assert mg.Device.default().name == device.NAME and mg.Device.names()[0] == device.NAME
    assert "cpu" in mg.Device.names() and cpu.description and repr(cpu) == 'Device("cpu")'
    g = mg.Graph()
    y = g.constant(2.0) * 3
    assert g.run({}, y, device=cpu).item() == g.run({}, y, device="cpu").item() == 6
    assert g.on("cpu").cache.compiles == 1, "equal devices must share one cache"


def test_memory_is_reused_and_released(d: Doubling):
    from mpsgraph import _core

    x = np.ones(2**20, np.float32)
    for _ in range(3):
        d.g.run({d.x: x}, d.y)
    before = _core.buffer_statistics()
    for _ in range(20):
        d.g.run({d.x: x}, d.y)
    after = _core.buffer_statistics()
    assert after["live_bytes"] <= before["live_bytes"] and after["reused"] >= before["reused"] + 20
    assert after["allocations"] - before["allocations"] == after["reused"] - before["reused"]
