"""Control flow: control dependencies, if, while, and for.

Blocks are given as functions that build them: `g.if_(p, lambda: ..., lambda: ...)`. The operations that such a function
creates belong to its block and are visible only there; they may use any tensor from outside. Gradients of any order
pass through all control flow. If a gradient is computed, a loop, whatever its length, stores the values of each
iteration that the gradient needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, overload

from .._core import DType, int32
from .._display import shown
from ._family import Block, Family, GraphError, Operation, Tensor, TensorLike

Results: TypeAlias = Tensor | Sequence[Tensor]
OneOrMany = TypeVar("OneOrMany", bound=Results)


class ControlFlow(Family):
    """Graph methods for control dependencies, conditionals, and loops."""

    _open_blocks = 0  # Number of blocks that are being built.

    def control_dependency(
        self, operations: Sequence[Operation | Tensor], block: Callable[[], OneOrMany], name: str | None = None
    ) -> OneOrMany:
        """Build operations that run after other operations.

        Args:
            operations: Operations that run first; a tensor stands for the operation that computes it.
            block: Function without arguments that builds operations and returns a tensor or a sequence of tensors.
            name: Name of the identity operation that is added for a returned tensor that block did not create.

        Returns:
            A tensor or a list of tensors, as block returns, where each tensor was created in the block or is an
            identity of a tensor created before the block.

        Raises:
            GraphError: If block does not return a tensor or a sequence of tensors.

        Gradient: through the block.

        Source: MPSGraph controlDependencyWithOperations:dependentBlock:name:.

        Example:
            >>> g = mg.Graph()
            >>> v = g.variable([1.0])
            >>> after = g.control_dependency([g.assign(v, v + 1)], lambda: g.read(v))
            >>> g.run({}, after).tolist()
            [2.0]
        """
        first = self.operation_count
        self.begin_control_dependencies([o.operation if isinstance(o, Tensor) else o for o in operations])
        try:
            results = block()
            tensors = as_list(results, "block")
            made = [t if t.operation.id >= first else self._tensor("identity", [t], name) for t in tensors]
        finally:
            self.end_control_dependencies()
        return made[0] if isinstance(results, Tensor) else made  # type: ignore[return-value]

    def if_(
        self,
        predicate: Tensor,
        then: Callable[[], Results],
        else_: Callable[[], Results],
        name: str | None = None,
    ) -> list[Tensor]:
        """Run one of two blocks, depending on a predicate, and return its results.

        On the CPU device, a predicate that is fed, or computed only from up to three fed flags, is evaluated before
        compilation. The block that is not taken then costs nothing, and each block is compiled when it is first taken.

        Args:
            predicate: Bool tensor with one element.
            then: Function without arguments that builds the block to run if predicate is True, and returns a tensor or
                a sequence of tensors.
            else_: Function without arguments that builds the block to run if predicate is False. It must return as many
                tensors as then, with the same dtypes and shapes.
            name: Name of the operation.

        Returns:
            A list of the results of the block that runs.

        Raises:
            GraphError: If the blocks return different numbers of results.
            ShapeError: If predicate has more than one element, or the shapes of the results differ.
            DTypeError: If predicate is not bool, or the dtypes of the results differ.

        Gradient: the gradient of the block that runs.

        Source: MPSGraph ifWithPredicateTensor:thenBlock:elseBlock:name:.

        Example:
            >>> g = mg.Graph()
            >>> p, x = g.placeholder((), mg.bool_), g.constant(3.0)
            >>> y = g.if_(p, lambda: x * 2, lambda: x)[0]
            >>> g.run({p: np.array(True)}, y).item()
            6.0
        """
        blocks = [self._block(then), self._block(else_)]
        return list(self._operation("if", [predicate], None, name, blocks).outputs)

    def while_(
        self,
        initial: Sequence[Tensor],
        before: Callable[..., tuple[Tensor, Results]],
        after: Callable[..., Results],
        name: str | None = None,
    ) -> list[Tensor]:
        """Repeat a block while a condition holds.

        Starting with values = initial, each iteration computes condition, results = before(*values). If condition is
        False, the loop returns results; otherwise it continues with values = after(*results).

        Args:
            initial: Tensors that the first iteration starts with.
            before: Function of the values that returns a bool tensor of one element and the results.
            after: Function of the results that returns the next values, with the types of initial.
            name: Name of the operation.

        Returns:
            A list of the results of the last call to before.

        Raises:
            GraphError: If before does not return (condition, results), or the numbers of values do not match.
            ShapeError: If the condition has more than one element, or a value changes its shape.
            DTypeError: If the condition is not bool, or a value changes its dtype.

        Gradient: backward through the iterations that ran, to initial and to every outer tensor that the blocks use. On
        the Metal device, a gradient that needs values of the iterations raises UnsupportedError, because the number of
        iterations is unknown.

        Source: MPSGraph whileWithInitialInputs:before:after:name:.

        Example:
            >>> g = mg.Graph()
            >>> doubled = g.while_([g.constant(3.0)], lambda x: (x < 20, x), lambda x: x * 2)
            >>> g.run({}, doubled[0]).item()
            24.0
        """

        def condition_and_results(*arguments: Tensor) -> list[Tensor]:
            pair = before(*arguments)
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise GraphError(f"[while] before must return a pair (condition, results), got {shown(pair)}")
            return [pair[0], *as_list(pair[1], "block before")]

        checked = self._block(condition_and_results, [t.type for t in initial])
        carried = checked.results[1:]
        return list(
            self._operation(
                "while", initial, None, name, [checked, self._block(after, [t.type for t in carried])]
            ).outputs
        )

    @overload
    def for_(
        self,
        lower: TensorLike,
        upper: TensorLike,
        step: TensorLike = 1,
        initial: Sequence[Tensor] = (),
        body: Callable[..., Results] | None = None,
        name: str | None = None,
    ) -> list[Tensor]: ...

    @overload
    def for_(
        self,
        lower: TensorLike,
        *,
        initial: Sequence[Tensor] = (),
        body: Callable[..., Results] | None = None,
        name: str | None = None,
    ) -> list[Tensor]: ...

    def for_(
        self,
        lower: TensorLike,
        upper: TensorLike | None = None,
        step: TensorLike = 1,
        initial: Sequence[Tensor] = (),
        body: Callable[..., Results] | None = None,
        name: str | None = None,
    ) -> list[Tensor]:
        """Repeat a block a fixed number of times.

        Call it as `for_(lower, upper, step, initial, body)` or `for_(count, initial=..., body=...)`. Starting with
        values = initial, the loop computes values = body(index, *values) for each index in range(lower, upper, step).
        If step is a tensor that turns out to be 0 when the graph runs, the CPU raises an error, and the Metal device
        executes no iterations.

        Args:
            lower: First index, or the number of iterations if upper is None: an int or an int32 tensor of rank 0.
            upper: End of the index range (exclusive): an int or an int32 tensor of rank 0. Defaults to None.
            step: Step of the index, not 0: an int or an int32 tensor of rank 0. Defaults to 1.
            initial: Tensors that the first iteration starts with.
            body: Function of the index and the values that returns the next values, with the types of initial.
                Required.
            name: Name of the operation.

        Returns:
            A list of the values after the last iteration.

        Raises:
            GraphError: If body is missing, or does not return as many values as initial has.
            ShapeError: If a bound is not a scalar, step is 0, or a value changes its shape.
            DTypeError: If a bound is not int32, or a value changes its dtype.

        Gradient: backward through the iterations, to initial and to every outer tensor that body uses. On the Metal
        device, a gradient that needs values of the iterations raises UnsupportedError unless the bounds are constants.

        Source: MPSGraph forLoopWithLowerBound:upperBound:step:initialBodyArguments:body:name: and
        forLoopWithNumberOfIterations:initialBodyArguments:body:name:.

        Example:
            >>> g = mg.Graph()
            >>> total = g.for_(4, initial=[g.constant(0)], body=lambda i, s: s + i)
            >>> g.run({}, total[0]).item()
            6
        """
        if body is None:
            raise GraphError("[for] body is missing: call g.for_(count, initial=[...], body=lambda i, *values: ...)")
        if upper is None:
            lower, upper = 0, lower
        bounds = [self._operands("for", [bound])[0] for bound in (lower, upper, step)]
        block = self._block(body, [(int32, ()), *(t.type for t in initial)])
        return list(self._operation("for", [*bounds, *initial], None, name, [block]).outputs)

    def _block(self, build: Callable[..., Results], argument_types: Sequence[tuple[DType, Any]] = ()) -> Block:
        """Build a block by calling `build` with arguments of the given types. If `build` raises, discard the block."""
        block = self.begin_block(argument_types)
        self._open_blocks += 1
        try:
            return self.finish_block(block, as_list(build(*block.arguments), "block"))
        except BaseException:
            self.abandon_block(block)
            raise
        finally:
            self._open_blocks -= 1


def as_list(results: Results, what: str) -> list[Tensor]:
    """Return a tensor or a sequence of tensors as a list. Raise GraphError for anything else."""
    tensors = (
        [results] if isinstance(results, Tensor) else list(results) if isinstance(results, (list, tuple)) else None
    )
    if tensors is None or not all(isinstance(t, Tensor) for t in tensors):
        raise GraphError(f"the {what} must return a tensor or a sequence of tensors, got {shown(results)}")
    return tensors


def is_in_block(graph: ControlFlow) -> bool:
    """Return whether a graph is building a block of a conditional or a loop."""
    return graph._open_blocks > 0
