"""Test the runtime on the Metal device: memory, faults, relocated variables, leaks, signposts, and packages.

The tests use the mock, which can simulate failures, in the same process as the other tests on the Metal device.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from harness.runtime import SECONDS, Doubling, run_program

MOCK = device.mock()
MOCK.mock_live_buffer_bytes.restype = ctypes.c_size_t
MOCK.mock_limit_allocation.argtypes = [ctypes.c_size_t]
MOCK.mock_live_objects.restype = ctypes.c_long
MOCK.mock_live_objects_by_class.restype = ctypes.c_char_p
MOCK.mock_autoreleases_without_pool.restype = ctypes.c_long
MOCK.mock_committed_command_buffers.restype = ctypes.c_uint64
PAGE = os.sysconf("SC_PAGE_SIZE")


class Signpost(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint64),
        ("id", ctypes.c_uint64),
        ("time", ctypes.c_uint64),
        ("name", ctypes.c_char * 32),
        ("message", ctypes.c_char * 128),
        ("subsystem", ctypes.c_char * 32),
        ("category", ctypes.c_char * 32),
    )


@pytest.fixture(autouse=True)
def restored():
    """Reset the simulated failures of the mock after each test."""
    yield
    MOCK.mock_limit_allocation(0)
    MOCK.mock_refuse_memory_of_others(0)


@pytest.fixture
def d() -> Doubling:
    return Doubling()


def page_aligned(count: int) -> np.ndarray:
    memory = np.zeros(count * 4 + PAGE, np.uint8)
    start = -memory.ctypes.data % PAGE
    return memory[start : start + count * 4].view(np.float32)


# --- memory -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("array", [page_aligned(4096), np.zeros(4096, np.float32), np.zeros(5, np.float32)[1:]])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "staged"])
def test_feeds_and_results_can_be_in_any_memory(d: Doubling, array: np.ndarray, shared: bool):
    """Memory is page-aligned, unaligned, or cannot be mapped by the device, in which case it is staged."""
    MOCK.mock_refuse_memory_of_others(0 if shared else 1)
    array[:] = np.arange(len(array))
    result = np.empty_like(array)
    d.g.run({d.x: array}, d.y, results=result)
    np.testing.assert_array_equal(result, 2 * np.arange(len(array)))
    np.testing.assert_array_equal(d.g.run({d.x: array}, d.y).numpy(), result)


def test_page_aligned_feeds_are_used_without_device_allocation(d: Doubling):
    for limit in (0, 256 << 20):  # empties the pool, in which other tests may have left memory
        mg._core.set_buffer_cache_limit(limit)
    count = 2**22 + 2**16  # a size that no other test releases meanwhile
    x, result = page_aligned(count), page_aligned(count)
    d.g.run({d.x: x}, d.y, results=result)
    gc.collect()  # free what other tests have left, so it is not freed during the measurement
    before = MOCK.mock_live_buffer_bytes()
    d.g.run({d.x: x}, d.y, results=result)
    assert MOCK.mock_live_buffer_bytes() == before
    MOCK.mock_refuse_memory_of_others(1)
    d.g.run({d.x: x}, d.y, results=result)
    assert MOCK.mock_live_buffer_bytes() > before + x.nbytes, (
        "staging must take memory, otherwise this test could not fail"
    )


def test_results_are_views_of_device_memory(d: Doubling):
    result = d.g.run({d.x: np.ones(3, np.float32)}, d.y)
    view = result.numpy()
    view[0] = 7
    assert result.numpy()[0] == 7 and d.g.run({d.x: result}, d.y).tolist() == [14, 4, 4]


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "staged"])
def test_runs_sharing_caller_memory_are_serialized(d: Doubling, shared: bool):
    """Metal does not know that two buffers share memory, or which memory the host copies."""
    MOCK.mock_refuse_memory_of_others(0 if shared else 1)
    x, y = np.ones(64, np.float32), np.empty(64, np.float32)
    for _ in range(20):
        x[:] = 1
        d.g.run_async({d.x: x}, d.y, results=y)
        d.g.run_async({d.x: y}, d.y, results=x)
        last = d.g.run_async({d.x: x[:32]}, d.y)
        assert last.results.tolist() == [8] * 32


def test_event_is_signaled_after_staged_results_are_written(d: Doubling):
    MOCK.mock_refuse_memory_of_others(1)
    event, y = mg.SharedEvent(), np.empty(64, np.float32)
    for step in range(1, 20):
        first, second = mg.ExecutionDescriptor(), mg.ExecutionDescriptor()
        first.signal_event(event, step)
        second.wait_for_event(event, step, SECONDS)
        x = np.full(64, step, np.float32)
        d.g.run_async({d.x: x}, d.y, results=y, descriptor=first, queue=mg.CommandQueue())
        done = d.g.run_async({d.x: y}, d.y, descriptor=second)
        event.wait(step, SECONDS)
        assert y.tolist() == [2 * step] * 64, "the host reads the result immediately after the signal"
        assert done.results.tolist() == [4 * step] * 64


def test_failed_device_allocation_raises(d: Doubling):
    MOCK.mock_limit_allocation(1000)
    with pytest.raises(mg.DeviceError, match="cannot allocate 40000000 bytes on .*in use; use smaller shapes"):
        d.g.run({d.x: np.ones(10_000_000, np.float32)}, d.y)
    assert d.g.run(d.feeds(1), d.y).tolist() == [2]


# --- device faults ----------------------------------------------------------------------------------------------------
def test_device_fault_raises_and_next_run_succeeds(d: Doubling):
    MOCK.mock_fail_next_command_buffer(b"page fault at 0x10")
    with pytest.raises(mg.DeviceError, match="command buffer failed: page fault at 0x10"):
        d.g.run(d.feeds(1), d.y)
    assert d.g.run(d.feeds(1), d.y).tolist() == [2]


def test_device_fault_is_reported_to_handlers_and_event_waiters(d: Doubling):
    event, seen = mg.SharedEvent(), []
    signals = mg.ExecutionDescriptor(completed_handler=lambda results, error: seen.append(error))
    signals.signal_event(event, 1)
    waits = mg.ExecutionDescriptor()
    waits.wait_for_event(event, 1, SECONDS)
    d.g.run(d.feeds(1), d.y)
    MOCK.mock_fail_next_command_buffer(b"lost")
    failing = d.g.run_async(d.feeds(1), d.y, descriptor=signals)
    with pytest.raises(mg.DeviceError, match="lost"):
        failing.wait(SECONDS)
    with pytest.raises(mg.DeviceError, match="event value 1 will not be signaled.*lost"):
        d.g.run_async(d.feeds(1), d.y, descriptor=waits, queue=mg.CommandQueue()).wait(SECONDS)
    assert [type(error) for error in seen] == [mg.DeviceError] and event.signaled_value == 0


def test_device_fault_does_not_update_variables(d: Doubling):
    d.g.run({}, [], target_operations=[d.step])
    MOCK.mock_fail_next_command_buffer(b"lost")
    with pytest.raises(mg.DeviceError):
        d.g.run({}, [], target_operations=[d.step])
    d.g.run({}, [], target_operations=[d.step])
    assert d.counted() == 2


def test_default_device_is_cpu_without_a_metal_device():
    program = """
    import mpsgraph as mg
    print(mg.Device.names(), mg.Device.default().name)
    try: mg.Device("metal")
    except mg.DeviceError as error: print(error)
    """
    hide = "import ctypes; from harness import device as d; ctypes.CDLL(str(d.LIBRARY)).mock_hide_device(1)\n"
    prelude = f"import sys; sys.path.insert(0, {str(device.TESTS)!r})\n"
    code = prelude + "import os; os.environ['MPSGRAPH_TEST_DEVICE'] = 'cpu'\n" + hide + textwrap.dedent(program)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert run.stdout.splitlines() == [
        "['cpu'] cpu",
        'device "metal" is not available; the available devices are: cpu',
    ], run.stderr


# --- variables and executables ----------------------------------------------------------------------------------------
def test_variables_keep_their_values_when_relocated():
    """An MPSGraph never releases an operation, so variables occasionally move to a new one."""
    g = mg.Graph()
    x = g.placeholder((-1,))
    total = g.variable(np.zeros((), np.float32))
    step = g.assign(total, total + g.reshape(g.reduction_sum(x), ()))
    g.set_cache_limits(8, 2**30)
    for n in range(1, 60):
        g.run({x: np.ones(n, np.float32)}, [], target_operations=[step])
    gc.collect()
    first = MOCK.mock_live_objects()
    for n in range(60, 300):
        g.run({x: np.ones(n, np.float32)}, [], target_operations=[step])
    gc.collect()
    assert float(g.variable_value(total)) == sum(range(1, 300))
    assert MOCK.mock_live_objects() < 1.5 * first + 1000, MOCK.mock_live_objects_by_class().decode()


def test_two_executables_share_a_variable_on_metal():
    g = mg.Graph()
    v = g.variable(np.zeros(2, np.float32))
    up = g.assign(v, v + 1.0)
    for _ in range(3):
        g.run({}, [], target_operations=[up])
        assert g.run({}, g.identity(v)).tolist() == g.variable_value(v).tolist()
    g.set_variable(v, [5.0, 6.0])
    assert g.run({}, v * 1.0).tolist() == [5, 6]


def test_thousand_training_steps_do_not_leak_memory():
    def train(steps: int) -> None:
        g = mg.Graph()
        x = g.placeholder((4, 3))
        w = g.variable(np.full((3, 2), 0.1, np.float32))
        loss = g.reduction_sum(g.square(g.matrix_multiplication(x, w) - 1.0))
        update = g.assign(w, w - g.gradients(loss, [w])[w] * 0.01)
        feed = np.random.default_rng(0).random((4, 3), np.float32)
        for _ in range(steps):
            value = g.run({x: feed}, loss, target_operations=[update])
        assert float(value) < 8
        del g, x, w, loss, update, value
        gc.collect()

    train(5)
    before = MOCK.mock_live_objects()
    train(1000)
    ends = time.monotonic() + SECONDS
    while MOCK.mock_live_objects() > before + 5 and time.monotonic() < ends:
        # objects of the last run are released on the framework's threads, shortly after its results are available
        time.sleep(0.01)
    assert MOCK.mock_live_objects() <= before + 5, MOCK.mock_live_objects_by_class().decode()
    assert MOCK.mock_autoreleases_without_pool() == 0


def test_ten_thousand_asynchronous_runs_do_not_leak_memory(d: Doubling):
    x = np.ones(256, np.float32)

    def run(times: int) -> None:
        limit = mg.Semaphore(2)
        descriptor = mg.ExecutionDescriptor(completed_handler=lambda results, error: limit.signal())
        for _ in range(times):
            limit.wait(SECONDS)
            last = d.g.run_async({d.x: x}, d.y, descriptor=descriptor)
        last.wait(SECONDS)

    run(500)
    gc.collect()
    objects, buffers = MOCK.mock_live_objects(), MOCK.mock_live_buffer_bytes()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run(10_000)
    gc.collect()
    assert MOCK.mock_live_objects() <= objects + 50, MOCK.mock_live_objects_by_class().decode()
    assert MOCK.mock_live_buffer_bytes() <= buffers + 4096
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss <= peak + 8 * 1024, "memory must grow by at most 8 MiB"


def test_command_buffer_of_many_runs_is_committed_in_parts(d: Doubling):
    executable = d.g.compile({d.x: (3,)}, [d.y])
    x = np.ones(3, np.float32)
    executable.run([x])
    before = MOCK.mock_committed_command_buffers()
    buffer = mg.Device("metal").default_queue.command_buffer()
    results = [executable.encode(buffer, [x])[0] for _ in range(5)]
    buffer.commit()
    buffer.wait_until_completed(SECONDS)
    assert [r.tolist() for r in results] == [[2, 2, 2]] * 5
    assert MOCK.mock_committed_command_buffers() - before >= 5


# --- signposts --------------------------------------------------------------------------------------------------------
def signposts() -> list[Signpost]:
    found, record = [], Signpost()
    while MOCK.mock_signpost_at(ctypes.c_size_t(len(found)), ctypes.byref(record)):
        found.append(Signpost.from_buffer_copy(record))
    return found


def test_runs_emit_signpost_intervals_for_instruments(d: Doubling):
    MOCK.mock_refuse_memory_of_others(1)
    MOCK.mock_clear_signposts()
    d.g.run(d.feeds(1, 2, 3, 4, 5), d.y)
    deadline = (
        time.monotonic() + SECONDS
    )  # a run's interval ends with its last handler, possibly after this thread continues
    while sum(r.kind == 2 for r in signposts()) < sum(r.kind == 1 for r in signposts()):
        assert time.monotonic() < deadline, "every interval must end"
    records = signposts()
    begun = {r.name.decode(): r for r in records if r.kind == 1}
    assert set(begun) == {"compile", "encode", "run", "copy"}
    for name, begin in begun.items():
        (end,) = (r for r in records if r.kind == 2 and r.id == begin.id and r.name == begin.name)
        assert end.time >= begin.time and begin.subsystem == b"mpsgraph" and begin.message, name


# --- packages ---------------------------------------------------------------------------------------------------------
def test_apple_packages_are_written_and_loaded(tmp_path: Path):
    g = mg.Graph()
    x, unused = g.placeholder((2, 3), name="x"), g.placeholder((1,), name="unused")
    z = g.placeholder((3,), name="z")
    w = g.variable(np.full(3, 2.0, np.float32))
    g.set_variable(w, [1.0, 2.0, 3.0])
    targets = [g.addition(x * w, z, name="y"), g.subtraction(z, w, name="d"), g.constant([4.0])]
    executable = g.compile({x: (2, 3), unused: (1,), z: (3,)}, targets)
    path = tmp_path / "model.mpsgraphpackage"
    for _ in range(2):  # the second package replaces the first
        executable.serialize(str(path))
    g.set_variable(w, [0.0, 0.0, 0.0])
    loaded = mg.SerializedExecutable(str(path))
    assert [name for name, _ in loaded.feeds] == ["x", "unused", "z"] and loaded.device.name == "metal"
    assert [name for name, _ in loaded.targets] == ["y", "d", targets[2].name]
    a, c = np.arange(6, dtype=np.float32).reshape(2, 3), np.float32([10, 20, 30])
    by_name = {"x": a, "unused": np.zeros(1, np.float32), "z": c}
    y, difference, constant = loaded.run([by_name[name] for name, _ in loaded.feeds])
    np.testing.assert_array_equal(y.numpy(), a * [1, 2, 3] + c)
    assert difference.tolist() == [9, 18, 27] and constant.tolist() == [4]
    with pytest.raises(mg.ShapeError, match=r"feed x must be contiguous with shape \(2,3\), got shape"):
        loaded.run([a[:1], by_name["unused"], c])
    with pytest.raises(mg.GraphError, match="the number of inputs must be 3"):
        loaded.run([a, c])


def test_apple_packages_support_always_valid_slice_starts(tmp_path: Path):
    g, path = mg.Graph(), str(tmp_path / "model.mpsgraphpackage")
    x, s = g.placeholder((5,), name="x"), g.placeholder((1,), mg.int32, name="s")
    types, values = {x: (5,), s: (1,)}, np.arange(5, dtype=np.float32)
    g.compile(types, [g.slice(x, g.clamp(s, 0, 3), sizes=(2,))]).serialize(path)
    with pytest.raises(mg.UnsupportedError, match="error for out-of-range starts .*clamp them to a constant range"):
        g.compile(types, [g.slice(x, s, sizes=(2,))]).serialize(str(tmp_path / "raises.mpsgraphpackage"))
    loaded = mg.SerializedExecutable(path)
    for start, wanted in ((1, [1, 2]), (9, [3, 4])):
        by_name = {"x": values, "s": np.array([start], np.int32)}
        assert loaded.run([by_name[name] for name, _ in loaded.feeds])[0].tolist() == wanted


def test_loading_invalid_apple_package_raises(tmp_path: Path, d: Doubling):
    with pytest.raises(mg.PackageError, match="does not exist"):
        mg.SerializedExecutable(str(tmp_path / "none.mpsgraphpackage"))
    path = tmp_path / "model.mpsgraphpackage"
    d.g.compile({d.x: (2,)}, [d.y]).serialize(str(path))
    (path / "manifest.plist").unlink()
    with pytest.raises(mg.PackageError, match="must be an MPSGraphPackage, but contains no manifest.plist; write"):
        mg.SerializedExecutable(str(path))
    Path(f"{path}.json").write_text("{}")
    with pytest.raises(mg.PackageError, match="missing or damaged"):
        mg.SerializedExecutable(str(path))
    with pytest.raises(mg.GraphError, match="frozen in a serialized executable"):
        d.g.compile({}, [], [d.step]).serialize(str(path))
    keep = tmp_path / "precious"
    keep.mkdir()
    with pytest.raises(mg.PackageError, match="must end with .mpsgraphpackage"):
        d.g.compile({d.x: (2,)}, [d.y]).serialize(str(keep))
    assert keep.is_dir()
    with pytest.raises(mg.GraphError, match="platform must be one of macOS, iOS, tvOS, visionOS"):
        d.g.compile({d.x: (2,)}, [d.y]).serialize(str(path), platform="DOS")
    with pytest.raises(mg.UnsupportedError, match='serialize on device "metal"'):
        d.g.compile({d.x: (2,)}, [d.y], device="cpu").serialize(str(path))


# --- dtypes and macOS versions ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_arithmetic_on_unsupported_dtypes_raises(dtype: str):
    g = mg.Graph()
    x = g.placeholder((2,), dtype)
    with pytest.raises(mg.UnsupportedError, match=f"do not support {dtype}; cast to .* first, or use device"):
        g.run({x: np.zeros(2, dtype)}, x + x)
    assert g.run({x: np.ones(2, dtype)}, x + x, device="cpu").tolist() == [2, 2]


def test_features_of_newer_macos_raise():
    program = """
    import mpsgraph as mg, numpy as np
    g = mg.Graph()
    x = g.placeholder((2,), "bfloat16")
    try: g.compile({x: (2,)}, [x + x])
    except mg.UnsupportedError as error: print(error)
    y = g.placeholder((2,))
    try: g.compile({y: (2,)}, [y * 2]).serialize("x.mpsgraphpackage")
    except mg.UnsupportedError as error: print(error)
    """
    run = run_program(program, MPSGRAPH_MOCK_MACOS="13.3")
    first, second = run.stdout.splitlines()
    assert "bfloat16 requires macOS 14.0" in first and "MPSGraphPackages require macOS 14.0" in second, run.stderr
