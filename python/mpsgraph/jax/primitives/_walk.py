"""A jaxpr, built in a graph: equation by equation, each by its function in the table.

All that has no translation is named at once: a first walk looks for primitives that the table has not, and in the
second a refused equation gives zeros, so that the walk goes on to what else is refused. Nothing of such a graph runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jax.extend import core

from ..._core import Tensor
from ...errors import Error, UnsupportedError
from ...graph import Graph
from ._table import Equation, dtype_of, function_of, shape_of

# Their jaxprs are not what runs: rules of derivatives, and the other sides of a solve.
_NOT_RUN = ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd", "jvp_jaxpr_thunk")


def _inner(value: Any) -> Iterator[Any]:
    if isinstance(value, (core.ClosedJaxpr, core.Jaxpr)):
        yield getattr(value, "jaxpr", value)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _inner(one)


def unmapped(jaxpr: Any) -> set[str]:
    """The names of the primitives in a jaxpr and in those inside it that the table has no function for."""
    missing: set[str] = set()
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if function_of(name) is None:
            missing.add(name)
        for key, value in equation.params.items():
            if key == "jaxprs":  # of a linear solve
                value = value.solve
            if key not in _NOT_RUN and not equation.params.get("branches_platforms"):
                for inner in _inner(value):
                    missing |= unmapped(inner)
    return missing


class Builder:
    """Adds the operations of jaxprs to a graph, and remembers what was refused."""

    def __init__(self, g: Graph) -> None:
        self.g = g
        self.refusals: list[str] = []

    def constant(self, value: Any, aval: Any) -> Tensor:
        """A number or array of JAX's as a constant."""
        dtype = dtype_of(aval.dtype)
        if not isinstance(value, np.ndarray) and hasattr(value, "dtype") and np.dtype(value.dtype).kind == "O":
            raise UnsupportedError(f"a constant of element type {value.dtype}")
        array = np.asarray(value).astype(dtype.numpy, copy=False)
        return self.g.constant(array, dtype=dtype)

    def build(self, closed: Any, arguments: Sequence[Tensor]) -> list[Tensor]:
        """The results of a closed jaxpr for these arguments."""
        constants = [
            c if isinstance(c, Tensor) else self.constant(c, v.aval)
            for c, v in zip(closed.consts, closed.jaxpr.constvars, strict=True)
        ]
        return self.open(closed.jaxpr, constants, arguments)

    def open(self, jaxpr: Any, constants: Sequence[Tensor], arguments: Sequence[Tensor]) -> list[Tensor]:
        """The results of a jaxpr for these constants and arguments."""
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
        function = function_of(name)
        avals = [v.aval for v in equation.outvars]
        said = Equation(self.g, name, [v.aval for v in equation.invars], avals, self.build)
        try:
            if function is None:
                raise UnsupportedError(f"{name} has no translation")
            found = function(said, *operands, **equation.params)
            results = list(found) if isinstance(found, (list, tuple)) else [found]
            return [self._as_said(x, aval) for x, aval in zip(results, avals, strict=True)]
        except UnsupportedError as error:
            if (reason := str(error).splitlines()[0]) not in self.refusals:
                self.refusals.append(reason)
        except Error as error:
            if (reason := f"{name} is not translated in this form: {str(error).splitlines()[0]}") not in self.refusals:
                self.refusals.append(reason)
        return [said.constant(0, dtype_of(aval.dtype), shape_of(aval)) for aval in avals]

    def _as_said(self, x: Tensor, aval: Any) -> Tensor:
        """A result, which must be of the type that JAX says it is of."""
        shape, dtype = shape_of(aval), dtype_of(aval.dtype)
        if tuple(x.shape or ()) != shape:
            x = self.g.reshape(x, shape)
        if x.dtype != dtype:
            raise UnsupportedError(f"gives {x.dtype}, and JAX {dtype}")
        return x
