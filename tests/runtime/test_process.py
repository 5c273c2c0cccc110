"""Test the runtime with Python threads and at process exit.

The tests cover threads that share an executable, the GIL, interpreter exit with pending work, and reproducible results.
Single-threaded behavior is tested in test_queues.py.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from harness.runtime import SECONDS, Doubling, run_program, waiting_for

pytestmark = pytest.mark.both_devices


@pytest.fixture
def d() -> Doubling:
    return Doubling()


# --- threads ----------------------------------------------------------------------------------------------------------
def in_threads(count: int, work) -> None:
    failures = []

    def guarded(i: int) -> None:
        try:
            work(i)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not any(t.is_alive() for t in threads) and failures == []


def test_threads_share_one_executable(d: Doubling):
    executable = d.g.compile({d.x: (500,)}, [d.y])

    def work(i: int) -> None:
        for k in range(50):
            x = np.full(500, i * 1000 + k, np.float32)
            np.testing.assert_array_equal(executable.run([x])[0].numpy(), x * 2)

    in_threads(4, work)


def test_concurrent_variable_updates_are_serialized(d: Doubling):
    in_threads(4, lambda i: [d.g.run({}, [], [d.step]) for _ in range(50)])
    assert d.counted() == 200


def test_concurrent_cache_misses_compile_once(d: Doubling):
    barrier = threading.Barrier(4)

    def work(i: int) -> None:
        barrier.wait(SECONDS)
        assert d.g.run(d.feeds(i), d.y).tolist() == [2 * i]

    in_threads(4, work)
    assert d.g.cache.compiles == 1


def test_threads_can_run_on_separate_queues(d: Doubling):
    def work(i: int) -> None:
        queue = mg.CommandQueue()
        for k in range(20):
            assert d.g.run(d.feeds(k), d.y, [d.step], queue=queue).tolist() == [2 * k]

    in_threads(3, work)
    assert d.counted() == 60


def test_gil_is_released_during_runs_and_waits(d: Doubling):
    """Another Python thread signals the event that the run waits for. The wait would time out if the run held the
    GIL.
    """
    event = mg.SharedEvent()
    progress = []

    def signal() -> None:
        progress.append(1)
        event.signal(1)

    timer = threading.Timer(0.05, signal)
    timer.start()
    descriptor = waiting_for(event)
    descriptor.wait_until_completed = True
    d.g.run_async(d.feeds(1), d.y, descriptor=descriptor)
    assert progress == [1]
    event2 = mg.SharedEvent()
    threading.Timer(0.05, lambda: event2.signal(1)).start()
    event2.wait(1, SECONDS)
    buffer = mg.CommandQueue().command_buffer()
    event3 = mg.SharedEvent()
    buffer.encode_wait_for_event(event3, 1, SECONDS)
    buffer.commit()
    threading.Timer(0.05, lambda: event3.signal(1)).start()
    buffer.wait_until_completed(SECONDS)


def test_gil_is_released_while_kernels_run():
    g = mg.Graph()
    x = g.placeholder((600, 600))
    (y,) = g.for_(60, initial=[x], body=lambda i, v: g.tanh(v @ v))
    ones = np.full((600, 600), 0.01, np.float32)
    g.run({x: ones}, y)
    ticks, stop = [0], threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks[0] += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=tick)
    thread.start()
    time.sleep(0.02)
    before = ticks[0]
    start = time.monotonic()
    g.run({x: ones}, y)
    seconds, after = time.monotonic() - start, ticks[0]
    stop.set()
    thread.join()
    assert after - before > 3, (
        f"another Python thread advanced only {after - before} steps during {seconds:.3f} s of kernels"
    )


# --- the process ------------------------------------------------------------------------------------------------------
IN_FLIGHT = """
    import sys, threading
    import numpy as np, mpsgraph as mg
    g = mg.Graph()
    x = g.placeholder((400, 400))
    (y,) = g.for_(40, initial=[x], body=lambda i, v: g.tanh(v @ v))
    ones = np.full((400, 400), 0.01, np.float32)
    def handler(results, error):
        print("handled", flush=True)
    run = lambda: g.run_async({x: ones}, y, descriptor=mg.ExecutionDescriptor(completed_handler=handler))
    runs = [run() for _ in range(3)]
"""


def test_interpreter_exits_cleanly_with_work_in_flight():
    done = run_program(IN_FLIGHT)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert done.stdout.count("handled") == 3, "committed work and its handlers must finish"


def test_interpreter_exits_during_a_wait_that_never_ends():
    done = run_program(
        IN_FLIGHT
        + """
    never = mg.SharedEvent(timeout=None)
    buffer = mg.CommandQueue().command_buffer()
    buffer.encode_wait_for_event(never, 1)
    buffer.commit()
    """,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr


def test_interpreter_exits_by_exception_with_work_in_flight():
    done = run_program(IN_FLIGHT + "\n    raise SystemExit(7)")
    assert done.returncode == 7 and done.stderr == "", done.stderr
    done = run_program(IN_FLIGHT + "\n    raise ValueError('mine')")
    assert done.returncode == 1 and "mine" in done.stderr


@pytest.mark.parametrize(
    "wait",
    ["mg.SharedEvent(timeout=None).wait(1)", "mg.Semaphore(0).wait()", "g.run({}, y, queue=queue)"],
    ids=["event", "semaphore", "run"],
)
def test_interpreter_exits_while_a_thread_waits(wait: str):
    """The thread returns from its wait during interpreter shutdown, which is artificially prolonged."""
    done = run_program(
        f"""
        import sys, threading, time
        import mpsgraph as mg
        g = mg.Graph()
        y = g.constant(1.0) + 1
        queue = mg.CommandQueue()
        buffer = queue.command_buffer()
        buffer.encode_wait_for_event(mg.SharedEvent(timeout=None), 1)
        buffer.commit()
        class Slow:
            def __del__(self, sleep=time.sleep):
                sleep(0.5)
        sys.slow = Slow()
        def wait():
            try:
                {wait}
            except mg.Error:
                pass
        threading.Thread(target=wait, daemon=True).start()
        time.sleep(0.05)
        """,
        timeout=30,
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_keyboard_interrupt_ends_a_wait():
    done = run_program(
        """
        import os, signal, threading
        import mpsgraph as mg
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            mg.SharedEvent(timeout=None).wait(1)
        except KeyboardInterrupt:
            print("interrupted")
        """,
        timeout=30,
    )
    assert done.stdout.strip() == "interrupted", done.stderr


HELPERS = """
import os, threading
import mpsgraph as mg
import numpy as np

def helpers():
    names = (open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task"))
    return sum(name.startswith("mpsgraph helper") for name in names)

x = np.ones((512, 512), np.float32)
g = mg.Graph()
p = g.placeholder(x.shape)
executable = g.compile({p: x}, [p @ p])
"""


@pytest.mark.skipif(
    device.IS_METAL or not Path("/proc/self/task").exists(), reason="requires Linux to count the pool's threads"
)
def test_calling_threads_share_one_thread_pool():
    done = run_program(
        HELPERS
        + """
def several():
    for _ in range(20):
        executable.run([x])
        executable.run_async([x]).wait()

callers = [threading.Thread(target=several) for _ in range(4)]
for caller in callers: caller.start()
for caller in callers: caller.join()
print(helpers(), mg.get_num_threads())
""",
        OMP_NUM_THREADS="3",
    )
    assert done.stdout.split() == ["2", "3"], done.stderr


@pytest.mark.skipif(
    device.IS_METAL or not Path("/proc/self/task").exists(), reason="requires Linux to count the pool's threads"
)
def test_forked_child_creates_its_own_thread_pool():
    done = run_program(
        HELPERS
        + """
import signal, warnings
for _ in range(5): executable.run([x])
warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads
child = os.fork()
if not child:
    signal.alarm(60)
    assert helpers() == 0
    g = mg.Graph()
    p = g.placeholder((8, 8))
    try:
        ok = bool((g.run([p @ p + 1], {p: np.eye(8, dtype=np.float32)})[0].numpy().diagonal() == 2).all())
    except mg.DeviceError as error:  # devices of the parent refuse, and do not hang
        ok = "fork" in str(error)
    os._exit(0 if ok else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), helpers())
""",
        OMP_NUM_THREADS="3",
    )
    assert done.stdout.split() == ["0", "2"], done.stderr


@pytest.mark.skipif(device.IS_METAL, reason="only CPU kernels are divided by thread count")
def test_set_num_threads_does_not_change_results():
    """Kernels are divided for the thread count at the first compilation, so results stay bitwise equal."""
    done = run_program(
        """
        import mpsgraph as mg
        import numpy as np
        rng = np.random.default_rng(0)
        x, w = rng.standard_normal((300, 257), np.float32), rng.standard_normal((257, 513), np.float32)
        assert mg.get_num_threads() == 4
        mg.set_num_threads(3)
        g = mg.Graph()
        p, q = g.placeholder(x.shape), g.placeholder(w.shape)
        total = g.reduction_sum(g.softmax(p @ q), axes=0)
        executable = g.compile({p: x, q: w}, [total])
        results = []
        for n in (0, 1, 2, 3, 0):
            mg.set_num_threads(n)
            results += [executable.run([x, w])[0].numpy().copy() for _ in range(3)]
            print(mg.get_num_threads())
        assert all((r == results[0]).all() for r in results)
        for wrong in (-1, 4, 5000):
            try:
                mg.set_num_threads(wrong)
            except mg.DeviceError as error:
                print(error)
        print(mg.get_num_threads())
        """,
        OMP_NUM_THREADS="4",
    )
    *lines, last = done.stdout.splitlines()
    assert lines[:5] == ["3", "1", "2", "3", "3"] and last == "3", done.stderr
    assert "must be between 0 (automatic) and 1024, got -1" in lines[5]
    assert "must be at most 3 (the number for which kernels have already been compiled), got 4" in lines[6]


def test_use_after_shutdown_raises():
    done = run_program(
        """
        import mpsgraph as mg
        from mpsgraph import _core
        g = mg.Graph()
        y = g.constant(1.0) + 1
        assert g.run({}, y).item() == 2
        _core.shutdown()
        _core.shutdown()
        try:
            g.run({}, y)
        except mg.DeviceError as error:
            print("refused")
        """
    )
    assert done.returncode == 0 and done.stdout.strip() == "refused", done.stderr


def test_runs_in_two_processes_are_bitwise_equal():
    """Work is divided between threads by a fixed rule, so two runs and two processes must agree bitwise."""
    program = """
        import hashlib, numpy as np, mpsgraph as mg
        rng = np.random.default_rng(0)
        g = mg.Graph()
        x = g.placeholder((8, 20, 20, 16))
        w = g.variable(rng.standard_normal((3, 3, 16, 32)).astype(np.float32))
        y = g.relu(g.convolution2d(x, w, padding="TF_SAME"))
        loss = g.reduction_sum(g.square(g.tanh(y)))
        targets = [loss, *g.gradients(loss, [x, w]).values(), g.softmax(g.reshape(y, (8, -1)))]
        fed = {x: rng.standard_normal((8, 20, 20, 16)).astype(np.float32)}
        for _ in range(2):
            print(hashlib.sha1(b"".join(v.numpy().tobytes() for v in g.run(fed, targets).values())).hexdigest())
        """
    hashes = [h for _ in range(2) for h in run_program(program).stdout.split()]
    assert len(hashes) == 4 and len(set(hashes)) == 1
