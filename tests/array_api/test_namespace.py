"""Compare the functions of mpsgraph.numpy with numpy, on arrays and on tensors of a graph."""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable
from typing import Any

import mpsgraph as mg
import mpsgraph.numpy as mnp
import numpy as np
import pytest
from mpsgraph import _names

rng = np.random.default_rng(7)
X = rng.normal(size=(3, 4)).astype(np.float32)
Y = rng.normal(size=(3, 4)).astype(np.float32)
POSITIVE = np.abs(X) + 0.5
UNIT = np.tanh(X)
INTEGERS = rng.integers(-9, 9, (3, 4)).astype(np.int32)
DIVISORS = np.where(INTEGERS == 0, 3, INTEGERS)
COMPLEX = (X + 1j * Y).astype(np.complex64)
TRUTHS = X > 0

UNARY = {
    **dict.fromkeys("abs asinh atan ceil cos cosh exp expm1 floor isfinite negative positive round".split(), X),
    **dict.fromkeys("sign signbit sin sinh square tan tanh trunc".split(), X),
    **dict.fromkeys("log log10 log1p log2 reciprocal sqrt".split(), POSITIVE),
    **dict.fromkeys("acos asin atanh".split(), UNIT),
    **dict.fromkeys("conj imag real".split(), COMPLEX),
    "acosh": POSITIVE + 1,
    "bitwise_invert": INTEGERS,
    "isinf": np.float32([1, np.inf, np.nan]),
    "isnan": np.float32([1, np.inf, np.nan]),
    "logical_not": TRUTHS,
}
BINARY = {
    **dict.fromkeys("add atan2 copysign divide equal greater greater_equal hypot less less_equal".split(), (X, Y)),
    **dict.fromkeys("logaddexp maximum minimum multiply nextafter not_equal remainder subtract".split(), (X, Y)),
    **dict.fromkeys("bitwise_and bitwise_or bitwise_xor".split(), (INTEGERS, DIVISORS)),
    **dict.fromkeys("bitwise_left_shift bitwise_right_shift".split(), (INTEGERS, np.abs(DIVISORS))),
    **dict.fromkeys("logical_and logical_or logical_xor".split(), (TRUTHS, TRUTHS.T.reshape(3, 4))),
    "floor_divide": (INTEGERS, DIVISORS),
    "pow": (POSITIVE, Y),
}
GENERAL: dict[str, tuple[Callable[[Any, Any], Any], tuple[np.ndarray, ...]]] = {
    "sum of one axis": (lambda xp, x: xp.sum(x, axis=1), (X,)),
    "sum keeping axes": (lambda xp, x: xp.sum(x, axis=(0, 1), keepdims=True), (X,)),
    "product": (lambda xp, x: xp.prod(x, axis=0), (X,)),
    "mean": (lambda xp, x: xp.mean(x, axis=-1), (X,)),
    "standard deviation": (lambda xp, x: xp.std(x, axis=0, correction=1), (X,)),
    "variance": (lambda xp, x: xp.var(x), (X,)),
    "maximum": (lambda xp, x: xp.max(x, axis=1), (X,)),
    "minimum": (lambda xp, x: xp.min(x), (X,)),
    "all": (lambda xp, x: xp.all(x > -1, axis=1), (X,)),
    "any": (lambda xp, x: xp.any(x > 1, axis=0), (X,)),
    "argmax": (lambda xp, x: xp.argmax(x, axis=1), (X,)),
    "argmin": (lambda xp, x: xp.argmin(x), (X,)),
    "count_nonzero": (lambda xp, x: xp.count_nonzero(x, axis=0), (INTEGERS,)),
    "cumulative_sum": (lambda xp, x: xp.cumulative_sum(x, axis=1, include_initial=True), (X,)),
    "cumulative_prod of complex": (lambda xp, x: xp.cumulative_prod(x, axis=1), (COMPLEX,)),
    "diff": (lambda xp, x: xp.diff(x, n=2, axis=0), (X,)),
    "sort": (lambda xp, x: xp.sort(x, axis=0), (X,)),
    "argsort": (lambda xp, x: xp.argsort(x), (X,)),
    "searchsorted": (lambda xp, x: xp.searchsorted(xp.sort(x[0]), x, side="right"), (X,)),
    "where": (lambda xp, x, y: xp.where(x > y, x, y), (X, Y)),
    "clip": (lambda xp, x: xp.clip(x, -0.5, 0.5), (X,)),
    "isin": (lambda xp, x: xp.isin(x, x[0]), (INTEGERS,)),
    "take": (lambda xp, x: xp.take(x, xp.asarray([2, -1]), axis=1), (X,)),
    "take_along_axis": (lambda xp, x: xp.take_along_axis(x, xp.argsort(x), axis=1), (X,)),
    "reshape": (lambda xp, x: xp.reshape(x, (2, -1)), (X,)),
    "permute_dims": (lambda xp, x: xp.permute_dims(x, (1, 0)), (X,)),
    "moveaxis": (lambda xp, x: xp.moveaxis(x[None], 0, -1), (X,)),
    "expand_dims": (lambda xp, x: xp.expand_dims(x, axis=(0, 2)), (X,)),
    "flip": (lambda xp, x: xp.flip(x, axis=1), (X,)),
    "roll": (lambda xp, x: xp.roll(x, (1, -2), axis=(0, 1)), (X,)),
    "roll of all": (lambda xp, x: xp.roll(x, 5), (X,)),
    "concat": (lambda xp, x, y: xp.concat([x, y], axis=1), (X, Y)),
    "stack": (lambda xp, x, y: xp.stack([x, y], axis=-1), (X, Y)),
    "tile": (lambda xp, x: xp.tile(x, (2, 1, 2)), (X,)),
    "repeat": (lambda xp, x: xp.repeat(x, 3, axis=1), (X,)),
    "tril": (lambda xp, x: xp.tril(x, k=1), (X,)),
    "triu": (lambda xp, x: xp.triu(x, k=-1), (X,)),
    "broadcast_to": (lambda xp, x: xp.broadcast_to(x, (2, 3, 4)), (X,)),
    "unstack": (lambda xp, x: xp.unstack(x, axis=1)[2], (X,)),
    "meshgrid": (lambda xp, x, y: xp.meshgrid(x[0], y[1])[1], (X, Y)),
    "matmul": (lambda xp, x, y: xp.matmul(x, y.T), (X, Y)),
    "vecdot": (lambda xp, x, y: xp.vecdot(x, y), (COMPLEX, X)),
    "tensordot": (lambda xp, x, y: xp.tensordot(x, y, axes=((0,), (0,))), (X, Y)),
    "full_like": (lambda xp, x: xp.full_like(x, 3), (X,)),
    "astype": (lambda xp, x: xp.astype(x, xp.int32), (X * 5,)),
}


def symbolic(function: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """Run a function of tensors in a graph with a placeholder for each array."""
    g = mg.Graph()
    places = [g.placeholder(x.shape, x.dtype.name) for x in arrays]
    made = function(*places)
    assert isinstance(made, mg.Tensor)
    return g.run(dict(zip(places, arrays, strict=True)), made).numpy()


def check(found: np.ndarray, expected: Any) -> None:
    expected = np.asarray(expected)
    assert found.shape == expected.shape and found.dtype.kind == expected.dtype.kind
    np.testing.assert_allclose(found, expected, rtol=3e-5, atol=3e-6)


def test_namespace_has_all_names_of_the_standard():
    assert set(UNARY) | set(BINARY) <= set(mnp.__all__)
    for name in mnp.__all__:
        assert getattr(mnp, name, mnp) is not mnp
    assert mnp.__array_api_version__ == "2025.12" and mnp.asarray([1]).__array_namespace__() is mnp


@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_match_numpy(name: str):
    x = UNARY[name]
    expected = getattr(np, name)(x)
    check(getattr(mnp, name)(mnp.asarray(x)).numpy(), expected)
    check(symbolic(getattr(mnp, name), x), expected)


@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_match_numpy(name: str):
    x, y = BINARY[name]
    expected = getattr(np, name)(x, y)
    check(getattr(mnp, name)(mnp.asarray(x), mnp.asarray(y)).numpy(), expected)
    check(symbolic(getattr(mnp, name), x, y), expected)
    check(getattr(mnp, name)(mnp.asarray(x), mnp.asarray(y[0])).numpy(), getattr(np, name)(x, y[0]))


@pytest.mark.parametrize("name", GENERAL)
def test_general_functions_match_numpy(name: str):
    function, arrays = GENERAL[name]
    expected = function(np, *arrays)
    check(function(mnp, *(mnp.asarray(x) for x in arrays)).numpy(), expected)
    check(symbolic(lambda *tensors: function(mnp, *tensors), *arrays), expected)


def test_nonzero_and_unique_functions_match_numpy_on_arrays_and_tensors():
    for found, expected in zip(mnp.nonzero(mnp.asarray(INTEGERS)), np.nonzero(INTEGERS), strict=True):
        np.testing.assert_array_equal(found, expected)
    values, indices, inverse, counts = np.unique(INTEGERS, return_index=True, return_inverse=True, return_counts=True)
    found = mnp.unique_all(mnp.asarray(INTEGERS))
    for one, two in zip(found, (values, indices, inverse.reshape(INTEGERS.shape), counts), strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(symbolic(mnp.unique_values, INTEGERS), values)
    np.testing.assert_array_equal(symbolic(lambda x: mnp.unique_counts(x).counts, INTEGERS), counts)
    assert mnp.unique_values(mnp.asarray([np.nan, 1.0, np.nan])).size == 3, "each NaN is distinct"


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ("int8", "uint8", "int16"),
        ("int16", "uint32", "int64"),
        ("float16", "bfloat16", "float32"),
        ("int64", "float32", "float32"),
        ("float64", "complex64", "complex128"),
        ("bool", "int8", "int8"),
    ],
)
def test_dtypes_of_two_arrays_promote(one: str, two: str, expected: str):
    assert mnp.result_type(one, two) == mnp.result_type(two, one) == mg.DType(expected)
    x, y = mnp.ones(2, dtype=one), mnp.ones(2, dtype=two)
    assert mnp.where(mnp.asarray([True, False]), x, y).dtype == mg.DType(expected)


def test_python_numbers_take_the_dtype_of_the_array():
    for dtype, number, expected in (
        ("int8", 3, "int8"),
        ("int8", 0.5, "float32"),
        ("float16", 2, "float16"),
        ("float64", 1j, "complex128"),
        ("bool", 1, "int32"),
    ):
        assert mnp.result_type(mg.DType(dtype), number) == mg.DType(expected)
    assert (mnp.asarray([1, 2], dtype=mnp.uint8) + 7).dtype == mg.uint8
    with pytest.raises(mg.DTypeError, match="300 cannot be represented in uint8"):
        mnp.asarray([1], dtype=mnp.uint8) + 300
    with pytest.raises(mg.DTypeError, match="int64 and uint64 have no common dtype"):
        mnp.ones(1, dtype=mnp.int64) + mnp.ones(1, dtype=mnp.uint64)


def test_half_precision_results_match_float32_rounded():
    for dtype in (mnp.float16, mnp.bfloat16):
        x = mnp.asarray(X, dtype=dtype)
        exact = mnp.exp(mnp.astype(x, mnp.float32)).numpy()
        found = mnp.astype(mnp.exp(x), mnp.float32).numpy()
        np.testing.assert_allclose(found, exact, rtol=mnp.finfo(dtype).eps)
        assert (x * 1.5).dtype == dtype


def test_creation_functions_match_numpy():
    for found, expected in (
        (mnp.arange(5), np.arange(5)),
        (mnp.arange(7, -3, -4), np.arange(7, -3, -4)),
        (mnp.arange(0, 1, 0.25), np.arange(0, 1, 0.25)),
        (mnp.linspace(0, 2, 5, endpoint=False), np.linspace(0, 2, 5, endpoint=False)),
        (mnp.eye(2, 3, k=1), np.eye(2, 3, k=1)),
        (mnp.full((2, 1), 7), np.full((2, 1), 7)),
        (mnp.asarray([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (mnp.asarray(2**40), 2**40),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-7)
    assert mnp.asarray([1, 2.5]).dtype == mg.float32 and mnp.asarray(2**40).dtype == mg.int64
    with pytest.raises(mg.ShapeError, match="equal lengths"):
        mnp.asarray([[1, 2], [3]])
    with pytest.raises(mg.DTypeError, match="cannot be represented in int8"):
        mnp.asarray([1000], dtype=mnp.int8)
    with pytest.raises(mg.DeviceError, match="default device"):
        mnp.zeros(2, device="nowhere")


def test_functions_accept_numpy_arrays_and_lists():
    assert mnp.reshape([1, 2, 3, 4], (2, 2)).tolist() == [[1, 2], [3, 4]]
    assert mnp.expand_dims(np.arange(2), 0).shape == (1, 2) and mnp.astype([1.5], mnp.int32).tolist() == [1]
    assert mnp.zeros_like(np.ones(2)).dtype == mg.float64 and mnp.moveaxis(np.ones((2, 3)), 0, 1).shape == (3, 2)


def test_indices_out_of_range_raise():
    for call in (
        lambda: mnp.take(mnp.asarray([1, 2]), mnp.asarray([2])),
        lambda: mnp.take_along_axis(mnp.asarray([1, 2]), mnp.asarray([-3])),
        lambda: mnp.asarray([1, 2])[2],
    ):
        with pytest.raises(IndexError):
            call()


HINTS = [
    (mnp, "arctan2", "`numpy.arctan2` is `mpsgraph.numpy.atan2`"),
    (mnp, "cumsum", "`mpsgraph.numpy.cumulative_sum`"),
    (mnp, "reshap", "did you mean `mpsgraph.numpy.reshape`"),
    (mnp, "svd", "`mpsgraph.numpy.linalg.svd`"),
    (mnp, "logsumexp", "`mpsgraph.numpy.special.logsumexp`"),
    (mnp, "softmax", "`Graph.softmax`"),
    (mg.Graph(), "exp", "`Graph.exp` is `Graph.exponent`"),
    (mg.Graph(), "cholesky", "`mpsgraph.numpy.linalg.cholesky`"),
    (mg.Graph(), "detach", "`mpsgraph.stop_gradient`"),
    (mg.Graph(), "gelu", "`mpsgraph.nn.GELU()`"),
    (mg, "exp", "`mpsgraph.numpy.exp`, or `Graph.exponent`"),
    (mg, "Linear", "`mpsgraph.nn.Linear`"),
    (mg, "manual_seed", "`mpsgraph.random.seed`"),
    (mg.Graph().constant(1.0), "exp", "`mpsgraph.numpy.exp`"),
    (mg.Graph().constant(1.0), "view", "use `reshape(shape)`"),
    (mnp.ones(2), "roll", "`mpsgraph.numpy.roll`"),
    (mnp.ones(2), "unsqueeze", "`mpsgraph.numpy.expand_dims`"),
    (mg.nn, "ModuleList", "a list of modules"),
    (mg.nn, "Dense", "`mpsgraph.nn.Linear`"),
    (mg.nn, "Conv2D", "`mpsgraph.nn.Conv2d`"),
    (mg.nn, "MSELoss", "`mpsgraph.nn.losses.mean_squared_error`"),
    (mg.nn.losses, "l1_loss", "`mpsgraph.nn.losses.mean_absolute_error`"),
    (mg.optim, "RMSprop", "`mpsgraph.optim.RMSProp`"),
    (mg.optim, "StepLR", "`mpsgraph.optim.StepRate`"),
]


@pytest.mark.parametrize(("owner", "name", "hint"), HINTS, ids=[f"{type(o).__name__}.{n}" for o, n, _ in HINTS])
def test_unknown_names_suggest_ours(owner: Any, name: str, hint: str):
    with pytest.raises(AttributeError, match=re.escape(hint)):
        getattr(owner, name)


def test_suggested_names_exist():
    for table, root in ((_names.GRAPH, mg.Graph), (_names.NUMPY, mnp)):
        for path in table.values():
            assert operator.attrgetter(path)(root) is not None
    for module, table in _names.ELSEWHERE.items():
        for path in table.values():
            assert operator.attrgetter(path.removesuffix("()"))(sys.modules[module]) is not None


EQUATIONS = {
    "ij,jk->ik": ((3, 4), (4, 2)),
    "bij,bkj->bki": ((2, 3, 4), (2, 5, 4)),
    "ij,kj": ((3, 4), (2, 4)),
    "i,j->ij": ((3,), (2,)),
    "ii->i": ((3, 3),),
    "iji,i->j": ((3, 2, 3), (3,)),
    "ij->": ((3, 4),),
    "...ij,...jk->...ik": ((5, 1, 3, 4), (2, 4, 2)),
    "ab,bc,cd->ad": ((2, 3), (3, 4), (4, 2)),
    "ab,ab->ba": ((2, 3), (1, 3)),
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum_matches_numpy(equation: str):
    arrays = [rng.normal(size=shape) for shape in EQUATIONS[equation]]
    expected = np.einsum(equation, *arrays)
    np.testing.assert_allclose(mnp.einsum(equation, *arrays), expected, rtol=1e-12, atol=1e-12)
    g = mg.Graph()
    tensors = [g.constant(array) for array in arrays]
    np.testing.assert_allclose(g.run({}, mnp.einsum(equation, *tensors)), expected, rtol=1e-12, atol=1e-12)


def test_einsum_of_dynamic_sizes_and_its_gradient_match_numpy():
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((2, 3, 4), (4, 5)))
    g = mg.Graph()
    x, y = g.placeholder((-1, -1, 4)), g.placeholder((4, -1))
    product = mnp.einsum("abc,cd->dab", x, y)
    found = g.run({x: a, y: b}, [product, g.gradients(product, y)[y]])
    np.testing.assert_allclose(found[product], np.einsum("abc,cd->dab", a, b), rtol=1e-5, atol=1e-5)
    gradient = next(array for tensor, array in found.items() if tensor is not product)
    np.testing.assert_allclose(gradient, np.broadcast_to(a.sum((0, 1))[:, None], (4, 5)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("equation", "error", "message"),
    [
        ("ij,jk->iz", mg.GraphError, "only axes of operands"),
        ("ij", mg.GraphError, "needs 1 operands"),
        ("i1,jk->i", mg.GraphError, "consists of letters"),
        ("ijk,jk->i", mg.ShapeError, "does not match an operand of shape"),
        ("ij,jk->ik", mg.ShapeError, "axis 'j'.* got 3 and 4"),
        (3, mg.DTypeError, "must be a string"),
    ],
)
def test_wrong_einsum_equations_raise(equation: Any, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        mnp.einsum(equation, np.ones((2, 3)), np.ones((4, 2)))


def test_diagonal_outside_a_bool_matrix_is_empty():
    assert mnp.linalg.diagonal(mnp.asarray([[True]]), offset=1).shape == (0,)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_sign_of_complex_zeros_has_no_signs(dtype):
    zeros = np.array([0j, complex(-0.0, 0.0), complex(0.0, -0.0), complex(-0.0, -0.0)], dtype)
    found = np.asarray(mnp.sign(mnp.asarray(zeros)))
    assert not found.any() and not np.signbit(found.real).any() and not np.signbit(found.imag).any()
