"""Mean, variance and normalization over chosen axes: batch, instance and layer normalization are choices of axes.

Reduced axes stay with size 1, so that means and variances broadcast back. Moving averages are not here: they are
variables, and mpsgraph.nn.BatchNorm keeps them.
"""

from __future__ import annotations

from ._family import Axes, Family, Tensor, axes_attribute


class Normalization(Family):
    """mean, variance, normalization and its gradients."""

    def mean(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Mean over axes.

        result = sum of x over `axes` / number of elements summed; the axes stay with size 1.
        Args: x, a floating-point or complex dtype; axes, int, ints or None for all. Result: x's dtype.
        Errors: ShapeError, DTypeError. Gradient: incoming / number of elements, broadcast.
        Source: MPSGraph meanOfTensor:axes:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.mean(g.constant([[1.0, 3.0], [5.0, 7.0]]), axes=1)).tolist()
        [[2.0], [6.0]]
        """
        return self._tensor("mean", [x], name, axes=axes_attribute(axes, "mean"))

    def variance(self, x: Tensor, mean: Tensor | None = None, axes: Axes = None, name: str | None = None) -> Tensor:
        """Variance over axes, of the population (divided by n, not n - 1).

        result = mean of (x - mean)^2 over `axes`; the axes stay with size 1.
        Args: x, a floating-point dtype; mean, computed when None; axes, an int, ints or None for all. Result: x's
        dtype. Errors: ShapeError, DTypeError. Gradient: incoming * 2 (x - mean) / n to x, and to mean when given.
        Source: MPSGraph varianceOfTensor:meanTensor:axes:name: and varianceOfTensor:axes:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.variance(g.constant([[1.0, 3.0], [5.0, 9.0]]), axes=1)).tolist()
        [[1.0], [4.0]]
        """
        inputs = [x] if mean is None else [x, mean]
        return self._tensor("variance", inputs, name, axes=axes_attribute(axes, "variance"))

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
        """x, shifted and scaled to the given mean and variance.

        result = gamma * (x - mean) / sqrt(variance + epsilon) + beta.
        Args: x, a floating-point dtype; mean, variance, gamma, beta, tensors of x's dtype that broadcast to x (gamma
        None: 1, beta None: 0); epsilon, added to the variance. Result: x's shape and dtype. Errors: ShapeError,
        DTypeError. Gradient: to all operands; batch statistics get theirs through `mean` and `variance`.
        Source: MPSGraph normalizationWithTensor:meanTensor:varianceTensor:gammaTensor:betaTensor:epsilon:name:.

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
        """Gradient of a normalization with its own statistics, with respect to its source.

        result = gamma / sqrt(variance + epsilon) * (incoming - beta_gradient / n - (source - mean) /
        sqrt(variance + epsilon) * gamma_gradient / n), where mean and variance are of source over `axes`, n elements.
        Args: as given to normalization; gamma_gradient, beta_gradient, from the two operations below, computed when
        None; axes, those of the statistics. Result: source's shape and dtype. Errors: ShapeError, DTypeError.
        Gradient: by composition. Source: MPSGraph normalizationGradientWithIncomingGradientTensor:sourceTensor:
        meanTensor:varianceTensor:gammaTensor:gammaGradientTensor:betaGradientTensor:reductionAxes:epsilon:name:.

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

    def normalization_gamma_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        mean: Tensor,
        variance: Tensor,
        axes: Axes = None,
        epsilon: float = 1e-5,
        name: str | None = None,
    ) -> Tensor:
        """Gradient of a normalization with respect to gamma.

        result = sum over `axes` of incoming * (source - mean) / sqrt(variance + epsilon); the axes stay with size 1.
        Args: as given to normalization; axes, those over which gamma is shared. Result: source's dtype.
        Errors: ShapeError, DTypeError. Gradient: by composition. Source: MPSGraph normalizationGammaGradientWith
        IncomingGradientTensor:sourceTensor:meanTensor:varianceTensor:reductionAxes:epsilon:name:.

        >>> g = mg.Graph()
        >>> x = g.constant([1.0, 5.0])
        >>> d = g.normalization_gamma_gradient(g.constant([0.0, 3.0]), x, g.mean(x), g.variance(x), 0, epsilon=0.0)
        >>> g.run({}, d).tolist()
        [3.0]
        """
        kind, inputs = "normalization_gamma_gradient", [incoming, source, mean, variance]
        return self._tensor(kind, inputs, name, axes=axes_attribute(axes, kind), epsilon=float(epsilon))

    def normalization_beta_gradient(
        self, incoming: Tensor, source: Tensor, axes: Axes = None, name: str | None = None
    ) -> Tensor:
        """Gradient of a normalization with respect to beta.

        result = sum of incoming over `axes`, which stay with size 1.
        Args: incoming, source, one shape and dtype; axes, those over which beta is shared. Errors: ShapeError,
        DTypeError. Gradient: by composition.
        Source: MPSGraph normalizationBetaGradientWithIncomingGradientTensor:sourceTensor:reductionAxes:name:.

        >>> g = mg.Graph()
        >>> x = g.constant([1.0, 5.0])
        >>> g.run({}, g.normalization_beta_gradient(g.constant([2.0, 3.0]), x, 0)).tolist()
        [5.0]
        """
        kind = "normalization_beta_gradient"
        return self._tensor(kind, [incoming, source], name, axes=axes_attribute(axes, kind))
