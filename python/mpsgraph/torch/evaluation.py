"""Evaluation of PyTorch modules whose parameters and buffers are variables of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch

from .._core import DeviceGraph, Tensor
from ..errors import GraphError
from ..graph import Graph
from ..training.batch import Batch
from ..training.objective import Objective, Part, Term
from ..training.sizes import Sizes
from ..training.state import TrainingState
from ..training.step import Built
from ..training.structure import leaves
from .exports import Exported, Step, exported, names_of
from .tensors import as_array


class ModuleVariables:
    """The parameters and buffers of a module as variables of a graph, which are created when they are first used."""

    def __init__(self, graph: Graph, module: torch.nn.Module) -> None:
        self.graph = graph
        # A tensor with several names (a tied parameter) is stored under its first name.
        everything = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        self.first = names_of(module)
        """First name of each parameter and buffer, keyed by name."""
        self.tensors = {name: everything[name] for name in dict.fromkeys(self.first.values())}
        """PyTorch's tensors, keyed by first name."""
        self._variables: dict[str, Tensor] = {}

    def variable(self, name: str) -> Tensor:
        """Return the variable of a parameter or buffer. A new variable is initialized with the value in the module."""
        if name not in self._variables:
            self._variables[name] = self.graph.variable(as_array(self.tensors[name]), name=name)
        return self._variables[name]

    def read(self, name: str) -> Tensor:
        """Return the value of a parameter or buffer in the graph."""
        return self.graph.read(self.variable(name))

    def create_all(self) -> None:
        """Create all variables."""
        for name in self.tensors:
            self.variable(name)

    def named_variables(self) -> dict[str, Tensor]:
        """Return the variables that have been created, keyed by name."""
        return self._variables

    def named_parameters(self) -> Iterable[tuple[str, Tensor]]:
        """Yield the variables of the parameters, with their names."""
        parameters = [name for name, tensor in self.tensors.items() if isinstance(tensor, torch.nn.Parameter)]
        return ((name, self._variables[name]) for name in parameters if name in self._variables)


class _Outputs(torch.nn.Module):
    """The module that torch.export exports for predictions."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, inputs: Any, labels: Any) -> Any:
        return self.module(*inputs)


class Evaluator:
    """Exports a module in evaluation mode, in the role of a trainer's builder; see mpsgraph.training.roles."""

    def __init__(self, state: TrainingState, weights: ModuleVariables, step: Step) -> None:
        self.state, self.weights, self.step = state, weights, step
        self.outputs = _Outputs(step.module)
        self.sizes = Sizes()
        self.last_built: Built | None = None
        """The operations of the last training step."""
        self._exported: dict[Any, Exported] = {}
        self._predictions: dict[Any, Exported] = {}

    def _export(self, step: torch.nn.Module, inputs: Any, labels: Any) -> Exported:
        """Return the exported module for the shapes of a batch, exporting it on first use."""
        batches = [tuple(torch.from_numpy(array) for array in leaves(part)) for part in (inputs, labels)]
        key = step, *(tuple((tuple(x.shape), x.dtype) for x in part) for part in batches)
        if key not in self._exported:
            with _evaluating(self.step.module):
                self._exported[key] = exported(self.state.graph, step, batches[0], batches[1], self.weights.read)
        return self._exported[key]

    def all_built(self) -> list[Built]:
        """Return an empty list: steps of PyTorch modules have no metrics."""
        return []

    def require_model(self) -> None:
        """Wait for the steps in flight, and raise the error of one that failed."""
        self.state.steps.wait()

    def follow_settings(self) -> None:
        """Do nothing: a module is exported as it was when a batch of its shape was first seen."""

    def undone_by_errors(self) -> AbstractContextManager[None]:
        """Return a context manager that does nothing: errors of an export leave nothing behind."""
        return nullcontext()

    def converted(self, batch: Batch) -> Batch:
        """Return the batch. Raise GraphError for sample weights, which the loss function cannot take."""
        if batch.weights is not None:
            raise GraphError("mpsgraph.torch.Trainer supports no sample weights: apply them in the loss function")
        return batch

    def built_for(self, batch: Batch) -> Built:
        """Return the loss of a batch in evaluation mode."""
        found = self._export(self.step, batch.inputs, batch.labels)
        return Built(tuple(found.feeds), None, None, evaluation=[Term("loss", found.loss())])

    def evaluation_of(self, built: Built, objective: Objective | None = None) -> tuple[list[Term], list[Part]]:
        """Return the loss in evaluation mode."""
        return built.evaluation, []

    def prediction_inputs_for(self, inputs: Any) -> Any:
        """Return placeholders for the inputs of predictions."""
        found = self._export(self.outputs, inputs, None)
        placeholders = tuple(found.feeds)
        self._predictions[placeholders] = found
        return placeholders

    def inference(self, inputs: Any) -> Any:
        """Return the outputs of the module in evaluation mode."""
        results = self._predictions[inputs].results
        return results[0] if len(results) == 1 else tuple(results)

    def remember_predictor(self, inputs: np.ndarray, placeholder: Any, output: Tensor, batch_size: int) -> None:
        """Do nothing: predictions check their arguments each time."""

    def runner(self) -> DeviceGraph:
        """Return the object that runs the graph on the state's device."""
        return self.state.graph.on(self.state.device)


@contextmanager
def _evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode within a `with` block."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def arrays_of(structure: Any) -> Any:
    """Return a structure with arrays in place of PyTorch tensors. Other objects, such as loaders, stay as they are."""
    if isinstance(structure, torch.Tensor):
        return as_array(structure)
    if isinstance(structure, tuple):
        return tuple(arrays_of(part) for part in structure)
    if isinstance(structure, Mapping):
        return {name: arrays_of(part) for name, part in structure.items()}
    return structure
