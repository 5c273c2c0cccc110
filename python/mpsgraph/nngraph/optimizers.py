"""Optimizers with Apple's formulas: MPSNNOptimizerStochasticGradientDescent, MPSNNOptimizerRMSProp, MPSNNOptimizerAdam.

These optimizers differ from PyTorch's in two ways: epsilon is outside the square root and not corrected for bias, and
momentum without Nesterov's method already includes the learning rate. A gradient is first clipped, then multiplied by
gradient_rescale, then regularized: regularization_scale times the value ("l2") or its sign ("l1") is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._core import CommandBuffer, NDArray
from ..errors import GraphError, ShapeError


def _array(value: Any) -> NDArray:
    """Return the elements of a vector, matrix, or array as an NDArray over the same memory."""
    return _core.asarray(getattr(value, "array", value), copy=False)


class _Encodes:
    """Mixin with the method that encodes an optimizer step on states, vectors, or matrices to a command buffer."""

    moments: Any
    encode_arrays: Any

    def encode(
        self,
        command_buffer: CommandBuffer,
        *,
        convolution_gradient_state: Any = None,
        convolution_source_state: Any = None,
        gradient_state: Any = None,
        source_state: Any = None,
        input_gradient_vector: Any = None,
        input_values_vector: Any = None,
        input_gradient_matrix: Any = None,
        input_values_matrix: Any = None,
        input_momentum_vectors: Sequence[Any] | Any | None = None,
        input_velocity_vectors: Sequence[Any] | Any | None = None,
        maximum_velocity_vectors: Sequence[Any] | Any | None = None,
        result_state: Any = None,
        result_values_vector: Any = None,
        result_values_matrix: Any = None,
    ) -> None:
        """Encode one optimizer step, which runs when the command buffer runs.

        Pass gradients and values as two states, two vectors, or two matrices. Each call advances time_step by
        one.

        Args:
            command_buffer: Command buffer that the step is encoded into.
            convolution_gradient_state: Gradients of a convolution's parameters.
            convolution_source_state: Parameters of the convolution.
            gradient_state: Gradients of a normalization's parameters.
            source_state: Parameters of the normalization.
            input_gradient_vector: Vector of gradients.
            input_values_vector: Vector of values.
            input_gradient_matrix: Matrix of gradients.
            input_values_matrix: Matrix of values.
            input_momentum_vectors: Momentum, updated in place and zero before the first step: one array per parameter
                in the order of the state (weights, biases), or one array for a vector or matrix. None, the default,
                lets the optimizer keep zero-initialized moments for each array of values that it updates.
            input_velocity_vectors: Velocity (RMSProp: sum of squares), in the same form.
            maximum_velocity_vectors: Maximum velocity, in the same form, for Adam with amsgrad.
            result_state: State that the new values are written to. None (the default) updates the source state in
                place.
            result_values_vector: Vector that the new values are written to. None (the default) updates the values in
                place.
            result_values_matrix: Matrix that the new values are written to. None (the default) updates the values in
                place.

        Raises:
            GraphError: If gradients, values, or moments are missing or do not match.
            ShapeError: If shapes differ, or a result or moment is not float32.
            DeviceError: If a result or moment is read-only, or another queue has not written a state yet.

        If a call raises, nothing is encoded.

        Source: encodeToCommandBuffer:….
        """
        gradients = convolution_gradient_state or gradient_state
        source = convolution_source_state or source_state
        if gradients is not None:
            if source is None:
                raise GraphError(
                    "encode: source_state or convolution_source_state is missing; pass the state that the step updates"
                )
            results = result_state or source
            names = [n for n in source.names if n in gradients.names and n not in ("mean", "variance")]
            if not names:
                raise GraphError(
                    "encode: gradient state and source state have no parameter in common; the gradient state has "
                    f"{gradients.names}, the source state {source.names}"
                )
            sides = [
                [state.array_for(name, command_buffer) for name in names] for state in (gradients, source, results)
            ]
            if any(array is None for side in sides for array in side):
                raise GraphError(f"encode: result_state must have the arrays {names}, got {results.names}")
        else:
            gradient = input_gradient_vector if input_gradient_vector is not None else input_gradient_matrix
            values = input_values_vector if input_values_vector is not None else input_values_matrix
            if gradient is None or values is None:
                raise GraphError("encode: pass both gradients and values, as two states, two vectors or two matrices")
            result = result_values_vector if result_values_vector is not None else result_values_matrix
            sides = [[_array(a)] for a in (gradient, values, values if result is None else result)]
        kept = {
            "momentum": input_momentum_vectors,
            "velocity": input_velocity_vectors,
            "sum_of_squares": input_velocity_vectors,
            "maximum_velocity": maximum_velocity_vectors,
        }
        moments = [self._moment(name, kept[name], sides[1]) for name in self.moments]
        self.encode_arrays(command_buffer, *sides[:2], moments, sides[2])

    def _moment(self, name: str, given: Any, values: list[NDArray]) -> list[NDArray]:
        if given is None:
            return [self._own_moment(name, array) for array in values]
        arrays = [_array(a) for a in (given if isinstance(given, (list, tuple)) else [given])]
        if len(arrays) != len(values):
            raise GraphError(f"{name}: expected one array for each of {len(values)} parameters, got {len(arrays)}")
        return [_shaped(a, v, name) for a, v in zip(arrays, values, strict=True)]

    def _own_moment(self, name: str, values: NDArray) -> NDArray:
        """Return the moment that the optimizer keeps for an array of values, which is zero before the first step."""
        kept: dict[Any, tuple[NDArray, NDArray]] = vars(self).setdefault("_kept", {})
        key = name, _address(values), tuple(values.shape)
        if key not in kept:
            # The values are kept as well, so that no other array gets their address.
            kept[key] = values, NDArray(values.shape, values.dtype)
        return kept[key][1]


def _address(array: NDArray) -> int:
    return int(np.from_dlpack(array).__array_interface__["data"][0])


def _shaped(array: NDArray, like: NDArray, name: str) -> NDArray:
    """Return an array, such as a moment, in the parameter's shape. For a flat vector, this is a view of the vector."""
    if array.shape == like.shape:
        return array
    view = np.from_dlpack(array)
    if view.size != np.prod(like.shape) or not view.flags.c_contiguous:
        raise ShapeError(f"{name}: expected the parameter's shape {like.shape} or a flat vector, got {array.shape}")
    return _core.asarray(view.reshape(like.shape), copy=False)


class StochasticGradientDescent(_core.NNSGD, _Encodes):
    """Stochastic gradient descent, with optional momentum, for a value v with gradient g.

    - without momentum: v -= rate * g
    - with momentum: m = mu * m + rate * g, v -= m
    - with Nesterov momentum: m = mu * m + g, v -= rate * (g + mu * m)

    Args:
        learning_rate: Learning rate, which may be changed between steps. Defaults to 1e-3.
        momentum_scale: Momentum mu. Defaults to 0.
        use_nesterov_momentum: Whether the momentum is Nesterov's. Defaults to False.
        gradient_rescale: Factor of the gradient, after clipping. Defaults to 1.
        gradient_clip: (minimum, maximum) of each gradient element. None (the default) means no clipping.
        regularization_type: "none" (the default), "l1", or "l2".
        regularization_scale: Factor of the regularization. Defaults to 0.

    Raises:
        GraphError: If momentum_scale is negative, gradient_clip is not an increasing pair, or regularization_type is
            unknown.

    Source: MPSNNOptimizerStochasticGradientDescent.

    Example:
        >>> nn = mg.nngraph
        >>> values, gradients = nn.Vector(np.float32([1, 2])), nn.Vector(np.float32([1, -1]))
        >>> buffer = mg.CommandQueue(mg.Device.default()).command_buffer()
        >>> sgd = nn.StochasticGradientDescent(0.1)
        >>> sgd.encode(buffer, input_gradient_vector=gradients, input_values_vector=values)
        >>> buffer.commit()
        >>> buffer.wait_until_completed()
        >>> print(values.numpy().round(3))
        [0.9 2.1]
    """

    def __init__(
        self,
        learning_rate: float = 1e-3,
        *,
        momentum_scale: float = 0.0,
        use_nesterov_momentum: bool = False,
        gradient_rescale: float = 1.0,
        gradient_clip: tuple[float, float] | None = None,
        regularization_type: str = "none",
        regularization_scale: float = 0.0,
    ) -> None:
        super().__init__(
            learning_rate,
            momentum_scale,
            use_nesterov_momentum,
            gradient_rescale,
            gradient_clip,
            regularization_type,
            regularization_scale,
        )


class RMSProp(_core.NNRMSProp, _Encodes):
    """RMSProp: s = decay * s + (1 - decay) * g^2, v -= rate * g / (sqrt(s) + epsilon).

    Here, v is a value, g its gradient, and s the moving average of g^2.

    Args:
        learning_rate: Learning rate, which may be changed between steps. Defaults to 1e-3.
        decay: Decay of the sum of squares, from 0 up to but not including 1. Defaults to 0.9.
        epsilon: Constant added to the denominator. Defaults to 1e-8.
        gradient_rescale: Factor of the gradient, after clipping. Defaults to 1.
        gradient_clip: (minimum, maximum) of each gradient element. None (the default) means no clipping.
        regularization_type: "none" (the default), "l1", or "l2".
        regularization_scale: Factor of the regularization. Defaults to 0.

    Raises:
        GraphError: If decay is out of range, gradient_clip is not an increasing pair, or regularization_type is
            unknown.

    Source: MPSNNOptimizerRMSProp.

    Example:
        >>> nn = mg.nngraph
        >>> values, gradients = nn.Vector(np.float32([1, 2])), nn.Vector(np.float32([1, -1]))
        >>> velocity = nn.Vector(np.zeros(2, np.float32))
        >>> buffer = mg.CommandQueue(mg.Device.default()).command_buffer()
        >>> nn.RMSProp(0.1).encode(
        ...     buffer, input_gradient_vector=gradients, input_values_vector=values,
        ...     input_velocity_vectors=velocity)
        >>> buffer.commit()
        >>> buffer.wait_until_completed()
        >>> print(values.numpy().round(3))
        [0.684 2.316]
    """

    def __init__(
        self,
        learning_rate: float = 1e-3,
        *,
        decay: float = 0.9,
        epsilon: float = 1e-8,
        gradient_rescale: float = 1.0,
        gradient_clip: tuple[float, float] | None = None,
        regularization_type: str = "none",
        regularization_scale: float = 0.0,
    ) -> None:
        super().__init__(
            learning_rate, decay, epsilon, gradient_rescale, gradient_clip, regularization_type, regularization_scale
        )


class Adam(_core.NNAdam, _Encodes):
    """Adam: m = beta1 * m + (1 - beta1) * g, s = beta2 * s + (1 - beta2) * g^2, v -= rate_t * m / (sqrt(s) + epsilon).

    Here, v is a value and g its gradient. The rate of step t is rate_t = rate * sqrt(1 - beta2^t) / (1 - beta1^t),
    where t is time_step after the step is encoded.

    Args:
        learning_rate: Learning rate, which may be changed between steps. Defaults to 1e-3.
        beta1: Decay of the momentum m, from 0 up to but not including 1. Defaults to 0.9.
        beta2: Decay of the velocity s, from 0 up to but not including 1. Defaults to 0.999.
        epsilon: Constant added to the denominator. Defaults to 1e-8.
        time_step: Number of steps so far. Defaults to 0.
        amsgrad: Whether the largest s so far is used in place of s. Defaults to False.
        gradient_rescale: Factor of the gradient, after clipping. Defaults to 1.
        gradient_clip: (minimum, maximum) of each gradient element. None (the default) means no clipping.
        regularization_type: "none" (the default), "l1", or "l2".
        regularization_scale: Factor of the regularization. Defaults to 0.

    Raises:
        GraphError: If beta1, beta2, or time_step is out of range, gradient_clip is not an increasing pair, or
            regularization_type is unknown.

    Source: MPSNNOptimizerAdam.

    Example:
        >>> nn = mg.nngraph
        >>> values, gradients = nn.Vector(np.float32([1, 2])), nn.Vector(np.float32([1, -1]))
        >>> momentum, velocity = nn.Vector(np.zeros(2, np.float32)), nn.Vector(np.zeros(2, np.float32))
        >>> buffer = mg.CommandQueue(mg.Device.default()).command_buffer()
        >>> nn.Adam(0.1).encode(
        ...     buffer, input_gradient_vector=gradients, input_values_vector=values, input_momentum_vectors=momentum,
        ...     input_velocity_vectors=velocity)
        >>> buffer.commit()
        >>> buffer.wait_until_completed()
        >>> print(values.numpy().round(3))
        [0.9 2.1]
    """

    def __init__(
        self,
        learning_rate: float = 1e-3,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        time_step: int = 0,
        amsgrad: bool = False,
        gradient_rescale: float = 1.0,
        gradient_clip: tuple[float, float] | None = None,
        regularization_type: str = "none",
        regularization_scale: float = 0.0,
    ) -> None:
        super().__init__(
            learning_rate,
            beta1,
            beta2,
            epsilon,
            time_step,
            amsgrad,
            gradient_rescale,
            gradient_clip,
            regularization_type,
            regularization_scale,
        )
