"""W5: GELU from basic operations on 4096 x 4096 elements, forward and with its gradient, in mpsgraph and its peers.

y = x / 2 * (1 + erf(x / sqrt(2))); the gradient is that of sum(y). It is memory-bound: a fused kernel reads x once and
writes one array of 64 MB.
"""

import math

import mpsgraph as mg
import numpy as np
import workloads as sizes
from measuring.compare import Workload, compare
from measuring.options import Options, main
from measuring.protocol import Step
from measuring.report import Row
from measuring.sides import ours

TRAINING_PEERS = {"PyTorch": ("eager", "compile"), "JAX": ("jit",)}
FORWARD = Workload(
    "W5 forward",
    "GELU from basic operations, 4096 x 4096",
    target=1.0,
    trains=False,
    peers={**TRAINING_PEERS, "ONNX Runtime": ("float32",)},
)
BACKWARD = Workload(
    "W5 forward+backward",
    "GELU from basic operations with gradient, 4096 x 4096",
    target=0.5,
    trains=False,
    peers=TRAINING_PEERS,
)


def gelu() -> tuple[mg.Graph, mg.Tensor, mg.Tensor, np.ndarray]:
    """Return the graph, its placeholder, its output, and the input array."""
    g = mg.Graph()
    x = g.placeholder((-1, -1), name="x")
    y = 0.5 * x * (1 + g.erf(x * (1 / math.sqrt(2))))
    return g, x, y, np.random.default_rng(0).standard_normal(sizes.W5_SHAPE, np.float32)


def forward() -> Step:
    g, x, y, values = gelu()

    def step() -> None:
        g.run({x: values}, y)

    return step


def backward() -> Step:
    g, x, y, values = gelu()
    total = g.reshape(g.reduction_sum(y), ())
    targets = [total, g.gradients(total, x)[x]]
    return lambda: float(g.run({x: values}, targets)[total])


BUILDERS = {"forward": forward, "backward": backward}


def measure(options: Options) -> list[Row]:
    rows = []
    for workload, build in ((FORWARD, "forward"), (BACKWARD, "backward")):
        rows += compare(workload, [ours(__file__, build, "graph")], options)
    return rows


if __name__ == "__main__":
    main(measure, BUILDERS)
