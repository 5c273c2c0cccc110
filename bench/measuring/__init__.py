"""Shared parts of all benchmarks: separate processes, interleaved rounds, detection of other load, and reports.

Importing this package sets the number of threads, for this process and all processes started from it, before any
library that counts processors is loaded. It reads /proc, so measuring requires Linux.
"""

import os
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
THREADS = int(os.environ.get("BENCH_THREADS", "2"))
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ[_name] = str(THREADS)
