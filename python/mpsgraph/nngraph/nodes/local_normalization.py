"""Normalization by the values around each pixel: MPSCNNSpatialNormalizationNode and similar."""

from __future__ import annotations

from ._node import Sizes


class SpatialNormalizationNode(Sizes):
    """Normalization of each channel by the mean of squares around each pixel.

    result = x / (delta + alpha * mean of squares)^beta, where the mean is over kernel_width x kernel_height pixels,
    with zeros outside the image.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        kernel_width: Width of the window around each pixel. Defaults to 5.
        kernel_height: Height of the window around each pixel. Defaults to 5.
        alpha: Factor of the mean of squares. Defaults to 1.
        beta: Exponent of the denominator. Defaults to 5.
        delta: Constant added in the denominator. Defaults to 1.

    Raises:
        GraphError: If source is not an ImageNode, a keyword is unknown, or a kernel size is less than 1.

    Source: MPSCNNSpatialNormalizationNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.SpatialNormalizationNode(nn.ImageNode("x"), kernel_width=1, kernel_height=1, beta=0.5)
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [-0.707  0.     0.894]
    """

    kind_name = "spatial_normalization"


class CrossChannelNormalizationNode(Sizes):
    """Normalization of each pixel by the mean of squares over neighboring channels.

    result = x / (delta + alpha * mean of squares)^beta, where the mean is over kernel_size channels, with zeros beyond
    the first and last channel.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        kernel_size: Number of channels around each channel. Defaults to 5.
        alpha: Factor of the mean of squares. Defaults to 1.
        beta: Exponent of the denominator. Defaults to 5.
        delta: Constant added in the denominator. Defaults to 1.

    Raises:
        GraphError: If source is not an ImageNode, a keyword is unknown, or a kernel size is less than 1.

    Source: MPSCNNCrossChannelNormalizationNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.CrossChannelNormalizationNode(nn.ImageNode("x"), kernel_size=3, beta=0.5)
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [-0.866  0.     1.309]
    """

    kind_name = "cross_channel_normalization"


class LocalContrastNormalizationNode(Sizes):
    """Normalization of each channel by the mean and variance around each pixel.

    result = pm + ps * (x - p0 * mean) / (delta + alpha * variance)^beta, where mean and variance are over kernel_width
    x kernel_height pixels, with zeros outside the image.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        kernel_width: Width of the window around each pixel. Defaults to 5.
        kernel_height: Height of the window around each pixel. Defaults to 5.
        alpha: Factor of the variance. Defaults to 1.
        beta: Exponent of the denominator. Defaults to 0.5.
        delta: Constant added in the denominator. Defaults to 2^-10.
        pm: Constant added to the result. Defaults to 0.
        ps: Factor of the normalized value. Defaults to 1.
        p0: Factor of the mean. Defaults to 1.

    Raises:
        GraphError: If source is not an ImageNode, a keyword is unknown, or a kernel size is less than 1.

    Source: MPSCNNLocalContrastNormalizationNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.LocalContrastNormalizationNode(nn.ImageNode("x"), kernel_width=3, kernel_height=1)
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 3, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [-1.411 -0.267  1.413]
    """

    kind_name = "local_contrast_normalization"
