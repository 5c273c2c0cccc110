"""Maximum pooling that also tells where the maxima are, and the gradient that goes there.

Reusing the indices of the forward pass is faster than finding the maxima again, as max_pooling2d_gradient does.
"""

from __future__ import annotations

from collections.abc import Sequence

from ._family import Family, ShapeLike, Tensor
from ._padding import Padding
from .pooling import pooling_attributes


class PoolingWithIndices(Family):
    """max_pooling2d_return_indices, max_pooling2d_gradient_from_indices, and both for max_pooling4d."""

    def max_pooling2d_return_indices(
        self,
        source: Tensor,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        *,
        return_indices_mode: str = "global_flatten_4d",
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        data_layout: str = "NHWC",
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Largest element of each window, and where it is first.

        values = max_pooling2d(source); indices[n, y, x, c] = the place of the maximum: its coordinates in the source,
        or in the window, over the last k axes as one number, the last axis running fastest.

        Args:
            source, kernel, strides, padding, dilations, data_layout, ceil_mode: as for max_pooling2d.
            return_indices_mode: "global_flatten_<k>d" counts elements of the source over its last k axes (2 with NCHW
                is y * W + x, as torch counts, 3 with NHWC is (y * W + x) * C + c, as TensorFlow counts; 4 counts all);
                "local_flatten_<k>d" counts places in the window, padding included, in the same way; k from 1 to 4.
            name: the operation's name.
        Result: values, of source's dtype, and indices, int32, both (N, out_h, out_w, C) or (N, C, out_h, out_w). Of
        several maxima the first counts, and NaN above all; a window that sees no pixel has index -1.
        Errors: ShapeError, also for more places than int32 counts; GraphError for another mode; DTypeError.
        Gradient: max_pooling2d_gradient_from_indices where the mode tells the place, else max_pooling2d_gradient.
        Source: MPSGraph maxPooling2DReturnIndicesWithSourceTensor:descriptor:name:; its mode none is max_pooling2d.

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
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        *,
        return_indices_mode: str = "global_flatten_4d",
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        data_layout: str = "NHWC",
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Gradient of max_pooling2d with respect to its source, by the indices that the forward pass returned.

        result = each incoming element, added where its index points.
        Args: incoming, shaped as the pooling's result; indices, integers of the same shape, from
        max_pooling2d_return_indices; output_shape, the source's shape, ints or an int tensor of rank 1; the rest as
        given to max_pooling2d_return_indices. Result: output_shape, incoming's dtype. Indices that point out of the
        image, or with NCHW out of the channel, are skipped. Errors: ShapeError, DTypeError; GraphError for a mode that
        does not tell the place: windows must not reach over axes that the indices do not count.
        Gradient: to incoming, the elements where the indices point.
        Source: MPSGraph maxPooling2DGradientWithGradientTensor:indicesTensor:outputShape:descriptor:name: and
        outputShapeTensor:.

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
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        *,
        return_indices_mode: str = "global_flatten_4d",
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Largest element of each window over the last four axes, and where it is first.

        values = max_pooling4d(source); indices = the place of each maximum, as max_pooling2d_return_indices counts it.

        Args: source, kernel, strides, padding, dilations, ceil_mode, as for max_pooling4d; return_indices_mode, as for
        max_pooling2d_return_indices. Result: values, of source's dtype, and indices, int32, of one shape.
        Errors: ShapeError, also for more places than int32 counts; GraphError for another mode; DTypeError.
        Gradient: max_pooling4d_gradient_from_indices where the mode tells the place, else max_pooling4d_gradient.
        Source: MPSGraph maxPooling4DReturnIndicesWithSourceTensor:descriptor:name:.

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
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        *,
        return_indices_mode: str = "global_flatten_4d",
        padding: Padding = "TF_VALID",
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Gradient of max_pooling4d with respect to its source, by the indices that the forward pass returned.

        result = each incoming element, added where its index points.
        Args: incoming, shaped as the pooling's result; indices, integers of the same shape; output_shape, the source's
        shape, ints or an int tensor of rank 1; the rest as given to max_pooling4d_return_indices. Result:
        output_shape, incoming's dtype; indices that point elsewhere are skipped, and Errors: raised, as in
        max_pooling2d_gradient_from_indices.
        Gradient: to incoming, the elements where the indices point.
        Source: MPSGraph maxPooling4DGradientWithGradientTensor:indicesTensor:outputShape:descriptor:name: and
        outputShapeTensor:.

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
