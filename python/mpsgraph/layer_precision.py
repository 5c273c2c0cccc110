"""Precision by layer: each layer that multiplies by weights measured in float32 and in bfloat16, the faster one kept.

The model is copied into a graph of its own and run once in float32 on the first batch; what each layer got there, and
the gradient that came back to its result, are then run through that layer alone, both ways. bfloat16 is chosen where it
is faster by a margin and no farther from float32 than the stated error. The trainer's own graph sees none of this.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from ._core import NDArray, Tensor, bfloat16, float32
from ._dtypes import dtype_of
from .errors import GraphError
from .graph import Graph
from .mixed_precision import autocast
from .nn.module import Module

if TYPE_CHECKING:
    from .trainer import Trainer

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
            raise GraphError(f"layer '{path}': a precision is float32 or bfloat16, got {choice.precision!r}")
        choices[path] = choice
    return choices


def in_precision(precision: str) -> AbstractContextManager[Any]:
    """The scope that a trainer calls its model in; layers of "auto" have precisions of their own within it."""
    return (
        autocast(enabled=False) if precision == "float32" else autocast("float32" if precision == "auto" else precision)
    )


@dataclass
class _Call:
    """A call of a layer in the float32 run: its operands and results there."""

    path: str
    layer: Module
    operands: tuple[Any, ...]
    options: dict[str, Any]
    results: list[Tensor]
    operations: range  # their numbers


def choose(trainer: Trainer, x: np.ndarray, y: np.ndarray) -> dict[str, LayerPrecision]:
    """A precision for each layer with weights that makes products, from a step on a batch.

    Layers of equal arguments, shapes and types share one measurement. A layer that is called inside control flow stays
    float32, and one without products goes along with its input. Args: trainer, whose model, loss, seed, device and
    precision_error count; x, y, the batch.
    """
    model = fresh_copy(trainer.model)
    calls, gradients, feeds = _built_once(trainer, model, x, y)
    different = {_key(call): call for call in calls}
    tensors = [t for call in different.values() for t in _tensors(call.operands)]
    tensors += [gradients[result] for call in different.values() for result in call.results if result in gradients]
    arrays = _graph_of(model).run(feeds, list(dict.fromkeys(tensors)), device=trainer.device)
    measured = {key: _measured(call, arrays, gradients, trainer) for key, call in different.items()}
    return {call.path: measured[_key(call)] for call in calls}


def _graph_of(model: Module) -> Graph:
    return model._require_built()


def _built_once(
    trainer: Trainer, model: Module, x: np.ndarray, y: np.ndarray
) -> tuple[list[_Call], dict[Tensor, Tensor], dict[Tensor, np.ndarray]]:
    """The model's step in float32 in a graph of its own: calls of layers, gradients of their results, feeds."""
    g = Graph(trainer.seed)
    inputs = g.placeholder((-1, *x.shape[1:]), dtype_of(x), "inputs")
    labels = g.placeholder((-1, *y.shape[1:]), dtype_of(y), "labels")
    calls: list[_Call] = []
    for path, layer in model.named_modules():
        _record(path, layer, calls)
    with autocast(enabled=False):
        loss = trainer.loss(model.train()(inputs), labels)
    if trainer.model._graph is not None:
        model.load_state_dict(trainer.model.state_dict())
    outermost = {operation.id: operation.kind for operation in g.operations}

    def can_be_measured(call: _Call) -> bool:
        multiplies = any(outermost.get(number) in _PRODUCTS for number in call.operations)
        concerned = multiplies and vars(call.layer).get("_parameters") and call.layer.precision is None
        return bool(concerned) and all(result.operation.id in outermost for result in call.results)

    calls = [call for call in calls if can_be_measured(call)]
    results = list(dict.fromkeys(r for call in calls for r in call.results if r.dtype.is_float))
    return calls, g.gradients(loss, results), {inputs: x, labels: y}


def _record(path: str, layer: Module, calls: list[_Call]) -> None:
    """From now on calls of this layer are noted."""
    forward = layer.forward

    def recorded(x: Tensor, *more: Any, **options: Any) -> Any:
        before = x.graph.operation_count
        made = forward(x, *more, **options)
        calls.append(_Call(path, layer, (x, *more), options, _tensors(made), range(before, x.graph.operation_count)))
        return made

    layer.forward = recorded  # type: ignore[method-assign]


def _tensors(values: Any) -> list[Tensor]:
    """The tensors in nested tuples and lists."""
    if isinstance(values, Tensor):
        return [values]
    return [t for value in values for t in _tensors(value)] if isinstance(values, (tuple, list)) else []


def _key(call: _Call) -> Any:
    """What makes two layers alike: kind, plain arguments, shapes and types of operands and weights."""
    layer = call.layer
    plain = {k: v for k, v in vars(layer).items() if isinstance(v, (int, float, str, bool, tuple)) and k != "_path"}
    weights = [(name, v.type) for name, v in vars(layer)["_parameters"].items()]
    return repr((type(layer), plain, weights, [t.type for t in _tensors(call.operands)], sorted(call.options)))


def _measured(
    call: _Call, arrays: Mapping[Tensor, NDArray], gradients: Mapping[Tensor, Tensor], trainer: Trainer
) -> LayerPrecision:
    """The layer alone, forward and back, in both precisions on what it got."""
    layer, g = fresh_copy(call.layer), Graph(trainer.seed)
    del vars(layer)["forward"]  # the one that records
    steps = {p: _Step(layer, call, arrays, gradients, g, p, trainer) for p in ("float32", "bfloat16")}
    layer.load_state_dict(call.layer.state_dict())
    outcomes = {p: step.outcome() for p, step in steps.items()}  # and what first runs do once
    error = max(map(_distance, outcomes["bfloat16"], outcomes["float32"]), default=0.0)
    times: dict[str, list[float]] = {p: [] for p in steps}
    for _ in range(REPETITIONS):
        for precision, step in steps.items():
            start = time.perf_counter()
            step.run()
            times[precision].append(time.perf_counter() - start)
    seconds = {p: min(t) for p, t in times.items()}
    low = error <= trainer.precision_error and seconds["bfloat16"] < MARGIN * seconds["float32"]
    return LayerPrecision("bfloat16" if low else "float32", error, seconds)


class _Step:
    """A layer, forward and back, in a precision that its neighbours are taken to be in too."""

    def __init__(
        self,
        layer: Module,
        call: _Call,
        arrays: Mapping[Tensor, NDArray],
        gradients: Mapping[Tensor, Tensor],
        g: Graph,
        precision: str,
        trainer: Trainer,
    ) -> None:
        feeds: dict[Tensor, NDArray] = {}

        def fed(array: NDArray) -> Tensor:
            if precision == "bfloat16" and array.dtype == float32:
                array = _lowered(array)
            placeholder = g.placeholder(array.shape, array.dtype)
            feeds[placeholder] = array
            return placeholder

        operands = _replaced(call.operands, lambda t: fed(arrays[t]))
        with autocast(precision):
            targets = _tensors(layer.train()(*operands, **call.options))
        given = [t for t in _tensors(operands) if t.dtype.is_float]
        weights = list(vars(layer)["_parameters"].values())
        self._of_weights: list[int] = []
        for result, before in zip(list(targets), call.results, strict=True):
            if before in gradients:
                start = fed(arrays[gradients[before]])
                start = start if start.dtype == result.dtype else g.cast(start, result.dtype)
                slopes = g.gradients(result, [*given, *weights], start=start)
                self._of_weights += range(len(targets) + len(given), len(targets) + len(slopes))
                targets += slopes.values()
        self._different = list(dict.fromkeys(targets))
        self._places = [self._different.index(target) for target in targets]
        self._executable = g.compile(feeds, self._different, device=trainer.device)
        self._inputs = [feeds[placeholder] for placeholder in self._executable.feeds]
        self._results: list[NDArray] | None = None

    def run(self) -> list[NDArray]:
        """Into the same memory each time."""
        self._results = list(self._executable.run(self._inputs, self._results))
        return self._results

    def outcome(self) -> list[np.ndarray]:
        """Results, gradients of operands, and those of all weights as one vector."""
        arrays = self.run()
        values = [_wide(arrays[place]) for place in self._places]
        weights = [values[i].reshape(-1) for i in self._of_weights]
        others = [value for i, value in enumerate(values) if i not in self._of_weights]
        return [*others, np.concatenate(weights)] if weights else others


def _lowered(array: NDArray) -> NDArray:
    g = Graph()
    x = g.placeholder(array.shape)
    return g.run({x: array}, g.cast(x, bfloat16))


def _replaced(values: Any, f: Callable[[Tensor], Tensor]) -> Any:
    """Nested tuples and lists with other tensors in them."""
    if isinstance(values, Tensor):
        return f(values)
    return type(values)(_replaced(v, f) for v in values) if isinstance(values, (tuple, list)) else values


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


def fresh_copy(module: Module) -> Module:
    """The module and all beneath it without variables, to be built in another graph."""
    made: dict[int, Module] = {}

    def copied(value: Any) -> Any:
        if isinstance(value, Module):
            if id(value) not in made:
                made[id(value)] = twin = copy.copy(value)
                state = {k: copied(v) for k, v in vars(value).items() if k not in ("_graph", "_parameters", "_buffers")}
                vars(twin).clear()
                vars(twin).update(state)
            return made[id(value)]
        if isinstance(value, (list, tuple)) and any(isinstance(item, Module) for item in value):
            return type(value)(copied(item) for item in value)
        return value

    return copied(module)  # type: ignore[no-any-return]
