"""Translations of convolutions.

The graph's 2-D and 3-D convolutions are used if possible, and one matmul per filter tap otherwise. Convolutions that
JAX derives as gradients are recognized: a convolution with a dilated operand is the gradient with respect to the data,
and a convolution whose kernel is larger than its result is the gradient with respect to the weights.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from ..._core import Tensor
from ._table import Equation, primitive, shape
from .elementwise import converted
from .shapes import padded, sliced, transposed


@primitive("conv_general_dilated")
def conv_general_dilated(
    equation: Equation,
    x: Tensor,
    weights: Tensor,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    **_: Any,
) -> Tensor:
    g = equation.g
    x, weights = (converted(equation, v, equation.dtype) for v in (x, weights))
    if 0 in shape(x) or 0 in shape(weights):
        return equation.constant(0, equation.dtype, equation.shape)
    numbers = dimension_numbers
    lhs, rhs, out = ([int(a) for a in spec] for spec in (numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec))
    x = transposed(equation, x, [lhs[0], *lhs[2:], lhs[1]])  # The layout is (N, spatial axes, C).
    weights = transposed(equation, weights, [*rhs[2:], rhs[1], rhs[0]])  # The layout is (spatial axes, I, O).
    strides, before, after = ([int(v) for v in values] for values in (window_strides, lhs_dilation, rhs_dilation))
    pads = [(int(low), int(high)) for low, high in padding]
    groups = int(feature_group_count)
    if batch_group_count > 1:
        # Each batch group has its own weights. Such groups become channel groups.
        groups, sizes = int(batch_group_count), shape(x)
        split = g.reshape(x, [groups, sizes[0] // groups, *sizes[1:]])
        rank = len(sizes)
        split = g.transpose(split, [1, *range(2, rank), 0, rank])
        x = g.reshape(split, [sizes[0] // groups, *sizes[1:-1], groups * sizes[-1]])
    result_sizes = [equation.shape[axis] for axis in out[2:]]
    convolution = _Convolution(equation, strides, pads, before, after, groups, result_sizes)
    found = convolution(x, weights)
    # Permute the result from (N, spatial axes, O) to the requested order.
    places = [0] * len(out)
    places[out[0]], places[out[1]] = 0, len(out) - 1
    for number, axis in enumerate(out[2:]):
        places[axis] = 1 + number
    return transposed(equation, found, places)


class _Convolution:
    """A convolution with channels last: x has layout (N, spatial axes, C), and the weights have layout (spatial
    axes, I, O).
    """

    def __init__(
        self,
        equation: Equation,
        strides: list[int],
        pads: list[tuple[int, int]],
        before: list[int],
        after: list[int],
        groups: int,
        sizes: list[int],
    ) -> None:
        self.equation, self.g = equation, equation.g
        self.strides, self.pads, self.before, self.after = strides, pads, before, after
        self.groups, self.sizes = groups, sizes

    def __call__(self, x: Tensor, weights: Tensor) -> Tensor:
        spatial = len(self.strides)
        if not x.dtype.is_float or spatial not in (1, 2, 3):
            return self._by_taps(x, weights)
        if spatial == 1:  # Add an axis of size 1 so that 1-D convolutions become 2-D.
            self.strides, self.before, self.after = [1, *self.strides], [1, *self.before], [1, *self.after]
            self.pads, self.sizes = [(0, 0), *self.pads], [1, *self.sizes]
            x = self.g.reshape(x, [shape(x)[0], 1, *shape(x)[1:]])
            found = self._by_kernels(x, self.g.reshape(weights, [1, *shape(weights)]))
            return self.g.reshape(found, [shape(found)[0], *shape(found)[2:]])
        return self._by_kernels(x, weights)

    def _by_kernels(self, x: Tensor, weights: Tensor) -> Tensor:
        if any(d > 1 for d in self.before):
            if (found := self._as_data_gradient(x, weights)) is not None:
                return found
            zero = self.equation.constant(0, x.dtype)
            x = padded(self.equation, x, zero, [(0, 0, 0), *((0, 0, d - 1) for d in self.before), (0, 0, 0)])
        if any(low < 0 or high < 0 for low, high in self.pads):
            zero = self.equation.constant(0, x.dtype)
            cut = [(min(low, 0), min(high, 0), 0) for low, high in self.pads]
            x = padded(self.equation, x, zero, [(0, 0, 0), *cut, (0, 0, 0)])
            self.pads = [(max(low, 0), max(high, 0)) for low, high in self.pads]
        window = shape(weights)[:-2]
        if self.groups == 1 and math.prod(window) > 4 * math.prod(self.sizes) and len(window) == 2:
            return self._as_weights_gradient(x, weights)
        two = len(window) == 2
        layouts = ("NHWC", "HWIO") if two else ("NDHWC", "DHWIO")
        return (self.g.convolution2d if two else self.g.convolution3d)(
            x, weights, strides=self.strides, dilations=self.after, groups=self.groups, padding=tuple(self.pads),
            data_layout=layouts[0], weights_layout=layouts[1],
        )  # fmt: skip

    def _as_data_gradient(self, x: Tensor, weights: Tensor) -> Tensor | None:
        """Compute a convolution of dilated x as the gradient of another convolution with respect to its data.

        Returns None if the strides, groups, or padding do not allow it.
        """
        if any(s != 1 for s in self.strides) or self.groups != 1 or len(self.before) != 2:
            return None
        pads = []
        for (low, _), stride, dilation, size, source, result in zip(
            self.pads, self.before, self.after, shape(weights)[:-2], shape(x)[1:-1], self.sizes, strict=True
        ):
            extent = dilation * (size - 1) + 1
            first = extent - 1 - low
            last = stride * (source - 1) + extent - result - first
            last = last if last >= 0 else 0 if -last < stride else -1
            if first < 0 or last < 0:
                return None
            pads.append((first, last))
        kernel = self.g.transpose(self.g.reverse(weights, [0, 1]), [0, 1, 3, 2])
        sizes = [shape(x)[0], *self.sizes, shape(weights)[-1]]
        return self.g.convolution2d_data_gradient(
            x, kernel, sizes, strides=self.before, dilations=self.after, padding=tuple(pads)
        )

    def _as_weights_gradient(self, x: Tensor, weights: Tensor) -> Tensor:
        """Compute a convolution as the gradient of another convolution with respect to its weights.

        `x` is the source of that convolution with layout (C, H, W, N), and `weights` is its incoming gradient with
        layout (h, w, N, O). The result has layout (C, kh, kw, O).
        """
        g = self.g
        source = g.transpose(x, [3, 1, 2, 0])
        incoming = g.transpose(weights, [2, 0, 1, 3])
        # Elements after the last window do not contribute to the gradient.
        pads, ends = [], []
        for (low, high), stride, dilation, size, window, result in zip(
            self.pads, self.after, self.strides, shape(source)[1:3], shape(incoming)[1:3], self.sizes, strict=True
        ):
            needed = stride * (window - 1) + dilation * (result - 1) + 1
            spare = low + size + high - needed
            pads.append((low, max(high - spare, 0)))
            ends.append(size - max(spare - high, 0))
        source = sliced(self.equation, source, [0] * 4, [shape(source)[0], *ends, shape(source)[3]])
        sizes = [*self.sizes, shape(x)[0], shape(weights)[-1]]
        found = g.convolution2d_weights_gradient(
            incoming, source, sizes, strides=self.after, dilations=self.strides, padding=tuple(pads)
        )
        return g.transpose(found, [2, 0, 1, 3])

    def _by_taps(self, x: Tensor, weights: Tensor) -> Tensor:
        """Multiply each filter tap by the elements of x that it is applied to, and sum the products."""
        g, spatial = self.g, len(self.strides)
        zero = self.equation.constant(0, x.dtype)
        config = [(0, 0, 0), *((*p, d - 1) for p, d in zip(self.pads, self.before, strict=True)), (0, 0, 0)]
        x = padded(self.equation, x, zero, config)
        window, channels, outputs = shape(weights)[:spatial], shape(x)[-1], shape(weights)[-1]
        batch, count = shape(x)[0], math.prod(self.sizes)
        total: Tensor | None = None
        for tap in itertools.product(*map(range, window)):
            starts = [t * d for t, d in zip(tap, self.after, strict=True)]
            ends = [s + (n - 1) * t + 1 for s, n, t in zip(starts, self.sizes, self.strides, strict=True)]
            part = sliced(self.equation, x, [0, *starts, 0], [batch, *ends, channels], [1, *self.strides, 1])
            kernel = sliced(self.equation, weights, [*tap, 0, 0], [*(t + 1 for t in tap), *shape(weights)[-2:]])
            part = g.reshape(part, [batch * count, self.groups, channels // self.groups])
            kernel = g.reshape(kernel, [channels // self.groups, self.groups, outputs // self.groups])
            product = g.matrix_multiplication(g.transpose(part, [1, 0, 2]), g.transpose(kernel, [1, 0, 2]))
            total = product if total is None else g.addition(total, product)
        assert total is not None
        return g.reshape(g.transpose(total, [1, 0, 2]), [batch, *self.sizes, outputs])
