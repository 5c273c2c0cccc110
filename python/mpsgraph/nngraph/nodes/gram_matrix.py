"""Family gram_matrix: MPSNNGramMatrixCalculationNode."""

from __future__ import annotations

from ._node import Sizes


class GramMatrixCalculationNode(Sizes):
    """alpha times the products of all pairs of channels, summed over the pixels: 1 x channels x channels. Source:
    MPSNNGramMatrixCalculationNode."""

    kind_name = "gram_matrix_calculation"
