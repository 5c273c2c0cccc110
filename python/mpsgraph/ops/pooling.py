"""Maximum and average pooling of images, with their gradients; four axes and indices have files of their own.

Windows, strides and padding are (y, x) in pixels; strides default to the window, as in Keras. Minimum pooling is
`-max_pooling2d(-x)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._family import Family, ShapeLike, Tensor, ints
from ._padding import Padding, padding_attributes


def pooling_attributes(
    kind: str,
    axes: int,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] | None,
    dilations: int | Sequence[int],
    padding: Padding,
    ceil_mode: bool,
    **others: Any,
) -> dict[str, Any]:
    """What all poolings share, by windowed axis."""
    window = ints(kernel, f"[{kind}] kernel", axes)
    return {
        "kernel": window,
        "strides": window if strides is None else ints(strides, f"[{kind}] strides", axes),
        "dilations": ints(dilations, f"[{kind}] dilations", axes),
        "ceil_mode": ceil_mode,
        **padding_attributes(padding, kind, axes),
        **others,
    }


def _attributes(
    kind: str,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] | None,
    dilations: int | Sequence[int],
    padding: Padding,
    data_layout: str,
    ceil_mode: bool,
) -> dict[str, Any]:
    return pooling_attributes(kind, 2, kernel, strides, dilations, padding, ceil_mode, data_layout=data_layout)


class Pooling(Family):
    """max_pooling2d, avg_pooling2d and their gradients."""

    def max_pooling2d(
        self,
        source: Tensor,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        data_layout: str = "NHWC",
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Largest element of each window.

        result[n, y, x, c] = max over i, j of source[n, y * stride_y + i * dilation_y - top, x * stride_x + ..., c];
        padding never wins.

        Args:
            source: (N, H, W, C), or (N, C, H, W) with data_layout="NCHW"; a floating-point dtype.
            kernel, strides, dilations: one int, or (y, x), in pixels; strides None: as kernel.
            padding: "TF_VALID", "TF_SAME", "ONNX_SAME_LOWER" or ((top, bottom), (left, right)) in pixels.
            ceil_mode: round the output's size up, so that the last window may reach beyond the padding.
        Result: (N, out_h, out_w, C), or (N, C, out_h, out_w). Errors: ShapeError, DTypeError.
        Gradient: max_pooling2d_gradient. Source: MPSGraph maxPooling2DWithSourceTensor:descriptor:name:.

        >>> g = mg.Graph()
        >>> x = g.reshape(g.constant([1.0, 2.0, 3.0, 4.0]), (1, 2, 2, 1))
        >>> g.run({}, g.max_pooling2d(x, 2)).tolist()
        [[[[4.0]]]]
        """
        attributes = _attributes("max_pooling2d", kernel, strides, dilations, padding, data_layout, ceil_mode)
        return self._tensor("max_pooling2d", [source], name, **attributes)

    def max_pooling2d_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        data_layout: str = "NHWC",
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Gradient of max_pooling2d with respect to its source.

        result = each incoming element, added at the first maximum of its window.
        Args: incoming, shaped as the pooling's result; source and the rest as given to max_pooling2d. Result: source's
        shape and dtype. Errors: ShapeError, DTypeError. Gradient: to incoming, the elements at the maxima.
        Source: MPSGraph maxPooling2DGradientWithGradientTensor:sourceTensor:descriptor:name:.

        >>> g = mg.Graph()
        >>> x = g.reshape(g.constant([1.0, 2.0, 3.0, 4.0]), (1, 2, 2, 1))
        >>> g.run({}, g.max_pooling2d_gradient(g.constant(5.0, (1, 1, 1, 1)), x, 2)).tolist()
        [[[[0.0], [0.0]], [[0.0], [5.0]]]]
        """
        kind = "max_pooling2d_gradient"
        attributes = _attributes(kind, kernel, strides, dilations, padding, data_layout, ceil_mode)
        return self._tensor(kind, [incoming, source], name, **attributes)

    def avg_pooling2d(
        self,
        source: Tensor,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        data_layout: str = "NHWC",
        ceil_mode: bool = False,
        include_zero_pad_to_average: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Mean of each window.

        result[n, y, x, c] = the mean over the window of source; padding counts as zeros with
        include_zero_pad_to_average, else the mean is over the pixels inside.

        Args: as max_pooling2d. Result: (N, out_h, out_w, C), or (N, C, out_h, out_w). Errors: ShapeError, DTypeError.
        Gradient: avg_pooling2d_gradient. Source: MPSGraph avgPooling2DWithSourceTensor:descriptor:name:.

        >>> g = mg.Graph()
        >>> x = g.reshape(g.constant([1.0, 2.0, 3.0, 4.0]), (1, 2, 2, 1))
        >>> g.run({}, g.avg_pooling2d(x, 2)).tolist()
        [[[[2.5]]]]
        """
        attributes = _attributes("avg_pooling2d", kernel, strides, dilations, padding, data_layout, ceil_mode)
        attributes["include_zero_pad_to_average"] = include_zero_pad_to_average
        return self._tensor("avg_pooling2d", [source], name, **attributes)

    def avg_pooling2d_gradient(
        self,
        incoming: Tensor,
        input_shape: ShapeLike,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        data_layout: str = "NHWC",
        ceil_mode: bool = False,
        include_zero_pad_to_average: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Gradient of avg_pooling2d with respect to its source.

        result = each incoming element, divided equally over its window.
        Args: incoming, shaped as the pooling's result; input_shape, the source's shape, ints or an int tensor of rank
        1; the rest as given to avg_pooling2d. Result: input_shape, incoming's dtype. Errors: ShapeError, DTypeError.
        Gradient: avg_pooling2d to incoming.
        Source: MPSGraph avgPooling2DGradientWithGradientTensor:sourceTensor:descriptor:name:, which takes the source
        for its shape.

        >>> g = mg.Graph()
        >>> g.run({}, g.avg_pooling2d_gradient(g.constant(4.0, (1, 1, 1, 1)), (1, 2, 2, 1), 2)).tolist()
        [[[[1.0], [1.0]], [[1.0], [1.0]]]]
        """
        kind = "avg_pooling2d_gradient"
        attributes = _attributes(kind, kernel, strides, dilations, padding, data_layout, ceil_mode)
        attributes["include_zero_pad_to_average"] = include_zero_pad_to_average
        return self._tensor(kind, [incoming, self._shape_operand(input_shape, kind)], name, **attributes)
