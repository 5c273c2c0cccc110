"""Compare Python operators and indexing on tensors with numpy, and test the conversions that tensors reject."""

import mpsgraph as mg
import numpy as np
import pytest

FLOATS = np.array([[-2.5, -1.0, 0.5], [1.0, 2.0, 3.5]], np.float32)
OTHERS = np.array([[2.0, -3.0, 1.5], [-1.0, 0.5, 2.0]], np.float32)
INTEGERS = np.array([[-7, 5, 3], [2, -1, 8]], np.int32)
DIVISORS = np.array([[2, -3, 4], [-5, 3, 7]], np.int32)
TRUTHS = np.array([[True, False, True], [False, True, True]])


def value(build, *arrays):
    """Feed the arrays, run build(*tensors), and return the result as a numpy array."""
    g = mg.Graph()
    placeholders = [g.placeholder(a.shape, a.dtype) for a in arrays]
    return g.run(dict(zip(placeholders, arrays, strict=True)), build(*placeholders)).numpy()


@pytest.mark.parametrize(
    "name", ["add", "subtract", "multiply", "divide", "power", "less", "greater_equal", "not_equal"]
)
def test_numpy_operators_delegate_to_tensors(name: str):
    function = getattr(np, name)
    left = np.abs(OTHERS)
    np.testing.assert_allclose(value(lambda b: function(left, b), FLOATS), function(left, FLOATS), rtol=1e-6)
    np.testing.assert_allclose(value(lambda b: function(b, OTHERS), left), function(left, OTHERS), rtol=1e-6)


def test_numpy_functions_of_tensors_raise_with_remedy():
    t = mg.Graph().placeholder((2, 3))
    for call, remedy in (
        (lambda: np.exp(t), r"numpy\.exp cannot.*`mpsgraph\.numpy\.exp`"),
        (lambda: np.add.reduce(t), r"`mpsgraph\.numpy\.add`"),
        (lambda: np.add(FLOATS, t, out=FLOATS.copy()), r"numpy\.add cannot"),
    ):
        with pytest.raises(mg.DTypeError, match=remedy):
            call()


SHAPES = {1: ((3,), (3,)), 2: ((2, 3), (3, 4)), 3: ((5, 2, 3), (5, 3, 4))}


@pytest.mark.parametrize("left", SHAPES)
@pytest.mark.parametrize("right", SHAPES)
def test_matmul_of_vectors_matrices_and_arrays_matches_numpy(left: int, right: int):
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=SHAPES[rank][side]).astype(np.float32) for side, rank in enumerate((left, right)))
    for function, arrays in (
        (lambda x, y: x @ y, (a, b)),
        (lambda x: x @ b.astype(np.float64), (a,)),
        (lambda x: x @ b.tolist(), (a,)),
        (lambda y: a @ y, (b,)),
    ):
        np.testing.assert_allclose(value(function, *arrays), a @ b, rtol=1e-5, atol=1e-6)


ARITHMETIC = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@pytest.mark.parametrize("symbol", ARITHMETIC)
def test_binary_operators_on_float_tensors_match_numpy(symbol):
    function = ARITHMETIC[symbol]
    np.testing.assert_allclose(value(function, FLOATS, OTHERS), function(FLOATS, OTHERS), rtol=1e-6)
    np.testing.assert_allclose(value(lambda a: function(a, 1.5), FLOATS), function(FLOATS, np.float32(1.5)), rtol=1e-6)
    np.testing.assert_allclose(value(lambda a: function(2, a), FLOATS), function(np.float32(2), FLOATS), rtol=1e-6)


@pytest.mark.parametrize("symbol", sorted(ARITHMETIC.keys() - {"/"}))
def test_binary_operators_on_integer_tensors_match_numpy(symbol):
    """Floor division and remainder must follow Python's sign rules."""
    function = ARITHMETIC[symbol]
    np.testing.assert_array_equal(value(function, INTEGERS, DIVISORS), function(INTEGERS, DIVISORS))
    np.testing.assert_array_equal(value(lambda a: function(a, 3), INTEGERS), function(INTEGERS, 3))


BITS = {"&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b}


@pytest.mark.parametrize("symbol", BITS)
def test_logical_and_bitwise_operators_match_numpy(symbol):
    function = BITS[symbol]
    np.testing.assert_array_equal(value(function, TRUTHS, ~TRUTHS), function(TRUTHS, ~TRUTHS))
    np.testing.assert_array_equal(value(function, INTEGERS, DIVISORS), function(INTEGERS, DIVISORS))
    np.testing.assert_array_equal(value(lambda a: function(True, a), TRUTHS), function(True, TRUTHS))


def test_unary_shift_power_and_matmul_operators_match_numpy():
    np.testing.assert_array_equal(value(lambda a: -a, FLOATS), -FLOATS)
    np.testing.assert_array_equal(value(lambda a: abs(+a), FLOATS), abs(FLOATS))
    np.testing.assert_array_equal(value(lambda a: ~a, TRUTHS), ~TRUTHS)
    np.testing.assert_array_equal(value(lambda a: ~a, INTEGERS), ~INTEGERS)
    np.testing.assert_array_equal(value(lambda a: (a << 2) >> 1, INTEGERS), (INTEGERS << 2) >> 1)
    np.testing.assert_allclose(value(lambda a: a**2 + 2**a, FLOATS), FLOATS**2 + 2**FLOATS, rtol=1e-6)
    np.testing.assert_allclose(value(lambda a, b: a @ b, FLOATS, OTHERS.T.copy()), FLOATS @ OTHERS.T, rtol=1e-6)
    np.testing.assert_array_equal(value(lambda a: np.float32(2) * a, FLOATS), 2 * FLOATS)


CUBE = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
INDICES = {
    "int": np.s_[1],
    "negative int": np.s_[-1],
    "last of last": np.s_[..., -1],
    "slice": np.s_[1:3],
    "all": np.s_[:],
    "steps": np.s_[::2, 1::2],
    "backwards": np.s_[::-1, :, ::-2],
    "negative ends": np.s_[-2:, :-1],
    "empty": np.s_[2:1],
    "beyond": np.s_[1:100],
    "new axes": np.s_[None, :, None, 1],
    "ellipsis between": np.s_[0, ..., 2:4],
    "ellipsis and new axis": np.s_[..., None],
    "three ints": np.s_[1, 2, 3],
    "numpy int": np.s_[np.int64(2)],
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES.keys())
def test_tensor_indexing_matches_numpy(index):
    np.testing.assert_array_equal(value(lambda x: x[index], CUBE), CUBE[index])


def test_gradient_of_indexing_reaches_only_selected_elements():
    g = mg.Graph()
    x = g.constant(CUBE)
    gradient = g.gradients(x[1, ::2, -1] * 2.0, x)[x]
    expected = np.zeros_like(CUBE)
    expected[1, ::2, -1] = 2
    np.testing.assert_array_equal(g.run({}, gradient).numpy(), expected)


def test_indexing_a_dynamic_batch_matches_numpy():
    g = mg.Graph()
    x = g.placeholder((-1, 4, 5))
    np.testing.assert_array_equal(g.run({x: CUBE}, x[-1, :, 0]).numpy(), CUBE[-1, :, 0])


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (np.s_[3], mg.ShapeError),
        (np.s_[0, 0, 0, 0], mg.ShapeError),
        (np.s_[..., ...], mg.ShapeError),
        (1.0, mg.DTypeError),
        (True, mg.DTypeError),
        (np.s_[np.True_, 0], mg.DTypeError),
        ("x", mg.DTypeError),
    ],
)
def test_invalid_tensor_indices_raise(index, error):
    x = mg.Graph().constant(CUBE)
    with pytest.raises(error):
        x[index]
    with pytest.raises(mg.ShapeError, match="rank"):
        x.graph.placeholder(None)[0]


def test_tensors_hash_by_identity_and_do_not_convert_to_python():
    g = mg.Graph()
    x, y = g.constant([1.0, 2.0]), g.constant([1.0, 2.0])
    assert len({x, y, x}) == 2 and {x: 1, y: 2}[y] == 2 and y not in {x}, "dictionary keys must compare by identity"
    assert x.operation.outputs[0] is x and x.graph is g
    for refused in (bool, list, float, int, np.asarray):
        with pytest.raises(TypeError, match=r"g\.run|g\.split"):
            refused(x)


def test_tensor_equality_operators_are_elementwise():
    g = mg.Graph()
    p, q = g.placeholder((3,), name="p"), g.placeholder((3,), name="q")
    feeds = {p: np.array([1.0, np.nan, 3.0], np.float32), q: np.array([1.0, np.nan, 1.0], np.float32)}
    for made, expected in (
        (p == 1, [True, False, False]),
        (1 == p, [True, False, False]),
        (p != 1, [False, True, True]),
        (np.float32(3) == p, [False, False, True]),
        (p == q, [True, False, False]),
        (p != q, [False, True, True]),
        (p == p, [True, False, True]),
        (p == g.constant([[1.0], [3.0]]), [[True, False, False], [False, False, True]]),
        (~(p == 1), [False, True, True]),
        ((p == 1) & (q == 1), [True, False, False]),
    ):
        assert made.dtype == mg.bool_
        np.testing.assert_array_equal(g.run(feeds, made), expected)
    np.testing.assert_array_equal(g.run(feeds, g.cast(p == 1, "float32")), [1, 0, 0])
    np.testing.assert_array_equal(g.run(feeds, g.logical_and(p == 1, q == 1)), [True, False, False])
    np.testing.assert_array_equal(g.run(feeds, g.select(p == q, p, 0.0)), [1, 0, 0])


def test_comparing_tensor_with_non_tensor_tests_identity():
    g = mg.Graph()
    x, other = g.placeholder((2,), name="x"), mg.Graph().placeholder((2,))
    count = len(g.operations)
    assert (x == None) is False and (x != None) is True and x != "x" and None not in {x} and x in [None, x]  # noqa: E711
    assert x in [x, g] and x in {x: 0} and len(g.operations) == count, (
        "identity is checked first, without adding an operation"
    )
    with pytest.raises(mg.DTypeError, match="int32"):
        g.cast(x, "int32") == 0.5  # noqa: B015
    with pytest.raises(mg.ShapeError):
        x == g.placeholder((3,))  # noqa: B015
    with pytest.raises(mg.GraphError):
        x == other  # noqa: B015
    for truth in (lambda: bool(x == x), lambda: x in [g.identity(x), x], lambda: [g.identity(x)].index(x)):
        with pytest.raises(TypeError, match=r"any\(t is a for t in tensors\)"):
            truth()


def test_mixed_dtype_errors_suggest_a_cast():
    g = mg.Graph()
    integers, floats = g.constant([1, 2]), g.constant([1.0, 2.0])
    with pytest.raises(mg.DTypeError, match="cast .* to float32"):
        integers + floats
    with pytest.raises(mg.DTypeError, match=r"g\.cast\(x, mg\.float32\)"):
        integers + 0.5
    with pytest.raises(mg.DTypeError, match="//"):
        integers / 2
    with pytest.raises(mg.DTypeError, match="not converted to int32"):
        integers + np.float64([0.5, 1.5])
    with pytest.raises(mg.DTypeError, match="array of bool is not converted to float32"):
        floats * np.array([True, False])
    with pytest.raises(mg.DTypeError, match="cannot be represented in float16"):
        g.cast(floats, "float16") + np.array([1.0, 1e30])
    with pytest.raises(mg.DTypeError):
        g.constant([1, 2], dtype=mg.int8) + 300
    with pytest.raises(TypeError):
        floats + "1"


@pytest.mark.parametrize(
    "other", [OTHERS, OTHERS.astype(np.float64), OTHERS.tolist(), tuple(OTHERS[0].tolist()), mg.asarray(OTHERS)]
)
def test_arrays_and_lists_in_expressions_become_constants_of_the_tensors_dtype(other):
    g = mg.Graph()
    x = g.placeholder(FLOATS.shape)
    plain = np.asarray(other, np.float32)
    for made, expected in (
        (x + other, FLOATS + plain),
        (other - x, plain - FLOATS),
        (x * other, FLOATS * plain),
        (x < other, FLOATS < plain),
        (x == other, FLOATS == plain),
        (other != x, plain != FLOATS),
        (g.maximum(x, other), np.maximum(FLOATS, plain)),
    ):
        assert made.dtype in (mg.float32, mg.bool_)
        np.testing.assert_array_equal(g.run({x: FLOATS}, made), expected)


def test_integer_arrays_and_tensors_and_masks_index_tensors():
    g = mg.Graph()
    x, rows = g.placeholder(CUBE.shape), g.constant([2, 0])
    for index, plain in (
        (np.array([0, 2, -1]), np.array([0, 2, -1])),
        (np.s_[:, [1, 3]], np.s_[:, [1, 3]]),
        (np.s_[..., mg.asarray([0, 4])], np.s_[..., [0, 4]]),
        (np.s_[[0, 1], [2, 3]], np.s_[[0, 1], [2, 3]]),
        (np.s_[:, [[0], [1]], [2, 3]], np.s_[:, [[0], [1]], [2, 3]]),
        (np.s_[1, [0, 1]], np.s_[1, [0, 1]]),
        (rows, [2, 0]),
        (CUBE > 30, CUBE > 30),
        (x > 30, CUBE > 30),
    ):
        np.testing.assert_array_equal(g.run({x: CUBE}, x[index]), CUBE[plain])


def test_python_scalars_take_dtype_of_other_operand():
    g = mg.Graph()
    for dtype in (mg.float16, mg.bfloat16, mg.float64, mg.int8, mg.uint64):
        assert (g.constant(1, (2,), dtype) + 2).dtype == dtype
    assert g.addition(1, 2).dtype == mg.int32 and g.addition(1.0, 2.0).dtype == mg.float32


def test_operations_record_the_python_line_that_created_them():
    g = mg.Graph()
    x = g.constant([1.0])
    assert x.operation.location.startswith("test_tensor_operators.py:")
    line = int((x + 1).operation.location.split(":")[1])
    assert int((x * 2).operation.location.split(":")[1]) == line + 1
    with pytest.raises(mg.ShapeError, match=r"built at test_tensor_operators\.py:\d+"):
        g.reshape(x, (7,))
