"""W10: generating one token with a GPT and a key/value cache, in mpsgraph and its peers.

Each block has attention and two dense layers, with layer normalization before each of the two parts. The keys and
values of all earlier tokens are in variables of fixed length. A step writes one row of each at the current position and
reads all rows. Token and position stay on the device, and only the token is read. At the end of the cache, the position
wraps around to 0.
"""

from typing import Any

import mpsgraph as mg
import numpy as np
import workloads as sizes
from measuring.compare import Workload, compare
from measuring.options import Options, main
from measuring.protocol import Step
from measuring.report import Row
from measuring.sides import ours
from mpsgraph import nn

WORKLOAD = Workload(
    "W10",
    f"GPT of {sizes.W10_LAYERS} layers of {sizes.W10_WIDTH}, one token, {sizes.W10_POSITIONS:,} cached positions",
    target=0.5,
    trains=False,
    peers={"PyTorch": ("eager",)},
)


def attention(x: mg.Tensor, start: mg.Tensor, seen: mg.Tensor) -> tuple[mg.Tensor, list[mg.Operation]]:
    """Return attention of a token to itself and earlier tokens, shape (1, width), and the updates of the cache."""
    g: Any = x.graph  # Any, because x.graph is typed as the extension's graph, which lacks the operations.
    head = sizes.W10_WIDTH // sizes.W10_HEADS
    rows = (sizes.W10_HEADS, 1, head)
    q, k, v = (g.reshape(nn.Linear(sizes.W10_WIDTH)(x), rows) for _ in range(3))
    updates, cached = [], []
    for new in (k, v):
        cache = g.variable(np.zeros((sizes.W10_HEADS, sizes.W10_POSITIONS, head), np.float32), trainable=False)
        cached.append(g.slice_update_data(g.read(cache), new, start, sizes=rows))
        updates.append(g.assign(cache, cached[-1]))
    keys, values = cached
    scores = g.matrix_multiplication(q * head**-0.5, g.transpose(keys, (0, 2, 1)))
    weights = g.softmax(g.select(seen, scores, -np.inf), axis=-1)
    return nn.Linear(sizes.W10_WIDTH)(g.reshape(weights @ values, (1, sizes.W10_WIDTH))), updates


def trained_model() -> mg.Model:
    """Build a model that generates the token after the one in its variables."""
    g = mg.Graph()
    token = g.variable(np.zeros(1, np.int32), name="token")
    position = g.variable(np.zeros(1, np.int32), name="position")
    at, zero = g.read(position), g.constant([0], dtype="int32")
    seen = g.coordinate_along_axis(2, (1, 1, sizes.W10_POSITIONS)) <= at
    start = g.concat([zero, at, zero], 0)
    x = nn.Embedding(sizes.W10_VOCABULARY, sizes.W10_WIDTH)(g.read(token))
    x = x + nn.Embedding(sizes.W10_POSITIONS, sizes.W10_WIDTH)(at)
    updates = []
    for _ in range(sizes.W10_LAYERS):
        seen_of_it, own = attention(nn.LayerNorm()(x), start, seen)
        updates += own
        x = x + seen_of_it
        wide = nn.Linear(4 * sizes.W10_WIDTH)(nn.LayerNorm()(x))
        x = x + nn.Linear(sizes.W10_WIDTH)(nn.activations.gelu(wide))
    logits = nn.Linear(sizes.W10_VOCABULARY)(nn.LayerNorm()(x))
    drawn = g.reshape(g.reduction_arg_maximum(logits, axis=-1), (1,))
    updates += [g.assign(token, drawn), g.assign(position, g.floor_modulo(at + 1, sizes.W10_POSITIONS))]
    return mg.Model(g, {}, {"drawn": g.control_dependency(updates, lambda: g.identity(drawn))})


def running(model: mg.Model) -> Step:
    executable = model.graph.compile({}, [model.outputs["drawn"]])
    return lambda: executable.run([])[0].item()


BUILDERS = {
    "optimized": lambda: running(trained_model().optimize_for_inference()),
    "graph": lambda: running(trained_model()),
}


def measure(options: Options) -> list[Row]:
    return compare(WORKLOAD, [ours(__file__, mode) for mode in BUILDERS], options)


if __name__ == "__main__":
    main(measure, BUILDERS)
