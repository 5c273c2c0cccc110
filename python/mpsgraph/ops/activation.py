"""Activations and softmax, with their gradients as separate operations.

`Graph.gradients` creates the gradient operations; they are public because MPSGraph exposes them. GELU, ELU, and similar
activations are compositions of operations and live in mpsgraph.nn.
"""

from __future__ import annotations

from ._family import Family, Tensor, TensorLike


class Activation(Family):
    """Graph methods for relu, sigmoid, leaky_relu, softmax, log_softmax, and their gradients."""

    def relu(self, x: Tensor, name: str | None = None) -> Tensor:
        """Apply the rectified linear unit element-wise.

        result = max(x, 0).

        Args:
            x: Floating-point tensor of any shape.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point.

        Gradient: the incoming gradient where x > 0, zero elsewhere.

        Source: MPSGraph reLUWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.relu(g.constant([-1.0, 2.0]))).tolist()
            [0.0, 2.0]
        """
        return self._tensor("relu", [x], name)

    def relu_gradient(self, incoming: Tensor, source: Tensor, name: str | None = None) -> Tensor:
        """Compute the gradient of relu with respect to its source.

        result = source > 0 ? incoming : 0.

        Args:
            incoming: Floating-point gradient with respect to the result of relu.
            source: The input of relu, with the dtype and normally the shape of incoming.
            name: Name of the operation.

        Returns:
            A tensor with the broadcast shape and the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not floating-point.

        Gradient: to incoming, the incoming gradient where source > 0 and zero elsewhere; to source, zero.

        Source: MPSGraph reLUGradientWithIncomingGradient:sourceTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.relu_gradient(g.constant([5.0, 5.0]), g.constant([-1.0, 2.0]))).tolist()
            [0.0, 5.0]
        """
        return self._tensor("relu_gradient", [incoming, source], name)

    def sigmoid(self, x: Tensor, name: str | None = None) -> Tensor:
        """Apply the logistic function element-wise.

        result = 1 / (1 + e^-x).

        Args:
            x: Floating-point tensor of any shape.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point.

        Gradient: incoming gradient * result * (1 - result).

        Source: MPSGraph sigmoidWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.sigmoid(g.constant([0.0]))).tolist()
            [0.5]
        """
        return self._tensor("sigmoid", [x], name)

    def sigmoid_gradient(self, incoming: Tensor, source: Tensor, name: str | None = None) -> Tensor:
        """Compute the gradient of sigmoid with respect to its source.

        result = incoming * s * (1 - s), where s = sigmoid(source).

        Args:
            incoming: Floating-point gradient with respect to the result of sigmoid.
            source: The input of sigmoid, with the dtype and normally the shape of incoming.
            name: Name of the operation.

        Returns:
            A tensor with the broadcast shape and the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not floating-point.

        Gradient: incoming gradient * s * (1 - s) to incoming; the second derivative of sigmoid to source.

        Source: MPSGraph sigmoidGradientWithIncomingGradient:sourceTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.sigmoid_gradient(g.constant([4.0]), g.constant([0.0]))).tolist()
            [1.0]
        """
        return self._tensor("sigmoid_gradient", [incoming, source], name)

    def leaky_relu(self, x: Tensor, alpha: TensorLike = 0.01, name: str | None = None) -> Tensor:
        """Apply the leaky rectified linear unit, which is linear with slope `alpha` below 0.

        result = x > 0 ? x : alpha * x.

        Args:
            x: Floating-point tensor of any shape.
            alpha: Slope for negative x, a number or a tensor that broadcasts to x. Defaults to 0.01.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            ShapeError: If alpha does not broadcast with x.
            DTypeError: If x is not floating-point or alpha has a different dtype.

        Gradient: incoming gradient * (x >= 0 ? 1 : alpha) to x; the sum of incoming gradient * min(x, 0) to alpha.

        Source: MPSGraph leakyReLUWithTensor:alphaTensor:name: and leakyReLUWithTensor:alpha:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.leaky_relu(g.constant([-4.0, 2.0]), 0.25)).tolist()
            [-1.0, 2.0]
        """
        return self._tensor("leaky_relu", [x, alpha], name)

    def leaky_relu_gradient(
        self, incoming: Tensor, source: Tensor, alpha: TensorLike = 0.01, name: str | None = None
    ) -> Tensor:
        """Compute the gradient of leaky_relu with respect to its source.

        result = incoming * (source >= 0 ? 1 : alpha). PyTorch uses the slope alpha at 0.

        Args:
            incoming: Floating-point gradient with respect to the result of leaky_relu.
            source: The input of leaky_relu, with the dtype and normally the shape of incoming.
            alpha: Slope for negative source, a number or a tensor that broadcasts to source. Defaults to 0.01.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of source.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not floating-point.

        Gradient: incoming gradient * (source >= 0 ? 1 : alpha) to incoming; zero to source.

        Source: MPSGraph leakyReLUGradientWithIncomingGradient:sourceTensor:alphaTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.leaky_relu_gradient(g.constant([8.0, 8.0]), g.constant([-1.0, 1.0]), 0.25)).tolist()
            [2.0, 8.0]
        """
        return self._tensor("leaky_relu_gradient", [incoming, source, alpha], name)

    def softmax(self, x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Normalize values along an axis into positive weights that sum to 1.

        result = e^(x - m) / sum(e^(x - m)), where m = max(x). The sum and the maximum are along `axis`; subtracting m
        prevents overflow.

        Args:
            x: Floating-point tensor of rank 1 or higher.
            axis: Axis to normalize along; negative values count from the end. Defaults to the last axis.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            ShapeError: If axis is out of range.
            DTypeError: If x is not floating-point.

        Gradient: result * (incoming gradient - sum(incoming gradient * result)).

        Source: MPSGraph softMaxWithTensor:axis:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.softmax(g.constant([3.0, 3.0]))).tolist()
            [0.5, 0.5]
        """
        return self._tensor("softmax", [x], name, axis=axis)

    def softmax_gradient(self, incoming: Tensor, source: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Compute the gradient of softmax with respect to its source.

        result = s * (incoming - sum(incoming * s)), where s = softmax(source) and sums are along `axis`.

        Args:
            incoming: Floating-point gradient with respect to the result of softmax.
            source: The input of softmax, with the shape and dtype of incoming.
            axis: Axis given to softmax; negative values count from the end. Defaults to the last axis.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of source.

        Raises:
            ShapeError: If the shapes differ or axis is out of range.
            DTypeError: If the dtypes differ or are not floating-point.

        Gradient: to incoming and source; the gradient to source is the second derivative of softmax.

        Source: MPSGraph softMaxGradientWithIncomingGradient:sourceTensor:axis:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.softmax_gradient(g.constant([4.0, 0.0]), g.constant([3.0, 3.0]))).tolist()
            [1.0, -1.0]
        """
        return self._tensor("softmax_gradient", [incoming, source], name, axis=axis)

    def log_softmax(self, x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Compute the logarithm of softmax without overflow or loss of small probabilities.

        result = x - m - ln(sum(e^(x - m))), where m = max(x). The sum and the maximum are along `axis`.

        Args:
            x: Floating-point tensor of rank 1 or higher.
            axis: Axis to normalize along; negative values count from the end. Defaults to the last axis.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            ShapeError: If axis is out of range.
            DTypeError: If x is not floating-point.

        Gradient: incoming gradient - e^result * sum(incoming gradient).

        Source: this package, for numerically stable losses; the Metal device composes it from other MPSGraph
        operations.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.exponent(g.log_softmax(g.constant([0.0])))).tolist()
            [1.0]
        """
        return self._tensor("log_softmax", [x], name, axis=axis)

    def log_softmax_gradient(self, incoming: Tensor, source: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Compute the gradient of log_softmax with respect to its source.

        result = incoming - softmax(source) * sum(incoming), where the sum and softmax are along `axis`.

        Args:
            incoming: Floating-point gradient with respect to the result of log_softmax.
            source: The input of log_softmax, with the shape and dtype of incoming.
            axis: Axis given to log_softmax; negative values count from the end. Defaults to the last axis.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of source.

        Raises:
            ShapeError: If the shapes differ or axis is out of range.
            DTypeError: If the dtypes differ or are not floating-point.

        Gradient: to incoming and source.

        Source: this package, as the gradient of log_softmax.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.log_softmax_gradient(g.constant([4.0, 0.0]), g.constant([3.0, 3.0]))).tolist()
            [2.0, -2.0]
        """
        return self._tensor("log_softmax_gradient", [incoming, source], name, axis=axis)
