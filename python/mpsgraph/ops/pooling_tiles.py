"""Pooling with windows over the last four axes: maximum, average, L2 norm, and their gradients.

To pool volumes, set the kernel size to 1 along the channels: (1, d, h, w) for (N, C, D, H, W) and (d, h, w, 1) for (N,
D, H, W, C).
"""

from __future__ import annotations

from collections.abc import Sequence

from ._family import Family, ShapeLike, Tensor
from ._padding import Padding
from .pooling import pooling_attributes
from .pooling_descriptors import Window


class Pooling4D(Family):
    """Graph methods for max_pooling4d, avg_pooling4d, l2_norm_pooling4d, and their gradients."""

    def max_pooling4d(
        self,
        source: Tensor,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the maximum of each window over the last four axes.

        result[..., a, b, y, x] = max over the window of source[..., a * stride_a + i * dilation_a - before_a, ...].
        Padding is never the maximum.

        Args:
            source: Floating-point tensor of rank 4 or higher.
            kernel: Size of the window along the last four axes; an int applies to all of them. Or a
                Pooling4DDescriptor, which contains the other options.
            strides: Step between windows: an int, or four ints. None, the default, means 1.
            padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or four pairs (before, after).
            dilations: Spacing between the elements of the window: an int, or four ints. Defaults to 1.
            ceil_mode: Whether to round the output size up, so that the last window may extend beyond the padding.
                Defaults to False.
            name: Name of the operation.

        Returns:
            A tensor with the shape of source except for the sizes of the last four axes.

        Raises:
            ShapeError: If source has a rank below 4, or the kernel, strides, dilations, or padding are invalid.
            DTypeError: If the operands are not floating-point.
            GraphError: If a padding style is not supported.

        Gradient: computed by max_pooling4d_gradient.

        Source: MPSGraph maxPooling4DWithSourceTensor:descriptor:name:.

        Example:
            >>> g = mg.Graph()
            >>> volumes = g.placeholder((-1, 3, 8, 32, 32))
            >>> g.max_pooling4d(volumes, (1, 2, 2, 2), strides=(1, 2, 2, 2)).shape
            (-1, 3, 4, 16, 16)
        """
        attributes = pooling_attributes("max_pooling4d", 4, kernel, strides, dilations, padding, ceil_mode)
        return self._tensor("max_pooling4d", [source], name, **attributes)

    def max_pooling4d_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of max_pooling4d with respect to its source.

        The result starts as zeros, and each element of incoming is added at the first maximum of its window.

        Args:
            incoming: Gradient with respect to the result of max_pooling4d, with the shape of that result.
            source: The source given to max_pooling4d.
            kernel: Size of the window along the last four axes; an int applies to all of them. Or a
                Pooling4DDescriptor, which contains the other options.
            strides: Step between windows: an int, or four ints. None, the default, means 1.
            padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or four pairs (before, after).
            dilations: Spacing between the elements of the window: an int, or four ints. Defaults to 1.
            ceil_mode: Whether to round the output size up, so that the last window may extend beyond the padding.
                Defaults to False.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of source.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or the kernel, strides, dilations, or padding
                are invalid.
            DTypeError: If the operands are not floating-point or their dtypes differ.
            GraphError: If a padding style is not supported.

        Gradient: to incoming, the elements of the incoming gradient at the maxima; to source, zero.

        Source: MPSGraph maxPooling4DGradientWithGradientTensor:sourceTensor:descriptor:name:.

        Example:
            >>> g = mg.Graph()
            >>> x = g.reshape(g.constant([1.0, 2.0, 3.0, 4.0]), (2, 1, 2, 1))
            >>> y = g.max_pooling4d_gradient(g.constant(5.0, (1, 1, 1, 1)), x, (2, 1, 2, 1))
            >>> g.run({}, y).numpy().ravel().tolist()
            [0.0, 0.0, 0.0, 5.0]
        """
        kind = "max_pooling4d_gradient"
        attributes = pooling_attributes(kind, 4, kernel, strides, dilations, padding, ceil_mode)
        return self._tensor(kind, [incoming, source], name, **attributes)

    def avg_pooling4d(
        self,
        source: Tensor,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        include_zero_pad_to_average: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the mean of each window over the last four axes.

        result = mean of source over the window. Padding counts as zeros with include_zero_pad_to_average; otherwise the
        mean is taken over the elements inside the source.

        Args:
            source: Floating-point tensor of rank 4 or higher.
            kernel: Size of the window along the last four axes; an int applies to all of them. Or a
                Pooling4DDescriptor, which contains the other options.
            strides: Step between windows: an int, or four ints. None, the default, means 1.
            padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or four pairs (before, after).
            dilations: Spacing between the elements of the window: an int, or four ints. Defaults to 1.
            ceil_mode: Whether to round the output size up, so that the last window may extend beyond the padding.
                Defaults to False.
            include_zero_pad_to_average: Whether padding counts as zeros in the average. Defaults to False, which
                averages only over elements inside the source.
            name: Name of the operation.

        Returns:
            A tensor with the shape of source except for the sizes of the last four axes.

        Raises:
            ShapeError: If source has a rank below 4, or the kernel, strides, dilations, or padding are invalid.
            DTypeError: If the operands are not floating-point.
            GraphError: If a padding style is not supported.

        Gradient: computed by avg_pooling4d_gradient.

        Source: MPSGraph avgPooling4DWithSourceTensor:descriptor:name:.

        Example:
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
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        include_zero_pad_to_average: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of avg_pooling4d with respect to its source.

        Each element of incoming is divided equally among the elements of its window, and the shares are added up.

        Args:
            incoming: Gradient with respect to the result of avg_pooling4d, with the shape of that result.
            input_shape: Shape of the source, as ints or as an integer tensor of rank 1.
            kernel: Size of the window along the last four axes; an int applies to all of them. Or a
                Pooling4DDescriptor, which contains the other options.
            strides: Step between windows: an int, or four ints. None, the default, means 1.
            padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or four pairs (before, after).
            dilations: Spacing between the elements of the window: an int, or four ints. Defaults to 1.
            ceil_mode: Whether to round the output size up, so that the last window may extend beyond the padding.
                Defaults to False.
            include_zero_pad_to_average: Whether padding counts as zeros in the average. Defaults to False, which
                averages only over elements inside the source.
            name: Name of the operation.

        Returns:
            A tensor of shape input_shape, with the dtype of incoming.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or the kernel, strides, dilations, or padding
                are invalid.
            DTypeError: If the operands are not floating-point.
            GraphError: If a padding style is not supported.

        Gradient: computed by avg_pooling4d for incoming.

        Source: MPSGraph avgPooling4DGradientWithGradientTensor:sourceTensor:descriptor:name:, which takes the source
        instead of its shape.

        Example:
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
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the Euclidean norm of each window over the last four axes.

        result = sqrt(sum over the window of source * source). Padding counts as zeros.

        Args:
            source: Floating-point tensor of rank 4 or higher.
            kernel: Size of the window along the last four axes; an int applies to all of them. Or a
                Pooling4DDescriptor, which contains the other options.
            strides: Step between windows: an int, or four ints. None, the default, means 1.
            padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or four pairs (before, after).
            dilations: Spacing between the elements of the window: an int, or four ints. Defaults to 1.
            ceil_mode: Whether to round the output size up, so that the last window may extend beyond the padding.
                Defaults to False.
            name: Name of the operation.

        Returns:
            A tensor with the shape of source except for the sizes of the last four axes.

        Raises:
            ShapeError: If source has a rank below 4, or the kernel, strides, dilations, or padding are invalid.
            DTypeError: If the operands are not floating-point.
            GraphError: If a padding style is not supported.

        Gradient: computed by l2_norm_pooling4d_gradient.

        Source: MPSGraph L2NormPooling4DWithSourceTensor:descriptor:name:.

        Example:
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
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of l2_norm_pooling4d with respect to its source.

        result = source * the sum of incoming / norm over the windows that contain the element; a window of zeros
        contributes 0.

        Args:
            incoming: Gradient with respect to the result of l2_norm_pooling4d, with the shape of that result.
            source: The source given to l2_norm_pooling4d.
            kernel: Size of the window along the last four axes; an int applies to all of them. Or a
                Pooling4DDescriptor, which contains the other options.
            strides: Step between windows: an int, or four ints. None, the default, means 1.
            padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or four pairs (before, after).
            dilations: Spacing between the elements of the window: an int, or four ints. Defaults to 1.
            ceil_mode: Whether to round the output size up, so that the last window may extend beyond the padding.
                Defaults to False.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of source.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or the kernel, strides, dilations, or padding
                are invalid.
            DTypeError: If the operands are not floating-point or their dtypes differ.
            GraphError: If a padding style is not supported.

        Gradient: derived from the operation's decomposition.

        Source: MPSGraph L2NormPooling4DGradientWithGradientTensor:sourceTensor:descriptor:name:.

        Example:
            >>> g = mg.Graph()
            >>> x, d = g.reshape(g.constant([3.0, 4.0]), (1, 1, 2, 1)), g.constant(10.0, (1, 1, 1, 1))
            >>> g.run({}, g.l2_norm_pooling4d_gradient(d, x, (1, 1, 2, 1))).numpy().ravel().tolist()
            [6.0, 8.0]
        """
        kind = "l2_norm_pooling4d_gradient"
        attributes = pooling_attributes(kind, 4, kernel, strides, dilations, padding, ceil_mode)
        return self._tensor(kind, [incoming, source], name, **attributes)
