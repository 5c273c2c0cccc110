"""Networks: what a Trainer trains, seen from one side. A module that makes its variables, or an imported Model.

Both have parameters by path, buffers, placeholders for inputs, and outputs in training and in inference mode; an
imported model has one form, which serves as both.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from .._core import Tensor, float32
from .._display import shown
from ..errors import GraphError
from ..graph import Graph
from ..model import Model
from ..nn.module import Module, added_losses, is_built, mode_of
from ..precision.layer_precision import LayerPrecision, chosen_precisions, in_precision
from .structure import mapped


class Network:
    """A module, in a trainer's graph."""

    def __init__(self, module: Module, seed: int) -> None:
        self.module = module
        self.graph: Graph = module._graph if is_built(module) else Graph(seed=seed)  # type: ignore[assignment]

    def placeholders(self, like: Any) -> Any | None:
        """Placeholders that the network has itself; None: they are made by what is fed."""
        return None

    def outputs(
        self, inputs: Any, training: bool, precision: str, choices: Mapping[str, LayerPrecision]
    ) -> tuple[Any, list[Tensor]]:
        """The structure of outputs, in float32 where products are computed in less, and the losses that modules add."""
        with ExitStack() as scopes:
            scopes.enter_context(in_precision(precision))
            scopes.enter_context(chosen_precisions(self.module, choices))
            scopes.enter_context(mode_of(self.module, training))
            added = scopes.enter_context(added_losses())
            outputs = self._called(inputs)

        def wide(output: Tensor) -> Tensor:
            mixed = output.dtype.itemsize == 2 and output.dtype.is_float and precision != "float32"
            return self.graph.cast(output, float32) if mixed else output

        return mapped(wide, outputs), added

    def _called(self, inputs: Any) -> Any:
        """Tuples are arguments by place, dictionaries by name."""
        if isinstance(inputs, Mapping):
            names = list(inspect.signature(self.module.forward).parameters)
            if unknown := [name for name in inputs if name not in names]:
                kind = type(self.module).__name__
                raise GraphError(f"{kind}.forward takes {', '.join(names)}, the inputs have {', '.join(unknown)}, too")
            if names and names[0] not in inputs:
                raise GraphError(f"{type(self.module).__name__}.forward needs '{names[0]}', the inputs have it not")
            first, *rest = names
            return self.module(inputs[first], **{name: inputs[name] for name in rest if name in inputs})
        return self.module(*inputs) if isinstance(inputs, (tuple, list)) else self.module(inputs)

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """What can be trained, by path, without frozen modules'."""
        return self.module.named_trainable_parameters()

    def buffers(self) -> list[Tensor]:
        """Variables that calls change and that are not trained."""
        return self.module.buffers()

    def named_variables(self) -> dict[str, Tensor]:
        """Parameters and buffers by path."""
        return {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}


class ImportedNetwork(Network):
    """A Model of an ONNX file or a package: its graph has all there is."""

    def __init__(self, model: Model) -> None:
        self.model, self.graph = model, model.graph

    def placeholders(self, like: Any) -> Any:
        """The model's inputs, in the structure that is fed: one alone, a tuple in their order, or a dict by name."""
        inputs = self.model.inputs
        if isinstance(like, Mapping):
            if like.keys() != inputs.keys():
                raise GraphError(f"the model's inputs are {', '.join(inputs)}, got {shown(list(like))}")
            return {name: inputs[name] for name in like}
        given = len(like) if isinstance(like, (tuple, list)) else 1
        if given != len(inputs):
            raise GraphError(f"the model's inputs are {', '.join(inputs)}: give {len(inputs)} arrays, got {given}")
        return tuple(inputs.values()) if isinstance(like, (tuple, list)) else next(iter(inputs.values()))

    def outputs(
        self, inputs: Any, training: bool, precision: str, choices: Mapping[str, LayerPrecision]
    ) -> tuple[Any, list[Tensor]]:
        outputs = self.model.outputs
        return (next(iter(outputs.values())) if len(outputs) == 1 else outputs), []

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        trainable = set(self.graph.trainable_variables)
        return ((name, v) for name, v in self.model.parameters.items() if v in trainable)

    def buffers(self) -> list[Tensor]:
        return []

    def named_variables(self) -> dict[str, Tensor]:
        return self.model.parameters
