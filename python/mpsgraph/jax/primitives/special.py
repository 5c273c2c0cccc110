"""Special functions, computed by the formulas of mpsgraph.numpy.special or by JAX's own definitions.

float16 and bfloat16 are computed in float32. If only JAX defines a function, in terms of other primitives on every
device, that definition is traced. Such a definition is imported from a private JAX module, because JAX does not export
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core import Tensor
from ...numpy.special import _bessel, _error_function, _gamma
from ._table import Equation, primitive


def _special(name: str, formula: Callable[..., Tensor]) -> None:
    """Register a formula over a graph as the translation of a primitive."""

    def translated(equation: Equation, *operands: Tensor, **_: Any) -> Tensor:
        wide = [equation.cast(x, "float32") if x.dtype.itemsize == 2 else x for x in operands]
        return equation.cast(formula(equation.g, *wide), equation.dtype)

    primitive(name)(translated)


_special("erfc", _error_function.erfc)
_special("erf_inv", _error_function.erfinv)
_special("lgamma", _gamma.lgamma)
_special("digamma", _gamma.digamma)
_special("igamma", _gamma.igamma)
_special("igammac", _gamma.igammac)
_special("zeta", _gamma.zeta)
_special("polygamma", _gamma.polygamma)
_special("bessel_i0e", _bessel.i0e)
_special("bessel_i1e", _bessel.i1e)


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
