"""The table of special functions, which mpsgraph.numpy.special computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._core import Tensor, float32
from ...numpy import special
from ...numpy.special import _polynomials as p
from ...numpy.special._gamma import polygamma_of
from ._table import Call, aten, prims

# Maps functions of mpsgraph.numpy.special to ATen operations; "prims." marks operations of the prims namespace.
FUNCTIONS = {
    "airy_ai": "special_airy_ai",
    "digamma": "digamma special_digamma special_psi prims.digamma",
    "entr": "special_entr",
    "erfc": "erfc special_erfc prims.erfc",
    "erfcx": "special_erfcx prims.erfcx",
    "erfinv": "erfinv special_erfinv prims.erf_inv",
    "gammainc": "igamma special_gammainc prims.igamma",
    "gammaincc": "igammac special_gammaincc prims.igammac",
    "gammaln": "lgamma special_gammaln prims.lgamma",
    "i0": "i0 special_i0 special_modified_bessel_i0 prims.bessel_i0",
    "i0e": "special_i0e prims.bessel_i0e",
    "i1": "i1 special_i1 special_modified_bessel_i1 prims.bessel_i1",
    "i1e": "special_i1e prims.bessel_i1e",
    "j0": "special_bessel_j0 prims.bessel_j0",
    "j1": "special_bessel_j1 prims.bessel_j1",
    "k0": "special_modified_bessel_k0",
    "k0e": "special_scaled_modified_bessel_k0",
    "k1": "special_modified_bessel_k1",
    "k1e": "special_scaled_modified_bessel_k1",
    "log_ndtr": "special_log_ndtr",
    "ndtr": "special_ndtr",
    "ndtri": "special_ndtri prims.ndtri",
    "sinc": "sinc special_sinc",
    "spherical_j0": "special_spherical_bessel_j0 prims.spherical_bessel_j0",
    "y0": "special_bessel_y0",
    "y1": "special_bessel_y1",
    "zeta": "special_zeta prims.zeta",
}
POLYNOMIALS = {
    "hermite_polynomial_h": p.hermite_h,
    "hermite_polynomial_he": p.hermite_he,
    "laguerre_polynomial_l": p.laguerre,
    "legendre_polynomial_p": p.legendre,
    **{f"chebyshev_polynomial_{kind}": p.chebyshev(kind) for kind in "tuvw"},
    **{f"shifted_chebyshev_polynomial_{kind}": p.chebyshev(kind, shifted=True) for kind in "tuvw"},
}


def _enter(names: str, function: Callable[..., Tensor]) -> None:
    """Register a function of operands, or a formula over a graph, for all names."""

    def translated(call: Call, *operands: Any) -> Tensor:
        kind = float32 if call.dtype.itemsize == 2 else call.dtype
        wide = [call.cast(x, kind) for x in operands]
        return call.cast(function(call.g, *wide) if function in POLYNOMIALS.values() else function(*wide), call.dtype)

    for name in names.split():
        (prims if name.startswith("prims.") else aten)(name.removeprefix("prims."))(translated)


for _name, _names in FUNCTIONS.items():
    _enter(_names, getattr(special, _name))
for _name, _formula in POLYNOMIALS.items():
    _enter(f"special_{_name}", _formula)


@aten("polygamma", "special_polygamma")
def polygamma(call: Call, n: int, x: Tensor) -> Tensor:
    x = call.cast(x, float32 if call.dtype.itemsize == 2 else call.dtype)
    return call.cast(polygamma_of(call.g, n, x), call.dtype)
