"""Gram matrices: MPSNNGramMatrixCalculationNode."""

from __future__ import annotations

from ._node import Sizes


class GramMatrixCalculationNode(Sizes):
    """Gram matrix of the channels: alpha times the products of all pairs of channels, summed over the pixels.

    The result is an image of 1 x channels x channels.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        alpha: Factor of the result. Defaults to 1.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is unknown.

    Source: MPSNNGramMatrixCalculationNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.GramMatrixCalculationNode(nn.ImageNode("x"))
        >>> x = np.float32([1, 2, 3, 4]).reshape(1, 1, 2, 2)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [10. 14. 14. 20.]
    """

    kind_name = "gram_matrix_calculation"
