"""What all benchmarks share: sides in processes of their own, interleaved rounds, a watch on other load, reports.

Importing it fixes the number of threads, here and for every process started from here, before any library that counts
processors is loaded. Everything reads /proc, so it measures on Linux.
"""

import os
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
THREADS = 2
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ[_name] = str(THREADS)
