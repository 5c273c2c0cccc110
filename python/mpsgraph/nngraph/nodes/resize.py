"""Family resize: upsampling by whole factors, scales to a size."""

from __future__ import annotations

from ._node import Sizes


class UpsamplingNearestNode(Sizes):
    """Each pixel repeated. Keywords: integer_scale_factor_x and _y. Source: MPSCNNUpsamplingNearestNode.

    >>> nn = mg.nngraph
    >>> node = nn.UpsamplingNearestNode(nn.ImageNode("x"), integer_scale_factor_x=2, integer_scale_factor_y=1)
    >>> x = np.float32([1, 3]).reshape(1, 1, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [1. 1. 3. 3.]
    """

    kind_name = "upsampling_nearest"


class UpsamplingBilinearNode(Sizes):
    """Pixels between pixels. Keywords: integer_scale_factor_x and _y, align_corners (False). Source:
    MPSCNNUpsamplingBilinearNode.

    >>> nn = mg.nngraph
    >>> node = nn.UpsamplingBilinearNode(nn.ImageNode("x"), integer_scale_factor_x=2, integer_scale_factor_y=1)
    >>> x = np.float32([1, 3]).reshape(1, 1, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [1. 2. 3. 3.]
    """

    kind_name = "upsampling_bilinear"


class BilinearScaleNode(Sizes):
    """To width x height. Source: MPSNNBilinearScaleNode.

    >>> nn = mg.nngraph
    >>> node = nn.BilinearScaleNode(nn.ImageNode("x"), width=4, height=1)
    >>> x = np.float32([1, 3]).reshape(1, 1, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [1.  1.5 2.5 3. ]
    """

    kind_name = "bilinear_scale"


class LanczosScaleNode(Sizes):
    """To width x height, by Lanczos's kernel of three lobes. Source: MPSNNLanczosScaleNode.

    >>> nn = mg.nngraph
    >>> node = nn.LanczosScaleNode(nn.ImageNode("x"), width=2, height=2)
    >>> x = np.float32([5] * 16).reshape(1, 4, 4, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [5. 5. 5. 5.]
    """

    kind_name = "lanczos_scale"
