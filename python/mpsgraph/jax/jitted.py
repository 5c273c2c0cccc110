"""Just-in-time compilation of JAX functions to mpsgraph graphs.

JAX handles differentiation, mapping, loops, and random numbers when it traces the function to a jaxpr. The primitives
of the jaxpr are then translated to graph operations. Each executable is cached by the structure and types of the
arguments.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .._core import Device, Executable, Tensor
from .._optional import require
from ..errors import GraphError, UnsupportedError
from ..graph import Graph

jax = require("jax", "jax", "mpsgraph.jax")

from .primitives import Builder, dtype_of, is_key, known_primitives, shape_of, unmapped  # noqa: E402

__all__ = ["Jitted", "jit", "known_primitives"]

# Constants with more elements are passed as feeds rather than copied into the graph.
FED = 1 << 14

_tracing = threading.local()


class _Compiled:
    """An executable compiled from a traced JAX function for one structure and one set of types of its arguments."""

    def __init__(self, traced: Any, device: Device | str | None) -> None:
        closed = traced.jaxpr
        if missing := sorted(unmapped(closed.jaxpr)):
            raise UnsupportedError(
                f"{_name(traced)} uses primitives that are not supported: {', '.join(missing)}. "
                "mpsgraph.jax.known_primitives() lists the supported primitives"
            )
        g = Graph()
        builder = Builder(g)
        self.graph = g
        given: dict[Tensor, Any] = {}
        constants = []
        for value, variable in zip(closed.consts, closed.jaxpr.constvars, strict=True):
            aval = variable.aval
            if np.size(value) > FED and not is_key(aval.dtype):
                constants.append(g.placeholder(shape_of(aval), dtype_of(aval.dtype)))
                given[constants[-1]] = fed(value, aval)
            else:
                value = jax.random.key_data(value) if is_key(aval.dtype) else value
                constants.append(builder.constant(value, aval))
        self.inputs = [v.aval for v in closed.jaxpr.invars]
        arguments = [g.placeholder(shape_of(aval), dtype_of(aval.dtype)) for aval in self.inputs]
        found = builder.open(closed.jaxpr, constants, arguments)
        if builder.refusals:
            raise UnsupportedError(f"{_name(traced)} cannot be compiled: " + "; ".join(builder.refusals))
        self.outputs = [v.aval for v in closed.jaxpr.outvars]
        self.tree = traced.out_tree
        # A result that is a feed or a constant, or that occurs twice, is copied so that each result has its own array.
        targets: list[Tensor] = []
        taken = set(arguments) | set(constants)
        for x in found:
            targets.append(g.identity(x) if x in taken else x)
            taken.add(x)
        self.executable: Executable | None = None
        self.feeds: list[tuple[int, Any]] = []
        if targets:
            places = {x: place for place, x in enumerate(arguments)}
            types = {x: (shape_of(a), x.dtype) for x, a in zip(arguments, self.inputs, strict=True)}
            types |= {x: (tuple(x.shape or ()), x.dtype) for x in given}
            self.executable = g.compile(types, targets, device=device)
            self.feeds = [(places.get(x, -1), given.get(x)) for x in self.executable.feeds]

    def __call__(self, leaves: Sequence[Any]) -> Any:
        if self.executable is None:
            return jax.tree.unflatten(self.tree, [])
        arrays = [fed(leaves[place], self.inputs[place]) if place >= 0 else value for place, value in self.feeds]
        results = self.executable.run(arrays)
        return jax.tree.unflatten(self.tree, [given_back(x, a) for x, a in zip(results, self.outputs, strict=True)])


def fed(value: Any, aval: Any) -> Any:
    """Convert an argument to an array for the executable. JAX arrays on the CPU share their memory with the result."""
    if is_key(aval.dtype):
        return np.asarray(jax.random.key_data(value))
    array = np.asarray(value)
    return array if array.dtype == aval.dtype else array.astype(aval.dtype)


def given_back(array: Any, aval: Any) -> Any:
    """Convert a result to a jax.Array that shares its memory and is weakly typed if JAX says so."""
    found = jax.dlpack.from_dlpack(array)
    if getattr(aval, "weak_type", False):
        return _weak(found)
    return jax.random.wrap_key_data(found, impl=aval.dtype._impl.name) if is_key(aval.dtype) else found


def _weak(array: Any) -> Any:
    """Return a weakly typed array with the same elements, whose dtype gives way to that of other operands.

    JAX has no public function for this. If the method that JAX uses itself is missing, the elements are copied.
    """
    rewrap = getattr(array, "_rewrap_with_aval_and_sharding", None)
    if rewrap is not None:
        return rewrap(array.aval.update(weak_type=True), array.sharding)
    from jax._src.lax.lax import _convert_element_type

    return _convert_element_type(array, weak_type=True)


def _name(traced: Any) -> str:
    return str(getattr(traced, "fun_name", "") or "the function")


class Jitted:
    """A function that is compiled on the first call with each combination of argument structure and types.

    `mpsgraph.jax.jit` creates objects of this class.

    Example:
        >>> import jax.numpy as jnp
        >>> double = mg.jax.jit(lambda x: 2 * x)
        >>> double(jnp.arange(3.0)).tolist(), double.cache_size()
        ([0.0, 2.0, 4.0], 1)
    """

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnums: int | Sequence[int] | None,
        static_argnames: str | Iterable[str] | None,
        donate_argnums: int | Sequence[int] | None,
        donate_argnames: str | Iterable[str] | None,
        device: Device | str | None,
    ) -> None:
        if not callable(function):
            raise GraphError(f"[jit] function must be callable, got {type(function).__name__}")
        self.function, self.device = function, device
        self.static_numbers, self.static_names = _both(function, static_argnums, static_argnames)
        self.donated_numbers, self.donated_names = _both(function, donate_argnums, donate_argnames)
        self._jit = jax.jit(
            function, static_argnums=self.static_numbers or None, static_argnames=self.static_names or None
        )
        self._compiled: dict[Any, _Compiled] = {}
        self._lock = threading.Lock()
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        # During the trace of another jitted function, the call is inlined into the graph of that function.
        if getattr(_tracing, "on", False):
            return self.function(*arguments, **named)
        compiled, leaves = self._of(arguments, named)
        results = compiled(leaves)
        if self.donated_numbers or self.donated_names:
            self._give_up(arguments, named)
        return results

    def _of(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[_Compiled, list[Any]]:
        """Return the compiled function for these arguments, and the array leaves of the arguments that are not
        static.
        """
        numbers = _within(self.static_numbers, len(arguments))
        fixed = tuple((n, arguments[n]) for n in sorted(numbers))
        fixed_names = tuple((name, named[name]) for name in sorted(self.static_names) if name in named)
        dynamic = tuple(x for n, x in enumerate(arguments) if n not in numbers)
        dynamic_names = {name: x for name, x in named.items() if name not in self.static_names}
        leaves, tree = jax.tree.flatten((dynamic, dynamic_names))
        key = (tree, tuple(_type(x) for x in leaves), fixed, fixed_names, jax.config.jax_enable_x64)
        try:
            compiled = self._compiled.get(key)
        except TypeError as error:
            raise GraphError(f"[jit] static arguments must be hashable: {error}") from error
        return compiled or self._compile(key, arguments, named), leaves

    def _compile(self, key: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> _Compiled:
        with self._lock:
            if key not in self._compiled:
                _tracing.on = True
                try:
                    traced = self._jit.trace(*arguments, **named)
                    self._compiled[key] = _Compiled(traced, self.device)
                finally:
                    _tracing.on = False
            return self._compiled[key]

    def _give_up(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Delete the arrays of donated arguments."""
        numbers = _within(self.donated_numbers, len(arguments)) - _within(self.static_numbers, len(arguments))
        donated = [arguments[n] for n in numbers] + [named[n] for n in self.donated_names if n in named]
        for leaf in jax.tree.leaves(donated):
            if isinstance(leaf, jax.Array) and not leaf.is_deleted():
                leaf.delete()

    def graph(self, *arguments: Any, **named: Any) -> Graph:
        """Return the graph that a call with these arguments runs, compiling it on first use.

        Args:
            *arguments: Positional arguments of the function.
            **named: Keyword arguments of the function.

        Returns:
            The graph, for inspection.

        Example:
            >>> import pytest; jax = pytest.importorskip("jax")
            >>> mg.jax.jit(lambda x: x + 1).graph(jax.numpy.ones(2)).operation_count > 1
            True
        """
        return self._of(arguments, named)[0].graph

    def cache_size(self) -> int:
        """Return the number of cached executables."""
        return len(self._compiled)

    def clear_cache(self) -> None:
        """Discard all cached executables."""
        self._compiled.clear()


def _within(numbers: Iterable[int], count: int) -> set[int]:
    """Return the indices in `numbers` that refer to one of `count` positional arguments, made non-negative."""
    return {n % count for n in numbers if -count <= n < count}


def _type(value: Any) -> Any:
    """Return the properties of an argument that select the executable: its shape and dtype."""
    if isinstance(value, jax.core.Tracer):
        raise UnsupportedError(
            "[jit] JAX cannot trace through a function compiled with mpsgraph.jax.jit: put the transformation inside, "
            "as in mpsgraph.jax.jit(jax.grad(f)) instead of jax.grad(mpsgraph.jax.jit(f))"
        )
    if isinstance(value, jax.Array):
        return value.shape, value.dtype, getattr(value, "weak_type", False)
    if isinstance(value, (np.ndarray, np.generic)):
        return value.shape, value.dtype
    return type(value)


def _listed(values: Any) -> list[Any]:
    return [] if values is None else [values] if isinstance(values, (int, str)) else list(values)


def _both(function: Callable[..., Any], numbers: Any, names: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the positions and the names of the static or donated arguments.

    If only positions or only names are given, the function's signature determines the others, as in jax.jit.
    """
    places, words = _listed(numbers), _listed(names)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return tuple(places), tuple(words)
    ordered = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    first = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if numbers is None:
        places = [first.index(word) for word in words if word in ordered]
    elif names is None:
        words = [first[n] for n in places if -len(first) <= n < len(first) and first[n] in ordered]
    return tuple(places), tuple(words)


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    device: Device | str | None = None,
) -> Any:
    """Compile a JAX function with mpsgraph: JAX traces it, and the jaxpr becomes one executable.

    The function may use any JAX transformation, such as `grad`, `vmap`, `scan`, `cond`, `while_loop`, `jax.jit`, and
    custom derivatives, and code written with Flax, Equinox, or Optax. It is traced and compiled once for each
    combination of structure, shapes, and dtypes of its arguments.

    Args:
        function: A function that takes and returns pytrees of arrays. Defaults to None, which returns a decorator.
        static_argnums: Positions of arguments that are compile-time constants. They must be hashable, and each new
            value is compiled separately.
        static_argnames: Names of arguments that are compile-time constants.
        donate_argnums: Positions of arguments whose arrays are deleted after the call, so that later results can reuse
            their memory.
        donate_argnames: Names of arguments whose arrays are deleted after the call.
        device: A Device, "cpu", or "metal". Defaults to None, which selects the default device.

    Returns:
        A Jitted, which takes the arguments of the function and returns jax.Arrays on JAX's CPU device. The returned
        arrays share memory with mpsgraph's results. Arguments that are on the CPU in row-major order are shared, too.

    Raises:
        UnsupportedError: If primitives are not supported (the message lists all of them), or an argument is being
            traced by JAX.
    Gradient: apply jax.grad inside the compiled function. Source: jax.jit.

    Example:
        >>> import pytest; jax = pytest.importorskip("jax")
        >>> square = mg.jax.jit(jax.grad(lambda x: (x**2).sum()))
        >>> square(jax.numpy.arange(3.0)).tolist()
        [0.0, 2.0, 4.0]
    """
    options = (static_argnums, static_argnames, donate_argnums, donate_argnames, device)
    return functools.partial(_made, options) if function is None else Jitted(function, *options)


def _made(options: tuple[Any, ...], function: Callable[..., Any]) -> Jitted:
    return Jitted(function, *options)
