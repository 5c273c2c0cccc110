"""Pooling with windows over the last four axes, whatever they mean: maximum, average, L2 norm, and their gradients.

With a kernel of 1 for what is no space it pools volumes: (1, d, h, w) for (N, C, D, H, W), (d, h, w, 1) for
(N, D, H, W, C).
"""

from __future__ import annotations

from collections.abc import Sequence

from ._family import Family, ShapeLike, Tensor
from ._padding import Padding
from .pooling import pooling_attributes


class Pooling4D(Family):
    """max_pooling4d, avg_pooling4d, l2_norm_pooling4d and their gradients."""

    def max_pooling4d(
        self,
        source: Tensor,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Largest element of each window over the last four axes.

        result[..., a, b, y, x] = max over the window of source[..., a * stride_a + i * dilation_a - before_a, ...];
        padding never wins.

        Args:
            source: of rank 4 or more; a floating-point dtype.
            kernel, strides, dilations: one int, or four, for the last four axes; strides None: as kernel.
            padding: "TF_VALID", "TF_SAME", "ONNX_SAME_LOWER" or four pairs (before, after).
            ceil_mode: round the output's size up, so that the last window may reach beyond the padding.
        Result: source's shape with other sizes at the last four axes. Errors: ShapeError, DTypeError.
        Gradient: max_pooling4d_gradient. Source: MPSGraph maxPooling4DWithSourceTensor:descriptor:name:.

        >>> g = mg.Graph()
        >>> volumes = g.placeholder((-1, 3, 8, 32, 32))
        >>> g.max_pooling4d(volumes, (1, 2, 2, 2)).shape
        (-1, 3, 4, 16, 16)
        """
        attributes = pooling_attributes("max_pooling4d", 4, kernel, strides, dilations, padding, ceil_mode)
        return self._tensor("max_pooling4d", [source], name, **attributes)

    def max_pooling4d_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Gradient of max_pooling4d with respect to its source.

        result = each incoming element, added at the first maximum of its window.
        Args: incoming, shaped as the pooling's result; source and the rest as given to max_pooling4d. Result: source's
        shape and dtype. Errors: ShapeError, DTypeError. Gradient: to incoming, the elements at the maxima.
        Source: MPSGraph maxPooling4DGradientWithGradientTensor:sourceTensor:descriptor:name:.

        >>> g = mg.Graph()
        >>> x = g.reshape(g.constant([1.0, 2.0, 3.0, 4.0]), (2, 1, 2, 1))
        >>> g.run({}, g.max_pooling4d_gradient(g.constant(5.0, (1, 1, 1, 1)), x, (2, 1, 2, 1))).numpy().ravel().tolist()
        [0.0, 0.0, 0.0, 5.0]
        """
        kind = "max_pooling4d_gradient"
        attributes = pooling_attributes(kind, 4, kernel, strides, dilations, padding, ceil_mode)
        return self._tensor(kind, [incoming, source], name, **attributes)

    def avg_pooling4d(
        self,
        source: Tensor,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        include_zero_pad_to_average: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Mean of each window over the last four axes.

        result = the mean over the window of source; padding counts as zeros with include_zero_pad_to_average, else the
        mean is over the elements inside.

        Args: as max_pooling4d. Result: source's shape with other sizes at the last four axes. Errors: ShapeError,
        DTypeError. Gradient: avg_pooling4d_gradient. Source: MPSGraph avgPooling4DWithSourceTensor:descriptor:name:.

        >>> g = mg.Graph()
        >>> x = g.reshape(g.constant([1.0, 2.0, 3.0, 4.0]), (2, 1, 2, 1))
        >>> g.run({}, g.avg_pooling4d(x, (2, 1, 2, 1))).item()
        2.5
        """
        include = {"include_zero_pad_to_average": include_zero_pad_to_average}
        attributes = pooling_attributes("avg_pooling4d", 4, kernel, strides, dilations, padding, ceil_mode, **include)
        return self._tensor("avg_pooling4d", [source], name, **attributes)

    def avg_pooling4d_gradient(
        self,
        incoming: Tensor,
        input_shape: ShapeLike,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        include_zero_pad_to_average: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Gradient of avg_pooling4d with respect to its source.

        result = each incoming element, divided equally over its window.
        Args: incoming, shaped as the pooling's result; input_shape, the source's shape, ints or an int tensor of rank
        1; the rest as given to avg_pooling4d. Result: input_shape, incoming's dtype. Errors: ShapeError, DTypeError.
        Gradient: avg_pooling4d to incoming.
        Source: MPSGraph avgPooling4DGradientWithGradientTensor:sourceTensor:descriptor:name:, which takes the source
        for its shape.

        >>> g = mg.Graph()
        >>> d = g.constant(4.0, (1, 1, 1, 1))
        >>> g.run({}, g.avg_pooling4d_gradient(d, (2, 1, 2, 1), (2, 1, 2, 1))).numpy().ravel().tolist()
        [1.0, 1.0, 1.0, 1.0]
        """
        kind = "avg_pooling4d_gradient"
        include = {"include_zero_pad_to_average": include_zero_pad_to_average}
        attributes = pooling_attributes(kind, 4, kernel, strides, dilations, padding, ceil_mode, **include)
        return self._tensor(kind, [incoming, self._shape_operand(input_shape, kind)], name, **attributes)

    def l2_norm_pooling4d(
        self,
        source: Tensor,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Euclidean norm of each window over the last four axes.

        result = sqrt(sum over the window of source * source); padding counts as zeros.

        Args: as max_pooling4d. Result: source's shape with other sizes at the last four axes. Errors: ShapeError,
        DTypeError. Gradient: l2_norm_pooling4d_gradient.
        Source: MPSGraph L2NormPooling4DWithSourceTensor:descriptor:name:.

        >>> g = mg.Graph()
        >>> x = g.reshape(g.constant([3.0, 4.0]), (1, 1, 2, 1))
        >>> g.run({}, g.l2_norm_pooling4d(x, (1, 1, 2, 1))).item()
        5.0
        """
        attributes = pooling_attributes("l2_norm_pooling4d", 4, kernel, strides, dilations, padding, ceil_mode)
        return self._tensor("l2_norm_pooling4d", [source], name, **attributes)

    def l2_norm_pooling4d_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Gradient of l2_norm_pooling4d with respect to its source.

        result = source * the sum over its windows of incoming / norm; a window of zeros gives 0.
        Args: incoming, shaped as the pooling's result; source and the rest as given to l2_norm_pooling4d. Result:
        source's shape and dtype. Errors: ShapeError, DTypeError. Gradient: that of its composition.
        Source: MPSGraph L2NormPooling4DGradientWithGradientTensor:sourceTensor:descriptor:name:.

        >>> g = mg.Graph()
        >>> x, d = g.reshape(g.constant([3.0, 4.0]), (1, 1, 2, 1)), g.constant(10.0, (1, 1, 1, 1))
        >>> g.run({}, g.l2_norm_pooling4d_gradient(d, x, (1, 1, 2, 1))).numpy().ravel().tolist()
        [6.0, 8.0]
        """
        kind = "l2_norm_pooling4d_gradient"
        attributes = pooling_attributes(kind, 4, kernel, strides, dilations, padding, ceil_mode)
        return self._tensor(kind, [incoming, source], name, **attributes)
