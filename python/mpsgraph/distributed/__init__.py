"""Data-parallel training in several processes, on one machine or several, with MPI: `Trainer(distributed=True)`.

Start the processes with `mpiexec -n 4 python train.py` or `mpsgraph launch -n 4 train.py`. Each process computes
gradients on its part of the data; gradients are averaged while the backward pass is still running. `rank`, `size`,
`all_reduce`, `broadcast`, and `barrier` are for custom training loops. mpi4py is an optional dependency, `pip install
mpsgraph[distributed]`, and is imported when needed. Without mpiexec there is one process.
"""

from .collectives import all_reduce, barrier, broadcast, rank, size
from .partnership import DataParallel, explain, statistics

__all__ = ["DataParallel", "all_reduce", "barrier", "broadcast", "explain", "rank", "size", "statistics"]
