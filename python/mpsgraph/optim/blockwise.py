"""Optimizer states in 8 bits: one byte for each element, and one scale for each block of 256 elements.

A block is scaled by its largest absolute value s. An element x becomes the code c = round(n * |x / s|^(1/4)), with the
sign of x if the state is signed, and a code stands for s * (c / n)^4. The largest code n is 127 for signed states, and
255 for others. The fourth power spreads the codes over ten orders of magnitude, with the smallest relative distance
(1.6% to 3%) next to s. An element of a state without signs that is above 0 has at least code 1, so that a root mean
square never becomes 0.

Blocks limit the effect of outliers, as in Dettmers et al., 8-bit Optimizers via Block-wise Quantization,
arXiv:2110.02861. The codes there are a table; the fourth power needs only square roots and products, which every device
has.
"""

from __future__ import annotations

import math

from .._core import Operation, Tensor, int8, uint8
from .optimizers import Optimizer

BLOCK = 256
LEAST_ELEMENTS = 4096
"""Smallest number of elements of a parameter whose states are stored in 8 bits."""


def is_large(variable: Tensor) -> bool:
    """Return whether the states of a parameter are stored in 8 bits."""
    return math.prod(variable.shape or ()) >= LEAST_ELEMENTS


class Blocks:
    """A parameter's elements, and its states, as blocks of 256 elements.

    Args:
        optimizer: Optimizer that holds the states.
        variable: The parameter.
        like: Tensor whose dtype the step computes in.
    """

    def __init__(self, optimizer: Optimizer, variable: Tensor, like: Tensor) -> None:
        self.optimizer, self.variable, self.dtype = optimizer, variable, like.dtype
        self.shape = tuple(variable.shape or ())
        self.count = math.prod(self.shape)
        self.blocks = -(-self.count // BLOCK)

    def divided(self, x: Tensor) -> Tensor:
        """Return the elements of a tensor with the parameter's shape as (blocks, 256), with zeros at the end."""
        g, missing = self.optimizer.graph, self.blocks * BLOCK - self.count
        flat = g.reshape(x, (self.count,))
        if missing:
            flat = g.pad(flat, [0], [missing])
        return g.reshape(flat, (self.blocks, BLOCK))

    def joined(self, x: Tensor) -> Tensor:
        """Return (blocks, 256) elements in the parameter's shape."""
        g = self.optimizer.graph
        flat = g.reshape(x, (self.blocks * BLOCK,))
        if self.blocks * BLOCK > self.count:
            flat = g.slice(flat, [0], [self.count], [1])
        return g.reshape(flat, self.shape)

    def _variables(self, name: str, signed: bool) -> tuple[Tensor, Tensor]:
        state, code = self.optimizer.state_of_shape, int8 if signed else uint8
        return (
            state(self.variable, (self.blocks, BLOCK), code, f"{name}_codes", initial=0),
            state(self.variable, (self.blocks, 1), self.dtype, f"{name}_scales"),
        )

    def read(self, name: str, signed: bool) -> Tensor:
        """Return the values of a state, (blocks, 256)."""
        codes, scales = self._variables(name, signed)
        g = self.optimizer.graph
        root = g.cast(codes, self.dtype) * (1 / (127 if signed else 255))
        square = g.square(root)
        return g.square(square) * scales if not signed else g.square(root) * (g.absolute(root) * root) * scales

    def written(self, name: str, values: Tensor, signed: bool) -> list[Operation]:
        """Return the operations that store new values of a state, (blocks, 256)."""
        codes, scales = self._variables(name, signed)
        g, most = self.optimizer.graph, 127.0 if signed else 255.0
        size = g.absolute(values) if signed else values
        largest = g.reduction_maximum(size, [1])
        found = g.rint(g.square_root(g.square_root(g.division_no_nan(size, largest))) * most)
        if signed:
            found = g.select(g.less_than(values, 0.0), -found, found)
        else:
            found = g.select(g.greater_than(values, 0.0), g.maximum(found, 1.0), found)
        return [g.assign(codes, g.cast(found, codes.dtype)), g.assign(scales, largest)]
