"""The models of examples/ as exported to ONNX and Core ML: small, with random weights, some with caches and states.

Each model is built as in its program and comes with its named inputs and outputs and with arrays for the inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpsgraph as mg
import numpy as np
from mpsgraph import nn
from mpsgraph import nngraph as ng


class Example(NamedTuple):
    """An exported example and its feeds. `exact` is False if the model draws random numbers."""

    export: Callable[..., Any]  # Takes the opset and returns the file.
    export_coreml: Callable[..., None]  # Takes the path.
    run: Callable[..., dict[str, np.ndarray]]  # Takes arrays by input name and returns results by output name.
    inputs: list[str]
    outputs: dict[str, mg.Tensor] | None  # None for NNGraph nodes, which have no tensors before export.
    feeds: list[dict[str, np.ndarray]]
    exact: bool = True


def _example(
    graph: mg.Graph, inputs: dict[str, mg.Tensor], outputs: dict[str, mg.Tensor], feeds: Any, **more: Any
) -> Example:
    exact = more.pop("exact", True)

    def export_coreml(path: Any, **options: Any) -> None:
        mg.coreml.export(graph, path, inputs=inputs, outputs=outputs, **options)

    def export(opset: int = 20) -> Any:
        return mg.onnx.export(graph, opset=opset, inputs=inputs, outputs=outputs, **more)

    def run(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = graph.run({inputs[name]: array for name, array in arrays.items()}, list(outputs.values()))
        return {name: found[tensor].numpy() for name, tensor in outputs.items()}

    return Example(export, export_coreml, run, list(inputs), outputs, feeds, exact)


def _nodes(graph: ng.NNGraph, shape: tuple[int, ...]) -> Example:
    """Return an example from an inference graph of nodes with a dynamic number of images."""

    def export(opset: int = 20) -> Any:
        return mg.onnx.export(graph, opset=opset, inputs={"images": (-1, *shape)})

    def export_coreml(path: Any, **options: Any) -> None:
        mg.coreml.export(graph, path, inputs={"images": (-1, *shape)}, **options)

    def run(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"result": graph(arrays["images"]).numpy()}

    feeds = [{"images": _normal(n, *shape)} for n in (1, 3)]
    return Example(export, export_coreml, run, ["images"], None, feeds)


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def activity_classifier() -> Example:
    """Return the classifier for a dynamic number of recordings."""
    from activity_classifier import Classifier

    g = mg.Graph(seed=1)
    x = g.placeholder((-1, 2000, 6), name="recordings")
    y = Classifier(6, features=8, hidden=12).eval()(x)
    return _example(g, {"recordings": x}, {"activities": y}, [{"recordings": _normal(n, 2000, 6)} for n in (1, 3)])


def diffusion_network() -> Example:
    """Return the U-Net, with images, times and digits as inputs."""
    from diffusion import UNet

    g = mg.Graph(seed=1)
    x, time = g.placeholder((-1, 8, 8, 1), name="x"), g.placeholder((-1, 1), name="time")
    digit = g.placeholder((-1,), mg.int32, "digit")
    y = UNet(channels=8).eval()(x, time, digit)
    feeds = [
        {"x": _normal(n, 8, 8, 1), "time": np.full((n, 1), 0.3, np.float32), "digit": np.arange(n, dtype=np.int32)}
        for n in (2, 5)
    ]
    return _example(g, {"x": x, "time": time, "digit": digit}, {"velocity": y}, feeds)


def diffusion_sampling() -> Example:
    """Return the sampling loop from noise to images in one graph."""
    from diffusion import MOVES, UNet

    g = mg.Graph(seed=1)
    first, digits = g.placeholder((-1, 8, 8, 1), name="noise"), g.placeholder((-1,), mg.int32, "digits")
    model = UNet(channels=8).eval()

    def moved(i: mg.Tensor, x: mg.Tensor) -> mg.Tensor:
        time = g.broadcast_to(1.0 - g.cast(i, "float32") / MOVES, g.concat([g.shape_of(digits), g.constant([1])], 0))
        v, now, then = model(x, time, digits), time[:, None, None] * 1.5, (time - 1 / MOVES)[:, None, None] * 1.5
        picture, noise = g.cos(now) * x - g.sin(now) * v, g.sin(now) * x + g.cos(now) * v
        return g.cos(then) * g.clamp(picture, -1.0, 1.0) + g.sin(then) * noise

    pictures = g.for_(4, initial=[first], body=moved)[0]
    feeds = [{"noise": _normal(n, 8, 8, 1), "digits": np.arange(n, dtype=np.int32)} for n in (1, 3)]
    return _example(g, {"noise": first, "digits": digits}, {"pictures": pictures}, feeds)


def gan() -> Example:
    """Return the generator, which turns seeds into images."""
    from gan import Gan

    gan = Gan(batch=2)
    seeds = {"seeds": gan.seeds}
    return _example(gan.g, seeds, {"images": gan.images}, [{"seeds": _normal(2, 100)}])


def gan_detective() -> Example:
    """Return the discriminator, whose dropout draws random numbers in each run."""
    from gan import Gan

    gan = Gan(batch=2)
    logits = gan.discriminator(gan.scans)
    return _example(gan.g, {"scans": gan.scans}, {"logits": logits}, [{"scans": _normal(2, 28, 28, 1)}], exact=False)


def gelu() -> Example:
    """Return the GELU formula for a dynamic number of elements."""
    from gelu import gelu

    g = mg.Graph()
    x = g.placeholder((-1,), name="x")
    return _example(g, {"x": x}, {"y": gelu(g, x)}, [{"x": _normal(n)} for n in (1, 1000)])


def gpt() -> Example:
    """Return the model for a complete text."""
    from gpt import GPT

    g = mg.Graph(seed=1)
    x = g.placeholder((-1, -1), mg.int32, "characters")
    y = GPT(11, features=16, layers=2).eval()(x)
    feeds = [{"characters": np.arange(n * t, dtype=np.int32).reshape(n, t) % 11} for n, t in ((1, 5), (2, 9))]
    return _example(g, {"characters": x}, {"logits": y}, feeds)


def gpt_steps() -> Example:
    """Return the step of the model that adds characters to the cache and samples the next one at temperature 0."""
    from gpt import GPT

    model = GPT(11, features=16, layers=2)
    model(mg.Graph(seed=1).placeholder((1, -1), mg.int32))
    made = nn.Generator(model, max_length=12)
    inputs = {"characters": made.tokens, "position": made.position, "keys": made.keys, "temperature": made.temperature}
    outputs = {"logits": made.logits, "next": nn.sampled(made.logits, made.temperature * 0.0, top_k=4)}
    cold = np.ones(1, np.float32)
    feeds = [
        {
            "characters": np.int32([[3, 1, 4]]),
            "position": np.int32([0]),
            "keys": np.arange(3, dtype=np.int32),
            "temperature": cold,
        },
        {
            "characters": np.int32([[5]]),
            "position": np.int32([3]),
            "keys": np.arange(4, dtype=np.int32),
            "temperature": cold,
        },
        {
            "characters": np.int32([[2, 6]]),
            "position": np.int32([4]),
            "keys": np.arange(6, dtype=np.int32),
            "temperature": cold,
        },
    ]
    return _example(made.graph, inputs, outputs, feeds)


def resnet50() -> Example:
    """Return the network in inference mode, with its moving averages."""
    from resnet50 import ResNet50

    net = ResNet50(narrow=16, is_training=False)
    feeds = [{"images": _normal(n, 32, 32, 3)} for n in (1, 2)]
    return _example(net.graph, {"images": net.images}, {"probabilities": net.probabilities}, feeds)


def resnet50_trained() -> Example:
    """Return the trainable network, whose mode is a placeholder, after optimize_for_inference."""
    from resnet50 import ResNet50

    net = ResNet50(narrow=16)
    inputs = {"images": net.images, "is_training": net.is_training}
    model = mg.Model(net.graph, inputs, {"probabilities": net.probabilities})
    ready = model.optimize_for_inference({"is_training": np.array([False])})
    return _example(ready.graph, ready.inputs, ready.outputs, [{"images": _normal(2, 32, 32, 3)}])


def text_generation() -> Example:
    """Return the network for a text, with the states before and after it."""
    from text_generation import Network

    g = mg.Graph(seed=1)
    x = g.placeholder((-1, -1), mg.int32, "text")
    states = tuple(g.placeholder((1, -1, 16), name=name) for name in ("state", "cell"))
    y, after = Network(11, 16).eval().with_state(x, states)
    inputs = {"text": x, "state": states[0], "cell": states[1]}
    feeds = [
        {"text": np.full((n, t), 3, np.int32), "state": _normal(1, n, 16), "cell": _normal(1, n, 16)}
        for n, t in ((1, 1), (2, 7))
    ]
    return _example(g, inputs, dict(zip(("logits", "state_after", "cell_after"), (y, *after), strict=True)), feeds)


def text_generation_writer() -> Example:
    """Return the generation step, whose only input is the temperature. The state is kept in variables."""
    from text_generation import Writer

    writer = Writer("abcdefg", hidden=16)
    inputs = {"inverse_temperature": writer.inverse_temperature}
    feeds = [{"inverse_temperature": np.array(1.0, np.float32)}] * 3
    return _example(writer.g, inputs, {"drawn": writer.write}, feeds, updates=writer.write_updates, exact=False)


def two_queues() -> Example:
    """Return the motion mask of a frame."""
    from two_queues import Pipeline

    g = Pipeline(32, np.zeros((1, 32, 32, 1), np.float32)).compute_graph
    frame, still, mask = (g.find(name).outputs[0] for name in ("frame", "background", "mask"))
    feeds = [{"frame": _normal(1, 32, 32, 1), "background": np.zeros((1, 32, 32, 1), np.float32)}]
    return _example(g, {"frame": frame, "background": still}, {"mask": mask}, feeds)


def two_queues_tinted() -> Example:
    """Return the frame, colored where something moves."""
    from two_queues import Pipeline

    g = Pipeline(32, np.zeros((1, 32, 32, 1), np.float32)).post_process_graph
    frame, mask, tinted = (g.find(name).outputs[0] for name in ("frame", "mask", "tinted"))
    feeds = [{"frame": _normal(1, 32, 32, 1), "mask": _normal(1, 32, 32, 1)}]
    return _example(g, {"frame": frame, "mask": mask}, {"tinted": tinted}, feeds)


def digits_nodes() -> Example:
    """Return the inference graph of the nodes, which computes the probabilities of the ten digits."""
    from digits_nodes import data_sources, network

    last = network(data_sources(0, False), None).result_image
    return _nodes(ng.NNGraph(None, ng.SoftMaxNode(last).result_image), (28, 28, 1))


def inception() -> Example:
    """Return all nodes up to the logits, with random statistics in the normalizations."""
    from inception import Inception

    rng = np.random.default_rng(3)

    def statistics(i: int, channels: int) -> tuple[np.ndarray, ...]:
        return tuple(rng.uniform(0.5, 1.5, channels).astype(np.float32) for _ in range(3))

    return _nodes(ng.NNGraph(None, Inception(narrow=16, norms=statistics).logits), (75, 75, 3))


def object_detector() -> Example:
    """Return the nodes that predict boxes."""
    from object_detector import network

    return _nodes(ng.NNGraph(None, network(ng.ImageNode("images"), None)), (64, 64, 1))


def object_detector_boxes() -> Example:
    """Return the graph that computes boxes, scores, and the selection of boxes."""
    from object_detector import Detector, network

    found = Detector(network(ng.ImageNode("images"), None))
    outputs = {"boxes": found.boxes, "scores": found.scores, "kept": found.kept}
    feeds = [{"predictions": _normal(n, *found.given.shape[1:])} for n in (1, 2)]
    return _example(found.graph, {"predictions": found.given}, outputs, feeds)


def activity_classifier_layers(part: int) -> Example:
    """Return the nodes before (part 0) or after (part 1) the LSTM, which uses matrices."""
    from activity_classifier_layers import Classifier

    classifier = Classifier(6)
    graph = (classifier.before, classifier.behind)[part]
    shape = ((1, 2000, 6), (1, 20, classifier.hidden))[part]
    return _nodes(graph, shape)


def activity_classifier_before() -> Example:
    """Return the convolution before the LSTM."""
    return activity_classifier_layers(0)


def activity_classifier_behind() -> Example:
    """Return the classification head after the LSTM."""
    return activity_classifier_layers(1)


EXAMPLES = (
    activity_classifier, activity_classifier_before, activity_classifier_behind, diffusion_network, diffusion_sampling,
    digits_nodes, gan, gan_detective, gelu, gpt, gpt_steps, inception, object_detector, object_detector_boxes, resnet50,
    resnet50_trained, text_generation, text_generation_writer, two_queues, two_queues_tinted,
)  # fmt: skip
