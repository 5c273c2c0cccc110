"""GradientSums: the gradients of several batches, accumulated for one update."""

from __future__ import annotations

from collections.abc import Iterable

from .._core import ConstantData, Operation, Tensor, float32
from ..graph import Graph

SUM = "/gradient_sum"  # End of the names of gradient sums.


class GradientSums:
    """Sums of one optimizer's gradients over several batches, with a weight for each batch.

    The sums of float16 and bfloat16 gradients are float32: in 16 bits, adding a gradient to a sum that is a few hundred
    times as large would not change the sum.
    """

    def __init__(self) -> None:
        self.sums: dict[Tensor, Tensor] = {}
        self.weight: Tensor | None = None

    def add(
        self, g: Graph, gradients: dict[Tensor, Tensor], weight: Tensor, factor: Tensor | float
    ) -> tuple[dict[Tensor, Tensor], Tensor, list[Operation], list[Operation]]:
        """Add the gradients of a batch, multiplied by a factor.

        Return the sums, their total weight, the operations that store both, and the operations that reset both.
        """
        if self.weight is None:
            self.weight = g.variable(0.0, weight.dtype, "gradient_sum/weight", trainable=False)
        whole = g.read(self.weight) + weight
        totals: dict[Tensor, Tensor] = {}
        storing = [g.assign(self.weight, whole)]
        emptying = [g.assign(self.weight, g.constant(0.0, dtype=weight.dtype))]
        for variable, gradient in gradients.items():
            dtype = float32 if gradient.dtype.itemsize == 2 else gradient.dtype
            if variable not in self.sums:
                zeros = ConstantData.splat(0.0, variable.shape or (), dtype)
                self.sums[variable] = g.variable(zeros, None, variable.name + SUM, trainable=False)
            wide = gradient if gradient.dtype == dtype else g.cast(gradient, dtype)
            share = g.cast(factor, dtype) if isinstance(factor, Tensor) and factor.dtype != dtype else factor
            totals[variable] = g.read(self.sums[variable]) + wide * share
            storing.append(g.assign(self.sums[variable], totals[variable]))
        return totals, whole, storing, emptying + self.emptying(g, gradients)

    def emptying(self, g: Graph, variables: Iterable[Tensor]) -> list[Operation]:
        """Return the operations that reset the gradient sums of the given variables."""
        sums = [(self.sums[v], v.shape or ()) for v in variables]
        return [g.assign(total, g.constant(0.0, shape, total.dtype)) for total, shape in sums]
