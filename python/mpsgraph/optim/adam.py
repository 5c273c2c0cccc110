"""Adam and AdamW, built on the graph's operation for Adam's step."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from .._checks import BelowOne, NotNegative, Positive, Size
from .._core import DType, Operation, Tensor, float64
from ..errors import GraphError
from .blockwise import Blocks, is_large
from .counting import Counting
from .schedules import Schedule

_Scalars: TypeAlias = tuple[Tensor, float, float, Tensor | float]
"""Rate, decays, and epsilon of a step."""


class Adam(Counting):
    """Adam, and optionally AMSGrad. Weight decay is added to the gradient.

    Bias corrections are folded into the rate, as in MPSGraph: values -= rate * sqrt(1 - beta2^t) / (1 - beta1^t) * m /
    (sqrt(v) + epsilon). PyTorch adds epsilon after correcting v: values -= rate / (1 - beta1^t) * m / (sqrt(v / (1 -
    beta2^t)) + epsilon). The two differ where gradients are tiny in the first steps.

    Args:
        learning_rate: Number or schedule. Defaults to 1e-3.
        beta1: Decay of the mean of gradients, in [0, 1). Defaults to 0.9.
        beta2: Decay of the mean of squared gradients, in [0, 1). Defaults to 0.999.
        epsilon: Added to the root, above 0. Defaults to 1e-8.
        amsgrad: Whether to divide by the largest mean square so far. Defaults to False.
        weight_decay: The values times this factor are added to the gradient. Defaults to 0.
        corrected_epsilon: Whether to add epsilon as PyTorch does. Defaults to False.
        state_bits: 8 to store the moments of parameters with at least 4,096 elements in one byte for each element, with
            a scale for each block of 256 elements (see optim/blockwise.py). Defaults to 32, float32.

    Raises:
        GraphError: If an option is out of range or passed under two names.

    Source: Kingma and Ba, arXiv:1412.6980; Dettmers et al., arXiv:2110.02861, for 8-bit states.

    Example:
        >>> g = mg.Graph()
        >>> v = g.variable([1.0])
        >>> steps = mg.optim.Adam(0.5).updates({v: g.constant([4.0])}, g.constant(0.5))
        >>> _ = g.run({}, [], steps)
        >>> g.variable_value(v).round(4).tolist()
        [0.5]
    """

    _fixed = frozenset(("state_bits",))

    def __init__(
        self,
        learning_rate: float | Schedule = 1e-3,
        beta1: BelowOne = 0.9,
        beta2: BelowOne = 0.999,
        epsilon: Positive = 1e-8,
        amsgrad: bool = False,
        weight_decay: NotNegative = 0.0,
        *,
        corrected_epsilon: bool = False,
        state_bits: Size = 32,
    ) -> None:
        super().__init__(learning_rate)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.amsgrad, self.weight_decay, self.corrected_epsilon = amsgrad, weight_decay, corrected_epsilon
        if state_bits not in (8, 32):
            raise GraphError(f"{type(self).__name__}: state_bits must be 8 or 32, got {state_bits}")
        self.state_bits = state_bits

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        values, gradient = self.decayed(values, gradient, learning_rate)
        scalars = (self._rate(learning_rate), self.beta1, self.beta2, self._epsilon_in(values.dtype))
        names = ["momentum", "velocity"] + (["maximum_velocity"] if self.amsgrad else [])
        if self.state_bits == 8 and is_large(variable):
            return self._step_of_blocks(Blocks(self, variable, values), names, scalars, values, gradient)
        states = [self.state(variable, values, name) for name in names]
        maximum = states[2] if self.amsgrad else None
        moved, *new = self.graph.adam_with_current_learning_rate(
            *scalars, values, states[0], states[1], gradient, maximum
        )
        return moved, [self.graph.assign(state, value) for state, value in zip(states, new, strict=True)]

    def _step_of_blocks(
        self, blocks: Blocks, names: list[str], scalars: _Scalars, values: Tensor, gradient: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        states = [blocks.read(name, name == "momentum") for name in names]
        divided = [blocks.divided(x) for x in (values, gradient)]
        moved, *new = self.graph.adam_with_current_learning_rate(
            *scalars, divided[0], states[0], states[1], divided[1], states[2] if self.amsgrad else None
        )
        made = [blocks.written(name, value, name == "momentum") for name, value in zip(names, new, strict=True)]
        return blocks.joined(moved), [operation for each in made for operation in each]

    def decayed(self, values: Tensor, gradient: Tensor, learning_rate: Tensor) -> tuple[Tensor, Tensor]:
        """Return values and gradient after weight decay.

        Args:
            values: Values of the parameter.
            gradient: Its gradient.
            learning_rate: Rate of the step.
        """
        return values, gradient + values * self.weight_decay if self.weight_decay else gradient

    def _rate(self, learning_rate: Tensor) -> Tensor:
        """Return the learning rate with both bias corrections."""
        dtype = learning_rate.dtype
        return learning_rate * (self._root(dtype) / self._correction(_rounded(self.beta1, dtype), dtype))

    def _root(self, dtype: DType) -> Tensor:
        return self.graph.square_root(self._correction(_rounded(self.beta2, dtype), dtype))

    def _epsilon_in(self, dtype: DType) -> Tensor | float:
        """Return the term to add to the root mean square, which is not bias-corrected.

        It is epsilon, or, with corrected_epsilon, epsilon scaled as if it were added to the bias-corrected root.
        """
        if not self.corrected_epsilon:
            return self.epsilon
        return self._root(dtype) * self.epsilon


def _rounded(beta: float, dtype: DType) -> float:
    """Return a decay rounded to a dtype, because the operation computes 1 - beta from the rounded beta."""
    return beta if dtype == float64 else float(np.float32(beta))


class AdamW(Adam):
    """AdamW: Adam with decoupled weight decay, which shrinks the values by rate * weight_decay before Adam's step.

    Conventions and defaults are PyTorch's, including where epsilon is added.

    Args:
        learning_rate: Number or schedule. Defaults to 1e-3.
        beta1: Decay of the mean of gradients, in [0, 1). Defaults to 0.9.
        beta2: Decay of the mean of squared gradients, in [0, 1). Defaults to 0.999.
        epsilon: Added to the root, above 0. Defaults to 1e-8.
        amsgrad: Whether to divide by the largest mean square so far. Defaults to False.
        weight_decay: Decoupled weight decay. Defaults to 0.01.
        corrected_epsilon: Whether to add epsilon as PyTorch does, the default, or as MPSGraph does; see `Adam`.
        state_bits: 8 to store the moments in 8 bits; see `Adam`. Defaults to 32.

    Raises:
        GraphError: If an option is out of range or passed under two names.

    Source: Loshchilov and Hutter, arXiv:1711.05101.

    Example:
        >>> g = mg.Graph()
        >>> v = g.variable([1.0])
        >>> steps = mg.optim.AdamW(0.5, weight_decay=0.5).updates({v: g.constant([4.0])}, g.constant(0.5))
        >>> _ = g.run({}, [], steps)
        >>> g.variable_value(v).round(4).tolist()
        [0.25]
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 1e-3,
        beta1: BelowOne = 0.9,
        beta2: BelowOne = 0.999,
        epsilon: Positive = 1e-8,
        amsgrad: bool = False,
        weight_decay: NotNegative = 0.01,
        *,
        corrected_epsilon: bool = True,
        state_bits: Size = 32,
    ) -> None:
        super().__init__(
            learning_rate, beta1, beta2, epsilon, amsgrad, weight_decay, corrected_epsilon=corrected_epsilon,
            state_bits=state_bits,
        )  # fmt: skip

    def decayed(self, values: Tensor, gradient: Tensor, learning_rate: Tensor) -> tuple[Tensor, Tensor]:
        return values * (1.0 - learning_rate * self.weight_decay), gradient
