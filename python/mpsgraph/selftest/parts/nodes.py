"""Part nodes: tests networks, filters, and gradients of the legacy MPSNNGraph API.

A network is trained, and its losses are compared with those of the same network built from graph operations on the CPU,
which share no code with the nodes. On other devices, the losses are also compared with those of the same nodes on the
CPU. The filters and gradients are the cases of tests/nngraph/test_nodes.py, which compare them with explicit formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mpsgraph as mg
from mpsgraph import nngraph as ng

from .. import shared
from ..checks import UNSUPPORTED, Check, Mismatch, Options, Result, described
from .gradients import compare
from .operations import device_name

IMAGES, SIDE, CLASSES, STEPS, RATE = 16, 12, 4, 12, 0.2
TOLERANCE = 2e-3  # Tolerance for losses after several steps.
# Weight shapes: (out, height, width, in)
SHAPES = {"conv1": (8, 3, 3, 1), "conv2": (8, 3, 3, 8), "dense": (CLASSES, 3, 3, 8)}


def checks(options: Options) -> list[Check]:
    """Return the checks of this part: first the network, then one case of each kind of filter, then all other cases.

    With `quick`, the other cases are omitted.
    """
    device = device_name(options)
    found = [
        Check("a network of nodes learns", lambda: learns(device), limit=300.0, family="network"),
        Check("its losses match those of a graph", lambda: as_a_graph(device), limit=300.0, family="network"),
    ]
    if device != "cpu":
        found.append(
            Check("its losses match those on the CPU", lambda: as_on_the_cpu(device), limit=300.0, family="network")
        )
    return found + _filters(options, device)


# --- the network ------------------------------------------------------------------------------------------------------
def data() -> tuple[np.ndarray, np.ndarray]:
    """Return noisy images with one bright quadrant each, and the index of that quadrant as the class."""
    rng = np.random.default_rng(3)
    images = rng.normal(0, 0.3, (IMAGES, SIDE, SIDE, 1)).astype(np.float32)
    classes = rng.integers(0, CLASSES, IMAGES)
    half = SIDE // 2
    for image, quarter in zip(images, classes, strict=True):
        y, x = half * (quarter // 2), half * (quarter % 2)
        image[y : y + half, x : x + half] += 1
    return images, classes.astype(np.int32)


def weights() -> dict[str, np.ndarray]:
    """Return the initial weights as data sources store them: (out, height, width, in)."""
    rng = np.random.default_rng(4)
    return {
        name: rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape).astype(np.float32) for name, shape in SHAPES.items()
    }


class Network:
    """Small classifier built from legacy MPSNNGraph nodes: two convolutions with ReLU and max pooling, and a dense
    layer.

    It is trained by gradient descent inside the graph.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        rule = ng.StochasticGradientDescent(RATE)
        self.sources = {
            name: ng.TrainableConvolution(
                ng.ConvolutionDescriptor(array.shape[2], array.shape[1], array.shape[3], array.shape[0]),
                array,
                optimizer=rule,
                label=name,
            )
            for name, array in weights().items()
        }
        loss = ng.LossNode(self.logits(), ng.LossDescriptor("softmax_cross_entropy", weight=1 / IMAGES))
        ends = [end.result_image for end in loss.training_graph(None)]
        self.graph = ng.NNGraph(device, ends, False)
        self.queue = mg.CommandQueue(self.graph.device)

    def logits(self) -> Any:
        """Create new nodes up to the logits, with the same data sources each time."""
        x = ng.ImageNode("images")
        for name in ("conv1", "conv2"):
            x = ng.NeuronReLUNode(ng.ConvolutionNode(x, self.sources[name]).result_image).result_image
            x = ng.PoolingMaxNode(x, filter_size=2).result_image
        return ng.FullyConnectedNode(x, self.sources["dense"]).result_image

    def train(self) -> np.ndarray:
        """Train and return the losses of all steps."""
        images, classes = data()
        labels = np.eye(CLASSES, dtype=np.float32)[classes]
        losses = []
        for _ in range(STEPS):
            buffer, batch = self.queue.command_buffer(), ng.LossLabelsBatch(labels)
            self.graph.encode_batch(buffer, [ng.ImageBatch(images)], [batch])
            buffer.commit()
            buffer.wait_until_completed()
            losses.append(float(batch.losses.numpy().sum()))
        return np.array(losses)


def learns(device: str) -> Result:
    """Check that losses fall, and that a second graph with the same data sources uses the trained weights."""
    network = Network(device)
    losses = network.train()
    tested = ng.NNGraph(device, ng.SoftMaxNode(network.logits()).result_image)
    tested.reload_from_data_sources()
    images, classes = data()
    right = float((np.asarray(tested(images)).reshape(IMAGES, CLASSES).argmax(1) == classes).mean())
    message = (
        f"losses {losses[0]:.3f} to {losses[-1]:.3f} in {STEPS} steps, {right:.0%} of the images classified correctly"
    )
    numbers = {"losses": losses.tolist(), "accuracy": right}
    if not (np.isfinite(losses).all() and losses[-1] < 0.5 * losses[0] and right >= 0.75):
        raise Mismatch(
            f"{message}; expected the last loss below half of the first loss, and at least 75% of the images to be "
            "classified correctly",
            numbers,
        )
    return Result(message=message, numbers=numbers)


def graph_losses() -> np.ndarray:
    """Train the same network as operations of a graph on the CPU and return its losses."""
    images, classes = data()
    g = mg.Graph()
    x = g.placeholder((IMAGES, SIDE, SIDE, 1))
    y = g.placeholder((IMAGES, CLASSES))
    shapes = weights()
    kept = {name: g.variable(shapes[name].transpose(1, 2, 3, 0)) for name in ("conv1", "conv2")}
    kept["dense"] = g.variable(shapes["dense"].reshape(CLASSES, -1).T)
    biases = {name: g.variable(np.zeros(shape[0], np.float32)) for name, shape in SHAPES.items()}
    h: Any = x
    for name in ("conv1", "conv2"):
        h = g.relu(g.convolution2d(h, kept[name], padding="TF_SAME") + biases[name])
        h = g.max_pooling2d(h, 2, strides=2)
    flat = g.reshape(h, (IMAGES, -1))
    logits = g.matrix_multiplication(flat, kept["dense"]) + biases["dense"]
    loss = g.softmax_cross_entropy(logits, y, reduction="mean")
    variables = [*kept.values(), *biases.values()]
    updates = [g.apply_stochastic_gradient_descent(RATE, v, d) for v, d in g.gradients(loss, variables).items()]
    labels = np.eye(CLASSES, dtype=np.float32)[classes]
    return np.array([float(g.run({x: images, y: labels}, [loss], updates, device="cpu")[loss]) for _ in range(STEPS)])


def as_a_graph(device: str) -> Result:
    """Compare the losses of the network of nodes with those of the same network built from graph operations."""
    return _beside(Network(device).train(), graph_losses(), device, "a graph on the CPU")


def as_on_the_cpu(device: str) -> Result:
    """Compare the losses of the nodes with those of the same nodes on the CPU."""
    return _beside(Network(device).train(), Network("cpu").train(), device, "nodes on the CPU")


def _beside(found: np.ndarray, wanted: np.ndarray, device: str, what: str) -> Result:
    compare(found, wanted, f"losses of nodes on {device} compared with {what}", TOLERANCE)
    return Result(message=f"{device} {found.tolist()}, {what} {wanted.tolist()}", numbers={device: found.tolist()})


# --- the filters ------------------------------------------------------------------------------------------------------
def _filters(options: Options, device: str) -> list[Check]:
    nodes = shared.module("harness.nodes")
    families = {row["name"]: row["family"] for row in ng.node_table()}
    first: list[Check] = []
    later: list[Check] = []
    seen: set[tuple[str, bool]] = set()
    for case in shared.module("harness.node_cases").CASES + shared.module("harness.node_window_cases").CASES:
        for gradient in (False, True) if case.gradient else (False,):
            reason, undefined = shared.of_node(case, device, gradient)
            function = nodes.check_gradient if gradient else nodes.check_value
            check = Check(
                f"{'gradient' if gradient else 'value'} of {case}",
                _left_open(undefined) if undefined else _checked(function, case, device),
                reason=reason,
                group=case.kind,
                family=families[case.kind],
                about=_inputs(case),
            )
            (later if (case.kind, gradient) in seen else first).append(check)
            seen.add((case.kind, gradient))
    return first if options.quick else first + later


def _inputs(case: Any) -> Callable[[], str]:
    arrays = [*((f"source {i}:", x) for i, x in enumerate(case.sources)), *case.parameters.items()]
    return lambda: described([(f"{name} float32", x) for name, x in arrays])


def _checked(function: Callable[..., None], case: Any, device: str) -> Callable[[], None]:
    def run() -> None:
        try:
            function(case, device)
        except AssertionError as error:
            raise Mismatch(str(error), {}) from error

    return run


def _left_open(what: str) -> Callable[[], Result]:
    return lambda: Result(UNSUPPORTED, f"not compared with a formula, because Apple does not document {what}")
