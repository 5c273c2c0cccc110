"""Graphs as pure JAX functions from (state, feeds) to (targets, state).

A program is specialized for the types of its feeds. The core specializes the graph and expands composite operations,
and `lax/` lowers the remaining operations to jax.lax. This file builds a JAX function from a program, and maps its
state to the names of variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._core import Operation, Tensor
from .._display import shown
from .._dtypes import as_dtype
from .._optional import require
from ..errors import DTypeError, GraphError, UnsupportedError
from ..graph import Graph
from ..interchange.export import kind_of
from ..model import Model

jax: Any = require("jax", "jax", "mpsgraph.jax")

from .lax._table import Trace, all_operations, mapped_operations, missing_operations  # noqa: E402

PRECISIONS = ("highest", "high", "default")
_WIDE = ("int64", "uint64", "float64", "complex128")


class Program:
    """Part of a graph that a JAX function computes: the operations that the targets depend on, specialized for the
    feeds.

    `attention` is the implementation of jax.nn.dot_product_attention that computes half-precision attention without a
    mask, or None to compute it from matmuls and softmax. `tensor_cores` states that the program runs on an NVIDIA GPU;
    functions without it can run on any device.
    """

    def __init__(
        self,
        graph: Graph,
        feeds: Mapping[Tensor, tuple[Any, tuple[int, ...]]],
        targets: Sequence[Tensor],
        operations: Sequence[Operation] = (),
        attention: str | None = None,
        tensor_cores: bool = False,
    ) -> None:
        self._attention, self._tensor_cores = attention, tensor_cores
        made = _core.expanded(graph, dict(feeds), list(targets), list(operations), keep_attention=attention is not None)
        self._graph, self._feeds, self._targets = made["graph"], made["feeds"], made["targets"]
        self._variables, self.variables = made["variables"], [v.name for v in made["source_variables"]]
        self.operations: list[Operation] = self._graph.operations
        _refuse_missing(self.operations)
        places = dict(zip(self._variables, self.variables, strict=True))
        every = list(all_operations(self.operations))
        assigned = {places[operation.inputs[0]] for operation in every if operation.kind == "assign"}
        self.assigned = [name for name in self.variables if name in assigned]
        self.checks = next((o for o in every if o.kind == "check_indices"), None)
        """The first operation that requires indices to be in range, or None."""
        constants = ("constant",)
        tensors = [t for operation in every if operation.kind not in constants for t in operation.outputs]
        self.is_wide = any(str(t.dtype) in _WIDE for t in [*tensors, *self._feeds])
        """Whether 64-bit types are used, which must be enabled in JAX."""

    def run(
        self,
        state: Mapping[str, Any],
        feeds: Sequence[Any],
        precision: str,
        loop_limit: int,
        shardings: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> tuple[list[Any], dict[str, Any], Any]:
        """Compute targets under JAX tracing.

        Args:
            state: Dict of values, keyed by variable name.
            feeds: One value per feed.
            precision: Precision of float32 matmuls and convolutions.
            loop_limit: Maximum number of iterations of differentiated loops whose length is known only at run time.
            shardings: How fully sharded variables are stored, and how operations use them: pairs of shardings, keyed by
                variable name. Defaults to none.

        Returns:
            The targets, a dict of new values keyed by the name of the assigned variable, and whether an index was out
            of range.
        """
        jnp = jax.numpy
        values = [jnp.asarray(state[name]) for name in self.variables]
        places = zip(self._variables, self.variables, strict=True)
        divided = {variable: shardings[name] for variable, name in places if name in shardings} if shardings else None
        first = [*values, jnp.zeros((), np.bool_)]
        trace = Trace(self._variables, first, precision, loop_limit, self._attention, self._tensor_cores, divided)
        trace.values.update(zip(self._feeds, map(jnp.asarray, feeds), strict=True))
        loss = self._targets[0] if self.assigned and self._targets else None
        trace.run_program(self.operations, loss)
        found = dict(zip(self.variables, trace.state, strict=False))
        targets = [jnp.asarray(trace.value(tensor)) for tensor in self._targets]
        return targets, {name: found[name] for name in self.assigned}, trace.state[-1]


class Function:
    """A graph as a pure JAX function, created by `mpsgraph.jax.function`.

    The function can be jitted, differentiated, mapped, and exported like any JAX function. `state()` returns the
    initial state, which consists of the current values of the variables. If an operation that requires valid indices
    gets an out-of-range index, floating-point targets are NaN and the state is unchanged.

    Attributes:
        graph: The graph.
        inputs: Dict of placeholders, keyed by feed name.
        variables: Dict of variables, keyed by name.

    Example:
        >>> import jax
        >>> g = mg.Graph()
        >>> x = g.placeholder((3,), name="x")
        >>> double = mg.jax.function(g, x * g.variable(2.0, name="w"))
        >>> jax.jit(double)(double.state(), {"x": np.float32([1, 2, 3])})[0].tolist()
        [2.0, 4.0, 6.0]
    """

    def __init__(
        self,
        graph: Graph,
        inputs: Mapping[str, Tensor],
        targets: Any,
        operations: Sequence[Operation],
        variables: Mapping[str, Tensor],
        precision: str,
        loop_limit: int,
    ) -> None:
        self.graph, self.inputs, self.variables = graph, dict(inputs), dict(variables)
        self._targets, self._operations = targets, list(operations)
        self._precision, self._loop_limit = precision, loop_limit
        self._names = {tensor.name: name for name, tensor in self.variables.items()}
        self._programs: dict[Any, Program] = {}

    def state(self) -> dict[str, np.ndarray]:
        """Return copies of the current values of the graph's variables.

        Returns:
            A dict of NumPy arrays, keyed by variable name.
        """
        return dict(zip(self.variables, self.graph.variable_values(self.variables.values()), strict=True))

    def store(self, state: Mapping[str, Any]) -> None:
        """Set the graph's variables to the values of a state.

        Args:
            state: Dict of arrays, keyed by variable name.

        Raises:
            GraphError: If names are missing or unknown.
            ShapeError: If an array has the wrong shape.
            DTypeError: If an array has the wrong dtype.
        """
        _same_names("the state", state, self.variables)
        self.graph.set_variables({tensor: np.asarray(state[name]) for name, tensor in self.variables.items()})

    def program(self, feeds: Mapping[str, Any]) -> Program:
        """Return the program for the types of these feeds, creating it on first use.

        Args:
            feeds: Dict of arrays, keyed by input name.

        Returns:
            A Program.

        Raises:
            DTypeError: If a feed is not an array or has the wrong dtype.
            ShapeError: If a feed has the wrong shape.
            UnsupportedError: If operations cannot be expressed in jax.lax.
        """
        types = {name: _type_of(tensor, feeds[name]) for name, tensor in self.inputs.items()}
        key = tuple(types.values())
        if key not in self._programs:
            fed = {tensor: types[name] for name, tensor in self.inputs.items()}
            self._programs[key] = Program(self.graph, fed, _listed(self._targets), self._operations)
        return self._programs[key]

    def __call__(self, state: Mapping[str, Any], feeds: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Compute the targets and the new state.

        Args:
            state: Dict of arrays, keyed by variable name.
            feeds: Dict of arrays, keyed by input name.

        Returns:
            The targets in the structure passed to `mpsgraph.jax.function`, and the new state.

        Raises:
            GraphError: If names are missing or unknown.
            ShapeError: If a feed has the wrong shape.
            DTypeError: If a feed has the wrong dtype, or 64-bit types are used but not enabled in JAX.
            UnsupportedError: If operations cannot be expressed in jax.lax (the message lists all of them), or shapes
                depend on values.
        """
        _same_names("the state", state, self.variables)
        _same_names("feeds", feeds, self.inputs)
        program = self.program(feeds)
        if program.is_wide and not jax.config.jax_enable_x64:
            raise DTypeError(
                "the graph uses 64-bit types, which JAX truncates to 32 bits by default: call "
                "jax.config.update('jax_enable_x64', True), or call the function within jax.enable_x64(True)"
            )
        given = {tensor.name: state[name] for name, tensor in self.variables.items()}
        fed = [_array(tensor, feeds[name]) for name, tensor in self.inputs.items()]
        targets, changed, outside = program.run(given, fed, self._precision, self._loop_limit)
        if program.checks is not None:
            targets, changed = guarded(targets, changed, given, outside)
        after = {name: jax.numpy.asarray(state[name]) for name in self.variables}
        after.update({self._names[name]: value for name, value in changed.items()})
        return _structured(self._targets, targets), after


def guarded(
    targets: Sequence[Any], changed: Mapping[str, Any], before: Mapping[str, Any], outside: Any
) -> tuple[list[Any], dict[str, Any]]:
    """Apply the rule for out-of-range indices: floating-point targets become NaN, and the state keeps its old values.

    Without out-of-range indices, targets and state are returned unchanged.
    """
    jnp = jax.numpy

    def poisoned(target: Any) -> Any:
        if not jnp.issubdtype(target.dtype, jnp.inexact):
            return target
        return jnp.where(outside, jnp.asarray(np.nan, target.dtype), target)

    kept = {name: jnp.where(outside, before[name], value) for name, value in changed.items()}
    return [poisoned(target) for target in targets], kept


def function(
    source: Any,
    targets: Any = None,
    target_operations: Sequence[Operation] = (),
    *,
    inputs: Mapping[str, Tensor] | None = None,
    example: tuple[Any, ...] | None = None,
    precision: str = "highest",
    loop_limit: int = 0,
) -> Function:
    """Convert a graph, a model, or a trainer's step to a pure JAX function from (state, feeds) to (targets, state).

    Gradients, assigns, control flow, and random numbers are included. The function runs wherever XLA runs, under jit
    and with shardings.

    Args:
        source: A Graph, a Model, or a Trainer. For a Trainer, the step that applies gradients is converted.
        targets: For a Graph, a tensor or a list or dict of tensors; the function returns the same structure. For a
            Model, defaults to its outputs. Not accepted for a Trainer, whose targets are a dict of its loss and
            metrics, keyed by name.
        target_operations: Operations to run besides computing the targets, such as assigns. Defaults to none.
        inputs: Dict of placeholders, keyed by feed name. Defaults to all placeholders needed, under their own names.
        example: A batch (inputs, labels) that determines the input types of a trainer's step. Not needed if the trainer
            has been trained.
        precision: Precision of float32 matmuls and convolutions: "highest", "high", or "default" (TF32 on NVIDIA GPUs).
            Defaults to "highest".
        loop_limit: Maximum number of iterations of differentiated loops whose length is known only at run time.
            Defaults to 0, which rejects such loops.

    Returns:
        A Function.

    Raises:
        GraphError: If an argument is invalid, or does not belong to the graph.

    Example:
        >>> g = mg.Graph()
        >>> x, v = g.placeholder((-1,), name="x"), g.variable([2.0], name="v")
        >>> step = mg.jax.function(g, x * v, [g.assign(v, v + 1.0)])
        >>> y, state = jax.jit(step)(step.state(), {"x": np.float32([1, 2])})
        >>> y.tolist(), state["v"].tolist()
        ([2.0, 4.0], [3.0])
    """
    if precision not in PRECISIONS:
        raise GraphError(f"[jax.function] precision must be one of {', '.join(PRECISIONS)}, got {shown(precision)}")
    if not isinstance(loop_limit, int) or isinstance(loop_limit, bool) or loop_limit < 0:
        raise GraphError(f"[jax.function] loop_limit must be a non-negative int, got {shown(loop_limit)}")
    if isinstance(source, Model):
        wanted = source.outputs if targets is None else targets
        given = source.inputs if inputs is None else inputs
        return _made(source.graph, wanted, target_operations, given, precision, loop_limit)
    if isinstance(source, Graph):
        if targets is None and not target_operations:
            raise GraphError("[jax.function] a Graph needs targets or target_operations: pass at least one of them")
        wanted = [] if targets is None else targets
        return _made(source, wanted, target_operations, inputs, precision, loop_limit)
    if hasattr(source, "builder"):
        if targets is not None or target_operations or inputs is not None:
            raise GraphError("[jax.function] a trainer's step determines its own targets and inputs: pass only example")
        return _of_trainer(source, example, precision, loop_limit)
    raise GraphError(f"[jax.function] source must be a Graph, a Model, or a Trainer, got {shown(source)}")


def _of_trainer(trainer: Any, example: tuple[Any, ...] | None, precision: str, loop_limit: int) -> Function:
    from ..training.batch import checked_batch
    from ..training.forms import example_of

    builder = trainer.builder
    if example is not None:
        batch = checked_batch(*example)
    elif builder.specs:
        described = builder.specs[-1]
        batch = checked_batch(*(example_of(described.get(what)) for what in ("inputs", "labels", "weights")))
    else:
        raise GraphError("[jax.function] a trainer that has not been trained needs example=(inputs, labels)")
    with builder.undone_by_errors():
        built = builder.built_for(batch)
    targets = dict(zip(built.names, built.targets, strict=True))
    inputs = {tensor.name: tensor for tensor in [*(m.rate for m in built.minimized), *built.placeholders]}
    made = _made(trainer.graph, targets, built.operations(True), inputs, precision, loop_limit)
    names = {variable: name for name, variable in trainer.state.variables().items()}
    variables = {names.get(variable, name): variable for name, variable in made.variables.items()}
    return Function(trainer.graph, inputs, targets, built.operations(True), variables, precision, loop_limit)


def _made(
    graph: Graph,
    targets: Any,
    operations: Sequence[Operation],
    inputs: Mapping[str, Tensor] | None,
    precision: str,
    loop_limit: int,
) -> Function:
    tensors = _listed(targets)
    for tensor in tensors:
        if not isinstance(tensor, Tensor) or tensor.graph is not graph:
            raise GraphError(f"[jax.function] target {shown(tensor)} must be a tensor of the graph")
    for operation in operations:
        if not isinstance(operation, Operation) or operation.graph is not graph:
            raise GraphError(f"[jax.function] target operation {shown(operation)} must be an operation of the graph")
    needed = _needed([*(t.operation for t in tensors), *operations])
    if inputs is None:
        inputs = {o.name: o.outputs[0] for o in needed if o.kind == "placeholder"}
    else:
        for name, tensor in inputs.items():
            if not isinstance(tensor, Tensor) or tensor.graph is not graph or tensor.operation.kind != "placeholder":
                raise GraphError(
                    f"[jax.function] input '{name}' must be a placeholder of the graph, got {shown(tensor)}"
                )
    variables = {o.name: o.outputs[0] for o in needed if o.kind == "variable"}
    return Function(graph, inputs, targets, operations, variables, precision, loop_limit)


def _needed(roots: Iterable[Operation]) -> list[Operation]:
    """Return the operations that the roots depend on, in creation order.

    Dependencies through blocks and control dependencies are included.
    """
    seen: dict[int, Operation] = {}
    waiting = list(roots)
    while waiting:
        operation = waiting.pop()
        if operation.id in seen:
            continue
        seen[operation.id] = operation
        waiting += [t.operation for t in operation.inputs] + list(operation.control_dependencies)
        for block in operation.blocks:
            waiting += [*block.operations, *(t.operation for t in block.results)]
    return [seen[number] for number in sorted(seen)]


def _refuse_missing(operations: Sequence[Operation]) -> None:
    """Raise UnsupportedError if operations have no lowering. The message lists all kinds of such operations."""
    missing = missing_operations(operations)
    if not missing:
        return
    lines = [f"  {kind_of(o)} '{o.name}'" + (f", built at {o.location}" if o.location else "") for o in missing]
    raise UnsupportedError(
        f"[jax] {len(missing)} kind{'s' * (len(missing) > 1)} of operation cannot be expressed in jax.lax:\n"
        + "\n".join(lines)
        + "\nRun these operations on an mpsgraph device and pass their results as feeds"
    )


def _type_of(tensor: Tensor, value: Any) -> tuple[Any, tuple[int, ...]]:
    if isinstance(value, (bool, int, float, complex)):
        return tensor.dtype, ()
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        raise DTypeError(f"feed '{tensor.name}' must be an array of {tensor.dtype}, got {shown(value)}")
    return as_dtype(value.dtype), tuple(value.shape)


def _array(tensor: Tensor, value: Any) -> Any:
    return np.asarray(value, tensor.dtype.numpy) if isinstance(value, (bool, int, float, complex)) else value


def _same_names(what: str, given: Any, wanted: Mapping[str, Any]) -> None:
    if not isinstance(given, Mapping):
        raise GraphError(f"[jax.function] {what} must be a dict of arrays keyed by name, got {shown(given)}")
    if given.keys() != wanted.keys():
        missing, unknown = sorted(wanted.keys() - given.keys()), sorted(given.keys() - wanted.keys())
        raise GraphError(
            f"[jax.function] {what} must have exactly the names of the graph: missing {missing}, unknown {unknown}"
        )


def _listed(targets: Any) -> list[Tensor]:
    if isinstance(targets, Tensor):
        return [targets]
    if isinstance(targets, Mapping):
        return list(targets.values())
    if not isinstance(targets, Sequence) or isinstance(targets, str):
        raise GraphError(f"[jax.function] targets must be a tensor or a list or dict of tensors, got {shown(targets)}")
    return list(targets)


def _structured(targets: Any, values: Sequence[Any]) -> Any:
    if isinstance(targets, Tensor):
        return values[0]
    if isinstance(targets, Mapping):
        return dict(zip(targets, values, strict=True))
    return list(values)


__all__ = ["PRECISIONS", "Function", "Program", "function", "guarded", "mapped_operations"]
