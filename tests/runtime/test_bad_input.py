"""Test invalid input to runs: each error is specific, and graph, variables, and process remain usable.

Errors while a graph is built are in core/test_graph_errors.py, damaged checkpoints in the checkpoint tests, and events
and command buffers in test_queues.py.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from harness.runtime import run_program


class Model:
    """Feeds, a variable, and an update, as in a training step."""

    def __init__(self) -> None:
        g = self.g = mg.Graph()
        self.x = g.placeholder((-1, 3), name="x")
        self.scale = g.placeholder((), name="scale")
        self.unused = g.placeholder((2,), name="unused")
        self.w = g.variable(np.ones((3, 2), np.float32), name="w")
        self.y = g.matrix_multiplication(self.x, self.w) * self.scale
        self.update = g.assign(self.w, self.w + 1.0)
        self.steps = 0

    def feeds(self, **changed) -> dict:
        good = {self.x: np.ones((4, 3), np.float32), self.scale: np.float32(2)}
        return {t: v for t, v in (good | changed.pop("feeds", {})).items() if v is not None}

    def assert_usable(self) -> None:
        """Assert that another step succeeds and that the failed run had no effect."""
        result = self.g.run(self.feeds(), self.y, [self.update])
        self.steps += 1
        weight = self.steps  # the step reads the weight, initially 1, before its update
        np.testing.assert_array_equal(result.numpy(), np.full((4, 2), 6.0 * weight))
        np.testing.assert_array_equal(self.g.variable_value(self.w), np.full((3, 2), 1.0 + self.steps))
        self.g.verify()


@pytest.fixture
def model() -> Model:
    model = Model()
    model.assert_usable()
    return model


FLOATS = np.ones((4, 3), np.float32)
BAD_FEEDS = {
    "wrong size": (mg.ShapeError, "x", np.ones((4, 4), np.float32)),
    "wrong rank": (mg.ShapeError, "x", np.ones(3, np.float32)),
    "a scalar": (mg.ShapeError, "x", np.float32(1)),
    "float64": (mg.DTypeError, "x.*astype", np.ones((4, 3))),
    "integers": (mg.DTypeError, "x.*astype", np.ones((4, 3), np.int32)),
    "bools": (mg.DTypeError, "x", np.ones((4, 3), bool)),
    "complex": (mg.DTypeError, "x", np.ones((4, 3), np.complex64)),
    "objects": (mg.DTypeError, "x", np.full((4, 3), None)),
    "text": (mg.DTypeError, "x", "text"),
    "ragged lists": (mg.ShapeError, "x", [[1.0, 2.0, 3.0], [1.0]]),
    "a record": (mg.DTypeError, "x", np.zeros((4, 3), [("a", "f4")])),
    "none at all": (mg.Error, "x", object()),
    "an NDArray of another type": (mg.DTypeError, "x", mg.NDArray((4, 3), mg.int32)),
    "an NDArray of another shape": (mg.ShapeError, "x", mg.NDArray((3, 4), mg.float32)),
}


@pytest.mark.parametrize("name", BAD_FEEDS)
def test_feeds_of_wrong_shape_or_dtype_raise(model: Model, name: str):
    error, message, value = BAD_FEEDS[name]
    with pytest.raises(error, match=message):
        model.g.run(model.feeds(feeds={model.x: value}), model.y, [model.update])
    model.assert_usable()


def test_missing_feeds_raise(model: Model):
    with pytest.raises(mg.GraphError, match="scale"):
        model.g.run({model.x: FLOATS}, model.y, [model.update])
    with pytest.raises(mg.GraphError, match="x|scale"):
        model.g.run({}, model.y)
    model.assert_usable()


def test_feeding_non_placeholders_raises(model: Model):
    with pytest.raises(mg.GraphError, match="placeholder"):
        model.g.run(model.feeds() | {model.y: FLOATS}, model.y)
    with pytest.raises(mg.GraphError, match="placeholder|variable"):
        model.g.run(model.feeds() | {model.w: np.ones((3, 2), np.float32)}, model.y)
    with pytest.raises(mg.GraphError, match="must map placeholders to arrays"):
        model.g.run({**model.feeds(), "x": FLOATS}, model.y)
    model.assert_usable()


def test_unneeded_feed_is_allowed_but_checked(model: Model):
    found = model.g.run(model.feeds() | {model.unused: np.ones(2, np.float32)}, model.y)
    assert found.shape == (4, 2)
    with pytest.raises(mg.DTypeError, match="unused"):
        model.g.run(model.feeds() | {model.unused: np.ones(2)}, model.y)
    model.assert_usable()


def test_feeding_placeholder_of_another_graph_raises(model: Model):
    other = mg.Graph().placeholder((-1, 3), name="x")
    with pytest.raises(mg.GraphError, match="another graph"):
        model.g.run(model.feeds() | {other: FLOATS}, model.y)
    model.assert_usable()


def test_invalid_run_targets_raise(model: Model):
    foreign = mg.Graph().constant(1.0)
    with pytest.raises(mg.GraphError, match="another graph"):
        model.g.run(model.feeds(), foreign)
    with pytest.raises(mg.GraphError, match="another graph"):
        model.g.run(model.feeds(), [model.y, foreign])
    with pytest.raises(mg.GraphError, match="another graph"):
        model.g.run(model.feeds(), model.y, [mg.Graph().constant(1.0).operation])
    for target in (5, model.update):
        with pytest.raises(mg.GraphError, match="targets must be a tensor or a sequence of tensors.*target_operations"):
            model.g.run(model.feeds(), target)
    with pytest.raises((mg.Error, TypeError)):
        model.g.run(model.feeds(), ["y"])
    with pytest.raises((mg.Error, TypeError)):
        model.g.run(model.feeds(), model.y, [model.y])
    with pytest.raises((mg.Error, TypeError)):
        model.g.run(FLOATS, model.y)
    model.assert_usable()


def test_invalid_executable_inputs_raise(model: Model):
    types = {model.x: (4, 3), model.scale: ()}
    executable = model.g.compile(types, [model.y])
    with pytest.raises(mg.GraphError, match="number of inputs must be 2, got 1"):
        executable.run([FLOATS])
    with pytest.raises(mg.GraphError, match="number of inputs must be 2, got 3"):
        executable.run([FLOATS, np.float32(1), FLOATS])
    with pytest.raises(mg.GraphError, match="order of `feeds`, got a dict"):
        executable.run(model.feeds())
    with pytest.raises(mg.ShapeError, match="x"):
        executable.run([np.ones((5, 3), np.float32), np.float32(1)])
    with pytest.raises(mg.GraphError):
        model.g.compile(types | {model.y: (1,)}, [model.y])
    with pytest.raises(mg.ShapeError):
        model.g.compile({model.x: (4, -1), model.scale: ()}, [model.y])
    with pytest.raises(mg.ShapeError):
        model.g.compile({model.x: (4, 5), model.scale: ()}, [model.y])
    with pytest.raises(mg.DTypeError):
        model.g.compile({model.x: ((4, 3), mg.float64), model.scale: ()}, [model.y])
    order = [model.feeds()[t] for t in executable.feeds]
    assert executable.run(order)[0].shape == (4, 2)
    model.assert_usable()


def test_incompatible_dynamic_shapes_raise_at_run_time():
    g = mg.Graph()
    a, b = g.placeholder((-1, 3), name="a"), g.placeholder((-1, 3), name="b")
    both, joined = a + b, g.concat([a, b], axis=1)
    fed = {a: np.ones((2, 3), np.float32), b: np.ones((4, 3), np.float32)}
    with pytest.raises(mg.ShapeError, match=r"\[addition\].*\(2,3\) and \(4,3\).*test_bad_input"):
        g.run(fed, both)
    with pytest.raises(mg.ShapeError, match=r"\[concat\]"):
        g.run(fed, joined)
    unranked = g.placeholder(None, name="unranked")
    with pytest.raises(mg.ShapeError, match=r"\[matrix_multiplication\]"):
        g.run({unranked: np.ones(3, np.float32)}, unranked @ unranked)
    assert g.run({a: fed[a], b: fed[a]}, both).tolist() == [[2, 2, 2]] * 2


# --- preallocated results ---------------------------------------------------------------------------------------------
def not_contiguous() -> np.ndarray:
    return np.zeros((4, 4), np.float32)[:, ::2]


def read_only() -> np.ndarray:
    array = np.zeros((4, 2), np.float32)
    array.flags.writeable = False
    return array


BAD_RESULTS = {
    "not contiguous": (mg.ShapeError, "contiguous", not_contiguous),
    "transposed": (mg.ShapeError, "contiguous", lambda: np.zeros((2, 4), np.float32).T),
    "read-only": (mg.Error, "writable|read-only", read_only),
    "another shape": (mg.ShapeError, r"\(2,4\)", lambda: np.zeros((2, 4), np.float32)),
    "another type": (mg.DTypeError, "float64", lambda: np.zeros((4, 2))),
    "no array": (mg.Error, "", lambda: [[0.0, 0.0]] * 4),
}


@pytest.mark.parametrize("name", BAD_RESULTS)
def test_unwritable_or_mismatched_results_raise(model: Model, name: str):
    error, message, make = BAD_RESULTS[name]
    with pytest.raises(error, match=message or None):
        model.g.run(model.feeds(), model.y, [model.update], results=make())
    model.assert_usable()


def test_results_overlapping_feeds_or_other_results_raise(model: Model):
    memory = np.ones((4, 3), np.float32)
    with pytest.raises(mg.Error, match="shares? .*memory|overlap"):
        model.g.run(
            {model.x: memory, model.scale: np.float32(1)}, model.y, results=memory.reshape(-1)[:8].reshape(4, 2)
        )
    doubled = model.y * 2
    target = np.zeros((4, 2), np.float32)
    with pytest.raises(mg.Error, match="shares? .*memory|overlap"):
        model.g.run(model.feeds(), [model.y, doubled], results={model.y: target, doubled: target})
    model.assert_usable()


def test_memory_overlap_among_many_arrays_raises(model: Model):
    """Arrays lie in memory in order, in reverse order, or interleaved with feeds. The error names both
    overlapping arrays.
    """
    g, count = mg.Graph(), 40
    x = [g.placeholder((4,), name=f"x{i}") for i in range(count)]
    y = [g.multiplication(v, 2.0, name=f"y{i}") for i, v in enumerate(x)]
    executable = g.compile(dict.fromkeys(x, (4,)), y)
    memory = np.zeros(8 * count, np.float32)
    pieces = [memory[4 * i : 4 * i + 4] for i in range(2 * count)]
    for feeds, results in ((pieces[0::2], pieces[1::2]), (pieces[:count], pieces[: count - 1 : -1])):
        for number, feed in enumerate(feeds):
            feed[:] = number
        assert [r[0] for r in map(np.array, executable.run(feeds, results))] == [2.0 * i for i in range(count)]
        assert [float(r[3]) for r in results] == [2.0 * i for i in range(count)]
    feeds, results = pieces[:count], pieces[count:]
    assert executable.run([feeds[0]] * count, results)  # feeds may share memory
    with pytest.raises(mg.DeviceError, match="results y3 and y17 share memory"):
        executable.run(feeds, [*results[:17], results[3], *results[18:]])
    with pytest.raises(mg.DeviceError, match="result y5 shares memory with feed x9; pass arrays"):
        executable.run(feeds, [*results[:5], memory[4 * 9 + 3 : 4 * 9 + 7], *results[6:]])


def test_results_for_non_targets_raise(model: Model):
    with pytest.raises(mg.GraphError, match="keys of results must be targets"):
        model.g.run(model.feeds(), [model.y], results={model.x: np.zeros((4, 3), np.float32)})
    with pytest.raises(mg.GraphError, match="must be a dict from targets to arrays"):
        model.g.run(model.feeds(), [model.y], results=[np.zeros((4, 2), np.float32)])
    model.assert_usable()


# --- assigning variables ----------------------------------------------------------------------------------------------
def test_invalid_variable_values_raise(model: Model):
    before = model.g.variable_value(model.w)
    for error, value in (
        (mg.ShapeError, np.zeros((2, 3), np.float32)),
        (mg.DTypeError, np.zeros((3, 2))),
        (mg.DTypeError, np.zeros((3, 2), np.int32)),
        (mg.Error, "text"),
    ):
        with pytest.raises(error, match="w"):
            model.g.set_variable(model.w, value)
    with pytest.raises(mg.GraphError, match="variable"):
        model.g.set_variable(model.y, np.zeros((4, 2), np.float32))
    with pytest.raises(mg.GraphError, match="variable"):
        model.g.variable_value(model.x)
    with pytest.raises(mg.GraphError, match="graph"):
        model.g.variable_value(mg.Graph().variable([1.0]))
    np.testing.assert_array_equal(model.g.variable_value(model.w), before)
    model.assert_usable()


# --- memory -----------------------------------------------------------------------------------------------------------
def test_excessive_allocation_raises(model: Model):
    with pytest.raises(mg.DeviceError, match="bytes|memory"):
        mg.NDArray((2**44,), mg.float32)
    g = model.g
    huge = g.broadcast_to(model.scale, (2**22, 2**22))  # 64 TiB
    with pytest.raises(mg.DeviceError, match="bytes|memory"):
        g.run({model.scale: np.float32(1)}, huge + 1.0)
    with pytest.raises(mg.DeviceError, match="bytes|memory"):
        g.run({model.scale: np.float32(1)}, g.reduction_sum(huge @ huge))
    model.assert_usable()


def test_results_too_large_for_memory_raise_at_compile_time():
    """The error must be raised before a kernel builds tables of that size."""
    g = mg.Graph()
    x = g.placeholder((1, 1, 2, 2))
    with pytest.raises(mg.DeviceError, match="cannot allocate"):
        g.compile({x: (1, 1, 2, 2)}, [g.resize(x, (2**30, 2**30), layout="NCHW")])


@pytest.mark.parametrize("shape", [(2**62,), (2**31, 2**31, 4), (-1,), (2**64,)])
def test_arrays_of_invalid_shape_raise(shape: tuple):
    with pytest.raises(mg.Error):
        mg.NDArray(shape, mg.float32)
    assert mg.NDArray((2,), mg.float32).tolist() == [0, 0]


def test_non_finite_and_out_of_range_values_do_not_raise():
    """NaN, infinities, out-of-range indices, and division by zero have results instead of errors."""
    g = mg.Graph()
    x, i = g.placeholder((3,)), g.placeholder((3,), mg.int32)
    found = g.run(
        {x: np.array([np.nan, np.inf, 0], np.float32), i: np.array([0, -5, 2**31 - 1], np.int32)},
        [g.division(i, 0), g.modulo(i, 0), g.gather(x, i), g.softmax(x), g.logarithm(x)],
    )
    divided, remainder, picked, soft, _ = (v.numpy() for v in found.values())
    assert divided.tolist() == [0, 0, 0] and remainder.tolist() == [0, 0, 0]
    assert np.isnan(picked[0]) and picked[1:].tolist() == [0, 0]
    assert np.isnan(soft).all()


# --- devices, options, processes --------------------------------------------------------------------------------------
def test_unknown_device_and_pass_names_raise(model: Model):
    with pytest.raises(mg.DeviceError, match="cpu"):
        mg.Device("gpu9")
    with pytest.raises(mg.DeviceError):
        model.g.run(model.feeds(), model.y, device="gpu9")
    options = mg.CompilationDescriptor(disabled_passes=("no such pass",))
    with pytest.raises(mg.GraphError, match=r"no such pass.*fuse_elementwise"):
        model.g.compile({model.x: (4, 3), model.scale: ()}, [model.y], options=options)
    with pytest.raises(mg.GraphError, match="prune|required|cannot be disabled"):
        required = mg.CompilationDescriptor(disabled_passes=("expand",))
        model.g.compile({model.x: (4, 3), model.scale: ()}, [model.y], options=required)
    model.assert_usable()


def test_exception_in_observe_reaches_the_caller(model: Model):
    def observe(name: str, text: str) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        options = mg.CompilationDescriptor(observe=observe)
        model.g.compile({model.x: (4, 3), model.scale: ()}, [model.y], options=options)
    model.assert_usable()


def test_use_after_fork_raises():
    """A forked child has no runtime threads, so inherited objects must raise an error instead of hanging."""
    done = run_program(
        """
        import os, sys, warnings
        warnings.simplefilter("ignore")
        import numpy as np, mpsgraph as mg
        g = mg.Graph()
        x = g.placeholder((2,))
        y = x * 2
        feeds = {x: np.ones(2, np.float32)}
        executable = g.compile({x: (2,)}, [y])
        queue, event = mg.CommandQueue(), mg.SharedEvent()
        result = g.run(feeds, y)
        child = os.fork()
        if child == 0:
            refused = 0
            for use in (
                lambda: g.run(feeds, y),
                lambda: executable.run([feeds[x]]),
                lambda: queue.command_buffer().commit(),
                lambda: event.wait(1, timeout=0.1),
                lambda: g.run_async(feeds, y).results,
            ):
                try:
                    use()
                except mg.DeviceError as error:
                    refused += "fork" in str(error)
            sys.exit(refused)
        status = os.waitpid(child, 0)[1]
        assert os.waitstatus_to_exitcode(status) == 5, os.waitstatus_to_exitcode(status)
        assert g.run(feeds, y).tolist() == result.tolist() == [2, 2]
        """
    )
    assert done.returncode == 0, done.stderr


def test_fork_before_first_use_is_allowed():
    done = run_program(
        """
        import os, sys, warnings
        warnings.simplefilter("ignore")
        import numpy as np, mpsgraph as mg
        child = os.fork()
        g = mg.Graph()
        assert g.run({}, g.constant(2.0) * 3).item() == 6
        if child:
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert done.returncode == 0, done.stderr
