"""Element-wise formulas that avoid the loss of digits or overflow of the plain expression.

The functions take the graph and floating-point tensors. The PyTorch and JAX frontends use them, too.
"""

from __future__ import annotations

import numpy as np

from .._core import Tensor
from ..errors import UnsupportedError
from ..graph import Graph


def log1p(g: Graph, x: Tensor) -> Tensor:
    """Compute log(u) - ((u - 1) - x) / u, where u is 1 + x. The second term corrects the rounding error of u."""
    u = x + 1.0
    plain = g.logical_or(g.equal(u, 0.0), g.equal(u, np.inf))
    lost = (u - 1.0 - x) / g.select(plain, g.constant(1.0, (), x.dtype), u)
    found = g.logarithm(u) - g.select(plain, g.constant(0.0, (), x.dtype), lost)
    return g.select(g.equal(x, 0.0), x, found)  # The sign of 0 is kept.


def expm1(g: Graph, x: Tensor) -> Tensor:
    """Compute exp(x) - 1. Near 0, the difference would lose digits, so 2 sinh(x / 2) exp(x / 2) is used."""
    near = g.less_than(g.absolute(x), 1.0)
    half = g.select(near, x * 0.5, g.constant(0.0, (), x.dtype))
    return g.select(near, g.sinh(half) * g.exponent(half) * 2.0, g.exponent(x) - 1.0)


def copysign(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    size = g.absolute(x)
    return g.select(g.signbit(y), -size, size)


def nextafter(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """Compute the next float toward y by incrementing or decrementing the bits of x as an integer, which grows with the
    magnitude of x. Bits are compared, because float comparisons may flush subnormal numbers to zero.
    """
    if not x.dtype.is_float:
        raise UnsupportedError(f"nextafter supports real floating-point arrays, got {x.dtype}: convert with astype")
    shape, integer = np.broadcast_shapes(x.shape or (), y.shape or ()), f"int{8 * x.dtype.itemsize}"
    x, y = (v if v.shape == shape else g.broadcast_to(v, shape) for v in (x, y))
    a, b = (g.reinterpret_cast(v, integer) for v in (x, y))
    limit, one, least = (g.constant(v, (), integer) for v in (np.iinfo(integer).max, 1, np.iinfo(integer).min))
    size_a, size_b = g.bitwise_and(a, limit), g.bitwise_and(b, limit)
    apart = g.less_than(g.bitwise_xor(a, b), 0)
    inward = g.logical_or(apart, g.greater_than(size_a, size_b))
    moved = g.select(inward, a - one, a + one)
    smallest = g.bitwise_or(g.bitwise_and(b, least), one)
    moved = g.select(g.equal(size_a, 0), g.select(g.equal(size_b, 0), b, smallest), moved)
    moved = g.reinterpret_cast(g.select(g.equal(a, b), b, moved), x.dtype)
    return g.select(g.logical_or(g.is_nan(x), g.is_nan(y)), x + y, moved)


def hypot(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """Compute sqrt(x^2 + y^2), scaled by the larger operand so that the squares neither overflow nor vanish."""
    a, b = g.absolute(x), g.absolute(y)
    high, low = g.maximum_with_nan_propagation(a, b), g.minimum_with_nan_propagation(a, b)
    flat = g.logical_or(g.equal(high, 0.0), g.is_infinite(high))
    ratio = low / g.select(flat, g.constant(1.0, (), x.dtype), high)
    found = g.select(flat, high, high * g.square_root(g.square(ratio) + 1.0))
    infinite = g.logical_or(g.is_infinite(x), g.is_infinite(y))
    return g.select(infinite, g.constant(np.inf, (), x.dtype), found)


def logaddexp(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """Compute log(exp(x) + exp(y)) from the larger operand and the difference of the operands."""
    high = g.maximum_with_nan_propagation(x, y)
    apart = g.absolute(x - y)
    # The difference of equal infinities is NaN.
    plain = g.logical_and(g.equal(x, y), g.is_infinite(x))
    rest = log1p(g, g.exponent(-g.select(plain, g.constant(0.0, (), x.dtype), apart)))
    return g.select(g.is_infinite(high), high, high + rest)


def sinc(g: Graph, x: Tensor) -> Tensor:
    """Compute sin(pi x) / (pi x). The result is 1 at 0."""
    zero = g.equal(x, 0.0)
    t = g.select(zero, g.constant(1.0, (), x.dtype), x) * np.pi
    return g.select(zero, g.constant(1.0, (), x.dtype), g.sin(t) / t)


def sign_of_complex(g: Graph, x: Tensor) -> Tensor:
    """Compute x / |x|. The result is 0 where x is 0, without the signs of its parts."""
    size = g.absolute(x)
    is_zero = g.equal(size, 0.0)
    safe = g.select(is_zero, g.constant(1.0, (), size.dtype), size)
    zero = g.constant(0.0, (), size.dtype)
    real, imaginary = (g.select(is_zero, zero, part / safe) for part in (g.real_part(x), g.imaginary_part(x)))
    return g.complex_tensor(real, imaginary)


def cbrt(g: Graph, x: Tensor) -> Tensor:
    """Compute the cube root as exp(log |x| / 3), refined by a Newton step."""
    size = g.absolute(x)
    plain = g.logical_and(g.greater_than(size, 0.0), g.is_finite(size))
    safe = g.select(plain, size, g.constant(1.0, (), x.dtype))
    root = g.exponent(g.logarithm(safe) / 3.0)
    square = root * root
    root = root - (square * root - safe) / (square * 3.0)
    return g.select(plain, g.sign(x) * root, x)


def remainder(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """Compute the remainder of x / y with the sign of y, which a remainder of 0 has, too."""
    found = g.floor_modulo(x, y)
    if not x.dtype.is_float:
        return found
    return g.select(g.equal(found, 0.0), copysign(g, found, y + x * 0.0), found)
