"""Filters of mpsgraph.nngraph as functions of arrays: running nodes, and comparing gradients with central differences.

The reference formulas use float64 and are independent of the package. The gradients of a filter are compared with
finite differences of its formula, so both values and gradients are checked against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpsgraph import nngraph as nn

from . import device
from .device import mg

STEP = 1e-5
Arrays = Mapping[str, np.ndarray]


def queue() -> mg.CommandQueue:
    return mg.CommandQueue(mg.Device(device.NAME))


def graph_of(results: Any, needed: Any = True, on: str | None = None) -> nn.NNGraph:
    return nn.NNGraph(on or device.NAME, results, needed)


def run(graph: nn.NNGraph, feeds: Mapping[str, Any], states: Sequence[Any] = ()) -> list[np.ndarray]:
    """Run a graph on images by handle and return the needed results after the command buffer completes."""
    buffer = mg.CommandQueue(graph.device).command_buffer()
    results: list[Any] = []
    graph.encode_batch(buffer, [feeds[h] for h in graph.source_image_handles], states, results=results)
    buffer.commit()
    buffer.wait_until_completed()
    return [r.numpy() for r in results if r is not None]


class Convolution:
    """A data source for convolutions that stores its parameters and the gradients it receives."""

    def __init__(self, descriptor: nn.ConvolutionDescriptor, weights: Any, biases: Any = None) -> None:
        self.given, self.state = descriptor, None
        self.arrays = {"weights": weights, "biases": biases}

    def load(self) -> bool:
        return True

    def purge(self) -> None:
        pass

    def descriptor(self) -> nn.ConvolutionDescriptor:
        return self.given

    def weights(self) -> Any:
        return self.arrays["weights"]

    def bias_terms(self) -> Any:
        return self.arrays["biases"]

    def data_type(self) -> Any:
        return mg.float32

    def label(self) -> str:
        return "by hand"

    def update(self, command_buffer: Any, gradient_state: Any, source_state: Any) -> None:
        self.state = gradient_state


class Normalization:
    """A data source for normalizations that stores its parameters and the gradients it receives."""

    def __init__(self, channels: int, *, epsilon: float = 1e-5, groups: int = 1, **arrays: Any) -> None:
        self.channels, self.epsilon, self.number_of_groups, self.state = channels, epsilon, groups, None
        self.arrays = arrays

    def number_of_feature_channels(self) -> int:
        return self.channels

    def gamma(self) -> Any:
        return self.arrays.get("gamma")

    def beta(self) -> Any:
        return self.arrays.get("beta")

    def mean(self) -> Any:
        return self.arrays.get("mean")

    def variance(self) -> Any:
        return self.arrays.get("variance")

    def update_gamma_and_beta(self, command_buffer: Any, gradient_state: Any, source_state: Any) -> None:
        self.state = gradient_state


@dataclass
class NodeCase:
    """A filter built by build(*images, data source) whose result must equal formula(*sources, **parameters)."""

    kind: str
    label: str
    build: Callable[..., Any]
    formula: Callable[..., np.ndarray]
    sources: Sequence[np.ndarray]
    parameters: Arrays = field(default_factory=dict)
    data_source: Callable[[Arrays], Any] | None = None
    gradient: bool = True
    # Called with (incoming, *sources). Replaces numerical gradients at kinks.
    derivative: Callable[..., Sequence[np.ndarray]] | None = None
    tolerance: float = 2e-5

    def __str__(self) -> str:
        return f"{self.kind}-{self.label}"

    def node(self, images: Sequence[Any]) -> tuple[Any, Any]:
        """Return the filter for the images and its data source."""
        if self.data_source is None:
            return self.build(*images), None
        source = self.data_source({k: v.astype(np.float32) for k, v in self.parameters.items()})
        return self.build(*images, source), source

    def expected(self) -> np.ndarray:
        return self.formula(*self.sources, **self.parameters)


def pool(*shape: int, seed: int = 0, low: float = -1.5, high: float = 1.5) -> np.ndarray:
    """Return random values that are exact in float32 and practically never equal."""
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape).astype(np.float32).astype(np.float64)


def close(found: np.ndarray, wanted: np.ndarray, tolerance: float, what: str) -> None:
    assert found.shape == wanted.shape, f"{what}: got shape {found.shape}, expected {wanted.shape}"
    scale = max(1.0, float(np.max(np.abs(wanted), initial=0)))
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * scale, err_msg=what)


def check_value(case: NodeCase, on: str | None = None) -> None:
    images = [nn.ImageNode(f"x{i}") for i in range(len(case.sources))]
    node, _ = case.node(images)
    feeds = {f"x{i}": x.astype(np.float32) for i, x in enumerate(case.sources)}
    (found,) = run(graph_of(node.result_image, on=on), feeds)
    close(found, case.expected(), case.tolerance, str(case))


def slopes(case: NodeCase, incoming: np.ndarray) -> dict[str, np.ndarray]:
    """Return the gradients of sum(incoming * result) with respect to all sources and parameters.

    The gradients are central differences of the reference formula.
    """
    named = {**{f"x{i}": x for i, x in enumerate(case.sources)}, **case.parameters}
    count = len(case.sources)

    def weighed(values: Mapping[str, np.ndarray]) -> float:
        sources = [values[f"x{i}"] for i in range(count)]
        return float(np.sum(incoming * case.formula(*sources, **{k: values[k] for k in case.parameters})))

    result = {}
    for name, array in named.items():
        moved = {k: np.array(v, np.float64) for k, v in named.items()}
        flat, slope = moved[name].reshape(-1), np.zeros(array.size)
        for k in range(array.size):
            kept = flat[k]
            flat[k] = kept + STEP
            above = weighed(moved)
            flat[k] = kept - STEP
            slope[k] = (above - weighed(moved)) / (2 * STEP)
            flat[k] = kept
        result[name] = slope.reshape(array.shape)
    return result


def found_gradients(case: NodeCase, incoming: np.ndarray, on: str | None = None) -> dict[str, np.ndarray]:
    """Return the results of the gradient filters: the gradients of the images and those passed to the data source."""
    images = [nn.ImageNode(f"x{i}") for i in range(len(case.sources))]
    node, source = case.node(images)
    filters = node.gradient_filters(nn.ImageNode("incoming"))
    feeds = {f"x{i}": x.astype(np.float32) for i, x in enumerate(case.sources)}
    feeds["incoming"] = incoming.astype(np.float32)
    found = run(graph_of([f.result_image for f in filters], on=on), feeds)
    result = {f"x{i}": g for i, g in enumerate(found)}
    if source is not None:
        result |= {n: np.array(source.state.read(n)) for n in source.state.names if n not in ("mean", "variance")}
    return result


def check_gradient(case: NodeCase, on: str | None = None) -> None:
    incoming = pool(*case.expected().shape, seed=77)
    if case.derivative is None:
        wanted = slopes(case, incoming)
    else:
        wanted = {f"x{i}": d for i, d in enumerate(case.derivative(incoming, *case.sources))}
    found = found_gradients(case, incoming, on)
    wanted.pop("mean", None), wanted.pop("variance", None)
    assert found.keys() == wanted.keys()
    for name in wanted:
        close(found[name], wanted[name], max(case.tolerance, 1e-4 if case.derivative is None else 0), f"{case}: {name}")
