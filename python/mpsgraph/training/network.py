"""A common interface to the two kinds of models that a trainer accepts: modules and imported models.

Both provide parameters keyed by path, buffers, placeholders for inputs, and outputs in training and inference mode. A
module creates its variables when it is first called; an imported model already has them and computes the same outputs
in both modes.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from .._core import Tensor, float32
from .._display import shown
from ..errors import GraphError
from ..graph import Graph, set_generator
from ..model import Model
from ..nn.module import Module, mode_of
from ..nn.moving import graph_of_parts, move
from ..nn.observation import added_losses
from ..nn.parts import is_built
from ..precision.layer_precision import LayerPrecision, chosen_precisions, in_precision
from .structure import mapped


class Network:
    """Model defined by a Module, which creates its variables when it is first called."""

    def __init__(self, module: Module, seed: int) -> None:
        self.module = module
        found = graph_of_parts(module)
        if found is not None and not is_built(module):
            set_generator(found, seed)  # Draws the initial values of the new parts.
        self.graph: Graph = Graph(seed=seed) if found is None else found
        move(module, self.graph)

    def placeholders(self, like: Any) -> Any | None:
        """Return placeholders that the model already has, or None if they must be created to match the inputs."""
        return None

    def outputs(
        self, inputs: Any, training: bool, precision: str, choices: Mapping[str, LayerPrecision]
    ) -> tuple[Any, list[Tensor]]:
        """Call the model. Return the model's outputs, and the losses that its modules added.

        Under mixed precision, the outputs are cast to float32.
        """
        with ExitStack() as scopes:
            scopes.enter_context(in_precision(precision))
            scopes.enter_context(chosen_precisions(self.module, choices))
            scopes.enter_context(mode_of(self.module, training))
            added = scopes.enter_context(added_losses())
            scopes.enter_context(self._all_variables_found())
            outputs = self._called(inputs)

        def wide(output: Tensor) -> Tensor:
            mixed = output.dtype.itemsize == 2 and output.dtype.is_float and precision != "float32"
            return self.graph.cast(output, float32) if mixed else output

        return mapped(wide, outputs), added

    def _called(self, inputs: Any) -> Any:
        """Call the module; a tuple of inputs is passed as positional arguments, and a dict as keyword arguments."""
        if isinstance(inputs, Mapping):
            names = list(inspect.signature(self.module.forward).parameters)
            if unknown := [name for name in inputs if name not in names]:
                kind = type(self.module).__name__
                raise GraphError(
                    f"{kind}.forward takes {', '.join(names)}, but the inputs also contain {', '.join(unknown)}"
                )
            if names and names[0] not in inputs:
                raise GraphError(
                    f"{type(self.module).__name__}.forward needs '{names[0]}', which the inputs do not contain"
                )
            first, *rest = names
            return self.module(inputs[first], **{name: inputs[name] for name in rest if name in inputs})
        return self.module(*inputs) if isinstance(inputs, (tuple, list)) else self.module(inputs)

    @contextmanager
    def _all_variables_found(self) -> Iterator[None]:
        """At the end of a `with` block, raise GraphError if the model lacks trainable variables created in it."""
        before, known = set(self.graph.trainable_variables), self._parameters()
        yield
        now = self._parameters()
        kind = type(self.module).__name__
        if lost := [v for v in self.graph.trainable_variables if v not in before and v not in now]:
            raise GraphError(
                f"{kind}: the trainable variable '{lost[0].name}' was created while the model was called, but no "
                "module of the model holds it, so it would not be trained or saved: create it in build with "
                "add_parameter, or assign it, or the module that created it, to an attribute"
            )
        if replaced := [v for v in known if v not in now]:
            raise GraphError(
                f"{kind}: the call replaced the variable '{replaced[0].name}' by a new one, so training and "
                "evaluation would use different variables: create variables in build, which is called once"
            )

    def _parameters(self) -> set[Tensor]:
        """Return the trainable variables that the module holds, including frozen ones."""
        built = any(is_built(part) for _, part in self.module.named_modules())
        return set(self.module.parameters()) if built else set()

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the trainable parameters with their paths, except those of frozen modules."""
        return self.module.named_trainable_parameters()

    def buffers(self) -> list[Tensor]:
        """Return variables that are not trained but may change when the module is called."""
        return self.module.buffers()

    def named_variables(self) -> dict[str, Tensor]:
        """Return parameters and buffers, keyed by path."""
        return {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}


class ImportedNetwork(Network):
    """Model imported from an ONNX file or a package, whose graph already exists."""

    def __init__(self, model: Model) -> None:
        self.model, self.graph = model, model.graph

    def placeholders(self, like: Any) -> Any:
        """Return the model's input placeholders, arranged like `like`: a single tensor, a tuple, or a dict keyed by
        input name.
        """
        inputs = self.model.inputs
        if isinstance(like, Mapping):
            if like.keys() != inputs.keys():
                raise GraphError(
                    f"the model's inputs are {', '.join(inputs)}, got a dict with the keys {shown(list(like))}"
                )
            return {name: inputs[name] for name in like}
        given = len(like) if isinstance(like, (tuple, list)) else 1
        if given != len(inputs):
            raise GraphError(f"the model needs {len(inputs)} input arrays ({', '.join(inputs)}), got {given}")
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
