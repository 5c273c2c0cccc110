"""Mean, variance, and normalization over any axes; batch, instance, and layer normalization differ only in their axes.

Reduced axes stay with size 1, so that means and variances broadcast with the input. Moving averages are not part of
these operations: mpsgraph.nn.BatchNorm keeps them in variables.
"""

from __future__ import annotations

from ._family import Axes, Tensor, axes_attribute
from .derived import Derived


class Normalization(Derived):
    """Graph methods for mean, variance, normalization, and the gradients of normalization."""

    def normalization(
        self,
        x: Tensor,
        mean: Tensor,
        variance: Tensor,
        gamma: Tensor | None = None,
        beta: Tensor | None = None,
        epsilon: float = 1e-5,
        name: str | None = None,
    ) -> Tensor:
        """Normalize x with a given mean and variance, then scale and shift it.

        result = gamma * (x - mean) / sqrt(variance + epsilon) + beta.

        Args:
            x: Floating-point tensor.
            mean: Mean, with the dtype of x and a shape that broadcasts to it.
            variance: Variance, with the dtype of x and a shape that broadcasts to it.
            gamma: Scale, with the dtype of x and a shape that broadcasts to it. None, the default, means 1.
            beta: Shift, with the dtype of x and a shape that broadcasts to it. None, the default, means 0.
            epsilon: Number added to the variance. Defaults to 1e-5.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            ShapeError: If an operand does not broadcast to x.
            DTypeError: If x is not floating-point or the dtypes differ.

        Gradient: to all operands. With batch statistics, gradients also reach x through `mean` and `variance`.

        Source: MPSGraph normalizationWithTensor:meanTensor:varianceTensor:gammaTensor:betaTensor:epsilon:name:.

        Example:
            >>> g = mg.Graph()
            >>> x = g.constant([1.0, 5.0])
            >>> g.run({}, g.normalization(x, g.mean(x), g.variance(x), epsilon=0.0)).tolist()
            [-1.0, 1.0]
        """
        inputs = [t for t in (x, mean, variance, gamma, beta) if t is not None]
        has = {"has_gamma": gamma is not None, "has_beta": beta is not None}
        return self._tensor("normalization", inputs, name, epsilon=float(epsilon), **has)

    def normalization_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        mean: Tensor,
        variance: Tensor,
        gamma: Tensor | None = None,
        gamma_gradient: Tensor | None = None,
        beta_gradient: Tensor | None = None,
        axes: Axes = None,
        epsilon: float = 1e-5,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient, with respect to source, of a normalization with the mean and variance of source.

        result = gamma / sqrt(variance + epsilon) * (incoming - beta_gradient / n - (source - mean) /
        sqrt(variance + epsilon) * gamma_gradient / n), where each mean and variance is that of n elements of source
        along `axes`.

        Args:
            incoming: Gradient with respect to the result of normalization, with the shape of that result.
            source: The input of normalization.
            mean: Mean of source over `axes`.
            variance: Variance of source over `axes`.
            gamma: The scale given to normalization. None, the default, means 1.
            gamma_gradient: Result of normalization_gamma_gradient. None, the default, computes it.
            beta_gradient: Result of normalization_beta_gradient. None, the default, computes it.
            axes: Axes of the statistics: an int, a sequence of ints, or None (the default) for all.
            epsilon: The epsilon given to normalization. Defaults to 1e-5.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of source.

        Raises:
            ShapeError: If the shapes do not match, or an axis is out of range.
            DTypeError: If the dtypes differ or are not floating-point.

        Gradient: derived from the operation's decomposition.

        Source: MPSGraph normalizationGradientWithIncomingGradientTensor:sourceTensor:
        meanTensor:varianceTensor:gammaTensor:gammaGradientTensor:betaGradientTensor:reductionAxes:epsilon:name:.

        Example:
            >>> g = mg.Graph()
            >>> x = g.constant([1.0, 5.0])
            >>> d = g.normalization_gradient(g.constant([1.0, 1.0]), x, g.mean(x), g.variance(x), axes=0, epsilon=0.0)
            >>> g.run({}, d).tolist()
            [0.0, 0.0]
        """
        kind = "normalization_gradient"
        reduced = axes_attribute(axes, kind)
        if gamma_gradient is None and beta_gradient is not None:
            gamma_gradient = self.normalization_gamma_gradient(incoming, source, mean, variance, axes, epsilon)
        if beta_gradient is None and gamma_gradient is not None:
            beta_gradient = self.normalization_beta_gradient(incoming, source, axes)
        optional = (gamma, gamma_gradient, beta_gradient)
        inputs = [incoming, source, mean, variance, *(t for t in optional if t is not None)]
        return self._tensor(kind, inputs, name, axes=reduced, epsilon=float(epsilon), has_gamma=gamma is not None)
