"""Special functions, computed by mpsgraph.numpy.special or by JAX's own definitions.

If only JAX defines a function, in terms of other primitives on every device, that definition is traced. Such a
definition is imported from a private JAX module, because JAX does not export it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import Tensor
from ...numpy import special
from ._table import Equation, primitive

# Maps primitives to functions of mpsgraph.numpy.special.
FUNCTIONS = {
    "bessel_i0e": "i0e",
    "bessel_i1e": "i1e",
    "digamma": "digamma",
    "erf_inv": "erfinv",
    "erfc": "erfc",
    "igamma": "gammainc",
    "igammac": "gammaincc",
    "lgamma": "gammaln",
    "polygamma": "polygamma",
    "zeta": "zeta",
}


def _special(name: str, function: Any) -> None:
    primitive(name)(lambda _, *operands, **__: function(*operands))


for _name, _function in FUNCTIONS.items():
    _special(_name, getattr(special, _function))


def _of_jax(name: str, definition: str) -> None:
    def translated(equation: Equation, *operands: Tensor, **_: Any) -> Tensor:
        from jax._src.lax import special

        function = getattr(special, definition)
        kind = np.dtype("float32") if operands[0].dtype.itemsize == 2 else operands[0].dtype.numpy
        wide = [equation.cast(x, "float32" if x.dtype.itemsize == 2 else x.dtype) for x in operands]
        wide = [
            x if tuple(x.shape or ()) == equation.shape else equation.g.broadcast_to(x, equation.shape) for x in wide
        ]
        return equation.cast(equation.traced(lambda *v: function(*v, dtype=kind), *wide), equation.dtype)

    primitive(name)(translated)


_of_jax("igamma_grad_a", "igamma_grad_a_impl")
_of_jax("random_gamma_grad", "random_gamma_grad_impl")
_of_jax("regularized_incomplete_beta", "regularized_incomplete_beta_impl")
