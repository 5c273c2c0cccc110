"""Precision by layer: each layer that multiplies by weights measured in float32 and in bfloat16, the faster one kept.

The model is copied into a graph of its own and run once in float32 on the first batch; what each layer got there, and
the gradient that came back to its result, are then run through that layer alone, both ways. bfloat16 is chosen where it
is faster by a margin and no farther from float32 than the stated error. The trainer's own graph sees none of this.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _core
from .._core import Device, Executable, NDArray, Tensor, bfloat16, float32
from .._display import shown
from .._dtypes import dtype_of
from ..errors import GraphError
from ..graph import Graph
from ..nn.losses import Loss
from ..nn.module import Call, Module, is_built, mode_of, observed_calls, own_parameters, settings_of, unbuilt_copy
from .mixed_precision import autocast

MARGIN = 0.95  # a low layer must take less than this share of float32's time
REPETITIONS = 7
_PRODUCTS = {definition["name"] for definition in _core.definitions() if definition["autocast"] == "low"}


@dataclass(frozen=True)
class LayerPrecision:
    """What was chosen for a layer, and why.

    `error` is the largest relative error of bfloat16, |low - float32| / |float32| in the 2-norm, of its results, of the
    gradients of its operands, and of the gradients of its weights, all of them as one vector; `seconds` is the least
    that a step through the layer, forward and back, took in each precision.
    """

    precision: str
    error: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)


def as_choices(stated: Mapping[str, Any]) -> dict[str, LayerPrecision]:
    """Choices from precisions by path, or from what a checkpoint keeps. GraphError for another precision."""
    choices = {}
    for path, choice in stated.items():
        if not isinstance(choice, LayerPrecision):
            choice = LayerPrecision(**choice) if isinstance(choice, Mapping) else LayerPrecision(choice)
        if choice.precision not in ("float32", "bfloat16"):
            raise GraphError(f"layer '{path}': a precision is float32 or bfloat16, got {shown(choice.precision)}")
        choices[path] = choice
    return choices


def in_precision(precision: str) -> AbstractContextManager[Any]:
    """The scope that a trainer calls its model in; layers of "auto" have precisions of their own within it."""
    return (
        autocast(enabled=False) if precision == "float32" else autocast("float32" if precision == "auto" else precision)
    )


@contextmanager
def chosen_precisions(model: Module, choices: Mapping[str, LayerPrecision]) -> Iterator[None]:
    """Meanwhile layers are called in these precisions; the model itself stays as it is."""
    modules = dict(model.named_modules())
    before = {path: modules[path].precision for path in choices}
    try:
        for path, choice in choices.items():
            modules[path].precision = choice.precision
        yield
    finally:
        for path, precision in before.items():
            modules[path].precision = precision


@dataclass(frozen=True)
class Task:
    """What precisions are chosen for: a model, as it will be trained."""

    model: Module
    loss: Loss
    seed: int
    device: Device | str | None
    bound: float
    """The largest relative error that bfloat16 may have in a layer."""


@dataclass
class _Call:
    """A call of a layer in the float32 run."""

    path: str
    call: Call

    @property
    def layer(self) -> Module:
        return self.call.module

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self.call.arguments

    @property
    def results(self) -> list[Tensor]:
        return _tensors(self.call.result)

    @property
    def operands(self) -> list[Tensor]:
        """The tensors among the arguments, each once."""
        return list(dict.fromkeys(_tensors(self.arguments)))

    def returned(self, gradients: Mapping[Tensor, Tensor]) -> list[Tensor]:
        """The gradients that came back to the results."""
        return [gradients[result] for result in self.results if result in gradients]


def choose(task: Task, x: np.ndarray, y: np.ndarray) -> dict[str, LayerPrecision]:
    """A precision for each layer with weights that makes products, from a step on a batch.

    Each call's error is its own; calls of equal arguments, shapes and types share the times that the first one took.
    A layer that is called several times has the largest error and all the times. One that is called inside control flow
    stays float32, and one without products goes along with its input. All operands and the gradients that came back are
    held meanwhile. Args: task; x, y, the batch. Errors: GraphError for a batch of nothing.
    """
    if not len(x):
        raise GraphError("precision='auto' is decided on the first batch, which is empty: give one with data")
    g, calls, gradients, feeds = _built_once(task, x, y)
    if not calls:
        return {}
    wanted = dict.fromkeys(t for call in calls for t in [*call.operands, *call.returned(gradients)])
    arrays = g.run(feeds, list(wanted), device=task.device)
    alike: dict[str, list[_Call]] = {}
    for call in calls:
        alike.setdefault(_key(call, arrays, gradients, feeds), []).append(call)
    measured: dict[str, list[tuple[float, dict[str, float]]]] = {call.path: [] for call in calls}
    for group in alike.values():
        trial = _Trial(group[0], arrays, gradients, feeds, task)
        for call in group:
            measured[call.path].append(trial.measure(call, arrays, gradients))
    return {path: _better(found, task.bound) for path, found in measured.items()}


def _better(measured: list[tuple[float, dict[str, float]]], bound: float) -> LayerPrecision:
    """The precision of a layer by the errors and times of its calls."""
    error = max(error for error, _ in measured)
    seconds = {p: sum(times[p] for _, times in measured) for p in measured[0][1]}
    low = error <= bound and seconds["bfloat16"] < MARGIN * seconds["float32"]
    return LayerPrecision("bfloat16" if low else "float32", error, seconds)


def _built_once(
    task: Task, x: np.ndarray, y: np.ndarray
) -> tuple[Graph, list[_Call], dict[Tensor, Tensor], dict[Tensor, np.ndarray]]:
    """The model's step in float32 in a graph of its own: the graph, calls of layers, their gradients, feeds."""
    g, model = Graph(task.seed), unbuilt_copy(task.model)
    inputs = g.placeholder((-1, *x.shape[1:]), dtype_of(x), "inputs")
    labels = g.placeholder((-1, *y.shape[1:]), dtype_of(y), "labels")
    places: dict[int, list[str]] = {}  # by identity: a layer may stand in several
    for path, layer in model.named_modules():
        places.setdefault(id(layer), []).append(path)
    calls: list[_Call] = []

    def note(call: Call) -> None:
        calls.extend(_Call(path, call) for path in places.get(id(call.module), ()))

    with in_precision("auto"), mode_of(model, True), observed_calls(note):
        loss = task.loss(model(inputs), labels)
    if is_built(task.model):
        model.load_state_dict(task.model.state_dict())
    outermost = {operation.id: operation.kind for operation in g.operations}

    def can_be_measured(call: _Call) -> bool:
        multiplies = any(outermost.get(number) in _PRODUCTS for number in call.call.operations)
        concerned = multiplies and own_parameters(call.layer) and call.layer.precision is None
        return bool(concerned) and all(result.operation.id in outermost for result in call.results)

    calls = [call for call in calls if can_be_measured(call)]
    results = list(dict.fromkeys(r for call in calls for r in call.results if r.dtype.is_float))
    return g, calls, g.gradients(loss, results), {inputs: x, labels: y}


def _tensors(values: Any) -> list[Tensor]:
    """The tensors in nested tuples, lists and dictionaries."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, Mapping):
        values = list(values.values())
    return [t for value in values for t in _tensors(value)] if isinstance(values, (tuple, list)) else []


def _replaced(values: Any, f: Callable[[Tensor], Any]) -> Any:
    """Nested tuples, lists and dictionaries with something else for each tensor."""
    if isinstance(values, Tensor):
        return f(values)
    if isinstance(values, Mapping):
        return {name: _replaced(value, f) for name, value in values.items()}
    return type(values)(_replaced(v, f) for v in values) if isinstance(values, (tuple, list)) else values


def _key(
    call: _Call,
    arrays: Mapping[Tensor, NDArray],
    gradients: Mapping[Tensor, Tensor],
    feeds: Mapping[Tensor, np.ndarray],
) -> str:
    """What makes two calls alike: the layer's kind and settings, types of weights and operands, what has a gradient."""
    layer = call.layer
    weights = [(name, v.type) for name, v in own_parameters(layer).items()]
    place = {operand: i for i, operand in enumerate(call.operands)}

    def described(t: Tensor) -> Any:
        return place[t], t.dtype, arrays[t].shape, t in feeds

    arguments = _replaced(call.arguments, described)
    return repr((type(layer), settings_of(layer), weights, arguments, [result in gradients for result in call.results]))


class _Trial:
    """A layer alone, forward and back, in both precisions, for all calls that are alike."""

    def __init__(
        self,
        call: _Call,
        arrays: Mapping[Tensor, NDArray],
        gradients: Mapping[Tensor, Tensor],
        feeds: Mapping[Tensor, np.ndarray],
        task: Task,
    ) -> None:
        self._layer, g = unbuilt_copy(call.layer), Graph(task.seed)
        self._steps = {
            p: _Step(self._layer, call, arrays, gradients, feeds, g, p, task.device) for p in ("float32", "bfloat16")
        }
        self._seconds: dict[str, float] | None = None

    def measure(
        self, call: _Call, arrays: Mapping[Tensor, NDArray], gradients: Mapping[Tensor, Tensor]
    ) -> tuple[float, dict[str, float]]:
        """The error on what this call got, and the least seconds of those like it."""
        self._layer.load_state_dict(call.layer.state_dict())
        given = [arrays[t] for t in [*call.operands, *call.returned(gradients)]]
        outcomes = {p: step.outcome(given) for p, step in self._steps.items()}  # and what first runs do once
        error = max(map(_distance, outcomes["bfloat16"], outcomes["float32"]), default=0.0)
        if self._seconds is None:
            self._seconds = self._timed()
        return error, self._seconds

    def _timed(self) -> dict[str, float]:
        times: dict[str, list[float]] = {p: [] for p in self._steps}
        for _ in range(REPETITIONS):
            for precision, step in self._steps.items():
                start = time.perf_counter()
                step.run()
                times[precision].append(time.perf_counter() - start)
        return {p: min(t) for p, t in times.items()}


class _Step:
    """A layer, forward and back, in a precision that its neighbours are taken to be in too."""

    def __init__(
        self,
        layer: Module,
        call: _Call,
        arrays: Mapping[Tensor, NDArray],
        gradients: Mapping[Tensor, Tensor],
        feeds: Mapping[Tensor, np.ndarray],
        g: Graph,
        precision: str,
        device: Device | str | None,
    ) -> None:
        self._lowers = precision == "bfloat16"
        fed: list[Tensor] = []

        def stand_in(t: Tensor) -> Tensor:
            low = self._lowers and t.dtype == float32
            fed.append(g.placeholder(arrays[t].shape, bfloat16 if low else t.dtype))
            return fed[-1]

        operands = {t: stand_in(t) for t in call.operands}
        by_place, by_name = _replaced(call.arguments, operands.__getitem__)
        with autocast(precision), mode_of(layer, True):
            targets = _tensors(layer(*by_place, **by_name))
        given = [s for t, s in operands.items() if s.dtype.is_float and t not in feeds]  # training asks none of inputs
        weights = list(own_parameters(layer).values())
        self._of_weights: list[int] = []
        for result, before in zip(list(targets), call.results, strict=True):
            if before in gradients:
                start = stand_in(gradients[before])
                start = start if start.dtype == result.dtype else g.cast(start, result.dtype)
                slopes = g.gradients(result, [*given, *weights], start=start)
                self._of_weights += range(len(targets) + len(given), len(targets) + len(slopes))
                targets += slopes.values()
        self._different = list(dict.fromkeys(targets))
        place = {target: i for i, target in enumerate(self._different)}
        self._places = [place[target] for target in targets]
        self._fed, self._g, self._device = fed, g, device
        self._executable: Executable | None = None
        self._inputs: list[NDArray] = []
        self._results: list[NDArray] | None = None

    def run(self) -> list[NDArray]:
        """Into the same memory each time."""
        assert self._executable is not None
        self._results = list(self._executable.run(self._inputs, self._results))
        return self._results

    def outcome(self, given: list[NDArray]) -> list[np.ndarray]:
        """Results, gradients of operands, and those of all weights as one vector, for these operands and gradients."""
        lowered = [_lowered(array) if self._lowers and array.dtype == float32 else array for array in given]
        feeds = dict(zip(self._fed, lowered, strict=True))
        if self._executable is None:
            self._executable = self._g.compile(feeds, self._different, device=self._device)
        self._inputs = [feeds[placeholder] for placeholder in self._executable.feeds]
        arrays = self.run()
        values = [_wide(arrays[place]) for place in self._places]
        weights = [values[i].reshape(-1) for i in self._of_weights]
        others = [value for i, value in enumerate(values) if i not in self._of_weights]
        return [*others, np.concatenate(weights)] if weights else others


def _lowered(array: NDArray) -> NDArray:
    g = Graph()
    x = g.placeholder(array.shape)
    return g.run({x: array}, g.cast(x, bfloat16))


def _wide(array: NDArray) -> np.ndarray:
    if array.dtype == bfloat16:
        bits = array.numpy().view(np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).astype(np.float64)
    return array.numpy().astype(np.float64)


def _distance(low: np.ndarray, exact: np.ndarray) -> float:
    """|low - exact| / |exact|, infinite where it is no number."""
    size, difference = float(np.linalg.norm(exact)), float(np.linalg.norm(low - exact))
    if difference == 0:
        return 0.0
    return difference / size if size > 0 and math.isfinite(difference) else math.inf
