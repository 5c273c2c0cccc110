"""Family local_normalization: by what surrounds a pixel. MPSCNNSpatialNormalizationNode and its kin."""

from __future__ import annotations

from ._node import Sizes


class SpatialNormalizationNode(Sizes):
    """x / (delta + alpha * mean of squares)^beta, the mean over kernel_width x kernel_height pixels around each, zeros
    outside. Keywords: kernel_width, kernel_height (5), alpha (1), beta (5), delta (1). Source:
    MPSCNNSpatialNormalizationNode.

    >>> nn = mg.nngraph
    >>> node = nn.SpatialNormalizationNode(nn.ImageNode("x"), kernel_width=1, kernel_height=1, beta=0.5)
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [-0.707  0.     0.894]
    """

    kind_name = "spatial_normalization"


class CrossChannelNormalizationNode(Sizes):
    """The same with the mean over kernel_size channels around each. Keywords: kernel_size (5), alpha, beta, delta.
    Source: MPSCNNCrossChannelNormalizationNode.

    >>> nn = mg.nngraph
    >>> node = nn.CrossChannelNormalizationNode(nn.ImageNode("x"), kernel_size=3, beta=0.5)
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [-0.866  0.     1.309]
    """

    kind_name = "cross_channel_normalization"


class LocalContrastNormalizationNode(Sizes):
    """pm + ps * (x - p0 * mean) / (delta + alpha * variance)^beta over the pixels around. Keywords: kernel_width,
    kernel_height (5), alpha (1), beta (0.5), delta (2^-10), pm (0), ps (1), p0 (1). Source:
    MPSCNNLocalContrastNormalizationNode.

    >>> nn = mg.nngraph
    >>> node = nn.LocalContrastNormalizationNode(nn.ImageNode("x"), kernel_width=3, kernel_height=1)
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 3, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [-1.411 -0.267  1.413]
    """

    kind_name = "local_contrast_normalization"
