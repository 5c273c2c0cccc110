"""Family resize: upsampling by whole factors, scales to a size."""

from __future__ import annotations

from ._node import Sizes


class UpsamplingNearestNode(Sizes):
    """Each pixel repeated. Keywords: integer_scale_factor_x and _y. Source: MPSCNNUpsamplingNearestNode."""

    kind_name = "upsampling_nearest"


class UpsamplingBilinearNode(Sizes):
    """Pixels between pixels. Keywords: integer_scale_factor_x and _y, align_corners (False). Source:
    MPSCNNUpsamplingBilinearNode."""

    kind_name = "upsampling_bilinear"


class BilinearScaleNode(Sizes):
    """To width x height. Source: MPSNNBilinearScaleNode."""

    kind_name = "bilinear_scale"


class LanczosScaleNode(Sizes):
    """To width x height, by Lanczos's kernel of three lobes. Source: MPSNNLanczosScaleNode."""

    kind_name = "lanczos_scale"
