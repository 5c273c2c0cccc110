"""Test arrays (NDArray) as array API objects: operators, methods, indexing, views, and compiled programs."""

from __future__ import annotations

import mpsgraph as mg
import mpsgraph.numpy as mnp
import numpy as np
import pytest
from mpsgraph.numpy import _operation

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


def test_operators_match_numpy():
    x, n = mnp.asarray(X), mnp.asarray([[7], [-7], [5]])
    whole = np.array([[7], [-7], [5]], np.int32)
    for found, expected in (
        (x + 1, X + 1),
        (1 - x, 1 - X),
        (2.5 * x / 4, 2.5 * X / 4),
        (x // 2, X // 2),
        (x % 3, X % 3),
        (x**2, X**2),
        (2**n, 2.0 ** whole.astype(np.float64) // 1),
        (-x, -X),
        (abs(x), abs(X)),
        (x @ x.T, X @ X.T),
        (n & 3, whole & 3),
        (~n | 8, ~whole | 8),
        (n ^ n, whole * 0),
        (n << 2 >> 1, whole << 2 >> 1),
        (x < 0, X < 0),
        (x >= X, X >= X),
        (x == X, X == X),
        (x != 3, X != 3),
        (X + x, X + X),
        (np.float32(2) * x, 2 * X),
    ):
        assert isinstance(found, mg.NDArray)
        if found.dtype != mg.int32 or expected.dtype != np.float64:
            np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert (x == None) is False and (x != "text") is True  # noqa: E711


def test_operators_with_tensors_build_the_graph():
    g = mg.Graph()
    t = g.placeholder(X.shape)
    for made in (mnp.asarray(X) + t, mnp.asarray(X) - t, t * mnp.asarray(X), mnp.asarray(X) < t):
        assert isinstance(made, mg.Tensor)
    np.testing.assert_array_equal(g.run({t: X}, mnp.asarray(X) - 2 * t), -X)


def test_methods_of_arrays_and_tensors_match_numpy():
    g = mg.Graph()
    t = g.placeholder(X.shape)
    for method in (
        lambda x: x.sum(axis=0),
        lambda x: x.mean(),
        lambda x: x.max(axis=1, keepdims=True),
        lambda x: x.min(),
        lambda x: x.std(axis=1),
        lambda x: x.prod(axis=0),
        lambda x: x.reshape(2, 6),
        lambda x: x.reshape((4, 3)),
        lambda x: x.T,
        lambda x: x.transpose(1, 0),
        lambda x: x.flatten(),
        lambda x: x.argmax(axis=1),
        lambda x: x.clip(-1, 2),
        lambda x: x.cumsum(axis=0),
        lambda x: x[None].squeeze(),
        lambda x: x.round(),
        lambda x: (x > 0).any(axis=0),
    ):
        expected = method(X)
        np.testing.assert_allclose(method(mnp.asarray(X)), expected, rtol=1e-6)
        np.testing.assert_allclose(g.run({t: X}, method(t)), expected, rtol=1e-6)
    assert t.ndim == 2 and t.size == 12 and g.placeholder((-1, 2)).size is None
    assert t.mT.shape == (4, 3) and t.astype("int32").dtype == mg.int32
    assert mnp.asarray(X).device == mg.Device.default() and mnp.asarray(X).to_device(mg.Device.default()).shape == (
        3,
        4,
    )


def test_basic_indexing_returns_views_and_assignment_writes_through():
    x = mnp.asarray(X, copy=True)
    row = x[1]
    row[0] = 99
    assert x[1, 0].item() == 99 and isinstance(x[1, 0], mg.NDArray) and x[1, 0].shape == ()
    x[x > 50] = 0
    assert x[1, 0] == 0
    x[:, 1] = mnp.asarray([7.0, 8.0, 9.0])
    assert x[:, 1].tolist() == [7, 8, 9] and x.reshape(12)[1] == 7
    np.testing.assert_array_equal(x[mnp.asarray([2, 0])], x.numpy()[[2, 0]])
    np.testing.assert_array_equal([float(v) for v in x[0]], x.numpy()[0])


def test_views_share_memory_and_results_do_not():
    x = mnp.zeros((2, 3))
    for view in (x.reshape(3, 2), x.T, x[0], mnp.squeeze(x[None], 0), mnp.moveaxis(x, 0, 1)):
        assert np.shares_memory(view.numpy(), x.numpy())
    for copy in (+x, x + 0, mnp.asarray(x, copy=True), mnp.flip(x), x.astype("float64")):
        assert not np.shares_memory(copy.numpy(), x.numpy())
    np.testing.assert_array_equal(mnp.asarray(X).T + 1, X.T + 1)


def test_scalars_convert_to_python_numbers():
    assert float(mnp.asarray(2.5)) == 2.5 and int(mnp.asarray(3)) == 3 and bool(mnp.asarray(True))
    assert [10, 20, 30][mnp.asarray(1)] == 20 and f"{mnp.asarray(1.5):.2f}" == "1.50"
    with pytest.raises(mg.DTypeError, match="integer array of one element"):
        [1, 2][mnp.asarray(1.0)]


def test_equal_types_reuse_one_program():
    mnp.clear_programs()
    x = mnp.asarray(X)
    for number in (1.0, 2.0, 3.0):
        assert (x + number).numpy()[0, 0] == X[0, 0] + number
    assert len(_operation._programs) == 1, "numbers are fed, not compiled into the program"
    mnp.sum(x, axis=0), mnp.sum(x, axis=1), mnp.sum(x, axis=0)
    assert len(_operation._programs) == 3
    assert mnp.astype(x, mnp.float64).sum().dtype == mg.float64


def test_programs_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_operation, "LIMIT", 4)
    mnp.clear_programs()
    for n in range(1, 12):
        assert (mnp.ones(n) + 1).sum() == 2 * n
        assert len(_operation._programs) <= 4


def test_dlpack_shares_memory_with_numpy():
    x = mnp.asarray(X, copy=True)
    np.from_dlpack(x)[0, 0] = 42
    assert x[0, 0] == 42
    y = mnp.from_dlpack(X.copy())
    assert y.shape == (3, 4) and mnp.from_dlpack(y, copy=True).tolist() == X.tolist()


def test_numpy_functions_accept_arrays():
    x = mnp.asarray(X)
    np.testing.assert_array_equal(np.abs(x), np.abs(X))
    assert isinstance(np.add(X, x), np.ndarray)


def test_membership_compares_elements():
    x = mnp.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert 3 in x and 5.0 not in x and np.float32(2) in x


@pytest.mark.parametrize(("dtype", "number"), [("float32", 1e300), ("float16", 1e5), ("bfloat16", 1e39), ("int8", 300)])
def test_numbers_that_a_dtype_cannot_represent_raise(dtype: str, number: float):
    x = mnp.ones(2, dtype=dtype)
    for operate in (lambda: x + number, lambda: number * x, lambda: mnp.maximum(x, number)):
        with pytest.raises(mg.DTypeError, match=f"cannot be represented in {dtype}"):
            operate()
    if dtype != "int8":
        assert (x * float("inf")).tolist() == [float("inf")] * 2
