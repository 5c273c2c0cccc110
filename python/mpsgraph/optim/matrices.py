"""Adafactor and Muon, optimizers that treat parameters as matrices: by rows and columns, or by singular values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from .._checks import BelowOne, Finite, NotNegative, Positive, Size
from .._core import Operation, Tensor
from ..errors import GraphError, ShapeError
from ..graph import Graph, variables_outputs_first
from .counting import Counting
from .optimizers import Optimizer
from .schedules import Schedule


class Adafactor(Counting):
    """Adafactor: Adam without momentum, with mean squares kept by row and by column.

    The state of a parameter (..., n, m) is n + m numbers instead of n * m; for rank 0 or 1 it has the parameter's size.
    With b = t^beta2_decay, r += b * (mean of d^2 over m - r) and c += b * (mean of d^2 over n - c). With u = d / sqrt(r
    c / mean of r), values -= max(epsilon2, rms(values)) * min(rate, 1 / sqrt(t)) * u / max(1, rms(u) / clip_threshold).
    Weight decay first shrinks the values by rate * weight_decay. Corresponds to PyTorch's Adafactor.

    Args:
        learning_rate: Number or schedule. Defaults to 0.01.
        beta2_decay: Exponent of the step number in the decay of the means, at most 0. Defaults to -0.8.
        epsilon1: Lower bound of means and roots, above 0. None, the default, means the machine epsilon of the dtype.
        epsilon2: Lower bound of the root mean square of the values. Defaults to 1e-3.
        clip_threshold: Root mean square to which the update u is clipped, above 0. Defaults to 1.
        weight_decay: Decoupled weight decay. Defaults to 0.

    Raises:
        GraphError: If an option is out of range or passed under two names.

    Source: Shazeer and Stern, arXiv:1804.04235.

    Example:
        >>> g = mg.Graph()
        >>> v = g.variable([[3.0, 4.0]])
        >>> optimizer = mg.optim.Adafactor(0.1)
        >>> _ = g.run({}, [], optimizer.updates({v: g.constant([[2.0, 2.0]])}, g.constant(0.1)))
        >>> round(float(g.variable_value(v)[0, 0]), 3)
        2.646
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 0.01,
        beta2_decay: Finite = -0.8,
        epsilon1: Positive | None = None,
        epsilon2: NotNegative = 1e-3,
        clip_threshold: Positive = 1.0,
        weight_decay: NotNegative = 0.0,
    ) -> None:
        super().__init__(learning_rate)
        if beta2_decay > 0:
            raise GraphError(f"Adafactor: beta2_decay must be at most 0, got {beta2_decay}")
        self.beta2_decay, self.epsilon1, self.epsilon2 = beta2_decay, epsilon1, epsilon2
        self.clip_threshold, self.weight_decay = clip_threshold, weight_decay

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        g, count = self.graph, self._count(values.dtype)
        epsilon = float(np.finfo(values.dtype.numpy).eps) if self.epsilon1 is None else self.epsilon1
        share = g.power(count, g.constant(self.beta2_decay, dtype=values.dtype))
        rate = g.minimum_with_nan_propagation(learning_rate, 1.0 / g.square_root(count))
        scale = g.maximum_with_nan_propagation(self._root_mean_square(values), self.epsilon2)
        if self.weight_decay:
            values = values * (1.0 - learning_rate * self.weight_decay)
        squares = g.square(gradient)
        if len(variable.shape or ()) > 1:
            rows, row_assign = self._mean(variable, "rows", g.mean(squares, -1), share)
            columns, column_assign = self._mean(variable, "columns", g.mean(squares, -2), share)
            whole = g.maximum_with_nan_propagation(g.mean(rows, -2), epsilon)
            spread, assigns = rows * columns / whole, [row_assign, column_assign]
        else:
            spread, assign = self._mean(variable, "velocity", squares, share)
            assigns = [assign]
        slope = gradient / g.square_root(g.maximum_with_nan_propagation(spread, epsilon * epsilon))
        length = g.maximum_with_nan_propagation(self._root_mean_square(slope) * (1 / self.clip_threshold), 1.0)
        return values - scale * rate / length * slope, assigns

    def _mean(self, variable: Tensor, name: str, squares: Tensor, share: Tensor) -> tuple[Tensor, Operation]:
        """Move a running mean toward `squares` by the fraction `share`. Return the new mean and the operation that
        stores it.
        """
        state = self.state_of_shape(variable, tuple(squares.shape or ()), squares.dtype, name)
        moved = state + share * (squares - state)
        return moved, self.graph.assign(state, moved)

    def _root_mean_square(self, x: Tensor) -> Tensor:
        g = self.graph
        return g.square_root(g.reshape(g.mean(g.square(x), list(range(len(x.shape or ())))), ()) if x.shape else x * x)


class Muon(Optimizer):
    """Muon: momentum whose singular values are all brought near 1, for the weight matrices inside a network.

    With gradients d, m += (1 - momentum) * (d - m), and u = m, or d + momentum * (m - d) with nesterov. Starting from X
    = u / |u|, X = a X + (b A + c A^2) X with A = X X^T is repeated `iterations` times (Newton-Schulz, with the shorter
    side first). Then values = values * (1 - rate * weight_decay) - rate * factor * X.

    Muon updates parameters of rank 2. Their axes are taken as (inputs, outputs), except in recurrent layers and
    embeddings, and in other parameters that a module adds with outputs_first=True, where the axes are (outputs,
    inputs). Embeddings and the last layer are better trained by AdamW. PyTorch's Muon computes X in bfloat16; here it
    is computed in the precision of the step.

    Args:
        learning_rate: Number or schedule. Defaults to 1e-3.
        weight_decay: Decoupled weight decay. Defaults to 0.1.
        momentum: Decay of the mean of gradients, in [0, 1). Defaults to 0.95.
        nesterov: Whether to use Nesterov momentum. Defaults to True.
        coefficients: a, b, and c of the iteration. Defaults to (3.4445, -4.775, 2.0315).
        epsilon: Lower bound of |u|, above 0. Defaults to 1e-7.
        iterations: Number of Newton-Schulz iterations. Defaults to 5.
        adjustment: How the factor depends on the shape (n inputs, m outputs) of the weight: "original", or None, the
            default, for sqrt(max(1, m / n)); "match_rms_adamw" for 0.2 * sqrt(max(n, m)), which allows AdamW's rates
            and decay to be kept.
        others: Optimizer of parameters of other ranks, such as AdamW(3e-4). None, the default, raises an error for such
            parameters.

    Raises:
        GraphError: If an option is out of range or passed under two names.
        ShapeError: If a parameter is not of rank 2 and others is None.

    Source: Jordan, 2024; Liu et al., arXiv:2502.16982 for "match_rms_adamw".

    Example:
        >>> g = mg.Graph()
        >>> v = g.variable([[1.0, 0.0], [0.0, 1.0]])
        >>> optimizer = mg.optim.Muon(0.5, weight_decay=0.0)
        >>> _ = g.run({}, [], optimizer.updates({v: g.constant([[4.0, 0.0], [0.0, 4.0]])}, g.constant(0.5)))
        >>> round(float(g.variable_value(v)[0, 0]), 3)
        0.446
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 1e-3,
        weight_decay: NotNegative = 0.1,
        momentum: BelowOne = 0.95,
        nesterov: bool = True,
        coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        epsilon: Positive = 1e-7,
        iterations: Size = 5,
        adjustment: Literal["original", "match_rms_adamw"] | None = None,
        others: Optimizer | None = None,
    ) -> None:
        super().__init__(learning_rate)
        self.weight_decay, self.momentum, self.nesterov = weight_decay, momentum, nesterov
        self.coefficients, self.epsilon, self.iterations = coefficients, epsilon, iterations
        self.adjustment, self.others = adjustment, others

    def with_options(self, **options: Any) -> Optimizer:
        if self.others is not None:  # The copy must not share the state of the other optimizer.
            options.setdefault("others", self.others.with_options())
        return super().with_options(**options)

    def rates(self) -> list[Schedule]:
        return [*super().rates(), *(self.others.rates() if self.others is not None else ())]

    def scale_learning_rate(self, factor: float) -> None:
        super().scale_learning_rate(factor)
        if self.others is not None:
            self.others.scale_learning_rate(factor)

    def _innermost(self) -> list[Optimizer]:
        return [self, *(self.others._innermost() if self.others is not None else ())]

    def freezes(self, variable: Tensor) -> bool:
        return self.others is not None and not _is_matrix(variable) and self.others.freezes(variable)

    def updates(self, gradients: Mapping[Tensor, Tensor], learning_rate: Tensor) -> list[Operation]:
        matrices = {v: d for v, d in gradients.items() if _is_matrix(v)}
        rest = {v: d for v, d in gradients.items() if v not in matrices}
        if self.others is None:
            for variable in rest:
                raise ShapeError(
                    f"Muon updates only matrices, but {variable.name} has shape {tuple(variable.shape or ())}: pass "
                    "others=AdamW(3e-4), or give such parameters a different optimizer with ParameterGroups"
                )
            return super().updates(gradients, learning_rate)
        own, theirs = learning_rate, learning_rate
        if len(learning_rate.shape or ()):
            g: Graph = learning_rate.graph  # type: ignore[assignment]
            own, theirs = g.reshape(learning_rate[:1], ()), learning_rate[1:]
            if len(self.others.rates()) == 1:
                theirs = g.reshape(theirs, ())
        operations = super().updates(matrices, own) if matrices or not rest else []
        return operations + (self.others.updates(rest, theirs) if rest else [])

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        g, momentum = self.graph, self.state(variable, values, "momentum")
        moved = momentum + (gradient - momentum) * (1 - self.momentum)
        slope = gradient + (moved - gradient) * self.momentum if self.nesterov else moved
        inputs, outputs = variable.shape or ()
        if variable in variables_outputs_first(g):
            inputs, outputs = outputs, inputs
        if self.adjustment == "match_rms_adamw":
            factor = 0.2 * math.sqrt(max(inputs, outputs))
        else:
            factor = math.sqrt(max(1.0, outputs / inputs))
        if self.weight_decay:
            values = values * (1.0 - learning_rate * self.weight_decay)
        return values - learning_rate * factor * self._orthogonal(slope), [g.assign(momentum, moved)]

    def _orthogonal(self, x: Tensor) -> Tensor:
        """Return an approximately orthogonal matrix: x with all its singular values moved close to 1."""
        g, (a, b, c) = self.graph, self.coefficients
        rows, columns = x.shape or ()
        if rows > columns:
            x = g.transpose(x, (1, 0))
        norm = g.square_root(g.reshape(g.reduction_sum(g.square(x)), ()))
        x = x / g.maximum_with_nan_propagation(norm, self.epsilon)
        for _ in range(self.iterations):
            square = x @ g.transpose(x, (1, 0))
            x = x * a + (square * b + (square @ square) * c) @ x
        return g.transpose(x, (1, 0)) if rows > columns else x


def _is_matrix(variable: Tensor) -> bool:
    return len(variable.shape or ()) == 2
