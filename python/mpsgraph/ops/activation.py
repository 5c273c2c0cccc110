"""Activations and soft-max, with their gradients as operations of their own.

The gradients are what `Graph.gradients` creates; they are public because MPSGraph has them. GELU, ELU and the like
are compositions and live in mpsgraph.nn.
"""

from __future__ import annotations

from ._family import Family, Tensor, TensorLike


class Activation(Family):
    """relu, sigmoid, leaky_relu, softmax, log_softmax and their gradients."""

    def relu(self, x: Tensor, name: str | None = None) -> Tensor:
        """Rectified linear unit.

        result = max(x, 0).
        Args: x, any shape, a floating-point dtype. Result: x's shape and dtype. Errors: DTypeError.
        Gradient: incoming where x > 0, else 0. Source: MPSGraph reLUWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.relu(g.constant([-1.0, 2.0]))).tolist()
        [0.0, 2.0]
        """
        return self._tensor("relu", [x], name)

    def relu_gradient(self, incoming: Tensor, source: Tensor, name: str | None = None) -> Tensor:
        """Gradient of relu with respect to its source.

        result = source > 0 ? incoming : 0.
        Args: incoming, source, one shape, one floating-point dtype. Result: the same. Errors: ShapeError, DTypeError.
        Gradient: to incoming as here, to source zero.
        Source: MPSGraph reLUGradientWithIncomingGradient:sourceTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.relu_gradient(g.constant([5.0, 5.0]), g.constant([-1.0, 2.0]))).tolist()
        [0.0, 5.0]
        """
        return self._tensor("relu_gradient", [incoming, source], name)

    def sigmoid(self, x: Tensor, name: str | None = None) -> Tensor:
        """Logistic function.

        result = 1 / (1 + e^-x).
        Args: x, any shape, a floating-point dtype. Result: x's shape and dtype. Errors: DTypeError.
        Gradient: incoming * result * (1 - result). Source: MPSGraph sigmoidWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.sigmoid(g.constant([0.0]))).tolist()
        [0.5]
        """
        return self._tensor("sigmoid", [x], name)

    def sigmoid_gradient(self, incoming: Tensor, source: Tensor, name: str | None = None) -> Tensor:
        """Gradient of sigmoid with respect to its source.

        result = incoming * s * (1 - s), s = sigmoid(source).
        Args: incoming, source, one shape, one floating-point dtype. Result: the same. Errors: ShapeError, DTypeError.
        Gradient: incoming * s * (1 - s) to incoming; to source the second derivative.
        Source: MPSGraph sigmoidGradientWithIncomingGradient:sourceTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.sigmoid_gradient(g.constant([4.0]), g.constant([0.0]))).tolist()
        [1.0]
        """
        return self._tensor("sigmoid_gradient", [incoming, source], name)

    def leaky_relu(self, x: Tensor, alpha: TensorLike = 0.01, name: str | None = None) -> Tensor:
        """Rectified linear unit with a slope below 0.

        result = x > 0 ? x : alpha * x.
        Args: x, any shape, a floating-point dtype; alpha, a number or a tensor that broadcasts to x. Result: x's shape
        and dtype. Errors: ShapeError, DTypeError.
        Gradient: incoming * (x > 0 ? 1 : alpha) to x, the sum of incoming * min(x, 0) to alpha.
        Source: MPSGraph leakyReLUWithTensor:alphaTensor:name: and leakyReLUWithTensor:alpha:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.leaky_relu(g.constant([-4.0, 2.0]), 0.25)).tolist()
        [-1.0, 2.0]
        """
        return self._tensor("leaky_relu", [x, alpha], name)

    def leaky_relu_gradient(
        self, incoming: Tensor, source: Tensor, alpha: TensorLike = 0.01, name: str | None = None
    ) -> Tensor:
        """Gradient of leaky_relu with respect to its source.

        result = incoming * (source >= 0 ? 1 : alpha); PyTorch's slope at 0 is alpha.
        Args: incoming, source, one shape, one floating-point dtype; alpha, a number or a tensor that broadcasts.
        Result: source's shape and dtype. Errors: ShapeError, DTypeError.
        Gradient: to incoming as here, to source zero.
        Source: MPSGraph leakyReLUGradientWithIncomingGradient:sourceTensor:alphaTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.leaky_relu_gradient(g.constant([8.0, 8.0]), g.constant([-1.0, 1.0]), 0.25)).tolist()
        [2.0, 8.0]
        """
        return self._tensor("leaky_relu_gradient", [incoming, source, alpha], name)

    def softmax(self, x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Soft maximum: positive numbers that sum to 1 along an axis.

        result = e^(x - m) / sum(e^(x - m)), m = max(x), both along `axis`; so it does not overflow.
        Args: x, rank 1 or more, a floating-point dtype; axis, negative counts from the end. Result: x's shape and
        dtype. Errors: ShapeError for an axis outside, DTypeError.
        Gradient: result * (incoming - sum(incoming * result)). Source: MPSGraph softMaxWithTensor:axis:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.softmax(g.constant([3.0, 3.0]))).tolist()
        [0.5, 0.5]
        """
        return self._tensor("softmax", [x], name, axis=axis)

    def softmax_gradient(self, incoming: Tensor, source: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Gradient of softmax with respect to its source.

        result = s * (incoming - sum(incoming * s)), s = softmax(source), sums along `axis`.
        Args: incoming, source, one shape, one floating-point dtype; axis as in softmax. Result: the same shape and
        dtype. Errors: ShapeError, DTypeError. Gradient: to both, the second derivative to source.
        Source: MPSGraph softMaxGradientWithIncomingGradient:sourceTensor:axis:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.softmax_gradient(g.constant([4.0, 0.0]), g.constant([3.0, 3.0]))).tolist()
        [1.0, -1.0]
        """
        return self._tensor("softmax_gradient", [incoming, source], name, axis=axis)

    def log_softmax(self, x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Logarithm of the soft maximum, computed without overflow or loss of small probabilities.

        result = x - m - ln(sum(e^(x - m))), m = max(x), both along `axis`.
        Args: x, rank 1 or more, a floating-point dtype; axis, negative counts from the end. Result: x's shape and
        dtype. Errors: ShapeError, DTypeError.
        Gradient: incoming - e^result * sum(incoming). Source: ours, for stable losses; MPSGraph composes it.

        >>> g = mg.Graph()
        >>> g.run({}, g.exponent(g.log_softmax(g.constant([0.0])))).tolist()
        [1.0]
        """
        return self._tensor("log_softmax", [x], name, axis=axis)

    def log_softmax_gradient(self, incoming: Tensor, source: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Gradient of log_softmax with respect to its source.

        result = incoming - softmax(source) * sum(incoming), the sum along `axis`.
        Args: incoming, source, one shape, one floating-point dtype; axis as in log_softmax. Result: the same shape and
        dtype. Errors: ShapeError, DTypeError. Gradient: to both. Source: ours, the gradient of log_softmax.

        >>> g = mg.Graph()
        >>> g.run({}, g.log_softmax_gradient(g.constant([4.0, 0.0]), g.constant([3.0, 3.0]))).tolist()
        [2.0, -2.0]
        """
        return self._tensor("log_softmax_gradient", [incoming, source], name, axis=axis)
