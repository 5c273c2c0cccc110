"""The table of JAX's primitives, and an equation of a jaxpr as its function sees it.

`@primitive("add")` enters a function that makes a graph's operations of an equation. It gets the equation, tensors of
the graph for its operands, and its parameters by name. What it cannot say it refuses with `Equation.refuse`. What is
longer than a few operations is written in JAX's own language and goes through `Equation.traced`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import numpy as np

from ..._core import DType, Tensor
from ..._dtypes import as_dtype
from ...errors import DTypeError, UnsupportedError
from ...graph import Graph

Function = Callable[..., Any]
_FUNCTIONS: dict[str, Function] = {}


def primitive(*names: str) -> Callable[[Function], Function]:
    """Enters the function of one primitive or of several."""

    def enter(function: Function) -> Function:
        for name in names:
            _FUNCTIONS[name] = function
        return function

    return enter


def function_of(name: str) -> Function | None:
    """The function of a primitive; None where there is none."""
    return _FUNCTIONS.get(name)


def known_primitives() -> list[str]:
    """The names of all of JAX's primitives that have a translation.

    >>> import pytest; jax = pytest.importorskip("jax")
    >>> "dot_general" in mg.jax.known_primitives()
    True
    """
    return sorted(_FUNCTIONS)


def is_key(dtype: Any) -> bool:
    """Whether it is the element type of JAX's typed random keys, which are words of uint32 here."""
    return bool(jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key))


def dtype_of(dtype: Any) -> DType:
    """JAX's element type as ours; keys are uint32. UnsupportedError for one that this package has not."""
    if is_key(dtype):
        return as_dtype("uint32")
    try:
        return as_dtype(np.dtype(dtype).name)
    except (DTypeError, TypeError) as error:
        raise UnsupportedError(f"the element type {dtype} is none of this package: convert to another first") from error


def shape_of(aval: Any) -> tuple[int, ...]:
    """The sizes of a value; a key has its words as a last axis."""
    shape = tuple(int(size) for size in aval.shape)
    return shape + tuple(aval.dtype._impl.key_shape) if is_key(aval.dtype) else shape


class Equation:
    """One equation of a jaxpr: the graph that its operations go to, and what JAX says of its operands and results."""

    def __init__(self, g: Graph, name: str, operands: Sequence[Any], results: Sequence[Any], build: Function) -> None:
        self.g, self.name = g, name
        self.operands, self.results = operands, results
        self.build = build
        """build(closed jaxpr, tensors) adds the operations of an inner jaxpr, and gives its results."""

    @property
    def words(self) -> tuple[int, ...]:
        """The axes that are behind those of the first operand, where it is of keys: those of a key's words."""
        dtype = self.operands[0].dtype
        return tuple(dtype._impl.key_shape) if is_key(dtype) else ()

    @property
    def dtype(self) -> DType:
        """The element type of the first result."""
        return dtype_of(self.results[0].dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return shape_of(self.results[0])

    def refuse(self, why: str) -> NoReturn:
        raise UnsupportedError(f"{self.name} {why}")

    def cast(self, x: Tensor, dtype: DType | str) -> Tensor:
        dtype = as_dtype(dtype)
        return x if x.dtype == dtype else self.g.cast(x, dtype)

    def constant(self, value: Any, dtype: DType | str, shape: Sequence[int] = ()) -> Tensor:
        """A number, alone or in a shape."""
        dtype = as_dtype(dtype)
        number = np.asarray(value).astype(dtype.numpy)
        if not math.prod(shape):
            return self.g.constant(np.zeros(tuple(shape), dtype.numpy), dtype=dtype)
        one = self.g.constant(number.reshape(()), dtype=dtype)
        return self.g.broadcast_to(one, tuple(shape)) if shape else one

    def traced(self, function: Function, *tensors: Tensor) -> Any:
        """What a function of JAX's gives for these tensors: it is traced, and its jaxpr's operations are added.

        Result: the tensors that it returns, as a list; a single one alone.
        """
        types = [jax.ShapeDtypeStruct(shape(x), x.dtype.numpy if x.dtype.name != "bool" else bool) for x in tensors]
        jaxpr = jax.make_jaxpr(function)(*types)
        found = self.build(jaxpr, list(tensors))
        return found[0] if len(found) == 1 else found


def shape(x: Tensor) -> tuple[int, ...]:
    """The sizes of a tensor, all of which are known: jaxprs are specialised by shape."""
    return tuple(x.shape or ())


def lowest(dtype: DType) -> Any:
    """The number that no other of the type is below."""
    if dtype.name == "bool":
        return False
    return -np.inf if dtype.is_float or dtype.is_complex else np.iinfo(dtype.numpy).min


def highest(dtype: DType) -> Any:
    """The number that no other of the type is above."""
    if dtype.name == "bool":
        return True
    return np.inf if dtype.is_float or dtype.is_complex else np.iinfo(dtype.numpy).max


def mapped(function: Function, batch: int) -> Function:
    """A function of single matrices or vectors as one of batches of them, with so many leading axes."""
    for _ in range(batch):
        function = jax.vmap(function)
    return function
