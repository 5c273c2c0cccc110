"""Gradient clipping: optimizers that wrap another optimizer and bound its gradients."""

from __future__ import annotations

from collections.abc import Mapping

from .._checks import Finite, Positive
from .._core import Operation, Tensor, float32, float64, int32
from ..errors import GraphError
from .optimizers import Around, Optimizer


class _Clipped(Around):
    """Base class of the clipping optimizers. Subclasses define how gradients are clipped."""

    def updates(self, gradients: Mapping[Tensor, Tensor], learning_rate: Tensor) -> list[Operation]:
        if gradients:
            self._graph = next(iter(gradients)).graph  # type: ignore[assignment]
        trained = {v: d for v, d in gradients.items() if not self.freezes(v)}
        return self.optimizer.updates(self.clipped(trained), learning_rate)

    def clipped(self, gradients: Mapping[Tensor, Tensor]) -> dict[Tensor, Tensor]:
        """Return the clipped gradients, keyed by variable.

        Args:
            gradients: Dict of gradients, keyed by variable.
        """
        raise NotImplementedError


class ClipByValue(_Clipped):
    """Clip each element of the gradients to a range, then take the wrapped optimizer's step.

    NaN stays NaN. Corresponds to PyTorch's clip_grad_value_, Keras's clipvalue, and MPSNNOptimizer's gradientClipMin
    and gradientClipMax.

    Args:
        optimizer: Optimizer to wrap, which provides learning rate and state.
        maximum: Upper bound.
        minimum: Lower bound. None, the default, means -maximum.

    Raises:
        GraphError: If minimum is not below maximum.

    Example:
        >>> g = mg.Graph()
        >>> v = g.variable([1.0, 1.0])
        >>> optimizer = mg.optim.ClipByValue(mg.optim.SGD(0.5), 1.0)
        >>> _ = g.run({}, [], optimizer.updates({v: g.constant([4.0, -0.5])}, g.constant(0.5)))
        >>> g.variable_value(v).tolist()
        [0.5, 1.25]
    """

    def __init__(self, optimizer: Optimizer, maximum: Finite, minimum: Finite | None = None) -> None:
        super().__init__(optimizer)
        self.maximum, self.minimum = maximum, -maximum if minimum is None else minimum
        self._require_order()

    def _require_order(self) -> None:
        """Raise GraphError if the bounds, which may have been set after construction, are not in order."""
        if self.minimum >= self.maximum:
            raise GraphError(
                f"ClipByValue: minimum must be below maximum, got minimum={self.minimum} and maximum={self.maximum}"
            )

    def clipped(self, gradients: Mapping[Tensor, Tensor]) -> dict[Tensor, Tensor]:
        self._require_order()
        g = self.graph

        def within(d: Tensor) -> Tensor:  # `clamp` would replace NaN with a bound.
            return g.minimum_with_nan_propagation(g.maximum_with_nan_propagation(d, self.minimum), self.maximum)

        return {v: within(d) for v, d in gradients.items()}


class ClipByNorm(_Clipped):
    """Scale all gradients down together if their joint norm exceeds a maximum, then take the wrapped optimizer's step.

    Gradients are multiplied by min(1, maximum / (norm + 1e-6)), where norm is the root of the sum of all squares. A NaN
    norm makes all gradients NaN; an infinite one makes finite gradients zero and the others NaN. Corresponds to
    PyTorch's clip_grad_norm_ and Keras's global_clipnorm.

    Args:
        optimizer: Optimizer to wrap, which provides learning rate and state.
        maximum: Maximum norm, above 0.
        error_if_nonfinite: Whether a step with a non-finite norm raises OutOfRangeError, which names
            "norm_is_not_finite", and changes nothing. Defaults to False.

    Raises:
        GraphError: If maximum is not above 0.

    Source: Pascanu et al., arXiv:1211.5063.

    Example:
        >>> g = mg.Graph()
        >>> v = g.variable([1.0, 1.0])
        >>> optimizer = mg.optim.ClipByNorm(mg.optim.SGD(1.0), 5.0)
        >>> _ = g.run({}, [], optimizer.updates({v: g.constant([30.0, 40.0])}, g.constant(1.0)))
        >>> g.variable_value(v).round(3).tolist()
        [-2.0, -3.0]
    """

    def __init__(self, optimizer: Optimizer, maximum: Positive, *, error_if_nonfinite: bool = False) -> None:
        super().__init__(optimizer)
        self.maximum, self.error_if_nonfinite = maximum, error_if_nonfinite

    def clipped(self, gradients: Mapping[Tensor, Tensor]) -> dict[Tensor, Tensor]:
        if not gradients:
            return {}
        g = self.graph
        wide = float64 if any(d.dtype == float64 for d in gradients.values()) else float32
        parts = [g.reshape(g.reduction_sum(g.square(self._in(wide, d))), ()) for d in gradients.values()]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        factor = g.minimum_with_nan_propagation(self.maximum / (g.square_root(total) + 1e-6), 1.0)
        if self.error_if_nonfinite:
            # If the norm is not finite, the index is 1, which is out of range for a table with one entry.
            wrong = g.cast(g.not_(g.is_finite(g.reshape(total, (1,)))), int32, name="norm_is_not_finite")
            factor = factor * g.reshape(g.gather(g.constant([1.0], dtype=wide), wrong, out_of_range="error"), ())
        return {v: self._in(d.dtype, self._in(wide, d) * factor) for v, d in gradients.items()}
