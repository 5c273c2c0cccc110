"""Loss scaling: gradients that float16 can hold, and steps that are left out when it cannot.

The loss is differentiated times a scale, a power of two, so that small gradients do not vanish in float16; before the
optimizer sees them they are divided by it in float32. Everything, the test for overflow, the step that is left out and
the next scale, happens in the graph: no value comes back to the host for it.
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
    """Another optimizer, whose rate and state it has, for gradients of a scaled loss.

    A step with a gradient that is infinite or NaN changes nothing but the scale, which becomes scale * backoff: no
    weight, no state of the optimizer, and none of the variables whose values `updates` gets to restore. After
    `interval` good steps in a row it becomes scale * growth, up to 2^24. Args: optimizer; initial, growth, backoff and
    interval, Keras's and PyTorch's defaults. State, which checkpoints carry: "loss_scale/scale" and
    "loss_scale/good_steps". Errors: GraphError. Micikevicius et al., arXiv:1710.03740.

    >>> g = mg.Graph()
    >>> v = g.variable([1.0])
    >>> optimizer = mg.optim.LossScaling(mg.optim.SGD(0.5), initial=1024.0)
    >>> slopes = g.gradients(g.reduction_sum(v * 3), [v], start=optimizer.start(g, (1,)))
    >>> _ = g.run({}, [], optimizer.updates(slopes, g.constant(0.5)))
    >>> g.variable_value(v).tolist()
    [-0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        initial: Positive = 2.0**15,
        growth: Positive = 2.0,
        backoff: Positive = 0.5,
        interval: Size = 2000,
    ) -> None:
        super().__init__(optimizer)
        if not SMALLEST <= initial <= LARGEST or math.frexp(initial)[0] != 0.5:
            raise GraphError(f"LossScaling: initial must be a power of two from 2^-14 to 2^24, got {initial}")
        if not (growth > 1 > backoff > 0 and math.frexp(growth)[0] == math.frexp(backoff)[0] == 0.5):
            raise GraphError(f"LossScaling: powers of two, growth > 1 > backoff > 0, got {growth} and {backoff}")
        self.initial, self.interval = initial, interval
        self.growth, self.backoff = growth, backoff
        self._scale: Tensor | None = None
        self._skipped: Tensor | None = None
        self._good_steps: Tensor | None = None

    def start(self, graph: Graph, shape: tuple[int, ...] = ()) -> Tensor:
        """The scale, in a loss's shape: `start` for the gradients of the loss."""
        if self._scale is None:
            self._scale = graph.variable(self.initial, float32, "loss_scale/scale", trainable=False)
        scale = graph.read(self._scale)
        return graph.broadcast_to(scale, shape) if len(shape) else scale

    @property
    def scale(self) -> Tensor:
        """The variable that holds the scale of the next step. GraphError before `start`."""
        if self._scale is None:
            raise GraphError("LossScaling: differentiate the scaled loss first, gradients(loss, ..., start=o.start(g))")
        return self._scale

    @property
    def skipped(self) -> Tensor:
        """1 in a run whose gradients overflowed, else 0: float32 of rank 0. GraphError before `updates`."""
        if self._skipped is None:
            raise GraphError("LossScaling: there are no updates yet")
        return self._skipped

    def updates(
        self,
        gradients: Mapping[Tensor, Tensor],
        learning_rate: Tensor,
        restored: Mapping[Tensor, Tensor] | None = None,
    ) -> list[Operation]:
        """As Optimizer.updates. Args: restored, variables that the forward pass has changed, such as moving averages,
        by what they held before it, which is a `read` from before: a step that is left out gives it back to them."""
        if not gradients:
            raise GraphError("there is nothing to train: no gradients were given")
        graph: Graph = next(iter(gradients)).graph  # type: ignore[assignment]
        gradients = {v: d for v, d in gradients.items() if not self.freezes(v)}
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
        """How many numbers of the gradients are infinite or NaN."""
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
