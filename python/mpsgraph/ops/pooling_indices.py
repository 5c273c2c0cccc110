"""Maximum pooling that also returns the positions of the maxima, and its gradient.

Reusing the indices of the forward pass is faster than searching for the maxima again, as max_pooling2d_gradient does.
"""

from __future__ import annotations

from collections.abc import Sequence

from ._family import Family, ShapeLike, Tensor
from ._padding import Padding
from .pooling import pooling_attributes
from .pooling_descriptors import Window


class PoolingWithIndices(Family):
    """Graph methods for maximum pooling with indices, over two and four axes, and the gradients from these indices."""

    def max_pooling2d_return_indices(
        self,
        source: Tensor,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        return_indices_mode: str = "global_flatten_4d",
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        data_layout: str = "NHWC",
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Compute the maximum of each window of an image, and the index of its first occurrence.

        values = max_pooling2d(source); indices[n, y, x, c] = the position of the maximum, counted in row-major order
        over the last k axes of the source or of the window.

        Args:
            source: Floating-point images of shape (N, H, W, C), or (N, C, H, W) with data_layout="NCHW".
            kernel: Height and width of the window in pixels; an int means a square. Or a
                Pooling2DDescriptor, which contains the other options.
            strides: Step between windows in pixels: an int, or (y, x). None, the default, means the size of the kernel.
            return_indices_mode: "global_flatten_<k>d", for k from 1 to 4, counts elements of the source over its last k
                axes: k = 2 with NCHW gives y * W + x, as in PyTorch; k = 3 with NHWC gives (y * W + x) * C + c, as in
                TensorFlow; and k = 4 (the default) counts all elements. "local_flatten_<k>d" counts positions in the
                window over its last k axes, including padding.
            padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or ((top, bottom), (left,
                right)) in pixels.
            dilations: Spacing between the elements of the window in pixels: an int, or (y, x). Defaults to 1.
            data_layout: "NHWC" (the default) or "NCHW".
            ceil_mode: Whether to round the output size up, so that the last window may extend beyond the padding.
                Defaults to False.
            name: Name of the operation.

        Returns:
            The pair (values, indices), with the dtype of source and int32, both of shape (N, out_h, out_w, C), or (N,
            C, out_h, out_w). Of several equal maxima, the index is that of the first. NaN is greater than any number. A
            window that covers no pixel has index -1.

        Raises:
            ShapeError: If source does not have rank 4, the window is invalid, or there are more positions than int32
                can count.
            DTypeError: If source is not floating-point.
            GraphError: If return_indices_mode, data_layout, or the padding style is not supported.

        Gradient: max_pooling2d_gradient_from_indices if the indices identify the positions of the maxima, otherwise
        max_pooling2d_gradient.

        Source: MPSGraph maxPooling2DReturnIndicesWithSourceTensor:descriptor:name:; its mode none is max_pooling2d.

        Example:
            >>> g = mg.Graph()
            >>> x = g.reshape(g.constant([1.0, 2.0, 4.0, 3.0]), (1, 1, 2, 2))
            >>> values, indices = g.max_pooling2d_return_indices(x, 2, data_layout="NCHW")
            >>> g.run({}, values).item(), g.run({}, indices).item()
            (4.0, 2)
        """
        kind = "max_pooling2d_return_indices"
        layout = {"data_layout": data_layout, "return_indices_mode": return_indices_mode}
        attributes = pooling_attributes(kind, 2, kernel, strides, dilations, padding, ceil_mode, **layout)
        values, indices = self._tensors(kind, [source], name, **attributes)
        return values, indices

    def max_pooling2d_gradient_from_indices(
        self,
        incoming: Tensor,
        indices: Tensor,
        output_shape: ShapeLike,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        return_indices_mode: str = "global_flatten_4d",
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        data_layout: str = "NHWC",
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of max_pooling2d with respect to its source, from the indices of the forward pass.

        The result starts as zeros, and each element of incoming is added at the position that its index points to.
        Indices that point outside the image, or with NCHW outside the channel, are skipped.

        Args:
            incoming: Gradient with respect to the result of the pooling, with the shape of that result.
            indices: Integer indices with the shape of incoming, from max_pooling2d_return_indices.
            output_shape: Shape of the source, as ints or as an integer tensor of rank 1.
            kernel: Height and width of the window in pixels; an int means a square. Or a
                Pooling2DDescriptor, which contains the other options.
            strides: Step between windows in pixels: an int, or (y, x). None, the default, means the size of the kernel.
            return_indices_mode: The mode given to max_pooling2d_return_indices. Defaults to "global_flatten_4d".
            padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or ((top, bottom), (left,
                right)) in pixels.
            dilations: Spacing between the elements of the window in pixels: an int, or (y, x). Defaults to 1.
            data_layout: "NHWC" (the default) or "NCHW".
            ceil_mode: Whether to round the output size up, so that the last window may extend beyond the padding.
                Defaults to False.
            name: Name of the operation.

        Returns:
            A tensor of shape output_shape, with the dtype of incoming.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or the window is invalid.
            DTypeError: If incoming is not floating-point, or indices are not integers.
            GraphError: If the indices do not identify the positions, because windows extend over axes that the indices
                do not count.

        Gradient: to incoming, the elements of the incoming gradient that the indices point to.

        Source: MPSGraph maxPooling2DGradientWithGradientTensor:indicesTensor:outputShape:descriptor:name: and its
        variant with outputShapeTensor:.

        Example:
            >>> g = mg.Graph()
            >>> d, indices = g.constant(5.0, (1, 1, 1, 1)), g.constant(2, (1, 1, 1, 1), mg.int32)
            >>> g.run({}, g.max_pooling2d_gradient_from_indices(d, indices, (1, 2, 2, 1), 2)).numpy().ravel().tolist()
            [0.0, 0.0, 5.0, 0.0]
        """
        kind = "max_pooling2d_gradient_from_indices"
        layout = {"data_layout": data_layout, "return_indices_mode": return_indices_mode}
        attributes = pooling_attributes(kind, 2, kernel, strides, dilations, padding, ceil_mode, **layout)
        return self._tensor(kind, [incoming, indices, self._shape_operand(output_shape, kind)], name, **attributes)

    def max_pooling4d_return_indices(
        self,
        source: Tensor,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        return_indices_mode: str = "global_flatten_4d",
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Compute the maximum of each window over the last four axes, and the index of its first occurrence.

        values = max_pooling4d(source); indices = the position of each maximum, counted as by
        max_pooling2d_return_indices.

        Args:
            source: Floating-point tensor of rank 4 or higher.
            kernel: Size of the window along the last four axes; an int applies to all of them. Or a
                Pooling4DDescriptor, which contains the other options.
            strides: Step between windows: an int, or four ints. None, the default, means 1.
            return_indices_mode: "global_flatten_<k>d", for k from 1 to 4, counts elements of the source over its last k
                axes; "local_flatten_<k>d" counts positions in the window, including padding. Defaults to
                "global_flatten_4d".
            padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or four pairs (before, after).
            dilations: Spacing between the elements of the window: an int, or four ints. Defaults to 1.
            ceil_mode: Whether to round the output size up, so that the last window may extend beyond the padding.
                Defaults to False.
            name: Name of the operation.

        Returns:
            The pair (values, indices), with the dtype of source and int32, both of the same shape.

        Raises:
            ShapeError: If source has a rank below 4, the window is invalid, or there are more positions than int32 can
                count.
            DTypeError: If source is not floating-point.
            GraphError: If return_indices_mode or the padding style is not supported.

        Gradient: max_pooling4d_gradient_from_indices if the indices identify the positions of the maxima, otherwise
        max_pooling4d_gradient.

        Source: MPSGraph maxPooling4DReturnIndicesWithSourceTensor:descriptor:name:.

        Example:
            >>> g = mg.Graph()
            >>> x = g.reshape(g.constant([1.0, 2.0, 4.0, 3.0]), (1, 2, 1, 2))
            >>> values, indices = g.max_pooling4d_return_indices(x, (1, 2, 1, 2))
            >>> g.run({}, values).item(), g.run({}, indices).item()
            (4.0, 2)
        """
        kind = "max_pooling4d_return_indices"
        attributes = pooling_attributes(
            kind, 4, kernel, strides, dilations, padding, ceil_mode, return_indices_mode=return_indices_mode
        )
        values, indices = self._tensors(kind, [source], name, **attributes)
        return values, indices

    def max_pooling4d_gradient_from_indices(
        self,
        incoming: Tensor,
        indices: Tensor,
        output_shape: ShapeLike,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        return_indices_mode: str = "global_flatten_4d",
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of max_pooling4d with respect to its source, from the indices of the forward pass.

        The result starts as zeros, and each element of incoming is added at the position that its index points to.
        Indices that point outside the window axes are skipped.

        Args:
            incoming: Gradient with respect to the result of the pooling, with the shape of that result.
            indices: Integer indices with the shape of incoming, from max_pooling4d_return_indices.
            output_shape: Shape of the source, as ints or as an integer tensor of rank 1.
            kernel: Size of the window along the last four axes; an int applies to all of them. Or a
                Pooling4DDescriptor, which contains the other options.
            strides: Step between windows: an int, or four ints. None, the default, means 1.
            return_indices_mode: The mode given to max_pooling4d_return_indices. Defaults to "global_flatten_4d".
            padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or four pairs (before, after).
            dilations: Spacing between the elements of the window: an int, or four ints. Defaults to 1.
            ceil_mode: Whether to round the output size up, so that the last window may extend beyond the padding.
                Defaults to False.
            name: Name of the operation.

        Returns:
            A tensor of shape output_shape, with the dtype of incoming.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or the window is invalid.
            DTypeError: If incoming is not floating-point, or indices are not integers.
            GraphError: If the indices do not identify the positions, because windows extend over axes that the indices
                do not count.

        Gradient: to incoming, the elements of the incoming gradient that the indices point to.

        Source: MPSGraph maxPooling4DGradientWithGradientTensor:indicesTensor:outputShape:descriptor:name: and its
        variant with outputShapeTensor:.

        Example:
            >>> g = mg.Graph()
            >>> d, indices = g.constant(5.0, (1, 1, 1, 1)), g.constant(2, (1, 1, 1, 1), mg.int32)
            >>> y = g.max_pooling4d_gradient_from_indices(d, indices, (1, 2, 2, 1), (1, 2, 2, 1))
            >>> g.run({}, y).numpy().ravel().tolist()
            [0.0, 0.0, 5.0, 0.0]
        """
        kind = "max_pooling4d_gradient_from_indices"
        attributes = pooling_attributes(
            kind, 4, kernel, strides, dilations, padding, ceil_mode, return_indices_mode=return_indices_mode
        )
        return self._tensor(kind, [incoming, indices, self._shape_operand(output_shape, kind)], name, **attributes)
