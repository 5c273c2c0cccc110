"""The registry of JAX primitives, and the view of a jaxpr equation that translation functions receive.

`@primitive("add")` registers a function that translates an equation into graph operations. The function receives the
equation, graph tensors for the operands, and the parameters by name. It rejects unsupported cases with
`Equation.refuse`. Translations of more than a few operations are written in JAX and use `Equation.traced`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ..._core import DType, Tensor
from ..._dtypes import as_dtype
from ...errors import DTypeError, UnsupportedError
from ...graph import Graph
from ...interchange.node_view import NodeView
from ...interchange.registry import Registry

Function = Callable[..., Any]
primitive: Registry[Function] = Registry("JAX primitive")


def known_primitives() -> list[str]:
    """Return the names of the JAX primitives that `mpsgraph.jax.jit` supports.

    Returns:
        A sorted list of names.

    Example:
        >>> import pytest; jax = pytest.importorskip("jax")
        >>> "dot_general" in mg.jax.known_primitives()
        True
    """
    return primitive.known()


def is_key(dtype: Any) -> bool:
    """Return whether a dtype is that of JAX's typed random keys. Graphs represent a key by its uint32 words."""
    return bool(jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key))


def dtype_of(dtype: Any) -> DType:
    """Return the mpsgraph dtype for a JAX dtype (uint32 for keys), or raise UnsupportedError if there is none."""
    if is_key(dtype):
        return as_dtype("uint32")
    try:
        return as_dtype(np.dtype(dtype).name)
    except (DTypeError, TypeError) as error:
        raise UnsupportedError(f"dtype {dtype} is not supported by mpsgraph: convert to another dtype first") from error


def shape_of(aval: Any) -> tuple[int, ...]:
    """Return the shape of a value of a jaxpr. A random key has an additional last axis for its words."""
    shape = tuple(int(size) for size in aval.shape)
    return shape + tuple(aval.dtype._impl.key_shape) if is_key(aval.dtype) else shape


class Equation(NodeView):
    """A jaxpr equation, as passed to its translation function.

    It provides the types of the operands and results, and the graph to add operations to.
    """

    def __init__(self, g: Graph, name: str, operands: Sequence[Any], results: Sequence[Any], build: Function) -> None:
        super().__init__(g, name)
        self.operands, self.results = operands, results
        self.build = build
        """build(closed_jaxpr, tensors) adds the operations of an inner jaxpr and returns its results."""

    @property
    def words(self) -> tuple[int, ...]:
        """The shape of the words of one random key if the first operand contains keys, and () otherwise."""
        dtype = self.operands[0].dtype
        return tuple(dtype._impl.key_shape) if is_key(dtype) else ()

    @property
    def dtype(self) -> DType:
        """The dtype of the first result."""
        return dtype_of(self.results[0].dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return shape_of(self.results[0])

    def traced(self, function: Function, *tensors: Tensor) -> Any:
        """Trace a JAX function for graph tensors, add the operations of the resulting jaxpr to the graph, and return
        its results.

        Returns a list, or a tensor if there is only one result.
        """
        types = [jax.ShapeDtypeStruct(shape(x), x.dtype.numpy if x.dtype.name != "bool" else bool) for x in tensors]
        jaxpr = jax.make_jaxpr(function)(*types)
        found = self.build(jaxpr, list(tensors))
        return found[0] if len(found) == 1 else found


def shape(x: Tensor) -> tuple[int, ...]:
    """Return the shape of a tensor, which is always known because jaxprs are specialized by shape."""
    return tuple(x.shape or ())


def lowest(dtype: DType) -> Any:
    """Return the smallest value of a dtype."""
    if dtype.name == "bool":
        return False
    return -np.inf if dtype.is_float or dtype.is_complex else np.iinfo(dtype.numpy).min


def highest(dtype: DType) -> Any:
    """Return the largest value of a dtype."""
    if dtype.name == "bool":
        return True
    return np.inf if dtype.is_float or dtype.is_complex else np.iinfo(dtype.numpy).max


def mapped(function: Function, batch: int) -> Function:
    """Vectorize a function over `batch` leading axes of its arguments by repeated jax.vmap."""
    for _ in range(batch):
        function = jax.vmap(function)
    return function
