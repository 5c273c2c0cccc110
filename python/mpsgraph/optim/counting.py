"""Counting, the base class of optimizers whose step depends on the number of steps made.

Bias corrections are differences of numbers close to 1 while few steps have been made, so they are computed by formulas
without cancellation: float32 would otherwise lose most digits of 1 - 0.9999^t.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from .._core import DType, Operation, Tensor
from .optimizers import Optimizer


class Counting(Optimizer):
    """Base class of optimizers that count steps, in a state shared by all parameters."""

    def updates(self, gradients: Mapping[Tensor, Tensor], learning_rate: Tensor) -> list[Operation]:
        self._corrections: dict[tuple[float, DType], Tensor] = {}  # Shared by the parameters of one step.
        return super().updates(gradients, learning_rate)

    def _count(self, dtype: DType) -> Tensor:
        """Return the number of the current step, counted from 1."""
        return self.graph.read(self.common_state("step", dtype)) + 1.0

    def finish(self) -> list[Operation]:
        g = self.graph
        counts = [state for (variable, _), state in self._states.items() if variable is None]
        return [g.assign(state, g.read(state) + 1.0) for state in counts if state.name.split("/")[-1][:4] == "step"]

    def _correction(self, beta: float, dtype: DType) -> Tensor:
        """Return 1 - beta^t for the current step t, as -2 sinh(a / 2) e^(a / 2) with a = t ln(beta)."""
        if (beta, dtype) not in self._corrections:
            g = self.graph
            if not beta:
                self._corrections[beta, dtype] = g.constant(1.0, dtype=dtype)
            else:
                half = g.maximum(self._count(dtype) * (math.log(beta) / 2), -40.0)  # Below -40, sinh could overflow.
                self._corrections[beta, dtype] = g.sinh(half) * g.exponent(half) * -2.0
        return self._corrections[beta, dtype]

    def _power(self, base: float, exponent: Tensor) -> Tensor:
        return self.graph.power(self.graph.constant(base, dtype=exponent.dtype), exponent)
