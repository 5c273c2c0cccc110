"""Special functions, computed by mpsgraph.numpy.special or by JAX's own definitions.

If only JAX defines a function, in terms of other primitives on every device, that definition is traced. Such a
definition is imported from a private JAX module, because JAX does not export it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._core import Tensor
from ...numpy import special
from ._table import Equation, primitive

FUNCTIONS = {
    "bessel_i0e": special.i0e,
    "bessel_i1e": special.i1e,
    "digamma": special.digamma,
    "erf_inv": special.erfinv,
    "erfc": special.erfc,
    "igamma": special.gammainc,
    "igammac": special.gammaincc,
    "lgamma": special.gammaln,
    "polygamma": special.polygamma,
    "zeta": special.zeta,
}
DEFINED_BY_JAX = {
    "igamma_grad_a": "igamma_grad_a_impl",
    "random_gamma_grad": "random_gamma_grad_impl",
    "regularized_incomplete_beta": "regularized_incomplete_beta_impl",
}


@primitive.rows(FUNCTIONS)
def by_function(_: Equation, function: Callable[..., Tensor], *operands: Tensor, **__: Any) -> Tensor:
    return function(*operands)


@primitive.rows(DEFINED_BY_JAX)
def by_definition(equation: Equation, definition: str, *operands: Tensor, **_: Any) -> Tensor:
    from jax._src.lax import special

    function = getattr(special, definition)
    wide = [equation.in_float32(x) for x in operands]
    kind = wide[0].dtype.numpy
    wide = [x if x.shape == equation.shape else equation.g.broadcast_to(x, equation.shape) for x in wide]
    return equation.cast(equation.traced(lambda *v: function(*v, dtype=kind), *wide), equation.dtype)
