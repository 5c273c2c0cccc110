"""The optimizers of the older path, by Apple's formulas: MPSNNOptimizerStochasticGradientDescent, …RMSProp, …Adam.

They differ from PyTorch's in places: epsilon stands outside the root and is not corrected for bias; the rate is inside
plain momentum. A gradient is first clipped, then multiplied by gradient_rescale, then regularized: plus
regularization_scale times the value (l2) or its sign (l1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._core import CommandBuffer, NDArray
from ..errors import GraphError, ShapeError


def _array(value: Any) -> NDArray:
    """A vector, matrix or array as the array that it lies in."""
    return _core.asarray(getattr(value, "array", value), copy=False)


class _Encodes:
    """What encodes a step over states, vectors or matrices."""

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
        """Encodes one step; it happens when the command buffer runs.

        Give gradients and values as states (convolution_gradient_state and convolution_source_state, or of
        normalizations gradient_state and source_state), vectors or matrices. The moments are one array for each
        parameter of the state, in its order (weights, biases), or one for a vector; they are written in place: zeros at
        first. result: where the new values go; None, or the source itself, for in place. One encode is one step of
        time_step. Errors: GraphError, ShapeError, DeviceError; then nothing is encoded. Source:
        encodeToCommandBuffer:….
        """
        gradients = convolution_gradient_state or gradient_state
        source = convolution_source_state or source_state
        if gradients is not None:
            if source is None:
                raise GraphError("a gradient state needs the source state, whose values change")
            results = result_state or source
            names = [n for n in source.names if n in gradients.names and n not in ("mean", "variance")]
            if not names:
                raise GraphError(f"the gradient state has {gradients.names}, the source state {source.names}")
            sides = [
                [state.array_for(name, command_buffer) for name in names] for state in (gradients, source, results)
            ]
            if any(array is None for side in sides for array in side):
                raise GraphError(f"the result state has {results.names}, {names} are expected")
        else:
            gradient = input_gradient_vector if input_gradient_vector is not None else input_gradient_matrix
            values = input_values_vector if input_values_vector is not None else input_values_matrix
            if gradient is None or values is None:
                raise GraphError("encode needs gradients and values: two states, two vectors or two matrices")
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
            raise GraphError(
                f"{type(self).__name__} keeps a {name} for each parameter: give arrays of zeros at first, which it "
                "writes in place"
            )
        arrays = [_array(a) for a in (given if isinstance(given, (list, tuple)) else [given])]
        if len(arrays) != len(values):
            raise GraphError(f"{name}: {len(arrays)} arrays for {len(values)} parameters")
        return [_shaped(a, v, name) for a, v in zip(arrays, values, strict=True)]


def _shaped(array: NDArray, like: NDArray, name: str) -> NDArray:
    """The same memory in the parameter's shape: moments may be given as flat vectors."""
    if array.shape == like.shape:
        return array
    view = np.from_dlpack(array)
    if view.size != np.prod(like.shape) or not view.flags.c_contiguous:
        raise ShapeError(f"{name} has shape {array.shape}, the parameter {like.shape}")
    return _core.asarray(view.reshape(like.shape), copy=False)


class StochasticGradientDescent(_core.NNSGD, _Encodes):
    """v -= rate * g; with momentum m = mu * m + rate * g, v -= m; Nesterov's m = mu * m + g, v -= rate * (g + mu * m).

    Args: gradient_clip, (minimum, maximum) of each element, None for none; regularization_type, "none", "l1" or "l2".
    learning_rate may change between encodes. Source: MPSNNOptimizerStochasticGradientDescent.

    >>> nn = mg.nngraph
    >>> values, gradients = nn.Vector(np.float32([1, 2])), nn.Vector(np.float32([1, -1]))
    >>> buffer = mg.CommandQueue(mg.Device.default()).command_buffer()
    >>> nn.StochasticGradientDescent(0.1).encode(buffer, input_gradient_vector=gradients, input_values_vector=values)
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
    """s = decay * s + (1 - decay) * g^2; v -= rate * g / (sqrt(s) + epsilon). Source: MPSNNOptimizerRMSProp.

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
    """m = beta1 * m + (1 - beta1) * g; s = beta2 * s + (1 - beta2) * g^2; v -= rate_t * m / (sqrt(s) + epsilon).

    rate_t = rate * sqrt(1 - beta2^t) / (1 - beta1^t), where t, the step, is time_step after the encode. amsgrad: the
    largest s so far stands for s. Source: MPSNNOptimizerAdam.

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
