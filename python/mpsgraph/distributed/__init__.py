"""Several processes, on one machine or many, that train one model: `Trainer(distributed=True)`, by MPI.

`mpiexec -n 4 python train.py`, or `mpsgraph launch -n 4 train.py`, starts them. Each computes gradients on its part of
the data; they are averaged while the backward pass still computes. `rank`, `size`, `all_reduce`, `broadcast` and
`barrier` are for steps of one's own. mpi4py is an extra, `pip install mpsgraph[distributed]`, and is imported when it
is needed; without mpiexec there is one process.
"""

from .collectives import all_reduce, barrier, broadcast, rank, size
from .partnership import DataParallel, explain, statistics

__all__ = ["DataParallel", "all_reduce", "barrier", "broadcast", "explain", "rank", "size", "statistics"]
