"""Test SharedSum, whose members add arrays in shared memory.

Here, the members are threads of one process.
"""

import tempfile
import threading
import time

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import _core
from mpsgraph._core import SharedSum

POSTED, ADDED, SPREAD = SharedSum.Mark.posted, SharedSum.Mark.added, SharedSum.Mark.spread


def members(count: int, elements: int, dtype=mg.float32) -> list[SharedSum]:
    with tempfile.TemporaryFile() as file:
        file.truncate(SharedSum.bytes(dtype, elements, count))
        return [SharedSum(file.fileno(), dtype, elements, count, own) for own in range(count)]


def together(work, count: int) -> None:
    """Run work(i) on a thread per member, and fail with the first error."""
    errors: list[Exception] = []

    def one(own: int) -> None:
        try:
            work(own)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(own,), daemon=True) for own in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and not any(thread.is_alive() for thread in threads), errors


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("count", "elements"), [(1, 5), (2, 1), (2, 10_000), (3, 100), (4, 4097), (5, 33), (3, 0)])
def test_all_members_get_the_same_sum_in_member_order(count: int, elements: int, dtype: str):
    made = members(count, elements, getattr(mg, dtype))
    rounds = [np.random.default_rng(r).normal(size=(count, elements)).astype(dtype) for r in range(40)]
    seen: list[list[np.ndarray]] = [[] for _ in range(count)]

    def work(own: int) -> None:
        mine = made[own]
        for given in rounds:
            mine.contribution().numpy()[:] = given[own]
            mine.post()
            assert mine.wait(POSTED, 30)
            mine.add()
            mine.reach(ADDED)
            assert mine.wait(ADDED, 30)
            seen[own].append(mine.total().numpy().copy())

    together(work, count)
    for number, given in enumerate(rounds):
        expected = given[0].copy()
        for other in given[1:]:
            expected += other
        for own in range(count):
            np.testing.assert_array_equal(seen[own][number], expected)


def test_member_parts_of_sum_are_disjoint_and_complete():
    made = members(3, 1000)
    for own, member in enumerate(made):
        member.own_part().numpy()[:] += 1
        assert member.own_part_of(own).size == member.own_part().size
    np.testing.assert_array_equal(made[0].total().numpy(), np.ones(1000))
    made[1].contribution().numpy()[:] = 7
    assert made[2].own_part_of(1).numpy().min() == 7 and made[2].own_part_of(0).numpy().max() == 0


def test_shared_sum_wait_ends_at_timeout_or_with_last_member():
    first, second = members(2, 4)
    first.post()
    begin = time.perf_counter()
    assert not first.wait(POSTED, 0.05) and 0.04 < time.perf_counter() - begin < 5
    assert first.wait_for(0, POSTED, 0)
    thread = threading.Timer(0.1, second.post)
    thread.start()
    begin = time.perf_counter()
    assert first.wait(POSTED, 30) and time.perf_counter() - begin < 5
    thread.join()
    assert not second.wait_for(0, SPREAD, 0), "other marks must be unchanged"


def test_invalid_shared_sums_raise():
    with pytest.raises(mg.OutOfRangeError, match="at least 1 member"):
        SharedSum.bytes(mg.float32, 4, 0)
    with tempfile.TemporaryFile() as file:
        with pytest.raises(mg.DeviceError, match="bytes, got 0"):
            SharedSum(file.fileno(), mg.float32, 4, 2, 0)
        file.truncate(SharedSum.bytes(mg.float32, 4, 2))
        with pytest.raises(mg.OutOfRangeError, match="the member index must be between 0 and 1, got 2"):
            SharedSum(file.fileno(), mg.float32, 4, 2, 2)
    (alone,) = members(1, 4, mg.bfloat16)
    with pytest.raises(mg.UnsupportedError, match="float32 or float64 to be summed, got bfloat16"):
        alone.add()
    with pytest.raises(mg.OutOfRangeError, match="got 1"):
        alone.own_part_of(1)


def test_shared_memory_stays_mapped_while_arrays_use_it():
    (alone,) = members(1, 8)
    total = alone.total()
    del alone
    total.numpy()[:] = 3
    assert total.tolist() == [3] * 8


class Partner:
    """The other member of a slot: a thread that contributes to the sum and also works for the first member."""

    def __init__(self, exchange: _core.Exchange, elements: int) -> None:
        self.exchange = exchange
        self.own, self.other = members(2, elements)
        self.shared = False
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self) -> None:
        while (slot := self.exchange.next()) is not None:
            if not self.shared:
                self.exchange.share(slot, self.own)
                self.shared = True
            self.other.contribution().numpy()[:] = 100
            self.other.post()
            assert self.own.wait(POSTED, 30) and self.other.wait(POSTED, 30)
            for member in (self.own, self.other):
                member.add()
                member.reach(ADDED)
            self.exchange.done(slot)


def test_run_computes_in_shared_memory_without_copying():
    """From the second run on, nothing is copied, and the run may still read what it has contributed."""
    exchange, length = _core.Exchange(), 1 << 14
    slot = exchange.add("bucket", [(mg.float32, (length,)), (mg.float32, (3,))])
    partner = Partner(exchange, exchange.memory(slot).size)
    g = mg.Graph()
    x, small = g.placeholder((length,)), g.placeholder((3,))
    product, other = x * 2, small + 1
    given = g.call_operation("give", [product, other])
    back, there = g.call("take", [], [((length,), mg.float32), ((3,), mg.float32)])
    callables = {"give": exchange.giver(slot), "take": exchange.taker(slot)}
    options = mg.CompilationDescriptor(callables=callables)
    # The product is read again after the sum, and the sum is read by a kernel and as a target.
    targets = [back + product, there + 1]
    executable = g.on("cpu").compile({x: (mg.float32, (length,)), small: (mg.float32, (3,))}, targets, [given], options)
    copied = []
    for i in range(4):
        array = np.arange(length, dtype=np.float32) + i
        both, rest = executable.run([array, np.float32([i, 1, 2])])
        np.testing.assert_array_equal(both.numpy(), array * 4 + 100)
        assert rest.tolist() == [102 + i, 103, 104]
        copied.append(exchange.statistics["copied_bytes"])
    assert copied == [(length + 3) * 4] * 4, "only the first run may copy, since the memory was not shared yet"
    # Placeholders cannot be computed in shared memory, and targets belong to the caller, so both are copied.
    h = mg.Graph()
    y, z = h.placeholder((length,)), h.placeholder((3,))
    sent = h.call_operation("give", [y, z])
    taken = h.call("take", [], [((length,), mg.float32), ((3,), mg.float32)])
    feeds = {y: (mg.float32, (length,)), z: (mg.float32, (3,))}
    copying = h.on("cpu").compile(feeds, [taken[0], taken[0] + taken[0]], [sent], options)
    result, doubled = copying.run([np.full(length, 5, np.float32), np.zeros(3, np.float32)])
    assert set(result.tolist()) == {105} and set(doubled.tolist()) == {210}
    assert exchange.statistics["copied_bytes"] == copied[-1] + (length + 3) * 4
    exchange.close()
    partner.thread.join(10)


def test_sum_used_after_next_contribution_is_copied():
    exchange = _core.Exchange()
    slot = exchange.add("twice", [(mg.float32, (2048,))])
    partner = Partner(exchange, 2048)
    g = mg.Graph()
    x = g.placeholder((2048,))
    kind = [((2048,), mg.float32)]
    (first,) = g.call("through", [x * 2], kind)
    (second,) = g.call("through", [first * 3], kind)
    options = mg.CompilationDescriptor(callables={"through": exchange.through(slot)})
    executable = g.on("cpu").compile({x: (mg.float32, (2048,))}, [first + second, first, second], options=options)
    for i in range(3):
        both, one, two = executable.run([np.full(2048, i, np.float32)])
        assert set(one.tolist()) == {2 * i + 100} and set(two.tolist()) == {6 * i + 400}
        assert set(both.tolist()) == {8 * i + 500}
    exchange.close()
    partner.thread.join(10)


def test_exchange_rejects_shared_sums_of_wrong_shape_or_dtype():
    exchange = _core.Exchange()
    slot = exchange.add("bucket", [(mg.float32, (8,))])
    with pytest.raises(mg.ShapeError, match=r"8 element\(s\), got 9"):
        exchange.share(slot, members(1, 9)[0])
    with pytest.raises(mg.DTypeError, match="float32, got float64"):
        exchange.share(slot, members(1, 8, mg.float64)[0])
    with pytest.raises(mg.GraphError, match="is not being worked on"):
        exchange.share(slot, members(1, 8)[0])
    exchange.close()


def test_waiting_run_raises_the_error_of_a_missing_member():
    exchange = _core.Exchange()
    slot = exchange.add("lost", [(mg.float32, (64,))])
    own, _ = members(2, 64)
    g = mg.Graph()
    x = g.placeholder((64,))
    (y,) = g.call("through", [x], [((64,), mg.float32)])
    options = mg.CompilationDescriptor(callables={"through": exchange.through(slot)})
    running = g.compile({x: (64,)}, [y], options=options).run_async([np.zeros(64, np.float32)])
    assert exchange.next(10) == slot
    exchange.share(slot, own)
    exchange.done(slot)
    end = time.perf_counter() + 10
    while not exchange.waiting and time.perf_counter() < end:
        time.sleep(0.01)
    assert exchange.waiting and not running.done and not exchange.failed
    exchange.fail("process 1 has ended")
    with pytest.raises(mg.DeviceError, match="process 1 has ended"):
        running.wait(10)
    assert not exchange.waiting and exchange.failed
