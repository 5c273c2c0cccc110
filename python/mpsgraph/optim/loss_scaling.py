"""Loss scaling, which keeps gradients in float16's range and skips steps in which they overflow.

The loss is multiplied by a scale, a power of two, before differentiation, so that small gradients do not vanish in
float16. The gradients are divided by the scale in float32 before the optimizer uses them. The overflow check, the
skipped step, and the next scale are all computed in the graph; no value is copied to the host.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from .._checks import Positive, Size
from .._core import Operation, Tensor, float32, int32
from ..errors import GraphError
from ..graph import Graph
from .optimizers import Around, Optimizer

LARGEST, SMALLEST = 2.0**24, 2.0**-14


class LossScaling(Around):
    """Wrap an optimizer for gradients of a scaled loss, with a scale that adapts to overflow.

    If a gradient is infinite or NaN, the step changes nothing but the scale, which becomes scale * backoff: weights,
    optimizer state, and the variables passed to `updates` as `restored` keep their values. After `interval` good steps
    in a row, the scale becomes scale * growth, at most 2^24. Checkpoints include the state variables "loss_scale/scale"
    and "loss_scale/good_steps".

    Args:
        optimizer: Optimizer to wrap, which provides learning rate and state.
        initial: Initial scale, a power of two from 2^-14 to 2^24. Defaults to 2^15.
        growth: Factor after `interval` good steps, a power of two above 1. Defaults to 2.
        backoff: Factor after an overflow, a power of two between 0 and 1. Defaults to 0.5.
        interval: Number of good steps before the scale grows. Defaults to 2000, as in Keras and PyTorch.

    Raises:
        GraphError: If initial, growth, or backoff is invalid.

    Source: Micikevicius et al., arXiv:1710.03740.

    Example:
        >>> g = mg.Graph()
        >>> v = g.variable([1.0])
        >>> optimizer = mg.optim.LossScaling(mg.optim.SGD(0.5), initial=1024.0)
        >>> slopes = g.gradients(g.reduction_sum(v * 3), [v], start=optimizer.start(g, (1,)))
        >>> _ = g.run({}, [], optimizer.updates(slopes, g.constant(0.5)))
        >>> g.variable_value(v).tolist()
        [-0.5]
    """

    _unwatched = Optimizer._unwatched | {"_scale", "_skipped", "_good_steps"}
    _fixed = frozenset(("initial",))

    def __init__(
        self,
        optimizer: Optimizer,
        initial: Positive = 2.0**15,
        growth: Positive = 2.0,
        backoff: Positive = 0.5,
        interval: Size = 2000,
    ) -> None:
        super().__init__(optimizer)
        self.initial, self.interval = initial, interval
        self.growth, self.backoff = growth, backoff
        self._require_powers_of_two()
        self._scale: Tensor | None = None
        self._skipped: Tensor | None = None
        self._good_steps: Tensor | None = None

    def _require_powers_of_two(self) -> None:
        """Raise GraphError if initial, growth, or backoff, which may have been set after construction, is invalid."""
        initial, growth, backoff = self.initial, self.growth, self.backoff
        if not SMALLEST <= initial <= LARGEST or math.frexp(initial)[0] != 0.5:
            raise GraphError(f"LossScaling: initial must be a power of two from 2^-14 to 2^24, got {initial}")
        if not (growth > 1 > backoff > 0 and math.frexp(growth)[0] == math.frexp(backoff)[0] == 0.5):
            raise GraphError(
                "LossScaling: growth must be a power of two above 1, and backoff a power of two between 0 and 1, "
                f"got growth={growth} and backoff={backoff}"
            )

    def start(self, graph: Graph, shape: tuple[int, ...] = ()) -> Tensor:
        """Return the scale in the shape of a loss, to pass as `start` when the loss is differentiated.

        Args:
            graph: Graph of the loss.
            shape: Shape of the loss. Defaults to rank 0.

        Returns:
            A float32 tensor of that shape.
        """
        if self._scale is None:
            self._scale = graph.variable(self.initial, float32, "loss_scale/scale", trainable=False)
        scale = graph.read(self._scale)
        return graph.broadcast_to(scale, shape) if len(shape) else scale

    @property
    def scale(self) -> Tensor:
        """Variable that holds the scale of the next step.

        Raises:
            GraphError: If `start` has not been called yet.
        """
        if self._scale is None:
            raise GraphError(
                "LossScaling has no scale yet: differentiate the scaled loss first, with start=optimizer.start(graph)"
            )
        return self._scale

    @property
    def skipped(self) -> Tensor:
        """A float32 scalar tensor whose value is 1 in a run whose gradients overflowed, and 0 otherwise.

        Raises:
            GraphError: If `updates` has not been called yet.
        """
        if self._skipped is None:
            raise GraphError("LossScaling has no step yet: call updates() first")
        return self._skipped

    def updates(
        self,
        gradients: Mapping[Tensor, Tensor],
        learning_rate: Tensor,
        restored: Mapping[Tensor, Tensor] | None = None,
    ) -> list[Operation]:
        """Return the operations of one step, which is skipped if a gradient is not finite.

        Args:
            gradients: Dict of gradients of the scaled loss, keyed by variable.
            learning_rate: Rate of the step: a tensor of rank 0, or one rate per group.
            restored: Dict of values to restore in a skipped step, keyed by variable, for variables that the forward
                pass changes, such as moving averages. Each value is a `read` made before the forward pass. Defaults to
                none.

        Returns:
            Operations to pass to a run as target operations.

        Raises:
            GraphError: If gradients is empty, or the optimizer has its state in another graph.
        """
        if not gradients:
            raise GraphError("there is nothing to train: gradients is empty")
        graph: Graph = next(iter(gradients)).graph  # type: ignore[assignment]
        gradients = {v: d for v, d in gradients.items() if not self.freezes(v)}
        self._require_powers_of_two()
        self._graph, scale = graph, graph.read(self.scale)
        finite = graph.equal(self.not_finite(gradients), 0.0)
        unscale = 1.0 / scale

        def wide(gradient: Tensor) -> Tensor:
            return self._in(float32, gradient) if gradient.dtype.itemsize == 2 else gradient

        def step() -> Tensor:
            slopes = {v: wide(d) * self._in(wide(d).dtype, unscale) for v, d in gradients.items()}
            made = self.optimizer.updates(slopes, learning_rate)
            return graph.control_dependency(made, lambda: graph.constant(0.0))

        def leave_out() -> Tensor:
            made = [graph.assign(variable, before) for variable, before in (restored or {}).items()]
            return graph.control_dependency(made, lambda: graph.constant(1.0)) if made else graph.constant(1.0)

        self._skipped = graph.if_(finite, step, leave_out)[0]
        return [self._skipped.operation, *self._next_scale(scale, finite)]

    def not_finite(self, gradients: Mapping[Tensor, Tensor]) -> Tensor:
        """Return the number of elements of the gradients that are infinite or NaN.

        Args:
            gradients: Dict of gradients, keyed by variable.

        Returns:
            A float32 tensor of rank 0.
        """
        g, total = self.graph, None
        for gradient in gradients.values():
            bad = g.cast(g.not_(g.is_finite(gradient)), float32)
            count = g.reshape(g.reduction_sum(bad), ())
            total = count if total is None else total + count
        assert total is not None
        return total

    def _next_scale(self, scale: Tensor, finite: Tensor) -> list[Operation]:
        g = self.graph
        if self._good_steps is None:
            self._good_steps = g.variable(0, int32, "loss_scale/good_steps", trainable=False)
        steps = self._good_steps
        good = g.select(finite, steps + 1, g.constant(0))
        full = g.greater_than_or_equal_to(good, self.interval)
        grown = g.select(full, g.minimum(scale * self.growth, LARGEST), scale)
        smaller = g.maximum(scale * self.backoff, SMALLEST)
        return [
            g.assign(self.scale, g.select(finite, grown, smaller)),
            g.assign(steps, g.select(full, g.constant(0), good)),
        ]
