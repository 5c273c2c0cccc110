"""A source sampled at coordinates."""

from __future__ import annotations

from ._family import Family, Tensor


class SampleGrid(Family):
    """sample_grid."""

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
        """A source sampled at coordinates, between its elements.

        result[n, y, x, c] = source at height coordinates[n, y, x, 1] and width coordinates[n, y, x, 0].

        Args:
            source: a float dtype, (N, H, W, C) or (N, C, H, W). coordinates: its dtype, (N, height, width, 2).
            layout: "NHWC" or "NCHW", of source and result.
            normalize_coordinates: -1 and 1 are the extremes, instead of 0 and the size (less one with align_corners).
            relative_coordinates: they count from the element's own position in the result, scaled to the source.
            align_corners: extremes are the centres of the outer elements, instead of their outer edges.
            padding_mode: what lies outside: "constant" (constant_value), "zero", "reflect", "symmetric" or
                "clamp_to_edge".
            sampling_mode: "bilinear" or "nearest"; nearest_rounding_mode means nearest, and how: as resize_nearest.
        Result: source's dtype, the size of the coordinates. Errors: ShapeError, DTypeError, GraphError.
        Gradient: to source, where it was sampled, and when bilinear to the coordinates.
        Source: MPSGraph sampleGridWithSourceTensor:coordinateTensor:layout:normalizeCoordinates:relativeCoordinates:
        alignCorners:paddingMode:samplingMode:constantValue:name: and …nearestRoundingMode:constantValue:name:.

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
