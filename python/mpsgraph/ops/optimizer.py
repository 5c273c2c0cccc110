"""Optimizer steps as operations: from values and gradients to new values. Nothing is stored here.

`mpsgraph.optim` keeps momenta in variables, adds what MPSGraph does not have (momentum SGD, AdamW) as compositions, and
assigns the results.
"""

from __future__ import annotations

from ._family import Family, Operation, Tensor, TensorLike


class Optimizer(Family):
    """stochastic_gradient_descent, adam and their assigning forms."""

    def stochastic_gradient_descent(
        self, learning_rate: TensorLike, values: Tensor, gradient: Tensor, name: str | None = None
    ) -> Tensor:
        """One step of stochastic gradient descent.

        result = values - learning_rate * gradient.
        Args: learning_rate, a number or a tensor of rank 0; values (a variable is read) and gradient, one shape and
        floating-point or complex dtype. Result: the new values, to be assigned. Errors: ShapeError, DTypeError.
        Gradient: by composition. Source: MPSGraph
        stochasticGradientDescentWithLearningRateTensor:valuesTensor:gradientTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.stochastic_gradient_descent(0.5, g.constant([1.0]), g.constant([4.0]))).tolist()
        [-1.0]
        """
        return self._tensor("stochastic_gradient_descent", [learning_rate, values, gradient], name)

    def apply_stochastic_gradient_descent(
        self, learning_rate: TensorLike, variable: Tensor, gradient: Tensor, name: str | None = None
    ) -> Operation:
        """One step of stochastic gradient descent, written back to the variable.

        variable <- variable - learning_rate * gradient.
        Args: as stochastic_gradient_descent, with a variable for the values. Result: an operation, to be given to
        `run` among the target_operations. Errors: ShapeError, DTypeError, GraphError when it is no variable.
        Gradient: none, it has no result.
        Source: MPSGraph applyStochasticGradientDescentWithLearningRateTensor:variable:gradientTensor:name:.

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
        """One step of Adam; with maximum_velocity, of AMSGrad.

        rate = learning_rate * sqrt(1 - beta2_power) / (1 - beta1_power); momentum' = beta1 * momentum + (1 - beta1) *
        gradient; velocity' = beta2 * velocity + (1 - beta2) * gradient^2; maximum' = max(maximum_velocity, velocity');
        values' = values - rate * momentum' / (sqrt(velocity' or maximum') + epsilon).

        Args:
            learning_rate, beta1, beta2, epsilon: numbers or tensors of rank 0.
            beta1_power, beta2_power: beta1^t and beta2^t, t = 1 in the first step.
            values, momentum, velocity, gradient, maximum_velocity: one shape and floating-point dtype.
        Result: [values', momentum', velocity'], with AMSGrad also maximum'. Errors: ShapeError, DTypeError.
        Gradient: by composition. Source: MPSGraph adamWithLearningRateTensor:beta1Tensor:beta2Tensor:epsilonTensor:
        beta1PowerTensor:beta2PowerTensor:valuesTensor:momentumTensor:velocityTensor:maximumVelocityTensor:
        gradientTensor:name:; Kingma and Ba, arXiv:1412.6980.

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
        """One step of Adam with the bias correction already in the learning rate.

        As adam, with rate = current_learning_rate.
        Args and result: as adam. Errors: as there. Gradient: by composition. Source: MPSGraph
        adamWithCurrentLearningRateTensor:beta1Tensor:beta2Tensor:epsilonTensor:valuesTensor:momentumTensor:
        velocityTensor:maximumVelocityTensor:gradientTensor:name:.

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
