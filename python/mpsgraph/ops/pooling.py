"""Maximum and average pooling of images, with their gradients; pooling over four axes and pooling with indices have
their own files.

Windows, strides, and padding are (y, x) in pixels. Strides default to the window, as in Keras. Minimum pooling is
`-max_pooling2d(-x)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._family import Family, ShapeLike, Tensor, ints
from ._padding import Padding, padding_attributes
from .pooling_descriptors import Pooling2DDescriptor, Pooling4DDescriptor, Window, described

_DEFAULTS = {
    "strides": None,
    "dilations": 1,
    "padding": "TF_VALID",
    "ceil_mode": False,
    "data_layout": "NHWC",
    "include_zero_pad_to_average": False,
}


def pooling_attributes(
    kind: str,
    axes: int,
    kernel: Window,
    strides: int | Sequence[int] | None,
    dilations: int | Sequence[int],
    padding: Padding,
    ceil_mode: bool,
    **others: Any,
) -> dict[str, Any]:
    """Return the attributes that all pooling operations share. Raise an error if a length is not the number of axes.

    The default of strides is the size of the kernel for windows over two axes, and 1 for windows over four axes.
    """
    if isinstance(kernel, (Pooling2DDescriptor, Pooling4DDescriptor)):
        given = {"strides": strides, "dilations": dilations, "padding": padding, "ceil_mode": ceil_mode, **others}
        found = described(kind, axes, kernel, given, _DEFAULTS)
        return pooling_attributes(kind, axes, kernel.kernel, **found)
    if axes == 4 and strides is None:
        strides = 1
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
    kernel: Window,
    strides: int | Sequence[int] | None,
    dilations: int | Sequence[int],
    padding: Padding,
    data_layout: str,
    ceil_mode: bool,
) -> dict[str, Any]:
    return pooling_attributes(kind, 2, kernel, strides, dilations, padding, ceil_mode, data_layout=data_layout)


class Pooling(Family):
    """Graph methods for max_pooling2d, avg_pooling2d, and their gradients."""

    def max_pooling2d(
        self,
        source: Tensor,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        data_layout: str = "NHWC",
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the maximum of each window of an image.

        result[n, y, x, c] = max over i, j of source[n, y * stride_y + i * dilation_y - top, x * stride_x + ..., c].
        Padding is never the maximum.

        Args:
            source: Floating-point images of shape (N, H, W, C), or (N, C, H, W) with data_layout="NCHW".
            kernel: Height and width of the window in pixels; an int means a square. Or a
                Pooling2DDescriptor, which contains the other options.
            strides: Step between windows in pixels: an int, or (y, x). None, the default, means the size of the kernel.
            padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or ((top, bottom), (left,
                right)) in pixels.
            dilations: Spacing between the elements of the window in pixels: an int, or (y, x). Defaults to 1.
            data_layout: "NHWC" (the default) or "NCHW".
            ceil_mode: Whether to round the output size up, so that the last window may extend beyond the padding.
                Defaults to False.
            name: Name of the operation.

        Returns:
            A tensor of shape (N, out_h, out_w, C), or (N, C, out_h, out_w) with data_layout="NCHW".

        Raises:
            ShapeError: If source does not have rank 4, or the kernel, strides, dilations, or padding are invalid.
            DTypeError: If the operands are not floating-point.
            GraphError: If a layout or padding style is not supported.

        Gradient: computed by max_pooling2d_gradient.

        Source: MPSGraph maxPooling2DWithSourceTensor:descriptor:name:.

        Example:
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
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        data_layout: str = "NHWC",
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of max_pooling2d with respect to its source.

        The result starts as zeros, and each element of incoming is added at the first maximum of its window.

        Args:
            incoming: Gradient with respect to the result of max_pooling2d, with the shape of that result.
            source: The source given to max_pooling2d.
            kernel: Height and width of the window in pixels; an int means a square. Or a
                Pooling2DDescriptor, which contains the other options.
            strides: Step between windows in pixels: an int, or (y, x). None, the default, means the size of the kernel.
            padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or ((top, bottom), (left,
                right)) in pixels.
            dilations: Spacing between the elements of the window in pixels: an int, or (y, x). Defaults to 1.
            data_layout: "NHWC" (the default) or "NCHW".
            ceil_mode: Whether to round the output size up, so that the last window may extend beyond the padding.
                Defaults to False.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of source.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or the kernel, strides, dilations, or padding
                are invalid.
            DTypeError: If the operands are not floating-point or their dtypes differ.
            GraphError: If a layout or padding style is not supported.

        Gradient: to incoming, the elements of the incoming gradient at the maxima; to source, zero.

        Source: MPSGraph maxPooling2DGradientWithGradientTensor:sourceTensor:descriptor:name:.

        Example:
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
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        data_layout: str = "NHWC",
        ceil_mode: bool = False,
        include_zero_pad_to_average: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the mean of each window of an image.

        result[n, y, x, c] = mean of source over the window. Padding counts as zeros with include_zero_pad_to_average;
        otherwise the mean is taken over the pixels inside the image.

        Args:
            source: Floating-point images of shape (N, H, W, C), or (N, C, H, W) with data_layout="NCHW".
            kernel: Height and width of the window in pixels; an int means a square. Or a
                Pooling2DDescriptor, which contains the other options.
            strides: Step between windows in pixels: an int, or (y, x). None, the default, means the size of the kernel.
            padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or ((top, bottom), (left,
                right)) in pixels.
            dilations: Spacing between the elements of the window in pixels: an int, or (y, x). Defaults to 1.
            data_layout: "NHWC" (the default) or "NCHW".
            ceil_mode: Whether to round the output size up, so that the last window may extend beyond the padding.
                Defaults to False.
            include_zero_pad_to_average: Whether padding counts as zeros in the average. Defaults to False, which
                averages only over elements inside the image.
            name: Name of the operation.

        Returns:
            A tensor of shape (N, out_h, out_w, C), or (N, C, out_h, out_w) with data_layout="NCHW".

        Raises:
            ShapeError: If source does not have rank 4, or the kernel, strides, dilations, or padding are invalid.
            DTypeError: If the operands are not floating-point.
            GraphError: If a layout or padding style is not supported.

        Gradient: computed by avg_pooling2d_gradient.

        Source: MPSGraph avgPooling2DWithSourceTensor:descriptor:name:.

        Example:
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
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        data_layout: str = "NHWC",
        ceil_mode: bool = False,
        include_zero_pad_to_average: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of avg_pooling2d with respect to its source.

        Each element of incoming is divided equally among the elements of its window, and the shares are added up.

        Args:
            incoming: Gradient with respect to the result of avg_pooling2d, with the shape of that result.
            input_shape: Shape of the source, as ints or as an integer tensor of rank 1.
            kernel: Height and width of the window in pixels; an int means a square. Or a
                Pooling2DDescriptor, which contains the other options.
            strides: Step between windows in pixels: an int, or (y, x). None, the default, means the size of the kernel.
            padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or ((top, bottom), (left,
                right)) in pixels.
            dilations: Spacing between the elements of the window in pixels: an int, or (y, x). Defaults to 1.
            data_layout: "NHWC" (the default) or "NCHW".
            ceil_mode: Whether to round the output size up, so that the last window may extend beyond the padding.
                Defaults to False.
            include_zero_pad_to_average: Whether padding counts as zeros in the average. Defaults to False, which
                averages only over elements inside the image.
            name: Name of the operation.

        Returns:
            A tensor of shape input_shape, with the dtype of incoming.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or the kernel, strides, dilations, or padding
                are invalid.
            DTypeError: If the operands are not floating-point.
            GraphError: If a layout or padding style is not supported.

        Gradient: computed by avg_pooling2d for incoming.

        Source: MPSGraph avgPooling2DGradientWithGradientTensor:sourceTensor:descriptor:name:, which takes the source
        instead of its shape.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.avg_pooling2d_gradient(g.constant(4.0, (1, 1, 1, 1)), (1, 2, 2, 1), 2)).tolist()
            [[[[1.0], [1.0]], [[1.0], [1.0]]]]
        """
        kind = "avg_pooling2d_gradient"
        attributes = _attributes(kind, kernel, strides, dilations, padding, data_layout, ceil_mode)
        attributes["include_zero_pad_to_average"] = include_zero_pad_to_average
        return self._tensor(kind, [incoming, self._shape_operand(input_shape, kind)], name, **attributes)
