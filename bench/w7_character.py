"""W7: generating one character with an LSTM of 1,024 units, in mpsgraph and its peers.

A step runs an embedding, one step of the LSTM, and a dense layer, and samples from the softmax with a temperature. The
character and the states stay on the device, in variables that the step assigns; only the character is read. Weights are
constants in the peers. mpsgraph is measured after optimizing for inference, and as trained.
"""

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
    "W7",
    "LSTM of 1,024 units, one character",
    target=0.8,
    trains=False,
    peers={
        "PyTorch": ("eager", "compile cell"),
        "JAX": ("jit",),
        "ONNX Runtime": ("float32",),
    },
)
SMALLEST = 1e-9  # Lower limit of the random numbers, so that their logarithm is finite.


def trained_model() -> mg.Model:
    """Build a model that draws a character given its variables and updates them for the next one."""
    g = mg.Graph()
    zeros = np.zeros((1, 1, sizes.W7_HIDDEN), np.float32)
    h, c = g.variable(zeros, name="h", trainable=False), g.variable(zeros, name="c", trainable=False)
    character = g.variable(np.zeros((1, 1), np.int32), name="character")
    embedding = nn.Embedding(sizes.W7_CHARACTERS, sizes.W7_EMBEDDING)
    lstm, dense = nn.LSTM(sizes.W7_HIDDEN), nn.Linear(sizes.W7_CHARACTERS)

    y, (new_h, new_c) = lstm.with_state(embedding(character), (h, c))
    logits = dense(y[:, 0]) / sizes.W7_TEMPERATURE
    uniform = g.random_uniform((1, sizes.W7_CHARACTERS), SMALLEST, 1.0)
    drawn = g.reduction_arg_maximum(
        logits - g.logarithm(-g.logarithm(uniform)), axis=-1
    )  # The Gumbel-max trick: samples from the softmax.
    updates = [
        g.assign(h, new_h),
        g.assign(c, new_c),
        g.assign(character, g.reshape(g.cast(drawn, "int32"), (1, 1))),
    ]
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
