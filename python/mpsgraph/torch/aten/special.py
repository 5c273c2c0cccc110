"""The table of special functions, whose formulas are in mpsgraph.numpy.special.

Operands in float16 and bfloat16 are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._core import Tensor, float32
from ...numpy._formulas import sinc
from ...numpy.special import _bessel as b
from ...numpy.special import _error_function as e
from ...numpy.special import _gamma as gm
from ._table import Call, aten, prims

Formula = Callable[..., Tensor]
full = e.full


def special(*names: str, primitive: str = "") -> Callable[[Formula], Formula]:
    """Return a decorator that registers a formula as the translation of ATen operations.

    The formula is called with the graph and the operands. These are converted to the dtype of the result, or to float32
    if it has 16 bits.
    """

    def enter(formula: Formula) -> Formula:
        def translated(call: Call, *operands: Any) -> Tensor:
            kind = float32 if call.dtype.itemsize == 2 else call.dtype
            return call.cast(formula(call.g, *(call.cast(x, kind) for x in operands)), call.dtype)

        aten(*names)(translated)
        if primitive:
            prims(primitive)(translated)
        return formula

    return enter


special("special_erfcx", primitive="erfcx")(e.erfcx)
special("erfc", "special_erfc", primitive="erfc")(e.erfc)
special("erfinv", "special_erfinv", primitive="erf_inv")(e.erfinv)
special("special_ndtri", primitive="ndtri")(e.ndtri)
special("special_ndtr")(e.ndtr)
special("special_log_ndtr")(e.log_ndtr)
special("special_entr")(e.entr)
special("sinc", "special_sinc")(sinc)
special("lgamma", "special_gammaln", primitive="lgamma")(gm.lgamma)
special("digamma", "special_digamma", "special_psi", primitive="digamma")(gm.digamma)
special("special_zeta", primitive="zeta")(gm.zeta)
special("igamma", "special_gammainc", primitive="igamma")(gm.igamma)
special("igammac", "special_gammaincc", primitive="igammac")(gm.igammac)
special("special_bessel_j0", primitive="bessel_j0")(b.j0)
special("special_bessel_j1", primitive="bessel_j1")(b.j1)
special("special_bessel_y0")(b.y0)
special("special_bessel_y1")(b.y1)
special("special_i0e", primitive="bessel_i0e")(b.i0e)
special("special_i1e", primitive="bessel_i1e")(b.i1e)
special("i0", "special_i0", "special_modified_bessel_i0", primitive="bessel_i0")(b.i0)
special("i1", "special_i1", "special_modified_bessel_i1", primitive="bessel_i1")(b.i1)
special("special_modified_bessel_k0")(b.k0)
special("special_modified_bessel_k1")(b.k1)
special("special_scaled_modified_bessel_k0")(b.k0e)
special("special_scaled_modified_bessel_k1")(b.k1e)
special("special_spherical_bessel_j0", primitive="spherical_bessel_j0")(b.spherical_j0)
special("special_airy_ai")(b.airy_ai)


@aten("polygamma", "special_polygamma")
def polygamma(call: Call, n: int, x: Tensor) -> Tensor:
    x = call.cast(x, float32 if call.dtype.itemsize == 2 else call.dtype)
    return call.cast(gm.polygamma_of(call.g, n, x), call.dtype)
