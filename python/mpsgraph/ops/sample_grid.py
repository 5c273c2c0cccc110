"""Sampling of a tensor at coordinates."""

from __future__ import annotations

from ._family import Family, Tensor


class SampleGrid(Family):
    """Graph methods for sampling at coordinates."""

    def sample_grid(
        self,
        source: Tensor,
        coordinates: Tensor,
        layout: str = "NHWC",
        normalize_coordinates: bool = True,
        relative_coordinates: bool = False,
        align_corners: bool = False,
        padding_mode: str = "constant",
        sampling_mode: str = "bilinear",
        constant_value: float = 0.0,
        nearest_rounding_mode: str | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Sample a source at coordinates, interpolating between its elements.

        result[n, y, x, c] = source[n, h, w, c] at height h = coordinates[n, y, x, 1] and width w = coordinates[n, y, x,
        0].

        Args:
            source: Floating-point tensor of shape (N, H, W, C), or (N, C, H, W) with layout="NCHW".
            coordinates: Tensor of shape (N, height, width, 2), with the dtype of source.
            layout: Layout of source and of the result, "NHWC" (the default) or "NCHW".
            normalize_coordinates: Whether coordinates range from -1 to 1 across the source, instead of from 0 to its
                size (size - 1 with align_corners). Defaults to True.
            relative_coordinates: Whether coordinates are offsets from the position of the result's element, scaled to
                the size of the source. Defaults to False.
            align_corners: Whether the ends of the coordinate range are the centers of the outermost elements, instead
                of their outer edges. Defaults to False.
            padding_mode: Values outside the source: "constant" (constant_value, the default), "zero", "reflect",
                "symmetric", or "clamp_to_edge".
            sampling_mode: "bilinear" (the default) or "nearest".
            constant_value: Value outside the source with padding_mode="constant". Defaults to 0.
            nearest_rounding_mode: Rounding mode, as for resize_nearest; giving one selects the sampling mode "nearest".
                Defaults to None.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of source and the height and width of coordinates.

        Raises:
            ShapeError: If the shapes do not match.
            DTypeError: If the dtypes differ or are not floating-point.
            GraphError: If a mode or layout has an unknown value.

        Gradient: to the elements of source that were sampled, and with bilinear sampling also to coordinates.

        Source: MPSGraph sampleGridWithSourceTensor:coordinateTensor:layout:normalizeCoordinates:relativeCoordinates:
        alignCorners:paddingMode:samplingMode:constantValue:name: and …nearestRoundingMode:constantValue:name:.

        Example:
            >>> g = mg.Graph()
            >>> x, between = g.constant([[[[1.0], [3.0]]]]), g.constant([[[[0.5, 0.0]]]])
            >>> g.run({}, g.sample_grid(x, between, normalize_coordinates=False, align_corners=True)).tolist()
            [[[[2.0]]]]
        """
        return self._tensor(
            "sample_grid",
            [source, coordinates],
            name,
            layout=layout,
            normalize_coordinates=normalize_coordinates,
            relative_coordinates=relative_coordinates,
            align_corners=align_corners,
            padding_mode=padding_mode,
            sampling_mode=sampling_mode if nearest_rounding_mode is None else "nearest",
            nearest_rounding_mode=nearest_rounding_mode or "round_prefer_ceil",
            constant_value=float(constant_value),
        )
