"""Matrix decompositions, solvers and eigenvalues, built from loops over columns or over rounds of rotations.

Signs and pivots follow LAPACK's conventions where PyTorch returns them.
"""
