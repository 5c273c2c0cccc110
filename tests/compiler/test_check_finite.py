"""Test check_finite: the first operation that produces a NaN or an infinity aborts the run with an error."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

pytestmark = pytest.mark.both_devices

PLACE = r"; built at test_check_finite\.py:\d+$"


def test_check_finite_names_first_non_finite_operation_and_its_line():
    g = mg.Graph()
    x = g.placeholder((2,), name="x")
    a = g.square_root(x, name="root")
    b = g.logarithm(a * 0, name="later")
    assert np.isfinite(g.run({x: np.float32([1, 4])}, a, check_finite=True).numpy()).all()
    with pytest.raises(mg.CheckError, match=r"^\[square_root\] 'root' produced a NaN or an infinity.*" + PLACE):
        g.run({x: np.float32([-1, 4])}, b, check_finite=True)
    with pytest.raises(mg.CheckError, match=r"^\[logarithm\] 'later' produced"):
        g.run({x: np.float32([1, 4])}, b, check_finite=True)
    assert np.isnan(g.run({x: np.float32([-1, 4])}, a).numpy()[0])  # check_finite is off


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_check_finite_detects_infinity_in_every_float_dtype(dtype):
    g = mg.Graph()
    x = g.placeholder((2,), dtype)
    y = g.reciprocal(x, name="inverse")
    executable = g.compile({x: (2,)}, [y], check_finite=True)
    fed = np.array([1, 0], np.float32)
    fed = (fed.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16" else fed.astype(dtype)
    with pytest.raises(mg.CheckError, match="'inverse' produced"):
        executable.run([fed])


def test_check_finite_names_non_finite_feeds_and_variables():
    g = mg.Graph()
    x, v = g.placeholder((1,), name="x"), g.variable([np.inf], name="weights")
    with pytest.raises(mg.CheckError, match="'x' was fed a NaN or an infinity"):
        g.run({x: np.float32([np.nan])}, x + 1, check_finite=True)
    with pytest.raises(mg.CheckError, match="'weights' holds a NaN or an infinity"):
        g.run({x: np.float32([1])}, x * v, check_finite=True)


def test_check_finite_allows_infinite_mask_but_not_resulting_nan():
    g = mg.Graph()
    x, keep = g.placeholder((1, 3), name="x"), g.placeholder((1, 3), mg.bool_)
    masked = g.select(keep, x, g.constant(-np.inf))
    y = g.softmax(masked, name="weights")
    fed = {x: np.float32([[1, 2, 3]])}
    assert np.isfinite(g.run(fed | {keep: np.array([[True, False, True]])}, y, check_finite=True).numpy()).all()
    with pytest.raises(mg.CheckError, match=r"\[softmax\] 'weights' produced"):
        g.run(fed | {keep: np.zeros((1, 3), bool)}, y, check_finite=True)


def test_failed_finite_check_leaves_variables_unchanged():
    g = mg.Graph()
    x, v, w = g.placeholder((1,)), g.variable([1.0]), g.variable([1.0])
    moved = g.read(v) - x
    updates = [g.assign(v, moved), g.assign(w, g.logarithm(g.read(v), name="of_the_new_one"))]
    g.run({x: np.float32([0.5])}, [], updates, check_finite=True)
    assert g.variable_value(v).tolist() == [0.5]
    with pytest.raises(mg.CheckError, match="'of_the_new_one' produced"):
        g.run({x: np.float32([2])}, [], updates, check_finite=True)
    np.testing.assert_allclose([g.variable_value(v), g.variable_value(w)], [[0.5], [np.log(0.5)]], rtol=1e-6)


def test_check_finite_detects_overflow_inside_loops_and_branches():
    g = mg.Graph()
    x = g.placeholder((), name="x")
    y = g.for_(4, initial=[x], body=lambda i, v: g.square(v * 1e10, name="grows"))[0]
    with pytest.raises(mg.CheckError, match=r"\[square\] 'grows.*' produced"):
        g.run({x: np.float32(1)}, y, check_finite=True)
    assert g.run({x: np.float32(0)}, y, check_finite=True).item() == 0
    z = g.if_(x > 0, lambda: g.logarithm(x, name="taken"), lambda: g.logarithm(x - 1, name="other"))[0]
    assert g.run({x: np.float32(1)}, z, check_finite=True).item() == 0
    with pytest.raises(mg.CheckError, match=r"'other.*' produced"):
        g.run({x: np.float32(-1)}, z, check_finite=True)


def test_check_finite_names_source_in_specialized_branches():
    """The branch is compiled once its flag is known. A non-finite value must then be attributed to the feed or to the
    operation that produced it.
    """
    g = mg.Graph()
    flag, x = g.placeholder((), mg.bool_, name="flag"), g.placeholder((2,), name="x")
    y = g.if_(flag, lambda: g.logarithm(x, name="of_x"), lambda: x)[0]
    with pytest.raises(mg.CheckError, match="'x' was fed"):
        g.run({flag: np.bool_(True), x: np.float32([np.nan, 1])}, y, check_finite=True)
    with pytest.raises(mg.CheckError, match=r"'of_x.*' produced"):
        g.run({flag: np.bool_(True), x: np.float32([0, 1])}, y, check_finite=True)
    assert g.run({flag: np.bool_(False), x: np.float32([0, 1])}, y, check_finite=True).tolist() == [0.0, 1.0]


def test_check_finite_raises_for_gradients_and_asynchronous_runs():
    g = mg.Graph()
    x = g.placeholder((1,), name="x")
    y = g.square_root(x)
    dx = g.gradients(y, [x])[x]  # infinite at 0
    execution = g.run_async({x: np.float32([0])}, dx, check_finite=True)
    with pytest.raises(mg.CheckError, match=r"test_check_finite\.py"):
        execution.wait()
    buffer = mg.CommandQueue().command_buffer()
    g.encode(buffer, {x: np.float32([0])}, dx, check_finite=True)
    buffer.commit()
    with pytest.raises(mg.CheckError):
        buffer.wait_until_completed()
    with pytest.raises(mg.GraphError, match="check_finite"):
        g.run({x: np.float32([0])}, dx, check_finite="yes")


def test_check_finite_does_not_change_training_results(rng):
    x = rng.normal(size=(16, 4)).astype(np.float32)
    y = rng.integers(0, 3, 16).astype(np.int32)
    weights = []
    for check in (False, True):
        trainer = mg.Trainer(
            nn.Sequential(nn.Linear(8), nn.BatchNorm(), nn.ReLU(), nn.Linear(3)),
            "cross_entropy",
            mg.optim.SGD(0.1),
            seed=1,
            ema_decay=0.9,
            check_finite=check,
        )
        for _ in range(3):
            trainer.train_step(x, y)
        weights.append(trainer.weights())
    for name, value in weights[0].items():
        np.testing.assert_allclose(weights[1][name], value, rtol=2e-5, atol=1e-6)


def test_failed_finite_check_leaves_weights_and_averages_unchanged():
    trainer = mg.Trainer(nn.Linear(1), "mse", mg.optim.Adam(0.1), ema_decay=0.9, check_finite=True)
    x, y = np.ones((4, 2), np.float32), np.ones((4, 1), np.float32)
    trainer.train_step(x, y)
    before = trainer.weights()
    with pytest.raises(mg.CheckError, match="produced a NaN or an infinity|was fed"):
        trainer.train_step(x * np.float32(1e38), y)
    assert trainer.step == 1
    for name, value in trainer.weights().items():
        np.testing.assert_array_equal(value, before[name])


def test_check_finite_pass_runs_only_when_requested():
    seen: list[str] = []
    g = mg.Graph()
    x = g.placeholder((2,))
    y = g.square(x)
    options = mg.CompilationDescriptor(observe=lambda name, text: seen.append(name))
    g.compile({x: (2,)}, [y], options=options)
    assert "finite" not in seen
    g.compile({x: (2,)}, [y], options=options, check_finite=True)
    assert "finite" in seen
