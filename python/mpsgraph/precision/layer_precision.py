"""Select the precision of each layer by measuring layers with weights in float32 and bfloat16.

The model is copied into a separate graph and run once in float32 on the first batch. Each layer is then run alone in
both precisions: forward on its inputs from this run, and backward from the gradient with respect to its result.
bfloat16 is selected if it is faster by a margin and within the given error bound of float32. The trainer's own graph is
not affected.
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
from ..nn.module import Module, mode_of, unbuilt_copy
from ..nn.observation import Call, observed_calls
from ..nn.parts import is_built, own_parameters, settings_of
from .mixed_precision import autocast

MARGIN = 0.95  # bfloat16 must take less than this fraction of float32's time.
REPETITIONS = 7
_PRODUCTS = {definition["name"] for definition in _core.definitions() if definition["autocast"] == "low"}


@dataclass(frozen=True)
class LayerPrecision:
    """Precision selected for a layer, with the measurements behind the choice.

    Attributes:
        precision: "float32" or "bfloat16".
        error: Largest relative error of bfloat16, |low - float32| / |float32| in the 2-norm, over the layer's results,
            the gradients of its operands, and the gradients of its weights (all of these as one vector). None if not
            measured.
        seconds: Dict from precisions to the shortest time of a forward and backward step through the layer.
    """

    precision: str
    error: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)


def as_choices(stated: Mapping[str, Any]) -> dict[str, LayerPrecision]:
    """Return a dict from layer paths to LayerPrecision objects, given precisions or the values in a checkpoint. Raise
    GraphError for an unknown precision.
    """
    choices = {}
    for path, choice in stated.items():
        if not isinstance(choice, LayerPrecision):
            choice = LayerPrecision(**choice) if isinstance(choice, Mapping) else LayerPrecision(choice)
        if choice.precision not in ("float32", "bfloat16"):
            raise GraphError(
                f"precision of layer '{path}' must be 'float32' or 'bfloat16', got {shown(choice.precision)}"
            )
        choices[path] = choice
    return choices


def in_precision(precision: str) -> AbstractContextManager[Any]:
    """Return the autocast scope in which a trainer calls its model.

    With "auto", the scope computes in float32 by default, and individual layers override it.
    """
    return (
        autocast(enabled=False) if precision == "float32" else autocast("float32" if precision == "auto" else precision)
    )


@contextmanager
def chosen_precisions(model: Module, choices: Mapping[str, LayerPrecision]) -> Iterator[None]:
    """Set the precisions of layers inside the context, and restore the original precisions afterwards."""
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
    """The model whose layers get a precision, and the training settings that the measurement uses."""

    model: Module
    loss: Loss
    seed: int
    device: Device | str | None
    bound: float
    """Largest relative error that bfloat16 may have in a layer."""


@dataclass
class _Call:
    """Record of one call of a layer in the float32 run."""

    path: str
    call: Call

    @property
    def layer(self) -> Module:
        module = self.call.module
        assert isinstance(module, Module)
        return module

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self.call.arguments

    @property
    def results(self) -> list[Tensor]:
        return _tensors(self.call.result)

    @property
    def operands(self) -> list[Tensor]:
        """The tensors among the arguments, without duplicates."""
        return list(dict.fromkeys(_tensors(self.arguments)))

    def returned(self, gradients: Mapping[Tensor, Tensor]) -> list[Tensor]:
        """Return the gradients of the loss with respect to this call's results, for those results that have one."""
        return [gradients[result] for result in self.results if result in gradients]


def choose(task: Task, x: np.ndarray, y: np.ndarray) -> dict[str, LayerPrecision]:
    """Select a precision for each layer that multiplies by weights, from one training step on a batch.

    Errors are measured for every call; timings are shared by calls with equal arguments, shapes, and types. A layer
    that is called several times gets the largest error and the sum of the times. A layer that is called inside control
    flow stays float32, and a layer without matrix products has the precision of its input. All operands and gradients
    are held in memory during the measurement. Raises GraphError if the batch is empty.
    """
    if not len(x):
        raise GraphError("precision='auto' is selected on the first batch, which is empty: pass a batch with data")
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
    """Return bfloat16 if it is faster by a margin in a layer's calls and within the error bound, otherwise float32."""
    error = max(error for error, _ in measured)
    seconds = {p: sum(times[p] for _, times in measured) for p in measured[0][1]}
    low = error <= bound and seconds["bfloat16"] < MARGIN * seconds["float32"]
    return LayerPrecision("bfloat16" if low else "float32", error, seconds)


def _built_once(
    task: Task, x: np.ndarray, y: np.ndarray
) -> tuple[Graph, list[_Call], dict[Tensor, Tensor], dict[Tensor, np.ndarray]]:
    """Build the model's float32 training step in a new graph.

    Return the graph, the calls of layers, the gradients, and the feeds.
    """
    g, model = Graph(task.seed), unbuilt_copy(task.model)
    inputs = g.placeholder((-1, *x.shape[1:]), dtype_of(x), "inputs")
    labels = g.placeholder((-1, *y.shape[1:]), dtype_of(y), "labels")
    places: dict[int, list[str]] = {}  # Use identities as keys, because a layer may occur at several paths.
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
    """Return all tensors in nested tuples, lists, and dicts."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, Mapping):
        values = list(values.values())
    return [t for value in values for t in _tensors(value)] if isinstance(values, (tuple, list)) else []


def _replaced(values: Any, f: Callable[[Tensor], Any]) -> Any:
    """Return nested tuples, lists, and dicts with each tensor replaced by f(tensor)."""
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
    """Return a key that is equal for calls whose timings can be shared.

    The key includes the layer's class and settings, the types of its weights and operands, and which results have a
    gradient.
    """
    layer = call.layer
    weights = [(name, v.type) for name, v in own_parameters(layer).items()]
    place = {operand: i for i, operand in enumerate(call.operands)}

    def described(t: Tensor) -> Any:
        return place[t], t.dtype, arrays[t].shape, t in feeds

    arguments = _replaced(call.arguments, described)
    return repr((type(layer), settings_of(layer), weights, arguments, [result in gradients for result in call.results]))


class _Trial:
    """Copy of one layer that is run forward and backward in both precisions, for calls whose timings can be shared."""

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
        """Return the error of bfloat16 for the operands of this call, and the shortest time in each precision.

        Times are measured for the first call only and then reused.
        """
        self._layer.load_state_dict(call.layer.state_dict())
        given = [arrays[t] for t in [*call.operands, *call.returned(gradients)]]
        # The first run is not timed, because it includes one-time work.
        outcomes = {p: step.outcome(given) for p, step in self._steps.items()}
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
    """Compiled forward and backward step of one layer in one precision.

    Operands arrive in that precision, as if neighboring layers also computed in it.
    """

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
        # Training does not compute gradients of model inputs.
        given = [s for t, s in operands.items() if s.dtype.is_float and t not in feeds]
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
        """Run the step once, writing to the same memory as before."""
        assert self._executable is not None
        self._results = list(self._executable.run(self._inputs, self._results))
        return self._results

    def outcome(self, given: list[NDArray]) -> list[np.ndarray]:
        """Run the step on these inputs.

        Return its results, the gradients of its operands, and all gradients of its weights joined into one vector.
        """
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
    """Return the relative error |low - exact| / |exact|, or infinity if it is not finite."""
    size, difference = float(np.linalg.norm(exact)), float(np.linalg.norm(low - exact))
    if difference == 0:
        return 0.0
    return difference / size if size > 0 and math.isfinite(difference) else math.inf
