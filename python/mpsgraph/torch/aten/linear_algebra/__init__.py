"""Decompositions of matrices, what is solved with them, eigenvalues: compositions with a loop over columns or rotations.

LAPACK's conventions of signs and pivots hold where PyTorch shows them.
"""
