"""Decompositions of matrices, what is solved with them, eigenvalues: loops over columns, or rounds of rotations.

LAPACK's conventions of signs and pivots hold where PyTorch shows them.
"""
