"""Export of a module's forward pass and loss, through torch.export, as operations of a graph.

The caller decides where parameters and buffers are stored. Trainer stores them in variables, and compile_step feeds
them from PyTorch's memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .._core import Tensor
from ..errors import GraphError, UnsupportedError
from ..graph import Graph
from . import importer
from .aten import dtype_of, function_of
from .tensors import as_array


class Step(torch.nn.Module):
    """The module that torch.export exports: it computes the loss of a batch from the inputs and labels."""

    def __init__(self, module: torch.nn.Module, loss: Callable[..., Any]) -> None:
        super().__init__()
        self.module, self.loss = module, loss

    def forward(self, inputs: Sequence[Any], labels: Sequence[Any]) -> Any:
        return self.loss(self.module(*inputs), *labels)


@dataclass
class Exported:
    """A module that has been added to a graph: its results, its placeholders, and the new values of the buffers.

    The placeholders are those of the inputs and labels, in order.
    """

    results: list[Tensor]
    feeds: list[Tensor]
    buffers: dict[str, Tensor]

    def loss(self) -> Tensor:
        """Return the only result, a loss. Raise GraphError if it is not a scalar."""
        if len(self.results) != 1:
            raise GraphError(f"the loss function must return one scalar tensor, got {len(self.results)} results")
        if self.results[0].shape != ():
            shape = self.results[0].shape
            raise GraphError(f"the loss must be a scalar, got shape {shape}: reduce it with mean() or sum()")
        return self.results[0]


def names_of(module: torch.nn.Module) -> dict[str, str]:
    """Return a dict that maps each name of a parameter or buffer to the first name of the same tensor."""
    first: dict[int, str] = {}
    found = {}
    for name, tensor in [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]:
        found[name] = first.setdefault(id(tensor), name)
    return found


def exported(
    g: Graph, step: Step, inputs: tuple[Any, ...], labels: tuple[Any, ...], value_of: Callable[[str], Tensor]
) -> Exported:
    """Add the loss of a batch, or what else `step` computes, to a graph.

    `value_of` returns the value of a parameter or buffer, given its first name. Raises UnsupportedError if torch.export
    fails or an operation is not supported.
    """
    program = _exported(step, inputs, labels)
    graph, signature = program.graph_module.graph, program.graph_signature
    missing = importer.unmapped(graph)
    if missing:
        raise UnsupportedError(
            f"these PyTorch operations are not supported: {', '.join(missing)}. Use "
            "torch.compile(model, backend='mpsgraph'), which runs them in PyTorch"
        )
    first = names_of(step.module)
    parameters = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    constants = {**program.constants, **dict(step.named_buffers())}
    given: dict[str, Any] = {}
    feeds: list[Tensor] = []
    for node in graph.nodes:
        if node.op != "placeholder":
            continue
        if node.name in parameters:
            given[node.name] = value_of(first[parameters[node.name].removeprefix("module.")])
        elif node.name in signature.inputs_to_lifted_tensor_constants:
            constant = constants[signature.inputs_to_lifted_tensor_constants[node.name]]
            given[node.name] = g.constant(as_array(constant))
        else:
            value = node.meta["val"]
            if not isinstance(value, torch.Tensor):
                given[node.name] = value
                continue
            feed = g.placeholder(tuple(value.shape), dtype_of(value.dtype), node.name)
            given[node.name] = feed
            feeds.append(feed)
    outputs, _ = importer.build(g, graph, given, differentiated=True)
    kinds = [spec.kind.name for spec in signature.output_specs]
    found = [x for x, kind in zip(outputs, kinds, strict=True) if kind in ("USER_OUTPUT", "LOSS_OUTPUT")]
    buffers = {
        first[spec.target.removeprefix("module.")]: x
        for x, spec in zip(outputs, signature.output_specs, strict=True)
        if spec.kind.name == "BUFFER_MUTATION"
    }
    return Exported(found, feeds, buffers)


# Errors of torch.export for programs that it cannot trace, or whose control flow or sizes depend on values.
_CANNOT = (
    torch._dynamo.exc.UserError,
    torch._dynamo.exc.Unsupported,
    torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode,
)


def _exported(step: Step, inputs: tuple[Any, ...], labels: tuple[Any, ...]) -> Any:
    """Export the forward pass and loss to functional ATen operations, which have no in-place writes.

    Operations without a translation are decomposed by PyTorch if possible.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch emits warnings about its own code here.
        try:
            program = torch.export.export(step, (inputs, labels))
        except _CANNOT as error:
            raise UnsupportedError(f"torch.export cannot export the module: {error}") from error
        table = torch.export.default_decompositions()
        for operation in list(table):
            if function_of(operation) is not None:
                del table[operation]
        return program.run_decompositions({**importer.decompositions(), **table})
