"""Images in another size, by the nearest element or by linear interpolation, and the gradients of that.

With a layout (NHWC, NCHW, HWC, CHW, HW) the plane is resized and `size` is (height, width); without one every axis is,
and `size` has an entry for each. An element i of the result shows the place p of the input: p = i · input / result;
with center_result p = (i + 1/2) · input / result - 1/2; with align_corners p = i · (input - 1) / (result - 1); with
scale and offset i = p · scale + offset. Places beyond an edge are at the edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from .._display import shown
from ._family import Family, GraphError, ShapeError, ShapeLike, Tensor, constant_data

Numbers: TypeAlias = Tensor | Sequence[float]


class Resize(Family):
    """resize, resize_nearest, resize_bilinear and their gradients."""

    def resize(
        self,
        images: Tensor,
        size: ShapeLike,
        mode: str = "bilinear",
        center_result: bool = True,
        align_corners: bool = False,
        layout: str | None = None,
        *,
        scale: Numbers | None = None,
        offset: Numbers | None = None,
        scale_offset: Numbers | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Images in another size.

        Args: images, a float dtype, with mode "nearest" any but complex; size, ints or an int tensor; mode, "nearest"
        (which rounds places up from one half on) or "bilinear"; center_result, align_corners, how places belong
        together; layout, None for all axes; scale and offset, numbers for each resized axis, or scale_offset, with a
        layout (scale y, scale x, offset y, offset x). Result: images' dtype. Errors: ShapeError, DTypeError,
        GraphError.
        Gradient: resize_gradient to images; none to scale and offset (UnsupportedError).
        Source: MPSGraph resizeTensor:size:mode:centerResult:alignCorners:layout:name:, …sizeTensor:…, without layout,
        and with scaleOffsetTensor: or scaleTensor:offsetTensor:.

        >>> g = mg.Graph()
        >>> g.run({}, g.resize(g.constant([[0.0, 4.0]]), (1, 4), layout="HW")).tolist()
        [[0.0, 1.0, 3.0, 4.0]]
        """
        method = self.resize_nearest if mode == "nearest" else self.resize_bilinear
        _check_mode("resize", mode)
        return method(
            images, size, center_result=center_result, align_corners=align_corners, layout=layout, scale=scale,
            offset=offset, scale_offset=scale_offset, name=name,
        )  # fmt: skip

    def resize_nearest(
        self,
        images: Tensor,
        size: ShapeLike,
        nearest_rounding_mode: str = "round_prefer_ceil",
        center_result: bool = True,
        align_corners: bool = False,
        layout: str | None = None,
        *,
        scale: Numbers | None = None,
        offset: Numbers | None = None,
        scale_offset: Numbers | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Images in another size, each element the one that is nearest to its place.

        Args: images, any dtype but complex; nearest_rounding_mode, which index a place between two has:
        "round_prefer_ceil", "round_prefer_floor", "ceil", "floor", "round_to_even" or "round_to_odd"; the rest as
        resize.
        Result: images' dtype. Errors: ShapeError, DTypeError, GraphError. Gradient: resize_nearest_gradient.
        Source: MPSGraph resizeNearestWithTensor:sizeTensor:nearestRoundingMode:centerResult:alignCorners:layout:name:,
        without layout, and with scaleOffsetTensor: or scaleTensor:offsetTensor:.

        >>> g = mg.Graph()
        >>> x = g.constant([[1, 2]])
        >>> g.run({}, g.resize_nearest(x, (1, 4), "floor", center_result=False, layout="HW")).tolist()
        [[1, 1, 2, 2]]
        """
        kind = "resize_nearest"
        how = {"nearest_rounding_mode": nearest_rounding_mode}
        place = self._placement(kind, layout, scale, offset, scale_offset)
        inputs = [images, self._shape_operand(size, kind), *place]
        return self._tensor(kind, inputs, name, **how, **_attributes(center_result, align_corners, layout))

    def resize_bilinear(
        self,
        images: Tensor,
        size: ShapeLike,
        center_result: bool = True,
        align_corners: bool = False,
        layout: str | None = None,
        *,
        scale: Numbers | None = None,
        offset: Numbers | None = None,
        scale_offset: Numbers | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Images in another size, interpolated between neighbours along each axis.

        Args: images, a float dtype; the rest as resize. Result: images' dtype. Errors: ShapeError, DTypeError.
        Gradient: resize_bilinear_gradient.
        Source: MPSGraph resizeBilinearWithTensor:sizeTensor:centerResult:alignCorners:layout:name:, without layout, and
        with scaleOffsetTensor: or scaleTensor:offsetTensor:.

        >>> g = mg.Graph()
        >>> g.run({}, g.resize_bilinear(g.constant([[0.0, 4.0]]), (1, 3), align_corners=True, layout="HW")).tolist()
        [[0.0, 2.0, 4.0]]
        """
        kind = "resize_bilinear"
        place = self._placement(kind, layout, scale, offset, scale_offset)
        inputs = [images, self._shape_operand(size, kind), *place]
        return self._tensor(kind, inputs, name, **_attributes(center_result, align_corners, layout))

    def resize_gradient(
        self,
        incoming: Tensor,
        input_shape: ShapeLike,
        mode: str = "bilinear",
        center_result: bool = True,
        align_corners: bool = False,
        layout: str | None = None,
        *,
        scale: Numbers | None = None,
        offset: Numbers | None = None,
        scale_offset: Numbers | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Gradient of resize: what came for each element, back where it was shown from.

        Args: incoming, shaped as the result; input_shape, the images', ints or an int tensor; the rest as given to
        resize.
        Result: input_shape, incoming's dtype. Errors: ShapeError, DTypeError, GraphError. Gradient: resize.
        Source: MPSGraph resizeWithGradientTensor:input:mode:centerResult:alignCorners:layout:name:, and with
        scaleOffsetTensor: or scaleTensor:offsetTensor:.

        >>> g = mg.Graph()
        >>> g.run({}, g.resize_gradient(g.constant([[1.0, 1.0, 1.0, 1.0]]), (1, 2), layout="HW")).tolist()
        [[2.0, 2.0]]
        """
        method = self.resize_nearest_gradient if mode == "nearest" else self.resize_bilinear_gradient
        _check_mode("resize_gradient", mode)
        return method(
            incoming, input_shape, center_result=center_result, align_corners=align_corners, layout=layout, scale=scale,
            offset=offset, scale_offset=scale_offset, name=name,
        )  # fmt: skip

    def resize_nearest_gradient(
        self,
        incoming: Tensor,
        input_shape: ShapeLike,
        nearest_rounding_mode: str = "round_prefer_ceil",
        center_result: bool = True,
        align_corners: bool = False,
        layout: str | None = None,
        *,
        scale: Numbers | None = None,
        offset: Numbers | None = None,
        scale_offset: Numbers | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Gradient of resize_nearest: the sum of what came for the elements that show each one.

        Args: incoming, shaped as the result; input_shape, the images', ints or an int tensor; the rest as given to
        resize_nearest. Result: input_shape, incoming's dtype. Errors: ShapeError, DTypeError, GraphError.
        Gradient: resize_nearest.
        Source: MPSGraph
        resizeNearestWithGradientTensor:input:nearestRoundingMode:centerResult:alignCorners:layout:name:, and with
        scaleOffsetTensor: or scaleTensor:offsetTensor:.

        >>> g = mg.Graph()
        >>> g.run({}, g.resize_nearest_gradient(g.constant([[1.0, 2.0, 3.0, 4.0]]), (1, 2), layout="HW")).tolist()
        [[3.0, 7.0]]
        """
        kind = "resize_nearest_gradient"
        how = {"nearest_rounding_mode": nearest_rounding_mode}
        place = self._placement(kind, layout, scale, offset, scale_offset)
        inputs = [incoming, self._shape_operand(input_shape, kind), *place]
        return self._tensor(kind, inputs, name, **how, **_attributes(center_result, align_corners, layout))

    def resize_bilinear_gradient(
        self,
        incoming: Tensor,
        input_shape: ShapeLike,
        center_result: bool = True,
        align_corners: bool = False,
        layout: str | None = None,
        *,
        scale: Numbers | None = None,
        offset: Numbers | None = None,
        scale_offset: Numbers | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Gradient of resize_bilinear: what came for each element, shared between its neighbours as they were.

        Args: incoming, shaped as the result; input_shape, the images', ints or an int tensor; the rest as given to
        resize_bilinear. Result: input_shape, incoming's dtype. Errors: ShapeError, DTypeError. Gradient:
        resize_bilinear.
        Source: MPSGraph resizeBilinearWithGradientTensor:input:centerResult:alignCorners:layout:name:, and with
        scaleOffsetTensor: or scaleTensor:offsetTensor:.

        >>> g = mg.Graph()
        >>> d = g.constant([[1.0, 2.0, 3.0]])
        >>> g.run({}, g.resize_bilinear_gradient(d, (1, 2), align_corners=True, layout="HW")).tolist()
        [[2.0, 4.0]]
        """
        kind = "resize_bilinear_gradient"
        place = self._placement(kind, layout, scale, offset, scale_offset)
        inputs = [incoming, self._shape_operand(input_shape, kind), *place]
        return self._tensor(kind, inputs, name, **_attributes(center_result, align_corners, layout))

    def _placement(
        self,
        kind: str,
        layout: str | None,
        scale: Numbers | None,
        offset: Numbers | None,
        both: Numbers | None,
    ) -> list[Tensor]:
        """The operands scale and offset, if they are given."""
        if both is not None:
            if scale is not None or offset is not None or layout is None:
                raise ShapeError(f"[{kind}] scale_offset stands alone, beside a layout")
            return self._tensors("split", [self._floats(kind, both)], sizes=[2, 2], axis=0)
        if (scale is None) != (offset is None):
            raise ShapeError(f"[{kind}] takes scale and offset together")
        return [] if scale is None or offset is None else [self._floats(kind, scale), self._floats(kind, offset)]

    def _floats(self, kind: str, numbers: Numbers) -> Tensor:
        if isinstance(numbers, Tensor):
            return numbers
        value = constant_data([float(x) for x in numbers], None, "float32")
        return self._operation("constant", [], {"value": value}).outputs[0]


def _check_mode(kind: str, mode: str) -> None:
    if mode not in ("nearest", "bilinear"):
        raise GraphError(f'[{kind}] mode must be "nearest" or "bilinear", got {shown(mode)}')


def _attributes(center_result: bool, align_corners: bool, layout: str | None) -> dict[str, Any]:
    return {"center_result": center_result, "align_corners": align_corners, "layout": layout or ""}
