"""Optimizer steps as operations, which compute new values from values and gradients and store nothing.

`mpsgraph.optim` keeps momenta in variables, adds optimizers that MPSGraph lacks (momentum SGD, AdamW) as compositions,
and assigns the results.
"""

from __future__ import annotations

from ._family import Operation, Tensor, TensorLike
from .derived import Derived


class Optimizer(Derived):
    """Graph methods for stochastic gradient descent and Adam steps."""

    def apply_stochastic_gradient_descent(
        self, learning_rate: TensorLike, variable: Tensor, gradient: Tensor, name: str | None = None
    ) -> Operation:
        """Apply one step of stochastic gradient descent to a variable.

        variable <- variable - learning_rate * gradient.

        Args:
            learning_rate: A number or a tensor of rank 0.
            variable: Floating-point or complex variable to update.
            gradient: Gradient with respect to the variable, with its shape and dtype.
            name: Name of the operation.

        Returns:
            An operation, to pass to `run` in target_operations.

        Raises:
            ShapeError: If the shapes do not match.
            DTypeError: If the dtypes differ or are not floating-point or complex.
            GraphError: If variable is not a variable.

        Gradient: none, because the operation has no result.

        Source: MPSGraph applyStochasticGradientDescentWithLearningRateTensor:variable:gradientTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> v = g.variable([1.0])
            >>> _ = g.run({}, [], [g.apply_stochastic_gradient_descent(0.5, v, g.constant([4.0]))])
            >>> g.variable_value(v).tolist()
            [-1.0]
        """
        values = self.stochastic_gradient_descent(learning_rate, variable, gradient)
        return self._operation("assign", [variable, values], None, name)

    def adam(
        self,
        learning_rate: TensorLike,
        beta1: TensorLike,
        beta2: TensorLike,
        epsilon: TensorLike,
        beta1_power: TensorLike,
        beta2_power: TensorLike,
        values: Tensor,
        momentum: Tensor,
        velocity: Tensor,
        gradient: Tensor,
        maximum_velocity: Tensor | None = None,
        name: str | None = None,
    ) -> list[Tensor]:
        """Compute one step of Adam, or of AMSGrad if maximum_velocity is given.

        rate = learning_rate * sqrt(1 - beta2_power) / (1 - beta1_power);
        momentum' = beta1 * momentum + (1 - beta1) * gradient;
        velocity' = beta2 * velocity + (1 - beta2) * gradient^2;
        maximum' = max(maximum_velocity, velocity');
        values' = values - rate * momentum' / (sqrt(velocity' or maximum') + epsilon).

        Args:
            learning_rate: A number or a tensor of rank 0.
            beta1: Decay rate of momentum, a number or a tensor of rank 0.
            beta2: Decay rate of velocity, a number or a tensor of rank 0.
            epsilon: Number added to the denominator, a number or a tensor of rank 0.
            beta1_power: beta1^t, where t = 1 in the first step.
            beta2_power: beta2^t, where t = 1 in the first step.
            values: Current values, floating-point.
            momentum: Moving average of the gradient, with the shape and dtype of values.
            velocity: Moving average of the squared gradient, with the shape and dtype of values.
            gradient: Gradient with respect to values, with their shape and dtype.
            maximum_velocity: Maximum of all velocities so far, for AMSGrad, with the shape and dtype of values.
                Defaults to None.
            name: Name of the operation.

        Returns:
            [values', momentum', velocity'], followed by maximum' for AMSGrad.

        Raises:
            ShapeError: If the shapes do not match.
            DTypeError: If the dtypes differ or are not floating-point.

        Gradient: derived from the operation's decomposition.

        Source: MPSGraph
        adamWithLearningRateTensor:beta1Tensor:beta2Tensor:epsilonTensor:beta1PowerTensor:beta2PowerTensor:
        valuesTensor:momentumTensor:velocityTensor:maximumVelocityTensor:gradientTensor:name:; Kingma and Ba,
        arXiv:1412.6980.

        Example:
            >>> g = mg.Graph()
            >>> zero, one = g.constant([0.0]), g.constant([1.0])
            >>> values, momentum, velocity = g.adam(0.5, 0.5, 0.75, 0.0, 0.5, 0.75, one, zero, zero, g.constant([2.0]))
            >>> g.run({}, values).tolist()
            [0.5]
        """
        scalars = (learning_rate, beta1, beta2, epsilon, beta1_power, beta2_power)
        return self._adam("adam", scalars, values, momentum, velocity, gradient, maximum_velocity, name)

    def adam_with_current_learning_rate(
        self,
        current_learning_rate: TensorLike,
        beta1: TensorLike,
        beta2: TensorLike,
        epsilon: TensorLike,
        values: Tensor,
        momentum: Tensor,
        velocity: Tensor,
        gradient: Tensor,
        maximum_velocity: Tensor | None = None,
        name: str | None = None,
    ) -> list[Tensor]:
        """Compute one step of Adam with a learning rate that already includes the bias correction.

        The step is that of adam with rate = current_learning_rate.

        Args:
            current_learning_rate: Learning rate of this step, a number or a tensor of rank 0.
            beta1: Decay rate of momentum, a number or a tensor of rank 0.
            beta2: Decay rate of velocity, a number or a tensor of rank 0.
            epsilon: Number added to the denominator, a number or a tensor of rank 0.
            values: Current values, floating-point.
            momentum: Moving average of the gradient, with the shape and dtype of values.
            velocity: Moving average of the squared gradient, with the shape and dtype of values.
            gradient: Gradient with respect to values, with their shape and dtype.
            maximum_velocity: Maximum of all velocities so far, for AMSGrad, with the shape and dtype of values.
                Defaults to None.
            name: Name of the operation.

        Returns:
            [values', momentum', velocity'], followed by maximum' for AMSGrad.

        Raises:
            ShapeError: If the shapes do not match.
            DTypeError: If the dtypes differ or are not floating-point.

        Gradient: derived from the operation's decomposition.

        Source: MPSGraph
        adamWithCurrentLearningRateTensor:beta1Tensor:beta2Tensor:epsilonTensor:valuesTensor:momentumTensor:
        velocityTensor:maximumVelocityTensor:gradientTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> zero, one = g.constant([0.0]), g.constant([1.0])
            >>> step = g.adam_with_current_learning_rate(0.5, 0.5, 0.75, 0.0, one, zero, zero, g.constant([2.0]))
            >>> g.run({}, step[0]).tolist()
            [0.5]
        """
        scalars = (current_learning_rate, beta1, beta2, epsilon)
        kind = "adam_with_current_learning_rate"
        return self._adam(kind, scalars, values, momentum, velocity, gradient, maximum_velocity, name)

    def _adam(
        self,
        kind: str,
        scalars: tuple[TensorLike, ...],
        values: Tensor,
        momentum: Tensor,
        velocity: Tensor,
        gradient: Tensor,
        maximum_velocity: Tensor | None,
        name: str | None,
    ) -> list[Tensor]:
        maximum = [] if maximum_velocity is None else [maximum_velocity]
        inputs = [*scalars, values, momentum, velocity, *maximum, gradient]
        return self._tensors(kind, inputs, name, amsgrad=bool(maximum))
