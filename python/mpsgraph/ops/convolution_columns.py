"""Image windows as matrix columns: im_to_col and col_to_im."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._family import Family, ShapeLike, Tensor, ints
from ._padding import explicit_padding


def _column_attributes(
    kind: str,
    kernel: int | Sequence[int],
    strides: int | Sequence[int],
    dilations: int | Sequence[int],
    padding: Sequence[Sequence[int]],
    data_layout: str,
) -> dict[str, Any]:
    return {
        "kernel": ints(kernel, f"[{kind}] kernel", 2),
        "strides": ints(strides, f"[{kind}] strides", 2),
        "dilations": ints(dilations, f"[{kind}] dilations", 2),
        "padding": explicit_padding(padding, kind),
        "data_layout": data_layout,
    }


class ConvolutionColumns(Family):
    """Graph methods for image windows as matrix columns."""

    def im_to_col(
        self,
        source: Tensor,
        kernel: int | Sequence[int],
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        padding: Sequence[Sequence[int]] = ((0, 0), (0, 0)),
        data_layout: str = "NHWC",
        name: str | None = None,
    ) -> Tensor:
        """Copy the windows of images into the rows of a matrix, so that a convolution becomes one matmul.

        result[n, y * out_w + x, (i * kernel_w + j) * C + c] =
        source[n, y * stride_y + i * dilation_y - top, x * stride_x + j * dilation_x - left, c], and 0 in the padding.
        With data_layout="NCHW", windows become columns, as in torch.nn.Unfold:
        result[n, (c * kernel_h + i) * kernel_w + j, y * out_w + x].

        Args:
            source: Numeric images of shape (N, H, W, C), or (N, C, H, W) with data_layout="NCHW".
            kernel: Height and width of the window in pixels; an int means a square.
            strides: Step between windows in pixels: an int, or (y, x). Defaults to 1.
            dilations: Spacing between the elements of the kernel in pixels: an int, or (y, x). Defaults to 1.
            padding: ((top, bottom), (left, right)) in pixels of zeros. Defaults to none.
            data_layout: "NHWC" (the default) or "NCHW".
            name: Name of the operation.

        Returns:
            A tensor of shape (N, out_h * out_w, kernel_h * kernel_w * C), or (N, C * kernel_h * kernel_w, out_h *
            out_w) with data_layout="NCHW". Apple does not document the order within rows and columns; this order turns
            the convolution into a matmul without rearranging the weights.

        Raises:
            ShapeError: If source does not have rank 4, the window does not fit, or the padding is malformed.
            DTypeError: If source is bool.
            GraphError: If data_layout is not supported.

        Gradient: computed by col_to_im.

        Source: MPSGraph imToColWithSourceTensor:descriptor:name:.

        Example:
            >>> g = mg.Graph()
            >>> x = g.reshape(g.constant([1.0, 2.0, 3.0]), (1, 1, 3, 1))
            >>> g.run({}, g.im_to_col(x, (1, 2))).tolist()
            [[[1.0, 2.0], [2.0, 3.0]]]
        """
        attributes = _column_attributes("im_to_col", kernel, strides, dilations, padding, data_layout)
        return self._tensor("im_to_col", [source], name, **attributes)

    def col_to_im(
        self,
        source: Tensor,
        output_shape: ShapeLike,
        kernel: int | Sequence[int],
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        padding: Sequence[Sequence[int]] = ((0, 0), (0, 0)),
        data_layout: str = "NHWC",
        name: str | None = None,
    ) -> Tensor:
        """Add columns back to the image pixels that im_to_col copied them from, omitting elements of the padding.

        result[n, y, x, c] = sum of all elements of source that im_to_col would copy from the pixel (n, y, x, c).

        Args:
            source: Tensor of rank 3 with the shape of the result of im_to_col.
            output_shape: Shape of the images, as ints or as an integer tensor of rank 1.
            kernel: Height and width of the window in pixels; an int means a square.
            strides: Step between windows in pixels: an int, or (y, x). Defaults to 1.
            dilations: Spacing between the elements of the kernel in pixels: an int, or (y, x). Defaults to 1.
            padding: ((top, bottom), (left, right)) in pixels of zeros. Defaults to none.
            data_layout: "NHWC" (the default) or "NCHW".
            name: Name of the operation.

        Returns:
            A tensor of shape output_shape, with the dtype of source.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or the padding is malformed.
            DTypeError: If source is bool.
            GraphError: If data_layout is not supported.

        Gradient: computed by im_to_col.

        Source: MPSGraph colToImWithSourceTensor:outputShape:descriptor:name:.

        Example:
            >>> g = mg.Graph()
            >>> columns = g.constant([[[1.0, 2.0], [2.0, 3.0]]])
            >>> g.run({}, g.col_to_im(columns, (1, 1, 3, 1), (1, 2))).numpy().ravel().tolist()
            [1.0, 4.0, 3.0]
        """
        attributes = _column_attributes("col_to_im", kernel, strides, dilations, padding, data_layout)
        return self._tensor("col_to_im", [source, self._shape_operand(output_shape, "col_to_im")], name, **attributes)
