"""Test Exchange: a run sends arrays to another thread and receives results, and errors propagate."""

import threading
import time

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import _core

FLOAT = mg.float32
N = 512  # size of matrices, each of which one kernel computes


def working(exchange, work=lambda array: None) -> threading.Thread:
    """Start a thread that applies `work` to every slot until the exchange is closed."""

    def loop() -> None:
        while (slot := exchange.next()) is not None:
            work(exchange.memory(slot).numpy())
            exchange.done(slot)

    thread = threading.Thread(target=loop)
    thread.start()
    return thread


@pytest.fixture
def exchange():
    made = _core.Exchange()
    yield made
    made.close()


def test_exchanged_arrays_are_returned_with_modifications(exchange):
    slot = exchange.add("both", [(FLOAT, (2, 3)), (FLOAT, ()), (FLOAT, (0,))])
    seen = []

    def work(array):
        seen.append(array.tolist())
        array *= 10

    thread = working(exchange, work)
    g = mg.Graph()
    x, y = g.placeholder((2, 3)), g.placeholder(())
    empty = g.constant(np.zeros(0, np.float32))
    given = g.call_operation("give", [x * 2, y, empty])
    back = g.call("take", [], [((2, 3), FLOAT), ((), FLOAT), ((0,), FLOAT)])
    callables = {"give": exchange.giver(slot), "take": exchange.taker(slot)}
    options = mg.CompilationDescriptor(callables=callables)
    executable = g.compile({x: (2, 3), y: ()}, [b + 1 for b in back], [given], options=options)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for i in range(3):
        a, b, c = executable.run([array + i, np.float32(i)])
        np.testing.assert_array_equal(a.numpy(), (array + i) * 20 + 1)
        assert float(b) == 10 * i + 1 and c.shape == (0,)
    assert seen[1] == [2, 4, 6, 8, 10, 12, 1]
    assert exchange.statistics["given"] == 3 and exchange.statistics["worked"] > 0
    exchange.close()
    thread.join(10)
    assert not thread.is_alive()


def test_array_sent_to_exchange_is_unchanged_in_the_run(exchange):
    """The thread modifies the memory of the slot, so the run must not read its own values from there."""
    slot = exchange.add("scaled", [(FLOAT, (N,))])
    thread = working(exchange, lambda array: array.__imul__(10))
    g = mg.Graph()
    x = g.placeholder((N,))
    product = x * 2
    given = g.call_operation("give", [product])
    (back,) = g.call("take", [], [((N,), FLOAT)])
    callables = {"give": exchange.giver(slot), "take": exchange.taker(slot)}
    options = mg.CompilationDescriptor(callables=callables)
    executable = g.on("cpu").compile({x: (FLOAT, (N,))}, [back + product], [given], options)
    for i in range(1, 4):
        assert set(executable.run([np.full(N, i, np.float32)])[0].tolist()) == {22.0 * i}
    exchange.close()
    thread.join(10)


def test_run_continues_while_exchange_waits_for_results(exchange):
    """In kernel order, each give follows the operation whose result it sends, and each take precedes the operations
    that need its result.
    """
    g = mg.Graph()
    x = g.placeholder((N, N))
    layers, h = [], x
    for i in range(3):
        layers.append(g.variable(np.eye(N, dtype=np.float32), name=f"w{i}"))
        h = g.tanh(h @ layers[-1])
    gradients = g.gradients(g.reduction_sum(h * h), layers)
    backwards = sorted(gradients.items(), key=lambda pair: pair[1].operation.id)
    gives, callables, slots = [], {}, []
    for i, (_, d) in enumerate(backwards):
        slots.append(exchange.add(f"bucket {i}", [(FLOAT, (N, N))]))
        callables |= {f"give{i}": exchange.giver(slots[i]), f"take{i}": exchange.taker(slots[i])}
        gives.append(g.call_operation(f"give{i}", [d * 0.5], name=f"give{i}"))
    taken = [g.call(f"take{i}", [], [((N, N), FLOAT)], name=f"take{i}")[0] for i in range(3)]
    updates = [g.assign(v, v - t * 0.1) for (v, _), t in zip(backwards, taken, strict=True)]
    options = mg.CompilationDescriptor(callables=callables)
    executable = g.on("cpu").compile({x: (FLOAT, (N, N))}, [], [*gives, *updates], options)
    thread = working(exchange)
    with mg.profiler.profile() as profile:
        executable.run([np.full((N, N), 0.01, np.float32)])
    exchange.close()
    thread.join(10)
    order = [(k.kernel.kind, k.name) for k in sorted(profile.kernels, key=lambda k: k.begin)]
    calls = [i for i, (kind, _) in enumerate(order) if kind == "call"]
    assert len(calls) == 6, order
    products = [i for i, (kind, _) in enumerate(order) if "multiplication" in kind]
    assert calls[0] < products[-2] and calls[1] < products[-1] < calls[2], order
    assert calls[4] - calls[3] > 1 and calls[5] - calls[4] > 1, "an update must follow each take"
    travels = [r.name for r in profile.records if r.category == "communication"]
    assert travels == ["bucket 0", "bucket 1", "bucket 2"]


def test_gradient_of_exchange_uses_the_transposed_exchange(exchange):
    there, back = (exchange.add(name, [(FLOAT, (3,))]) for name in ("there", "back"))
    thread = working(exchange, lambda array: array.__imul__(3))
    g = mg.Graph()
    v = g.variable([1.0, 2.0, 4.0])
    (y,) = g.call("there", [v * v], [((3,), FLOAT)], transpose="back")
    callables = {"there": exchange.through(there), "back": exchange.through(back)}
    options = mg.CompilationDescriptor(callables=callables)
    slope = g.gradients(g.reduction_sum(y), [v])[v]
    again = g.gradients(g.reduction_sum(slope * slope), [v])[v]
    found = g.compile({}, [y, slope, again], options=options).run([])
    assert [f.numpy().tolist() for f in found] == [[3, 12, 48], [6, 12, 24], [72, 144, 288]]
    exchange.close()
    thread.join(10)


def test_waiting_run_raises_the_error_of_its_exchange(exchange):
    slot = exchange.add("lost", [(FLOAT, (2,))])
    g = mg.Graph()
    x = g.placeholder((2,))
    (y,) = g.call("through", [x], [((2,), FLOAT)])
    options = mg.CompilationDescriptor(callables={"through": exchange.through(slot)})
    executable = g.compile({x: (2,)}, [y], options=options)
    running = executable.run_async([np.zeros(2, np.float32)])
    assert exchange.next(10) == slot and not running.done
    exchange.fail("the network is down")
    with pytest.raises(mg.DeviceError, match="the network is down"):
        running.wait(10)
    with pytest.raises(mg.DeviceError, match="the network is down"):
        executable.run([np.zeros(2, np.float32)])
    begin = time.perf_counter()
    assert exchange.next() is None and time.perf_counter() - begin < 5


def test_invalid_slots_raise(exchange):
    with pytest.raises(mg.GraphError, match="must have at least one array"):
        exchange.add("empty", [])
    with pytest.raises(mg.ShapeError, match="must have static shapes"):
        exchange.add("open", [(FLOAT, (-1,))])
    with pytest.raises(mg.DTypeError, match="must have the same dtype"):
        exchange.add("mixed", [(FLOAT, (2,)), (mg.float64, (2,))])
    with pytest.raises(mg.GraphError, match="slot 7 is out of range"):
        exchange.giver(7)
    slot = exchange.add("good", [(FLOAT, (2,))])
    with pytest.raises(mg.GraphError, match="slot 0 'good' is not being worked on"):
        exchange.done(slot)
    assert exchange.next(0.01) is None
    g = mg.Graph()
    x = g.placeholder((3,))
    options = mg.CompilationDescriptor(callables={"give": exchange.giver(slot)})
    with pytest.raises(mg.ShapeError, match=r"'give' takes \(float32\[2\]\)"):
        g.compile({x: (3,)}, [], [g.call_operation("give", [x])], options=options)
