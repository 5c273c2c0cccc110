"""numpy and scipy as benchmark peers of W9: `python -m peers.numpy_peer WORKLOAD MODE`, run in a separate environment.

The modes are numpy, and scipy.fft with as many workers as the other sides have threads.
"""

import sys

import numpy as np
import scipy.fft
from measuring import THREADS
from measuring.protocol import Step, serve
from w9_inputs import INPUTS, operation

FUNCTIONS = {
    "sort float32": np.sort,
    "sort int32": np.sort,
    "arg-sort float32": np.argsort,
    "arg-sort int32": np.argsort,
    "cumulative sum": lambda x: np.cumsum(x, 1),
    "FFT of rows": lambda x: scipy.fft.fft(x, workers=THREADS),
    "FFT of a plane": lambda x: scipy.fft.fft2(x, workers=THREADS),
}


def build(name: str) -> Step:
    inputs = INPUTS[name]()

    def step() -> None:
        FUNCTIONS[name](*inputs)

    return step


if __name__ == "__main__":
    workload, mode = sys.argv[1:]
    serve(lambda: build(operation(workload)), "numpy", *(["scipy"] if mode == "scipy.fft" else []))
