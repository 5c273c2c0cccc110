"""Test shape limits: sixteen axes for every family that accepts any rank, empty tensors, and more than 2^31 elements.

Large tensors are zero pages that the operating system allocates on the first write, so they use no memory. Operations
that would need the memory must raise an error.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from harness.case import Case
from harness.case_selection import ELEMENTWISE, dtypes_of, with_shapes
from harness.running import OPTIMISED, REFERENCE, build, check, expected, feeds, run

RANK = 16
SIXTEEN = (2, 1, 1, 3, 1, 1, 1, 2, 1, 1, 1, 1, 2, 1, 1, 3)
X = np.random.default_rng(0).permutation(np.prod(SIXTEEN)).astype(np.float64).reshape(SIXTEEN) - 30
INDEX = np.random.default_rng(1).integers(0, 3, SIXTEEN)


@pytest.mark.parametrize("case", ELEMENTWISE, ids=lambda case: case.id)
def test_elementwise_operations_support_sixteen_axes(case: Case):
    turned = [SIXTEEN, SIXTEEN[:3] + (1,) * 13, (3,)]
    for shapes in ([SIXTEEN] * len(case.inputs), turned[: len(case.inputs)]):
        wide = with_shapes(case, shapes)
        dtype = dtypes_of(case)[0]
        built, arrays = build(wide, dtype), feeds(wide.inputs, dtype)
        for options in (OPTIMISED, REFERENCE):
            check(wide, built.run(arrays, options), expected(wide, arrays, dtype), f"shapes {shapes}")


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def sides(one: int, axis: int) -> list[int]:
    return [one if i == axis else 0 for i in range(RANK)]


# name: (operation on the graph, the same in numpy)
WIDE = {
    "transpose": (lambda g, x: g.transpose(x, range(15, -1, -1)), lambda x: x.T),
    "reshape": (lambda g, x: g.reshape(x, SIXTEEN[::-1]), lambda x: x.reshape(SIXTEEN[::-1])),
    "squeeze": (lambda g, x: g.squeeze(x), lambda x: x.squeeze()),
    "expand_dims": (lambda g, x: g.expand_dims(g.squeeze(x, 1), 15), lambda x: np.expand_dims(x.squeeze(1), 15)),
    "flatten2d": (lambda g, x: g.flatten2d(x, 8), lambda x: x.reshape(12, 6)),
    "broadcast_to": (
        lambda g, x: g.broadcast_to(x, (*SIXTEEN[:14], 2, 3)), lambda x: np.broadcast_to(x, (*SIXTEEN[:14], 2, 3))),
    "tile": (lambda g, x: g.tile(x, [1] * 15 + [2]), lambda x: np.tile(x, [1] * 15 + [2])),
    "pad": (
        lambda g, x: g.pad(x, sides(1, 3), sides(2, 15)),
        lambda x: np.pad(x, np.transpose([sides(1, 3), sides(2, 15)]))),
    "slice": (lambda g, x: x[(slice(None),) * 15 + (slice(1, None),)], lambda x: x[..., 1:]),
    "slice_update_data": (
        lambda g, x: g.slice_update_data(x, g.slice_axis(x, 3, 0, 1) * 2, sides(2, 3), SIXTEEN),
        lambda x: np.concatenate([x[:, :, :, :2], 2 * x[:, :, :, :1]], 3)),
    "concat": (lambda g, x: g.concat([x, x], 7), lambda x: np.concatenate([x, x], 7)),
    "split": (lambda g, x: g.split(x, [1, 2], 15)[1], lambda x: x[..., 1:]),
    "stack": (lambda g, x: g.stack([g.squeeze(x, 1)] * 2, 15), lambda x: np.stack([x.squeeze(1)] * 2, 15)),
    "reverse": (lambda g, x: g.reverse(x, [3, 15]), lambda x: np.flip(x, (3, 15))),
    "coordinate_along_axis": (
        lambda g, x: g.cast(g.coordinate_along_axis(15, g.shape_of(x)), x.dtype) + 0 * x,
        lambda x: np.broadcast_to(np.arange(3.0), SIXTEEN)),
    "reduction_sum": (lambda g, x: g.reduction_sum(x, (0, 7, 15)), lambda x: x.sum((0, 7, 15), keepdims=True)),
    "reduction_maximum": (lambda g, x: g.reduction_maximum(x), lambda x: x.max(keepdims=True)),
    "reduction_arg_minimum": (
        lambda g, x: g.cast(g.reduction_arg_minimum(x, 3), x.dtype), lambda x: x.argmin(3, keepdims=True)),
    "variance": (lambda g, x: g.variance(x, axes=(3, 12)), lambda x: x.var((3, 12), keepdims=True)),
    "softmax": (lambda g, x: g.softmax(x, 15), lambda x: softmax(x, 15)),
    "cumulative_sum": (lambda g, x: g.cumulative_sum(x, 3), lambda x: x.cumsum(3)),
    "sort": (lambda g, x: g.sort(x, 3), lambda x: np.sort(x, 3)),
    "arg_sort": (lambda g, x: g.cast(g.arg_sort(x, 15), x.dtype), lambda x: np.argsort(x, 15)),
    "top_k": (lambda g, x: g.top_k(x, 1, 15)[0], lambda x: x.max(15, keepdims=True)),
    "gather": (lambda g, x: g.gather(x, g.constant([2, 0]), 15), lambda x: x[..., [2, 0]]),
    "gather_along_axis": (
        lambda g, x: g.gather_along_axis(15, x, g.constant(INDEX)), lambda x: np.take_along_axis(x, INDEX, 15)),
    "one_hot": (
        lambda g, x: g.one_hot(g.constant(INDEX[..., 0, :]), 2, 14, dtype="float64"),
        lambda x: (INDEX[..., 0, :][..., None, :] == np.arange(2)[:, None]).astype(float)),
    "scatter_along_axis": (
        lambda g, x: g.scatter_along_axis(15, x, g.constant(np.argsort(X, 15)), shape=SIXTEEN, mode="add"),
        lambda x: np.take_along_axis(x, np.argsort(np.argsort(X, 15), 15), 15)),
    "matrix_multiplication": (
        lambda g, x: g.matrix_multiplication(g.swap_axes(x, 14, 15), x), lambda x: np.swapaxes(x, 14, 15) @ x),
    "band_part": (lambda g, x: g.band_part(x, 0, 1), lambda x: np.triu(x) - np.triu(x, 2)),
    "fast_fourier_transform": (
        lambda g, x: g.real_part(g.fast_fourier_transform(g.cast(x, "complex128"), [15])),
        lambda x: np.fft.fft(x).real),
}  # fmt: skip


@pytest.mark.parametrize("name", WIDE)
def test_operations_with_sixteen_axes_match_numpy(name: str):
    make, oracle = WIDE[name]
    for options in (OPTIMISED, REFERENCE):
        g = mg.Graph()
        x = g.placeholder(SIXTEEN, "float64")
        (y,) = run(g, [x], [X], [make(g, x)], options)
        np.testing.assert_allclose(y.numpy(), oracle(X), rtol=1e-12, atol=1e-12)


def test_summed_gradients_of_tensors_with_sixteen_axes_are_correct():
    """All operations at once: the gradient of the sum of squares is the sum of the parts' gradients."""
    g = mg.Graph()
    x = g.placeholder(SIXTEEN, "float64")
    parts = [
        WIDE[n][0](g, x) for n in ("transpose", "pad", "reduction_sum", "cumulative_sum", "sort", "tile", "gather")
    ]
    loss = [g.reduction_sum(g.square(p)) for p in parts]
    whole = g.gradients(g.addition(g.squeeze(loss[0]), sum((g.squeeze(p) for p in loss[2:]), g.squeeze(loss[1]))), [x])
    one = [g.gradients(p, [x])[x] for p in loss]
    found = g.run({x: X}, [whole[x], *one])
    np.testing.assert_allclose(found[whole[x]].numpy(), sum(found[d].numpy() for d in one), rtol=1e-12)
    np.testing.assert_allclose(found[one[0]].numpy(), 2 * X, rtol=1e-12)


def test_seventeen_axes_raise():
    g = mg.Graph()
    x = g.placeholder(SIXTEEN)
    for too_many in (
        lambda: g.placeholder((1,) * 17),
        lambda: g.expand_dims(x, 0),
        lambda: g.stack([x, x], 0),
        lambda: g.broadcast_to(x, (2, *SIXTEEN)),
        lambda: g.reshape(x, (1, *SIXTEEN)),
        lambda: g.gather(x, g.constant([[0]]), 3),
    ):
        with pytest.raises(mg.ShapeError):
            too_many()


# --- more than 2^31 elements ------------------------------------------------------------------------------------------
LARGE = 2**31 + 16


@pytest.fixture(scope="module")
def large() -> np.ndarray:
    """Return zeros except for a few elements at both ends, a feed that takes almost no memory."""
    array = np.zeros(LARGE, np.uint8)
    array[1], array[-3:] = 3, [5, 7, 6]
    return array


def test_large_feeds_are_read_in_place(large: np.ndarray):
    g = mg.Graph()
    x = g.placeholder((-1,), "uint8")
    rows = g.reshape(x, (-1, 16))
    results = {
        "slice": (x[-4:], [0, 5, 7, 6]),
        "stride": (x[1 :: 2**30], [3, 0, 0]),
        "gather": (g.gather(x, g.constant(np.array([LARGE - 2, 1, LARGE], np.int64))), [7, 3, 0]),
        "rows": (g.gather(rows, g.constant([LARGE // 16 - 1]))[:, -4:], [[0, 5, 7, 6]]),
        "maximum": (g.reduction_maximum(x), [7]),
    }
    targets = [tensor for tensor, _ in results.values()]
    before = mg.copy_count()
    found = g.run({x: large}, targets)
    assert mg.copy_count() == before
    for name, (tensor, wanted) in results.items():
        assert found[tensor].tolist() == wanted, name


COUNTING = {
    "reduction_arg_maximum": lambda g, x: g.reduction_arg_maximum(x, 0),
    "arg_sort": lambda g, x: g.arg_sort(x, 0),
    "top_k": lambda g, x: g.top_k(x, 1, 0),
    "shape_of": lambda g, x: g.shape_of(x),
    "coordinate_along_axis": lambda g, x: g.coordinate_along_axis(0, (LARGE,)),
    "non_zero_indices": lambda g, x: g.non_zero_indices(x),
}


@pytest.mark.parametrize("name", COUNTING)
def test_index_results_beyond_int32_raise_at_build_time(name: str):
    g = mg.Graph()
    with pytest.raises(mg.ShapeError, match=r"2\^31"):
        COUNTING[name](g, g.placeholder((LARGE,), "uint8"))


def test_index_results_beyond_int32_raise_at_run_time(large: np.ndarray):
    g = mg.Graph()
    x = g.placeholder((-1,), "uint8")
    with pytest.raises(mg.ShapeError, match=r"reduction_arg_maximum.*2\^31"):
        g.run({x: large}, g.reduction_arg_maximum(x, 0))


def test_results_too_large_for_memory_raise():
    """The error is raised at build time if the size overflows, otherwise at run time. Smaller results still work
    afterwards.
    """
    g = mg.Graph()
    one = g.constant([1.0])
    for size in (2**62, 2**63 - 1):
        with pytest.raises(mg.ShapeError):
            g.broadcast_to(one, (size,))
    for huge in (
        g.broadcast_to(one, (2**50,)),
        g.tile(one, [2**45]),
        g.random_uniform((2**45,)),
        g.pad(one, [2**45], [0]),
    ):
        with pytest.raises(mg.DeviceError, match="cannot allocate"):
            g.run({}, huge)
    assert g.run({}, one + 1).tolist() == [2]


@pytest.mark.parametrize(
    "name",
    ["cumulative_sum", "cumulative_product", "cumulative_minimum", "cumulative_maximum", "softmax", "log_softmax"],
)
def test_row_operations_on_any_number_of_empty_rows_return_immediately(name: str):
    g = mg.Graph()
    x = g.placeholder((2**34, 0))
    result = g.run({x: np.empty((2**34, 0), np.float32)}, getattr(g, name)(x, axis=1))
    assert np.asarray(result).shape == (2**34, 0)
