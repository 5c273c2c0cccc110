"""Order and choice: control dependencies, if, while and for.

The parts are given as functions that build them: `g.if_(p, lambda: ..., lambda: ...)`. What they create belongs to
their block and is seen only there; they may use every tensor from outside. Gradients pass through all of them, of any
order. A loop keeps what its gradient needs of each iteration, as long as it runs, and only when the gradient is run.
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
    """control_dependency, if_, while_, for_."""

    def control_dependency(
        self, operations: Sequence[Operation | Tensor], block: Callable[[], OneOrMany], name: str | None = None
    ) -> OneOrMany:
        """What `block` builds, made to run after other operations.

        Args: operations, those that run first (a tensor stands for its operation); block, a function without arguments
        that returns a tensor or a sequence of tensors; name, of the identity for a tensor that the block did not make.
        Result: as the block's, each made in the block or an identity of it. Errors: GraphError.
        Gradient: through the block. Source: MPSGraph controlDependencyWithOperations:dependentBlock:name:.

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
        """The results of one of two blocks; only that one runs.

        Args: predicate, bool of one element; then, else_, functions without arguments that return a tensor or a
        sequence, as many on both sides and of equal dtypes and shapes. Result: a list of tensors. On the CPU device a
        predicate that is fed, or made of up to three fed flags alone, chooses before the program is compiled: the other
        side costs nothing, and each side is compiled when it is first taken.
        Errors: GraphError for different numbers of results, ShapeError, DTypeError. Gradient: of the side that runs.
        Source: MPSGraph ifWithPredicateTensor:thenBlock:elseBlock:name:.

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
        """Repeats as long as a condition holds.

        values = initial; loop: condition, results = before(*values); if not condition: return results;
        values = after(*results).
        Args: initial, tensors; before, returns a bool tensor of one element and the results; after, returns the next
        values, of the types of `initial`. Result: a list, the results at the end. Errors: GraphError, ShapeError,
        DTypeError. Gradient: through the iterations that ran, backwards, to `initial` and all that the blocks use from
        outside; UnsupportedError on device metal where it needs values of the iterations, whose number is not known.
        Source: MPSGraph whileWithInitialInputs:before:after:name:.

        >>> g = mg.Graph()
        >>> doubled = g.while_([g.constant(3.0)], lambda x: (x < 20, x), lambda x: x * 2)
        >>> g.run({}, doubled[0]).item()
        24.0
        """

        def condition_and_results(*arguments: Tensor) -> list[Tensor]:
            pair = before(*arguments)
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise GraphError(f"[while] before must return (condition, results), got {shown(pair)}")
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
        """Repeats a fixed number of times: `for_(lower, upper, step, initial, body)` or `for_(count, initial=, body=)`.

        values = initial; for index in range(lower, upper, step): values = body(index, *values).
        Args: lower, upper, step, ints or int32 tensors of rank 0; initial, tensors; body, returns as many values of the
        same types. Result: a list, the values at the end. Errors: GraphError, ShapeError, DTypeError.
        Gradient: through the iterations backwards, to `initial` and all that the body uses from outside; on device
        metal UnsupportedError where it needs values of the iterations, unless the bounds are constants. There a step
        of 0 that only a run knows makes no iterations, which is an error on the CPU device.
        Source: MPSGraph forLoopWithLowerBound:upperBound:step:initialBodyArguments:body:name: and
        forLoopWithNumberOfIterations:initialBodyArguments:body:name:.

        >>> g = mg.Graph()
        >>> total = g.for_(4, initial=[g.constant(0)], body=lambda i, s: s + i)
        >>> g.run({}, total[0]).item()
        6
        """
        if body is None:
            raise GraphError("[for] body is missing: g.for_(count, initial=[...], body=lambda i, *values: ...)")
        if upper is None:
            lower, upper = 0, lower
        bounds = [self._operands("for", [bound])[0] for bound in (lower, upper, step)]
        block = self._block(body, [(int32, ()), *(t.type for t in initial)])
        return list(self._operation("for", [*bounds, *initial], None, name, [block]).outputs)

    def _block(self, build: Callable[..., Results], argument_types: Sequence[tuple[DType, Any]] = ()) -> Block:
        """The block that `build` makes of arguments of these types; nothing stays after an exception."""
        block = self.begin_block(argument_types)
        try:
            return self.finish_block(block, as_list(build(*block.arguments), "block"))
        except BaseException:
            self.abandon_block(block)
            raise


def as_list(results: Results, what: str) -> list[Tensor]:
    """One tensor or a sequence as a list. GraphError when there is something else in it."""
    tensors = (
        [results] if isinstance(results, Tensor) else list(results) if isinstance(results, (list, tuple)) else None
    )
    if tensors is None or not all(isinstance(t, Tensor) for t in tensors):
        raise GraphError(f"the {what} must return a tensor or a sequence of tensors, got {shown(results)}")
    return tensors
