"""Test python_operation with numpy functions on both devices: exceptions, dtypes, gradients, and threads."""

from __future__ import annotations

import threading

import mpsgraph as mg
import numpy as np
import pytest
from harness import device

pytestmark = pytest.mark.both_devices


def sort_rows(x: np.ndarray, descending: bool) -> np.ndarray:
    return -np.sort(-x, axis=-1) if descending else np.sort(x, axis=-1)


@pytest.fixture(scope="module")
def sorted_rows() -> mg.CustomOperation:
    return mg.python_operation("sorted_rows", sort_rows, attributes={"descending": False})


def test_python_operation_runs_between_built_in_operations(sorted_rows, rng):
    g = mg.Graph()
    x = g.placeholder((-1, 4))
    y = sorted_rows(x * 2, descending=True) + 1
    again = sorted_rows(y)
    for rows in (1, 3):
        value = rng.normal(size=(rows, 4)).astype(np.float32)
        results = g.run({x: value}, [y, again, x])
        np.testing.assert_allclose(results[y].numpy(), sort_rows(value * 2, True) + 1, rtol=1e-6)
        np.testing.assert_allclose(results[again].numpy(), sort_rows(value * 2, False) + 1, rtol=1e-6)
        np.testing.assert_array_equal(results[x].numpy(), value)


def test_python_operation_can_return_results_of_different_types():
    def stated(x, indices):
        return [mg.TensorType(mg.int32, x.shape), mg.TensorType(x.dtype, ())]

    def ranked(x, indices):
        return np.argsort(x, kind="stable").astype(np.int32)[indices], np.float32(x.max())

    operation = mg.python_operation("ranked", ranked, infer=stated, dtypes=[["float32"], ["int32"]])
    g = mg.Graph()
    x, i = g.placeholder((3,)), g.placeholder((3,), dtype=mg.int32)
    order, largest = operation(x, i)
    results = g.run({x: np.float32([3, 1, 2]), i: np.int32([2, 1, 0])}, [order, largest])
    assert results[order].tolist() == [0, 2, 1] and float(results[largest].numpy()) == 3.0


def test_python_operation_gradient_matches_numpy(rng):
    operation = mg.python_operation(
        "sine", np.sin, gradient=lambda g: g.incoming[0].graph.cos(g.operands[0]) * g.incoming[0]
    )
    g = mg.Graph()
    x = g.placeholder((5,))
    value = rng.normal(size=5).astype(np.float32)
    gradient = g.run({x: value}, g.gradients(operation(x) * 2, [x])[x]).numpy()
    np.testing.assert_allclose(gradient, 2 * np.cos(value), rtol=1e-5)


def test_variables_around_python_operation_are_updated_in_order(rng):
    tripled = mg.python_operation("tripled", lambda x: 3 * x)
    g = mg.Graph()
    x = g.placeholder((2,))
    v = g.variable(np.zeros(2, np.float32))
    first = g.assign(v, v + x)
    y = g.control_dependency([first], lambda: tripled(v + 0))
    second = g.assign(v, y)
    for _ in range(2):
        result = g.run({x: np.float32([1, 2])}, y, [first, second])
    np.testing.assert_array_equal(result.numpy(), [12, 24])
    np.testing.assert_array_equal(g.variable_value(v), [12, 24])


def test_exception_in_python_function_propagates(sorted_rows):
    def refuse(x):
        raise ZeroDivisionError("mine")

    operation = mg.python_operation("refuse", refuse)
    g = mg.Graph()
    x = g.placeholder((2,))
    with pytest.raises(ZeroDivisionError, match="mine"):
        g.run({x: np.zeros(2, np.float32)}, operation(x))
    np.testing.assert_array_equal(g.run({x: np.float32([2, 1])}, sorted_rows(x)).numpy(), [1, 2])


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda x: x[:1], mg.ShapeError, r"\[wrong\] .*result 0 with the inferred shape \(2\), got \(1\): 'wrong'"),
        (lambda x: x.astype(np.float64), mg.DTypeError, r"\[wrong\] .*to have the inferred dtype float32, got float64"),
        (lambda x: [x, x], mg.GraphError, r"\[wrong\] the kernel function must return 1 array\(s\), got 2: 'wrong'"),
    ],
)
def test_python_function_returning_wrong_types_raises(function, error, words):
    operation = mg.python_operation("wrong", function)
    g = mg.Graph()
    x = g.placeholder((2,))
    with pytest.raises(error, match=words):
        g.run({x: np.zeros(2, np.float32)}, operation(x))


def test_python_function_can_keep_its_argument_arrays(rng):
    kept = []

    def keep(x):
        kept.append(x)
        return x

    operation = mg.python_operation("keep", keep)
    g = mg.Graph()
    x = g.placeholder((1000,))
    y = operation(x * 2)
    values = [rng.normal(size=1000).astype(np.float32) for _ in range(3)]
    for value in values:
        g.run({x: value}, y * 3)
    for array, value in zip(kept, values, strict=True):
        np.testing.assert_array_equal(array, value * 2)


def test_python_operation_supports_threads_and_concurrent_runs(sorted_rows, rng):
    g = mg.Graph()
    x = g.placeholder((2, 50))
    y = sorted_rows(x) * 2
    wrong = []

    def work(seed: int) -> None:
        values = np.random.default_rng(seed).normal(size=(5, 2, 50)).astype(np.float32)
        runs = [g.run_async({x: value}, [y]) for value in values]
        for value, run in zip(values, runs, strict=True):
            if not np.array_equal(run.wait().results[y].numpy(), 2 * np.sort(value, axis=-1)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and not any(thread.is_alive() for thread in threads)


def test_python_operation_keys_depend_on_code_and_version():
    first, second = mg.python_operation("keyed", lambda x: x), mg.python_operation("keyed", lambda x: x + 1)
    assert first.key != second.key and first.key.startswith("python-")
    assert mg.python_operation("keyed", lambda x: x, version="3").key == "3"
    assert first.library is None


def test_unused_operation_with_effect_runs_in_blocks_of_control_flow():
    seen = []

    def note(x: np.ndarray) -> np.ndarray:
        seen.append(x.item())
        return x

    noted = mg.python_operation("noted_in_blocks", note, infer=lambda x: x, effect=True)
    g = mg.Graph()
    x, flag = g.placeholder(()), g.placeholder((), mg.bool_)

    def body(i: mg.Tensor, value: mg.Tensor) -> list[mg.Tensor]:
        noted(value)
        return [value * 2.0]

    def branch() -> list[mg.Tensor]:
        noted(x + 100.0)
        return [x]

    (doubled,) = g.for_(3, initial=[x], body=body)
    (chosen,) = g.if_(flag, branch, lambda: [x])
    feeds = {x: np.float32(1), flag: np.array(True)}
    if device.IS_METAL:
        with pytest.raises(mg.UnsupportedError, match="inside a control-flow block"):
            g.run(feeds, doubled)
        return
    assert g.run(feeds, doubled).tolist() == 8 and seen == [1, 2, 4]
    assert g.run(feeds, chosen).tolist() == 1 and seen == [1, 2, 4, 101]
    assert g.run({**feeds, flag: np.array(False)}, chosen).tolist() == 1 and len(seen) == 4
