"""Write trained.mpsgraph, the package of a trainer, and trained.batches, the data that train.c and train.cpp use.

The files must stay unchanged to test that newer versions can read them; writing them again would defeat that test.
"""

import sys
from pathlib import Path

import mpsgraph as mg

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from harness.trained_package import batches, trained  # noqa: E402

if __name__ == "__main__":
    mg.save(HERE / "trained.mpsgraph", trained())
    (HERE / "trained.batches").write_bytes(b"".join(x.tobytes() + y.tobytes() for x, y in batches(3, 9)))
