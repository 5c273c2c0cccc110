"""Stencils: weighted reductions over windows of the last four axes, as for finite differences and morphology."""

from __future__ import annotations

from collections.abc import Sequence

from .._display import shown
from ._family import Family, ShapeError, Tensor, ints
from ._padding import Padding, padding_attributes


class Stencil(Family):
    """stencil."""

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
        """Weighted reduction of a window around each place, over the last four axes.

        result[..., i] = reduction over j of source[..., i * stride + j * dilation - before] * weights[j], where i and j
        have four coordinates.

        Args:
            source: of rank 4 or more; a floating-point dtype.
            weights: of rank 4, which is the window; source's dtype.
            reduction_mode: "sum", "product", "minimum", "maximum", or "arg_minimum" and "arg_maximum", which give the
                tap of the first smallest or largest element, counted row by row over the window, as int32.
            strides, dilations: one int, or four, for the last four axes.
            padding: four pairs (before, after), or "TF_VALID", "TF_SAME", "ONNX_SAME_LOWER".
            offsets: where on each axis the first window starts, 0 being the first element; the padding, which must be
                pairs, then says only how many windows there are. None: it starts at -before.
            boundary_mode: what is outside: "zero", "constant" (padding_constant), "clamp_to_edge", "reflect",
                "symmetric", "periodic" or "anti_periodic", as for pad.
            padding_constant: with boundary_mode="constant". name: the operation's name.
        Result: source's shape with other sizes at the last four axes; source's dtype, or int32.
        Errors: ShapeError, DTypeError, GraphError for modes and styles that are none.
        Gradient: to source and weights; of a minimum or maximum to the tap that is chosen, the first of several. The
        shape of the weights must be known there, and for a product.
        Source: MPSGraph stencilWithSourceTensor:weightsTensor:descriptor:name:.

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
                    f"[stencil] with offsets, padding must be four pairs (before, after), got {shown(padding)}"
                )
            attributes["padding_style"] = "EXPLICIT_OFFSET"
            attributes["offsets"] = ints(offsets, "[stencil] offsets", 4)
        return self._tensor("stencil", [source, weights], name, **attributes)
