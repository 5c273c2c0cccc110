"""Upsampling by integer factors, and scaling to a given size."""

from __future__ import annotations

from ._node import Sizes


class UpsamplingNearestNode(Sizes):
    """Upsampling that repeats each pixel.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        integer_scale_factor_x: Factor of the width, at least 1; required.
        integer_scale_factor_y: Factor of the height, at least 1; required.

    Raises:
        GraphError: If source is not an ImageNode, a keyword is unknown or missing, or a factor is less than 1.

    Source: MPSCNNUpsamplingNearestNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.UpsamplingNearestNode(nn.ImageNode("x"), integer_scale_factor_x=2, integer_scale_factor_y=1)
        >>> x = np.float32([1, 3]).reshape(1, 1, 2, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [1. 1. 3. 3.]
    """

    kind_name = "upsampling_nearest"


class UpsamplingBilinearNode(Sizes):
    """Upsampling with bilinear interpolation.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        integer_scale_factor_x: Factor of the width, at least 1; required.
        integer_scale_factor_y: Factor of the height, at least 1; required.
        align_corners: Whether the corner pixels of source and result coincide. Defaults to False.

    Raises:
        GraphError: If source is not an ImageNode, a keyword is unknown or missing, or a factor is less than 1.

    Source: MPSCNNUpsamplingBilinearNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.UpsamplingBilinearNode(nn.ImageNode("x"), integer_scale_factor_x=2, integer_scale_factor_y=1)
        >>> x = np.float32([1, 3]).reshape(1, 1, 2, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [1. 2. 3. 3.]
    """

    kind_name = "upsampling_bilinear"


class BilinearScaleNode(Sizes):
    """Scaling to a given size with bilinear interpolation; it has no gradient filter.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        width: Width of the result, at least 1; required.
        height: Height of the result, at least 1; required.

    Raises:
        GraphError: If source is not an ImageNode, a keyword is unknown or missing, or a size is less than 1.

    Source: MPSNNBilinearScaleNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.BilinearScaleNode(nn.ImageNode("x"), width=4, height=1)
        >>> x = np.float32([1, 3]).reshape(1, 1, 2, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [1.  1.5 2.5 3. ]
    """

    kind_name = "bilinear_scale"


class LanczosScaleNode(Sizes):
    """Scaling to a given size with a three-lobed Lanczos kernel; it has no gradient filter.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        width: Width of the result, at least 1; required.
        height: Height of the result, at least 1; required.

    Raises:
        GraphError: If source is not an ImageNode, a keyword is unknown or missing, or a size is less than 1.
        UnsupportedError: From encode_batch on the Metal device, if the result is smaller than the source.

    Source: MPSNNLanczosScaleNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.LanczosScaleNode(nn.ImageNode("x"), width=2, height=2)
        >>> x = np.float32([5] * 16).reshape(1, 4, 4, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [5. 5. 5. 5.]
    """

    kind_name = "lanczos_scale"
