"""Stencils: weighted reductions over windows of the last four axes, for finite differences and morphology."""

from __future__ import annotations

from collections.abc import Sequence

from .._display import shown
from ._family import Family, ShapeError, Tensor, ints
from ._padding import Padding, padding_attributes


class Stencil(Family):
    """Graph methods for stencils."""

    def stencil(
        self,
        source: Tensor,
        weights: Tensor,
        *,
        reduction_mode: str = "sum",
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        padding: Padding = ((0, 0), (0, 0), (0, 0), (0, 0)),
        offsets: Sequence[int] | None = None,
        boundary_mode: str = "zero",
        padding_constant: float = 0.0,
        name: str | None = None,
    ) -> Tensor:
        """Compute a weighted reduction of the window around each element, over the last four axes.

        result[..., i] = reduction over j of source[..., i * stride + j * dilation - before] * weights[j], where i and j
        have four coordinates.

        Args:
            source: Floating-point tensor of rank 4 or higher.
            weights: Tensor of rank 4 with the shape of the window and the dtype of source.
            reduction_mode: "sum" (the default), "product", "minimum", "maximum", or "arg_minimum" and "arg_maximum",
                which return the index in the window, in row-major order, of the first smallest or largest element.
            strides: Step between windows: an int, or four ints, for the last four axes. Defaults to 1.
            dilations: Spacing between the elements of the window: an int, or four ints. Defaults to 1.
            padding: Four pairs (before, after), or "TF_VALID", "TF_SAME", or "ONNX_SAME_LOWER". Defaults to no padding.
            offsets: Position on each axis at which the first window starts, where 0 is the first element. The padding,
                which must be pairs, then only determines the number of windows. None, the default, starts at -before.
            boundary_mode: Values outside the source: "zero" (the default), "constant" (padding_constant),
                "clamp_to_edge", "reflect", "symmetric", "periodic", or "anti_periodic", as for pad.
            padding_constant: Value outside the source with boundary_mode="constant". Defaults to 0.
            name: Name of the operation.

        Returns:
            A tensor with the shape of source except for the sizes of the last four axes, and the dtype of source, or
            int32 for indices.

        Raises:
            ShapeError: If the shapes, the padding, or the offsets do not match.
            DTypeError: If the dtypes differ or are not floating-point.
            GraphError: If a mode or padding style has an unknown value.

        Gradient: to source and weights; for a minimum or maximum, to the selected element, or the first of several. For
        a minimum, a maximum, or a product, the gradient requires static weights.

        Source: MPSGraph stencilWithSourceTensor:weightsTensor:descriptor:name:.

        Example:
            >>> g = mg.Graph()
            >>> x = g.reshape(g.constant([1.0, 4.0, 9.0, 16.0]), (1, 1, 1, 4))
            >>> second_difference = g.reshape(g.constant([1.0, -2.0, 1.0]), (1, 1, 1, 3))
            >>> g.run({}, g.stencil(x, second_difference)).numpy().ravel().tolist()
            [2.0, 2.0]
        """
        attributes = {
            "reduction_mode": reduction_mode,
            "strides": ints(strides, "[stencil] strides", 4),
            "dilations": ints(dilations, "[stencil] dilations", 4),
            "boundary_mode": boundary_mode,
            "padding_constant": padding_constant,
            **padding_attributes(padding, "stencil", 4),
        }
        if offsets is not None:
            if isinstance(padding, str):
                raise ShapeError(
                    f"[stencil] padding must be four pairs (before, after) if offsets are given, got {shown(padding)}"
                )
            attributes["padding_style"] = "EXPLICIT_OFFSET"
            attributes["offsets"] = ints(offsets, "[stencil] offsets", 4)
        return self._tensor("stencil", [source, weights], name, **attributes)
