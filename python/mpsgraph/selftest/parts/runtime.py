"""Part runtime: zero-copy memory, queues, events, handlers, errors, caches, and memory growth on the device.

Events make the state of a queue observable: work that waits for an event does not run until the event is signaled.
"""

from __future__ import annotations

import contextlib
import mmap
import resource
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mpsgraph as mg

from .. import shared
from ..checks import NOTED, Check, Mismatch, Options, Result
from .operations import device_name

FLAT = 32 * 2**20  # Maximum number of bytes by which the memory of the process may grow.


class On:
    """A graph on the device under test. Each run returns 2 * x and increments a counter variable."""

    def __init__(self, options: Options) -> None:
        harness = shared.module("harness.runtime")
        self.device, self.quick = device_name(options), options.quick
        self.seconds, self.waiting_for = harness.SECONDS, harness.waiting_for
        self.d = harness.Doubling(self.device)
        self.on = self.d.g.on(self.device)

    def queue(self) -> mg.CommandQueue:
        """Create a new queue."""
        return mg.CommandQueue(mg.Device(self.device))

    def run(self, numbers: Any, **how: Any) -> Any:
        """Run the graph and return 2 * x."""
        return self.d.g.run({self.d.x: np.asarray(numbers, np.float32)}, self.d.y, device=self.device, **how)

    def start(self, *numbers: float, **how: Any) -> mg.Execution:
        """Start a run that returns 2 * x and increments the counter."""
        execution: mg.Execution = self.d.g.run_async(
            self.d.feeds(*numbers), self.d.y, [self.d.step], device=self.device, **how
        )
        return execution


def checks(options: Options) -> list[Check]:
    """Return one check for each function in CHECKS."""

    def bound(function: Callable[[On], Result | None]) -> Callable[[], Result | None]:
        return lambda: function(On(options))

    def about(function: Callable[[On], Result | None]) -> Callable[[], str]:
        return lambda: " ".join((function.__doc__ or "").split())

    return [Check(function.__name__, bound(function), limit=120.0, about=about(function)) for function in CHECKS]


def address(array: Any) -> int:
    """Return the address of the first element."""
    return int(np.asarray(array).__array_interface__["data"][0])


def in_pages(count: int) -> np.ndarray:
    """Return float32 zeros that start at a page boundary."""
    return np.frombuffer(mmap.mmap(-1, 4 * count), np.float32)


@contextlib.contextmanager
def raises(kind: type[BaseException], part: str = "") -> Iterator[None]:
    """Check that the block raises an error of type `kind` whose message contains `part`."""
    try:
        yield
    except kind as error:
        assert part in str(error), f"the message {str(error)!r} does not contain {part!r}"
    else:
        raise AssertionError(f"expected {kind.__name__}, but no error was raised")


# --- memory -----------------------------------------------------------------------------------------------------------
def results_are_seen_without_a_copy(on: On) -> None:
    result = on.run(np.arange(100_000))
    view = result.numpy()
    before = mg.copy_count()
    assert address(result) == address(view) == address(result.numpy())
    view[7] = -1
    assert result.numpy()[7] == -1 and mg.copy_count() == before


def contiguous_feeds_are_not_copied(on: On) -> None:
    before = mg.copy_count()
    for source in (in_pages(1 << 20), np.zeros(1 << 20, np.float32)[3:], np.ones(5, np.float32)):
        source[:] = np.arange(source.size)
        assert np.array_equal(on.run(source).numpy(), 2 * source), f"{source.size} elements"
    assert mg.copy_count() == before, "the runtime counted a copy"


def strided_feeds_are_copied_and_counted(on: On) -> None:
    before = mg.copy_count()
    assert on.run(np.arange(10, dtype=np.float32)[::2]).tolist() == [0, 4, 8, 12, 16]
    assert mg.copy_count() == before + 1
    with raises(mg.ShapeError, "copy=False"):
        on.run(np.arange(10, dtype=np.float32)[::2], copy=False)


def results_given_by_the_caller_are_written_in_place(on: On) -> None:
    for count in (3, 1 << 20):
        whole = in_pages(count + 64)
        whole[:] = -1
        target = whole[32 : 32 + count]
        assert address(on.run(np.arange(count), results=target)) == address(target)
        assert np.array_equal(target, 2 * np.arange(count, dtype=np.float32)), f"{count} elements"
        assert set(whole[:32]) == set(whole[32 + count :]) == {-1}, "memory outside the result was overwritten"
    with raises(mg.Error):
        frozen = np.zeros(3, np.float32)
        frozen.flags.writeable = False
        on.run(np.arange(3), results=frozen)


def time_that_a_large_feed_costs(on: On) -> Result:
    """Time a run that uses only a slice of a 64 MB feed, which shows whether the feed is mapped (fast) or copied."""
    count = 1 << (18 if on.quick else 24)
    g = mg.Graph()
    x = g.placeholder((-1,))
    y = g.slice(x, [0], [4], [1])
    memory = in_pages(count + 1)
    times = {"copy by numpy": _median(lambda: memory.copy())}
    for name, source in (("page-aligned feed", memory[:count]), ("unaligned feed", memory[1:])):
        times[name] = _median(lambda source=source: g.run({x: source}, y, device=on.device))  # type: ignore[misc]
    text = ", ".join(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in times.items())
    return Result(NOTED, f"{count * 4 / 2**20:.0f} MB: {text}", times)


def _median(function: Callable[[], Any]) -> float:
    function()
    times = []
    for _ in range(7):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


# --- queues, events, handlers -----------------------------------------------------------------------------------------
def an_event_orders_two_queues(on: On) -> None:
    """Commit work that waits for an event, then work on another queue that signals it; both must complete."""
    event = mg.SharedEvent()
    consumer, producer = on.queue().command_buffer(), on.queue().command_buffer()
    consumer.encode_wait_for_event(event, 5, on.seconds)
    value = on.d.g.encode(consumer, {}, on.d.count)
    consumer.commit()
    on.d.g.encode(producer, {}, [], [on.d.step])
    producer.encode_signal_event(event, 5)
    assert not consumer.done
    producer.commit()
    consumer.wait_until_completed(on.seconds)
    producer.wait_until_completed(on.seconds)
    assert value.item() == 1 and event.signaled_value == 5


def two_queues_take_turns_by_events(on: On) -> None:
    """Increment a counter alternately on two queues. Each increment waits for the previous one, on the other queue."""
    event, buffers = mg.SharedEvent(), []
    queues = [on.queue(), on.queue()]
    for step in range(20):
        buffer = queues[step % 2].command_buffer()
        if step:
            buffer.encode_wait_for_event(event, step, on.seconds)
        on.d.g.encode(buffer, {}, [], [on.d.step])
        buffer.encode_signal_event(event, step + 1)
        buffer.commit()
        buffers.append(buffer)
    event.wait(20, on.seconds)
    for buffer in buffers:
        buffer.wait_until_completed(on.seconds)
    assert on.d.counted() == 20


def a_held_queue_does_not_hold_another(on: On) -> None:
    event, held = mg.SharedEvent(), on.queue().command_buffer()
    held.encode_wait_for_event(event, 1, on.seconds)
    held.commit()
    assert on.run([1], queue=on.queue()).tolist() == [2] and not held.done
    event.signal(1)
    held.wait_until_completed(on.seconds)


def handlers_run_in_order_on_another_thread(on: On) -> None:
    seen: list[tuple[str, int]] = []
    buffer = on.queue().command_buffer()
    result = on.d.g.encode(buffer, on.d.feeds(21), on.d.y)
    buffer.add_scheduled_handler(lambda b: seen.append(("scheduled", threading.get_ident())))
    buffer.add_completed_handler(lambda b: seen.append((f"completed {result.tolist()}", threading.get_ident())))
    buffer.commit()
    buffer.wait_until_completed(on.seconds)
    assert [what for what, _ in seen] == ["scheduled", "completed [42.0]"], str(seen)
    assert threading.get_ident() not in {thread for _, thread in seen}


def a_handler_may_run_graphs(on: On) -> None:
    found: list[Any] = []
    event = mg.SharedEvent()

    def completed(results: Any, error: Any) -> None:
        found.append(on.run([5]).tolist())
        event.signal(1)

    on.start(1, descriptor=mg.ExecutionDescriptor(completed_handler=completed))
    event.wait(1, on.seconds)
    assert found == [[10]]


def run_async_returns_before_it_runs(on: On) -> None:
    event = mg.SharedEvent()
    execution = on.start(1, 2, descriptor=on.waiting_for(event))
    assert not execution.done
    with raises(mg.TimeoutError):
        execution.wait(0.01)
    event.signal(1)
    assert execution.results.tolist() == [2, 4] and on.d.counted() == 1


def double_buffering_keeps_two_in_flight(on: On) -> None:
    """Check that a semaphore with value 2, signaled by completion handlers, limits the runs in flight to two."""
    semaphore, gate = mg.Semaphore(2), mg.SharedEvent()
    held = on.waiting_for(gate)
    held.completed_handler = lambda results, error: semaphore.signal()
    free = mg.ExecutionDescriptor(completed_handler=held.completed_handler)
    for i in range(2):
        semaphore.wait(on.seconds)
        on.start(i, descriptor=held)
    with raises(mg.TimeoutError):
        semaphore.wait(0.05)
    gate.signal(1)
    for i in range(98):
        semaphore.wait(on.seconds)
        last = on.start(i, descriptor=free)
    assert last.results.tolist() == [2 * 97] and on.d.counted() == 100, f"{on.d.counted()} counted"


def many_threads_run_one_executable(on: On) -> None:
    executable = on.d.g.compile({on.d.x: (1000,)}, [on.d.y], device=on.device)
    wrong: list[str] = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).random(1000, np.float32)
        for _ in range(20):
            if not np.array_equal(executable.run([x])[0].numpy(), 2 * x):
                wrong.append(f"thread {seed}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, str(wrong)


# --- errors -----------------------------------------------------------------------------------------------------------
def errors_are_typed_and_leave_the_device_usable(on: On) -> None:
    g = mg.Graph()
    a, b = g.placeholder((2, 3)), g.placeholder((2, 3))
    with raises(mg.ShapeError, "matrix_multiplication"):
        g.matrix_multiplication(a, b)
    with raises(mg.ShapeError):
        g.run({a: np.ones((3, 2), np.float32)}, a + 1, device=on.device)
    with raises(mg.DTypeError):
        g.run({a: np.ones((2, 3), np.int32)}, a + 1, device=on.device)
    with raises(mg.GraphError):
        g.run({}, a + 1, device=on.device)
    assert on.run([3]).tolist() == [6]


def a_wait_that_times_out_skips_what_follows(on: On) -> None:
    event, buffer = mg.SharedEvent(), on.queue().command_buffer()
    buffer.encode_wait_for_event(event, 1, 0.05)
    on.d.g.encode(buffer, {}, [], [on.d.step])
    buffer.commit()
    with raises(mg.TimeoutError):
        buffer.wait_until_completed(on.seconds)
    assert on.d.counted() == 0 and on.start(1).results.tolist() == [2] and on.d.counted() == 1


def a_failed_signal_fails_its_waiters(on: On) -> None:
    never, event = mg.SharedEvent(), mg.SharedEvent()
    failing, waiting = on.queue().command_buffer(), on.queue().command_buffer()
    failing.encode_wait_for_event(never, 1, 0.05)
    failing.encode_signal_event(event, 1)
    waiting.encode_wait_for_event(event, 1, on.seconds)
    waiting.commit()
    failing.commit()
    with raises(mg.DeviceError):
        waiting.wait_until_completed(on.seconds / 2)
    assert on.run([3], queue=on.queue()).tolist() == [6]


def an_exception_in_a_handler_reaches_the_waiter(on: On) -> None:
    def completed(results: Any, error: Any) -> None:
        raise KeyError("raised by the completion handler")

    execution = on.start(1, descriptor=mg.ExecutionDescriptor(completed_handler=completed))
    with raises(KeyError, "raised by the completion handler"):
        execution.wait(on.seconds)


# --- executables and variables ----------------------------------------------------------------------------------------
def two_hundred_batch_sizes_are_not_two_hundred_executables(on: On) -> None:
    for n in range(1, 201):
        assert on.run(np.full(n, n)).tolist() == [2 * n] * n
    cache = on.on.cache
    assert cache.compiles == 200 and cache.count <= cache.count_limit and cache.bytes <= cache.byte_limit, repr(cache)


def variables_are_shared_by_executables(on: On) -> None:
    """Run sixty executables, one per batch size, that all update the same variable, and check that each sees earlier
    updates.
    """
    g = mg.Graph()
    x, total = g.placeholder((-1,)), g.variable(np.zeros(3, np.float32))
    step = g.assign(total, total + g.reduction_sum(x))
    sum_so_far = 0
    for n in [*range(1, 31), *range(30, 0, -1)]:
        g.run({x: np.ones(n, np.float32)}, [], [step], device=on.device)
        sum_so_far += n
        found = g.run({}, total, device=on.device).tolist()
        if found != [sum_so_far] * 3:
            message = f"after a batch of {n}, the variable is {found}, expected {[sum_so_far] * 3}"
            raise Mismatch(f"{message}\n{_visible_assignments(on)}", {})
    g.set_variable(total, np.array([1, 2, 3], np.float32), device=on.device)
    g.run({x: np.ones(2, np.float32)}, [], [step], device=on.device)
    assert g.variable_value(total, device=on.device).tolist() == [3, 4, 5]


def _visible_assignments(on: On) -> str:
    """Return where the value of a variable is visible that a program, or the host, has assigned."""
    g = mg.Graph()
    v = g.variable(np.zeros(1, np.float32))
    step = g.assign(v, g.read(v) + 1)
    after = g.read(v)
    same = g.run({}, after, [step], device=on.device).tolist()
    other = g.run({}, v, device=on.device).tolist()
    g.set_variable(v, np.full(1, 7, np.float32), device=on.device)
    return (
        f"Another variable, where a program assigned [1.0]: the same program read {same}, another program {other}. "
        f"After the host had set [7.0], a program read {g.run({}, v, device=on.device).tolist()}"
    )


def reads_and_assigns_keep_the_order_of_the_graph(on: On) -> None:
    g = mg.Graph()
    v = g.variable(np.ones(1, np.float32))
    before = g.read(v)
    first = g.assign(v, before * 10)
    between = g.read(v)
    second = g.assign(v, between + 1)
    found = g.run({}, [before, between], [first, second], device=on.device)
    values = [found[before].tolist(), found[between].tolist(), g.variable_value(v, device=on.device).tolist()]
    assert values == [[1], [10], [11]], str(values)


# --- memory that stays flat -------------------------------------------------------------------------------------------
def peak() -> int:
    """Return the peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _flat(on: On, work: Callable[[], Any], count: int) -> Result:
    """Run `work` several times to warm up, then `count` times, and fail if the process's memory grows after the
    warm-up.
    """
    times = max(20, count // 20) if on.quick else count
    for _ in range(times // 10 + 10):
        work()
    before, started = peak(), time.perf_counter()
    for _ in range(times):
        work()
    grown, seconds = peak() - before, time.perf_counter() - started
    numbers = {"times": times, "grown bytes": grown, "microseconds each": 1e6 * seconds / times}
    assert grown < FLAT, f"the process grew by {grown / 2**20:.1f} MB in {times} runs"
    return Result(numbers=numbers, message=f"grew by {grown / 2**20:.1f} MB in {times} runs")


def asynchronous_runs_leave_no_memory(on: On) -> Result:
    """Run a graph asynchronously, with 1 MB of input and at most two runs in flight."""
    x = np.ones(250_000, np.float32)
    last: list[mg.Execution] = []

    def work() -> None:
        if len(last) == 2:
            last.pop(0).wait(on.seconds)
        last.append(on.d.g.run_async({on.d.x: x}, on.d.y, [on.d.step], device=on.device))

    return _flat(on, work, 2000)


def objects_of_the_frameworks_are_released_each_step(on: On) -> Result:
    """Run a graph and access a variable on this thread, where only the backend drains autorelease pools."""
    g = mg.Graph()
    x, v = g.placeholder((-1,)), g.variable(np.zeros(50_000, np.float32))
    step, value = g.assign(v, v + g.reduction_sum(x)), np.zeros(50_000, np.float32)

    def work() -> None:
        g.run({x: np.ones(1000, np.float32)}, [], [step], device=on.device)
        g.variable_value(v, device=on.device)
        g.set_variable(v, value, device=on.device)

    return _flat(on, work, 500)


def graphs_are_released(on: On) -> Result:
    """Create a graph, run it once, and release it."""

    def work() -> None:
        d = shared.module("harness.runtime").Doubling(on.device)
        d.g.run(d.feeds(*range(1000)), d.y, [d.step], device=on.device)

    return _flat(on, work, 200)


CHECKS: list[Callable[[On], Result | None]] = [
    results_are_seen_without_a_copy,
    contiguous_feeds_are_not_copied,
    strided_feeds_are_copied_and_counted,
    results_given_by_the_caller_are_written_in_place,
    time_that_a_large_feed_costs,
    an_event_orders_two_queues,
    two_queues_take_turns_by_events,
    a_held_queue_does_not_hold_another,
    handlers_run_in_order_on_another_thread,
    a_handler_may_run_graphs,
    run_async_returns_before_it_runs,
    double_buffering_keeps_two_in_flight,
    many_threads_run_one_executable,
    errors_are_typed_and_leave_the_device_usable,
    a_wait_that_times_out_skips_what_follows,
    a_failed_signal_fails_its_waiters,
    an_exception_in_a_handler_reaches_the_waiter,
    two_hundred_batch_sizes_are_not_two_hundred_executables,
    variables_are_shared_by_executables,
    reads_and_assigns_keep_the_order_of_the_graph,
    asynchronous_runs_leave_no_memory,
    objects_of_the_frameworks_are_released_each_step,
    graphs_are_released,
]
