"""W3's LSTM in the legacy MPSNNGraph API: RNNMatrixTrainingLayer compared with the same LSTM in a graph.

Both compute the forward pass and all gradients of an LSTM with 200 units over 20 steps of 64 features at batch 64, in
one process and in turns. Each turn gives a ratio of the layer to the graph, which should be at most 1.1. The sequence
is (batch, time, features), as the preceding convolution produces it, so both must transpose it; a second comparison has
time first and needs no transposition. The layer encodes both passes into one command buffer; the graph is one
executable. This measures only mpsgraph.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial

import mpsgraph as mg
import numpy as np
import workloads as sizes
from measuring.machine import Patience
from measuring.options import Options, main, progress
from measuring.report import OURS, Row, Spread
from mpsgraph import nngraph

GRAPH, LAYER = "graph", "RNNMatrixTrainingLayer"
INPUTS, HIDDEN = sizes.W3_FEATURES, sizes.W3_HIDDEN
GATES = ("input", "forget", "cell", "output")


class Source:
    """The weights of a gate, as the layer's descriptor expects them."""

    kernel_width = kernel_height = 1

    def __init__(self, weights: np.ndarray, bias: np.ndarray | None, neuron: tuple | None) -> None:
        self.weights, self.bias_terms, self.neuron = weights, bias, neuron
        self.output_feature_channels, self.input_feature_channels = weights.shape
        self.descriptor, self.label, self.data_type = self, "gate", "float32"

    def load(self) -> bool:
        return True

    def purge(self) -> None:
        pass


def arrays(batch_first: bool) -> dict[str, np.ndarray]:
    """Return the input sequence, the gradient of the output, and the concatenated weights of all gates."""
    rng = np.random.default_rng(0)
    sequence = (sizes.W3_BATCH, sizes.W3_STEPS) if batch_first else (sizes.W3_STEPS, sizes.W3_BATCH)
    shapes = {
        "x": (*sequence, INPUTS),
        "dy": (*sequence, HIDDEN),
        "input_weights": (len(GATES) * HIDDEN, INPUTS),
        "recurrent_weights": (len(GATES) * HIDDEN, HIDDEN),
        "bias": (len(GATES) * HIDDEN,),
    }
    return {name: 0.1 * rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def graph(batch_first: bool) -> Callable[[], np.ndarray]:
    """Return a step of the graph that returns the gradient of the recurrent weights."""
    given = arrays(batch_first)
    g = mg.Graph()
    feeds = {name: g.placeholder(array.shape, name=name) for name, array in given.items()}
    x = g.swap_axes(feeds["x"], 0, 1) if batch_first else feeds["x"]
    y = g.lstm(x, feeds["recurrent_weights"], feeds["input_weights"], feeds["bias"])[0]
    y = g.swap_axes(y, 0, 1) if batch_first else y
    wanted = [feeds[name] for name in given if name != "dy"]
    targets = [y, *g.gradients(y, wanted, feeds["dy"]).values()]
    executable = g.compile({tensor: given[name].shape for name, tensor in feeds.items()}, targets)
    inputs = [given[tensor.name] for tensor in executable.feeds]
    results = [np.empty(target.shape, np.float32) for target in targets]
    queue = mg.CommandQueue("cpu")

    def step() -> np.ndarray:
        buffer = queue.command_buffer()
        executable.encode(buffer, inputs, results)
        buffer.commit()
        buffer.wait_until_completed()
        return results[1 + [tensor.name for tensor in wanted].index("recurrent_weights")]

    return step


def layer(batch_first: bool) -> Callable[[], np.ndarray]:
    """Return a step of the layer that returns the gradient of the recurrent weights."""
    given = arrays(batch_first)
    descriptor = nngraph.LSTMDescriptor(INPUTS, HIDDEN, use_float32_weights=True)
    for number, gate in enumerate(GATES):
        own = slice(number * HIDDEN, (number + 1) * HIDDEN)
        neuron = ("tanh", 1, 1) if gate == "cell" else ("sigmoid",)
        source = Source(given["input_weights"][own], given["bias"][own], neuron)
        setattr(descriptor, f"{gate}_gate_input_weights", source)
        recurrent = Source(given["recurrent_weights"][own], None, None)
        setattr(descriptor, f"{gate}_gate_recurrent_weights", recurrent)
    weights: list[nngraph.Matrix] = []
    training = nngraph.RNNMatrixTrainingLayer("cpu", descriptor, weights)
    gradients: list[nngraph.Matrix] = []
    training.create_weight_gradient_matrices(gradients)
    recurrent_gradient = next(m for m in gradients if (m.rows, m.columns) == given["recurrent_weights"].shape)

    def steps(array: np.ndarray) -> list[nngraph.Matrix]:
        return [nngraph.Matrix(array[:, t] if batch_first else array[t]) for t in range(sizes.W3_STEPS)]

    x, dy = steps(given["x"]), steps(given["dy"])
    y, dx = steps(np.empty_like(given["dy"])), steps(np.empty_like(given["x"]))
    queue = mg.CommandQueue("cpu")

    def step() -> np.ndarray:
        buffer = queue.command_buffer()
        states: list[nngraph.RNNMatrixTrainingState] = []
        training.encode_forward_sequence(buffer, x, y, states, weights)
        training.encode_gradient_sequence(buffer, x, dy, dx, gradients, states, weights)
        buffer.commit()
        buffer.wait_until_completed()
        return recurrent_gradient.numpy()

    return step


def in_turn(functions: list[Callable[[], object]], steps: int) -> list[float]:
    """Run the functions in turns and return the median milliseconds of each."""

    def milliseconds(function: Callable[[], object]) -> float:
        begin = time.perf_counter()
        function()
        return 1e3 * (time.perf_counter() - begin)

    times = [[milliseconds(function) for function in functions] for _ in range(steps)]
    return [statistics.median(each) for each in zip(*times, strict=True)]


def measure(options: Options) -> list[Row]:
    rows, patience = [], Patience(options.patience)
    with progress("recurrent_layer") as say:
        for batch_first in (True, False):
            first = "batch" if batch_first else "time"
            title = f"LSTM of {sizes.W3_STEPS} steps, both passes, {first} first"
            say(title)
            ways = {GRAPH: graph(batch_first), LAYER: layer(batch_first)}
            one, other = (function() for function in ways.values())  # The first calls compile.
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
            in_turn(list(ways.values()), 3)
            steps = max(3, int(options.turn_seconds / 0.05))
            times: dict[str, list[float]] = {way: [] for way in ways}
            shares = []
            for _ in range(3 * options.rounds):
                turn, share = patience.undisturbed(partial(in_turn, list(ways.values()), steps))
                shares.append(share)
                for way, middle in zip(ways, turn, strict=True):
                    times[way].append(middle)
            for way, values in times.items():
                ratio = Spread.of([own / plain for own, plain in zip(values, times[GRAPH], strict=True)])
                rows.append(
                    Row(
                        "W3 recurrent", title, "ms", OURS, way, Spread.of(values),
                        None if way == GRAPH else ratio, disturbed=statistics.median(shares),
                    )
                )  # fmt: skip
    return rows


if __name__ == "__main__":
    main(measure)
