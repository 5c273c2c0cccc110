"""Translation of a jaxpr to graph operations, one equation at a time.

All unsupported features are reported at once. First, the jaxpr is searched for primitives without a translation. Then
the equations are translated. A rejected equation returns zeros, so that the remaining equations can be checked as well;
such a graph is never run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jax.extend import core

from ..._core import Tensor
from ...errors import Error, UnsupportedError
from ...graph import Graph
from ._table import Equation, dtype_of, primitive, shape_of

# The jaxprs in these parameters are derivative rules, which are not executed.
_NOT_RUN = ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd", "jvp_jaxpr_thunk")


def _inner(value: Any) -> Iterator[Any]:
    if isinstance(value, (core.ClosedJaxpr, core.Jaxpr)):
        yield getattr(value, "jaxpr", value)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _inner(one)


def unmapped(jaxpr: Any) -> set[str]:
    """Return the names of primitives without a translation in a jaxpr and its nested jaxprs."""
    missing: set[str] = set()
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if primitive.get(name) is None:
            missing.add(name)
        for key, value in equation.params.items():
            if key == "jaxprs":  # custom_linear_solve has this parameter. Only its `solve` jaxpr is executed.
                value = value.solve
            if key not in _NOT_RUN and not equation.params.get("branches_platforms"):
                for inner in _inner(value):
                    missing |= unmapped(inner)
    return missing


class Builder:
    """Adds the operations of jaxprs to a graph, and records the equations that cannot be translated."""

    def __init__(self, g: Graph) -> None:
        self.g = g
        self.refusals: list[str] = []

    def constant(self, value: Any, aval: Any) -> Tensor:
        """Add a JAX scalar or array as a constant."""
        dtype = dtype_of(aval.dtype)
        if not isinstance(value, np.ndarray) and hasattr(value, "dtype") and np.dtype(value.dtype).kind == "O":
            raise UnsupportedError(f"a constant of dtype {value.dtype} is not supported")
        array = np.asarray(value).astype(dtype.numpy, copy=False)
        return self.g.constant(array, dtype=dtype)

    def build(self, closed: Any, arguments: Sequence[Tensor]) -> list[Tensor]:
        """Add the operations of a closed jaxpr and return its results."""
        constants = [
            c if isinstance(c, Tensor) else self.constant(c, v.aval)
            for c, v in zip(closed.consts, closed.jaxpr.constvars, strict=True)
        ]
        return self.open(closed.jaxpr, constants, arguments)

    def open(self, jaxpr: Any, constants: Sequence[Tensor], arguments: Sequence[Tensor]) -> list[Tensor]:
        """Add the operations of an open jaxpr, given its constants, and return its results."""
        values: dict[Any, Tensor] = dict(zip(jaxpr.constvars, constants, strict=True))
        values |= zip(jaxpr.invars, arguments, strict=True)

        def read(atom: Any) -> Tensor:
            return self.constant(atom.val, atom.aval) if isinstance(atom, core.Literal) else values[atom]

        for equation in jaxpr.eqns:
            results = self._results(equation, [read(atom) for atom in equation.invars])
            values |= zip(equation.outvars, results, strict=True)
        return [read(atom) for atom in jaxpr.outvars]

    def _results(self, equation: Any, operands: list[Tensor]) -> list[Tensor]:
        name = equation.primitive.name
        function = primitive.get(name)
        avals = [v.aval for v in equation.outvars]
        said = Equation(self.g, name, [v.aval for v in equation.invars], avals, self.build)
        try:
            if avals and all(0 in shape_of(aval) for aval in avals):  # Nothing is to be computed.
                return [said.constant(0, dtype_of(aval.dtype), shape_of(aval)) for aval in avals]
            if function is None:
                raise UnsupportedError(f"primitive {name} is not supported by mpsgraph")
            found = function(said, *operands, **equation.params)
            results = list(found) if isinstance(found, (list, tuple)) else [found]
            return [self._as_said(x, aval) for x, aval in zip(results, avals, strict=True)]
        except UnsupportedError as error:
            if (reason := str(error).splitlines()[0]) not in self.refusals:
                self.refusals.append(reason)
        except Error as error:
            if (
                reason := f"{name} is not supported with these operands or parameters: {str(error).splitlines()[0]}"
            ) not in self.refusals:
                self.refusals.append(reason)
        return [said.constant(0, dtype_of(aval.dtype), shape_of(aval)) for aval in avals]

    def _as_said(self, x: Tensor, aval: Any) -> Tensor:
        """Check that a result has the dtype that JAX expects, and reshape it to the shape that JAX expects."""
        shape, dtype = shape_of(aval), dtype_of(aval.dtype)
        if tuple(x.shape or ()) != shape:
            x = self.g.reshape(x, shape)
        if x.dtype != dtype:
            raise UnsupportedError(f"JAX expects a result of dtype {dtype}, but the translation returned {x.dtype}")
        return x
