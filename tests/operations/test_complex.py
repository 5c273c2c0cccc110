"""Test complex numbers beyond individual operations: the gradient convention, constants, text, memory, and matmuls.

Results and gradients of every operation in complex64 and complex128 are tested in test_values, test_gradients, and
test_second_order.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from harness.running import OPTIMISED, REFERENCE

Z = np.array([1 + 2j, -0.5 + 0.25j, 3 - 1j])
W = np.array([0.5 - 1j, 2 + 0.5j, -1 - 1j])
INCOMING = np.array([1 - 2j, 0.5 + 1j, 2j])

# Values, and gradients of Re(sum(INCOMING * values)), computed with PyTorch 2.13.
GOLDEN = {
    "power": (
        [4.382565059863358 - 1.1243974773611554j, 0.02829574353102299 - 0.07686836000260816j,
         0.15477711039986422 - 0.1690828213650872j],
        [-4.595942070377463 - 2.113350237069942j, -0.27917769647940943 + 0.19005133412670025j,
         0.056188559773856506 + 0.19717710125201543j],
    ),
    "square_root": (
        [1.272019649514069 + 0.7861513777574233j, 0.17178037486125622 + 0.7276733451126774j,
         1.755317301824428 - 0.28484878459314106j],
        [-0.06714534375125135 + 0.7446532731328546j, 0.7276733451126774 + 0.17178037486125622j,
         -0.09007709480450046 - 0.5550800690066424j],
    ),
    "logarithm": (
        [0.8047189562170503 + 1.1071487177940904j, -0.5815754049028404 + 2.677945044588987j,
         1.151292546497023 - 0.3217505543966422j],
        [-0.6 + 0.8j, 2j, -0.2 - 0.6j],
    ),
    "tanh": (
        [1.16673625724092 - 0.2434582011857253j, -0.4854872810241353 + 0.19805544995134955j,
         1.0020549882458116 - 0.004517136277258425j],
        [0.8342044435481992 - 1.172106217364002j, 0.2094572268318271 - 0.8996814631081163j,
         -0.018105679762666704 + 0.008187589878275059j],
    ),
    "asin": (
        [0.42707858639247614 + 1.528570919480998j, -0.5016088532755008 + 0.28139605624529274j,
         1.2330952175293441 - 1.8241987021938828j],
        [0.7102406199603006 + 0.615988423788623j, 0.6975428111916565 - 0.9918988208191681j,
         0.6177672216713973 - 0.2285269687929961j],
    ),
    "acosh": (
        [1.528570919480998 + 1.1437177404024206j, 0.28139605624529274 + 2.0724051800703975j,
         1.8241987021938828 - 0.3377011092655525j],
        [-0.6159884237886231 + 0.7102406199603006j, 0.9918988208191684 + 0.6975428111916566j,
         -0.228526968792996 - 0.6177672216713972j],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_complex_values_and_gradients_match_pytorch(name: str):
    g = mg.Graph()
    z = g.placeholder(Z.shape, mg.complex128)
    y = g.power(z, g.constant(W)) if name == "power" else getattr(g, name)(z)
    loss = g.reduction_sum(g.real_part(y * g.constant(INCOMING)))
    d = g.gradients(loss, [z])[z]
    found = g.run({z: Z}, [y, d])
    for tensor, wanted in zip((y, d), GOLDEN[name], strict=True):
        np.testing.assert_allclose(found[tensor].numpy(), wanted, rtol=1e-9, atol=1e-12)


def test_gradient_descent_reaches_complex_minimum():
    """|a z - b|² has its only minimum at b / a. A step against the gradient approaches it; its conjugate would not."""
    a, b = 1.5 - 2j, -3 + 1j
    g = mg.Graph()
    z = g.variable(np.array(4 + 4j))
    loss = g.absolute_square(g.constant(a, dtype=mg.complex128) * z - b)
    step = g.apply_stochastic_gradient_descent(0.05, z, g.gradients(loss, [z])[z])
    for _ in range(100):
        g.run({}, [], [step])
    np.testing.assert_allclose(g.variable_value(z), b / a, rtol=1e-9)
    assert z in g.trainable_variables


def test_gradient_of_real_tensor_is_real():
    g = mg.Graph()
    x = g.placeholder((2,), mg.float64)
    y = g.absolute(g.exponent(g.complex_tensor(x, g.square(x))))  # e^x
    d = g.gradients(y, [x])[x]
    assert d.dtype == mg.float64
    np.testing.assert_allclose(g.run({x: np.array([0.5, -1.0])}, d).numpy(), np.exp([0.5, -1.0]))


def test_gradient_of_complex_absolute_value_is_zero_at_zero():
    g = mg.Graph()
    z = g.placeholder((2,), mg.complex64)
    d = g.gradients(g.absolute(z), [z])[z]
    np.testing.assert_allclose(g.run({z: np.array([0, 3 + 4j], np.complex64)}, d).numpy(), [0, 0.6 + 0.8j])


# --- values -----------------------------------------------------------------------------------------------------------
def test_complex_constants_and_scalars_give_complex_dtypes():
    g = mg.Graph()
    assert g.constant(1j).dtype == g.constant([1, 2j]).dtype == mg.complex64
    assert g.constant(np.array([1j])).dtype == mg.complex128
    filled = g.constant(1 + 2j, (2, 2))
    np.testing.assert_array_equal(g.run({}, filled).numpy(), np.full((2, 2), 1 + 2j))
    z = g.placeholder((), mg.complex64)
    results = [2 * z, z - 1j, (1 + 1j) * z, z / 2, -z]
    found = [r.item() for r in g.run({z: np.array(2 + 2j, np.complex64)}, results).values()]
    assert found == [4 + 4j, 2 + 1j, 4j, 1 + 1j, -2 - 2j]


def test_complex_arrays_convert_to_numpy_and_python_values():
    result = mg.asarray(np.array(1 - 2j))
    assert complex(result) == result.item() == 1 - 2j
    with pytest.raises(TypeError):
        float(result)
    assert mg.asarray([1j, 2]).dtype == mg.complex64


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_constants_round_trip_through_text_bitwise(dtype: str):
    g = mg.Graph()
    numbers = np.array([1 + 2j, -0.0 + 1e-30j, complex(np.inf, np.nan)], dtype)
    x = g.placeholder((3,), dtype, name="x")
    y = g.multiplication(x, g.constant(numbers), name="y") + g.constant(3 - 1j, (3,), dtype)
    text = str(g)
    again = mg.parse(text)
    assert str(again) == text
    fed = np.array([1j, 2, -1 - 1j], dtype)
    results = [graph.run({graph.find("x").outputs[0]: fed}, graph.find(y.operation.name).outputs[0])
               for graph in (g, again)]  # fmt: skip
    assert results[0].numpy().tobytes() == results[1].numpy().tobytes()
    with pytest.raises(mg.GraphError, match="hexadecimal"):
        mg.parse(text.replace("0x", "0x0", 1))


def test_real_simplifications_do_not_apply_to_complex_numbers():
    """Test expressions such as squared absolute values, which may be simplified for real numbers only."""
    g = mg.Graph()
    z = g.placeholder((3,), mg.complex64)
    results = {
        g.square(g.absolute(z)): np.abs(Z) ** 2,
        g.multiplication(z, 1j): Z * 1j,
        g.addition(z, 2j): Z + 2j,
        g.power(z, 2j): Z**2j,
        g.conjugate(z): Z.conj(),
        g.absolute_square(z): np.abs(Z) ** 2,
        g.absolute(-z): np.abs(Z),
        g.division(z, 4): Z / 4,
    }
    for options in (OPTIMISED, REFERENCE):
        found = g.compile({z: (3,)}, list(results), options=options).run([Z.astype(np.complex64)])
        for result, wanted in zip(found, results.values(), strict=True):
            np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-5)


def test_errors_of_real_only_operations_suggest_alternatives():
    g = mg.Graph()
    z = g.placeholder((2, 2), mg.complex64)
    for refused in (
        lambda: z < z, lambda: g.maximum(z, z), lambda: g.floor(z), lambda: g.relu(z), lambda: g.reduction_maximum(z),
        lambda: g.softmax(z), lambda: g.sign(z), lambda: z % 2, lambda: g.clamp(z, 0, 1), lambda: g.erf(z),
    ):  # fmt: skip
        with pytest.raises(mg.DTypeError):
            refused()
    with pytest.raises(mg.DTypeError, match="must be complex"):
        g.imaginary_part(g.placeholder((2,)))
    with pytest.raises(mg.DTypeError, match="cast them to float32"):
        g.complex_tensor(g.placeholder((2,), mg.float16), g.placeholder((2,), mg.float16))
    with pytest.raises(mg.DTypeError, match="cast 'real' to complex64"):
        g.placeholder((2, 2), name="real") * z
    with pytest.raises(mg.ShapeError, match="reshape"):
        g.planar_tensor(g.placeholder((), mg.complex64))


def test_complex_division_and_absolute_value_do_not_overflow():
    """The squares of these numbers are out of range, but their quotients and absolute values are not."""
    for dtype, big in (("complex64", 1e30), ("complex128", 1e250)):
        g = mg.Graph()
        z = g.placeholder((2,), dtype)
        numbers = np.array([3 * big + 4j * big, 3 / big + 4j / big], dtype)
        found = g.run({z: numbers}, [g.absolute(z), g.division(z, z), g.reciprocal(z)])
        absolute, one, reciprocal = (r.numpy() for r in found.values())
        np.testing.assert_allclose(absolute, np.abs(numbers), rtol=1e-6)
        np.testing.assert_allclose(one, [1, 1], rtol=1e-6)
        np.testing.assert_allclose(reciprocal, 1 / numbers.astype(np.complex128), rtol=1e-6)
