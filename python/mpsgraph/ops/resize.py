"""Resizing of images by nearest-neighbor or bilinear interpolation, and the gradients of resizing.

With a layout (NHWC, NCHW, HWC, CHW, HW), the height and width are resized and `size` is (height, width); without one,
every axis is resized and `size` has one entry per axis.

Element i of the result is taken from position p of the input. If the axis has m elements in the input and n in the
result, then p = i * m / n by default; p = (i + 1/2) * m / n - 1/2 with center_result; p = i * (m - 1) / (n - 1) with
align_corners; and i = p * scale + offset with scale and offset. Positions beyond an edge are moved to the edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from .._display import shown
from ._family import Family, GraphError, ShapeError, ShapeLike, Tensor, constant_data

Numbers: TypeAlias = Tensor | Sequence[float]


class Resize(Family):
    """Graph methods for resize, resize_nearest, resize_bilinear, and their gradients."""

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
        """Resize images by nearest-neighbor or bilinear interpolation.

        Args:
            images: Floating-point tensor; with mode "nearest", any dtype that is not complex.
            size: New size, as ints or as an integer tensor: (height, width) with a layout, otherwise one entry for each
                axis.
            mode: "bilinear" (the default) or "nearest", which rounds positions with a fraction of one half up.
            center_result: Whether to align the centers of the images instead of their corners. Defaults to True.
            align_corners: Whether to align the corner elements of both images. Defaults to False.
            layout: "NHWC", "NCHW", "HWC", "CHW", or "HW", to resize height and width only. None, the default, resizes
                all axes.
            scale: Scale of positions along each resized axis; requires offset. Defaults to None.
            offset: Offset of positions along each resized axis; requires scale. Defaults to None.
            scale_offset: With a layout, (scale y, scale x, offset y, offset x) instead of scale and offset. Defaults to
                None.
            name: Name of the operation.

        Returns:
            A tensor of the new size, with the dtype of images.

        Raises:
            ShapeError: If size or layout does not match images, or scale, offset, and scale_offset are not combined as
                described above.
            DTypeError: If the dtype of images is not supported.
            GraphError: If mode has an unknown value.

        Gradient: computed by resize_gradient for images; differentiating with respect to scale and offset raises
        UnsupportedError.

        Source: MPSGraph resizeTensor:size:mode:centerResult:alignCorners:layout:name:, …sizeTensor:…, and its variants
        without layout, with scaleOffsetTensor:, and with scaleTensor:offsetTensor:.

        Example:
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
        """Resize images, taking each element from the nearest position.

        Args:
            images: Tensor of any dtype that is not complex.
            size: New size, as ints or as an integer tensor: (height, width) with a layout, otherwise one entry for each
                axis.
            nearest_rounding_mode: Rounding of positions between two elements: "round_prefer_ceil" (the default),
                "round_prefer_floor", "ceil", "floor", "round_to_even", or "round_to_odd".
            center_result: Whether to align the centers of the images instead of their corners. Defaults to True.
            align_corners: Whether to align the corner elements of both images. Defaults to False.
            layout: "NHWC", "NCHW", "HWC", "CHW", or "HW", to resize height and width only. None, the default, resizes
                all axes.
            scale: Scale of positions along each resized axis; requires offset. Defaults to None.
            offset: Offset of positions along each resized axis; requires scale. Defaults to None.
            scale_offset: With a layout, (scale y, scale x, offset y, offset x) instead of scale and offset. Defaults to
                None.
            name: Name of the operation.

        Returns:
            A tensor of the new size, with the dtype of images.

        Raises:
            ShapeError: If size or layout does not match images, or scale, offset, and scale_offset are not combined as
                described above.
            DTypeError: If images are complex.
            GraphError: If nearest_rounding_mode has an unknown value.

        Gradient: computed by resize_nearest_gradient.

        Source: MPSGraph resizeNearestWithTensor:sizeTensor:nearestRoundingMode:centerResult:alignCorners:layout:name:,
        and its variants without layout, with scaleOffsetTensor:, and with scaleTensor:offsetTensor:.

        Example:
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
        """Resize images, interpolating linearly between neighbors along each axis.

        Args:
            images: Floating-point tensor.
            size: New size, as ints or as an integer tensor: (height, width) with a layout, otherwise one entry for each
                axis.
            center_result: Whether to align the centers of the images instead of their corners. Defaults to True.
            align_corners: Whether to align the corner elements of both images. Defaults to False.
            layout: "NHWC", "NCHW", "HWC", "CHW", or "HW", to resize height and width only. None, the default, resizes
                all axes.
            scale: Scale of positions along each resized axis; requires offset. Defaults to None.
            offset: Offset of positions along each resized axis; requires scale. Defaults to None.
            scale_offset: With a layout, (scale y, scale x, offset y, offset x) instead of scale and offset. Defaults to
                None.
            name: Name of the operation.

        Returns:
            A tensor of the new size, with the dtype of images.

        Raises:
            ShapeError: If size or layout does not match images, or scale, offset, and scale_offset are not combined as
                described above.
            DTypeError: If images are not floating-point.

        Gradient: computed by resize_bilinear_gradient.

        Source: MPSGraph resizeBilinearWithTensor:sizeTensor:centerResult:alignCorners:layout:name:, and its variants
        without layout, with scaleOffsetTensor:, and with scaleTensor:offsetTensor:.

        Example:
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
        """Compute the gradient of resize with respect to its images.

        Each element of incoming is added at the positions of the images from which resize computed the corresponding
        element, with the same weights.

        Args:
            incoming: Gradient with respect to the result of resize, with the shape of that result.
            input_shape: Shape of the images, as ints or as an integer tensor of rank 1.
            mode: The mode given to resize. Defaults to "bilinear".
            center_result: Whether to align the centers of the images instead of their corners. Defaults to True.
            align_corners: Whether to align the corner elements of both images. Defaults to False.
            layout: "NHWC", "NCHW", "HWC", "CHW", or "HW", to resize height and width only. None, the default, resizes
                all axes.
            scale: Scale of positions along each resized axis; requires offset. Defaults to None.
            offset: Offset of positions along each resized axis; requires scale. Defaults to None.
            scale_offset: With a layout, (scale y, scale x, offset y, offset x) instead of scale and offset. Defaults to
                None.
            name: Name of the operation.

        Returns:
            A tensor of shape input_shape, with the dtype of incoming.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or scale, offset, and scale_offset are not
                combined as described above.
            DTypeError: If the dtype of incoming is not supported.
            GraphError: If mode has an unknown value.

        Gradient: computed by resize.

        Source: MPSGraph resizeWithGradientTensor:input:mode:centerResult:alignCorners:layout:name:, and its variants
        with scaleOffsetTensor: and with scaleTensor:offsetTensor:.

        Example:
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
        """Compute the gradient of resize_nearest with respect to its images.

        Each element of the result is the sum of incoming over the elements that resize_nearest copied from that
        position.

        Args:
            incoming: Gradient with respect to the result of resize_nearest, with the shape of that result.
            input_shape: Shape of the images, as ints or as an integer tensor of rank 1.
            nearest_rounding_mode: Rounding of positions between two elements: "round_prefer_ceil" (the default),
                "round_prefer_floor", "ceil", "floor", "round_to_even", or "round_to_odd".
            center_result: Whether to align the centers of the images instead of their corners. Defaults to True.
            align_corners: Whether to align the corner elements of both images. Defaults to False.
            layout: "NHWC", "NCHW", "HWC", "CHW", or "HW", to resize height and width only. None, the default, resizes
                all axes.
            scale: Scale of positions along each resized axis; requires offset. Defaults to None.
            offset: Offset of positions along each resized axis; requires scale. Defaults to None.
            scale_offset: With a layout, (scale y, scale x, offset y, offset x) instead of scale and offset. Defaults to
                None.
            name: Name of the operation.

        Returns:
            A tensor of shape input_shape, with the dtype of incoming.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or scale, offset, and scale_offset are not
                combined as described above.
            DTypeError: If incoming is bool or complex.
            GraphError: If nearest_rounding_mode has an unknown value.

        Gradient: computed by resize_nearest.

        Source: MPSGraph
        resizeNearestWithGradientTensor:input:nearestRoundingMode:centerResult:alignCorners:layout:name:, and
        its variants with scaleOffsetTensor: and with scaleTensor:offsetTensor:.

        Example:
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
        """Compute the gradient of resize_bilinear with respect to its images.

        Each element of incoming is added to the elements it was interpolated from, with the weights of the
        interpolation.

        Args:
            incoming: Gradient with respect to the result of resize_bilinear, with the shape of that result.
            input_shape: Shape of the images, as ints or as an integer tensor of rank 1.
            center_result: Whether to align the centers of the images instead of their corners. Defaults to True.
            align_corners: Whether to align the corner elements of both images. Defaults to False.
            layout: "NHWC", "NCHW", "HWC", "CHW", or "HW", to resize height and width only. None, the default, resizes
                all axes.
            scale: Scale of positions along each resized axis; requires offset. Defaults to None.
            offset: Offset of positions along each resized axis; requires scale. Defaults to None.
            scale_offset: With a layout, (scale y, scale x, offset y, offset x) instead of scale and offset. Defaults to
                None.
            name: Name of the operation.

        Returns:
            A tensor of shape input_shape, with the dtype of incoming.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or scale, offset, and scale_offset are not
                combined as described above.
            DTypeError: If incoming is not floating-point.

        Gradient: computed by resize_bilinear.

        Source: MPSGraph resizeBilinearWithGradientTensor:input:centerResult:alignCorners:layout:name:, and its variants
        with scaleOffsetTensor: and with scaleTensor:offsetTensor:.

        Example:
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
        """Return the operands scale and offset, or no operands if neither is given."""
        if both is not None:
            if scale is not None or offset is not None or layout is None:
                raise ShapeError(
                    f"[{kind}] scale_offset requires a layout and cannot be combined with scale and offset"
                )
            return self._tensors("split", [self._floats(kind, both)], sizes=[2, 2], axis=0)
        if (scale is None) != (offset is None):
            raise ShapeError(f"[{kind}] scale and offset must be given together, got only one of them")
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
