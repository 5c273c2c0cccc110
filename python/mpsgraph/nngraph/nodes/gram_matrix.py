"""Family gram_matrix: MPSNNGramMatrixCalculationNode."""

from __future__ import annotations

from ._node import Sizes


class GramMatrixCalculationNode(Sizes):
    """alpha times the products of all pairs of channels, summed over the pixels: 1 x channels x channels. Source:
    MPSNNGramMatrixCalculationNode.

    >>> nn = mg.nngraph
    >>> node = nn.GramMatrixCalculationNode(nn.ImageNode("x"))
    >>> x = np.float32([1, 2, 3, 4]).reshape(1, 1, 2, 2)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [10. 14. 14. 20.]
    """

    kind_name = "gram_matrix_calculation"
