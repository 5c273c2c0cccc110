"""W11: scaled dot-product attention, forward with all gradients, over 256 to 4,096 positions, in mpsgraph and PyTorch.

Attention has eight heads of 64 features. Batches are 16, 4, and 1, so that every length has enough rows for the
threads. PyTorch runs its tiled operation, which does not store the scores either. Peak memory is measured for the
longest sequence. Sizes are in workloads.py.
"""

from collections.abc import Callable
from functools import partial

import mpsgraph as mg
import numpy as np
import workloads as sizes
from measuring.compare import Workload, compare
from measuring.options import Options, main, progress
from measuring.protocol import Step
from measuring.report import Row
from measuring.sides import ours, peer
from memory import peaks, rows_of

TARGET = 0.8
LONGEST = "W11 4096"


def operands(positions: int) -> list[np.ndarray]:
    """Return the query, key, value, and the gradient of the output."""
    rng = np.random.default_rng(0)
    shape = (sizes.W11_BATCHES[positions], sizes.W11_HEADS, positions, sizes.W11_FEATURES)
    return [rng.standard_normal(shape, np.float32) for _ in range(4)]


def halves(array: np.ndarray) -> mg.NDArray:
    g = mg.Graph()
    return g.run({}, g.cast(g.constant(array), "bfloat16"))


def graph(positions: int, kind: str) -> Step:
    g, arrays = mg.Graph(), operands(positions)
    dtype = "bfloat16" if kind == "bfloat16" else "float32"
    q, k, v, dy = (g.placeholder(array.shape, dtype) for array in arrays)
    mask = g.constant(sizes.w11_mask(positions)) if kind == "masked" else None
    dropout = sizes.W11_DROPOUT if kind == "dropped" else 0.0
    y = g.scaled_dot_product_attention(q, k, v, mask, causal=kind == "causal", dropout=dropout)
    executable = g.compile(
        {tensor: tensor.shape for tensor in (q, k, v, dy)}, [y, *g.gradients(y, [q, k, v], dy).values()]
    )
    fed = dict(zip((q, k, v, dy), map(halves, arrays) if kind == "bfloat16" else arrays, strict=True))
    inputs = [fed[tensor] for tensor in executable.feeds]

    def step() -> None:
        executable.run(inputs)

    return step


PARTS = {f"W11 {n}{kind and ' '}{kind}": (n, kind) for kind in sizes.W11_KINDS for n in sizes.W11_BATCHES}
BUILDERS: dict[str, Callable[[], Step]] = {name: partial(graph, *part) for name, part in PARTS.items()}
TORCH_MODES = ("eager", "compile")
KINDS = {"dropped": "dropout"}


def workload(name: str) -> Workload:
    positions, kind = PARTS[name]
    shape = f"batch {sizes.W11_BATCHES[positions]}, {sizes.W11_HEADS} heads, {positions} positions"
    title = f"attention, {shape}" + (kind and f", {KINDS.get(kind, kind)}")
    return Workload(name, title, TARGET, trains=False, peers={"PyTorch": TORCH_MODES})


def memory(options: Options) -> list[Row]:
    """Measure the peak memory for the longest sequence, each side in a separate process."""
    sides = [ours(__file__, LONGEST, "graph"), *(peer("PyTorch", LONGEST, ("eager",)) if options.peers else [])]
    samples = {}
    with progress("memory") as say:
        for side in sides:
            say(f"{LONGEST}: {side.label}")
            samples[side] = peaks(side, min(3, options.rounds))
    return rows_of(f"{LONGEST}, peak memory", samples, lambda sample: sample.most, 1.0)


def measure(options: Options) -> list[Row]:
    rows = [row for name in PARTS for row in compare(workload(name), [ours(__file__, name, "graph")], options)]
    return rows + memory(options)


if __name__ == "__main__":
    main(measure, BUILDERS)
