"""Activation checkpointing: layers whose activations are computed again in the backward pass instead of kept.

Operations that are built while a checkpointed module is called are marked in the graph. When `Graph.gradients` reaches
them, it creates them again and differentiates the copies, so memory holds only the inputs of the module between the
forward and the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TypeVar

from .._checks import checked
from .._display import shown
from ..errors import GraphError
from .module import Module

M = TypeVar("M", bound=Module)


@checked
def checkpoint(module: M, checkpointed: bool = True) -> M:
    """Compute a module's activations again in the backward pass instead of keeping them in memory.

    Training then keeps only the inputs of the module, and computes its forward pass twice. Gradients, losses, random
    numbers of dropout, and running statistics are the same as without checkpointing. Checkpointed modules can be
    nested; the inner ones are then computed three times, and need less memory within the backward pass of the outer
    module. Operations with an effect within the module, such as `print`, are not repeated; their results are kept.

    Args:
        module: Module to mark. Its parameters keep their paths.
        checkpointed: Whether to compute activations again. Defaults to True.

    Returns:
        The module itself.

    Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016; torch.utils.checkpoint.

    Example:
        >>> block = lambda: mg.nn.Sequential(mg.nn.Linear(64), mg.nn.GELU(), mg.nn.Linear(16))
        >>> model = mg.nn.Sequential(*[mg.nn.checkpoint(block()) for _ in range(4)], mg.nn.Linear(2))
        >>> [layer.checkpointed for layer in model]
        [True, True, True, True, False]
    """
    module.checkpointed = checkpointed
    return module


def checked_layers(layers: bool | str | Sequence[str]) -> bool | tuple[str, ...]:
    """Return the patterns of layers to checkpoint as a tuple, or a bool.

    Raises:
        GraphError: If the argument is not a bool, a pattern, or a sequence of patterns.
    """
    if isinstance(layers, bool):
        return layers
    patterns = (layers,) if isinstance(layers, str) else layers
    if not isinstance(patterns, (list, tuple)) or not all(isinstance(pattern, str) for pattern in patterns):
        raise GraphError(
            "Trainer: checkpoint_layers must be True, False, a pattern of layer paths such as 'blocks.*', or a list of "
            f"patterns, got {shown(layers)}"
        )
    return tuple(patterns)


def layers_to_checkpoint(model: Module, layers: bool | Sequence[str]) -> list[Module]:
    """Return the layers of a model to checkpoint.

    Args:
        model: The model.
        layers: Patterns of the paths of layers, or True for all repeated blocks: layers that have layers, and of whose
            class there are several in the same list or Sequential. A block within another one is not included.

    Raises:
        GraphError: If a pattern matches no layer, or the model has no repeated blocks.
    """
    if isinstance(layers, bool):
        found = list(_repeated_blocks(model)) if layers else []
        if layers and not found:
            raise GraphError(
                f"checkpoint_layers=True needs a model with repeated blocks, but {type(model).__name__} has none in a "
                "list or Sequential: pass patterns of layer paths, such as checkpoint_layers=['encoder']"
            )
        return found
    modules = dict(model.named_modules())
    found = []
    for pattern in layers:
        matching = [module for path, module in modules.items() if path and fnmatchcase(path, pattern)]
        if not matching:
            raise GraphError(
                f"checkpoint_layers: '{pattern}' matches no layer, the layers are {shown([p for p in modules if p])}"
            )
        found += matching
    return list({id(module): module for module in found}.values())


def _repeated_blocks(model: Module) -> Iterator[Module]:
    children = list(model.children())
    lists = [name.rpartition(".")[0] if "." in name or name.isdigit() else None for name, _ in children]
    kinds = [(where, type(child)) for where, (_, child) in zip(lists, children, strict=True)]
    for (where, kind), (_, child) in zip(kinds, children, strict=True):
        is_block = where is not None and next(child.children(), None) is not None
        if is_block and kinds.count((where, kind)) > 1:
            yield child
        else:
            yield from _repeated_blocks(child)


@contextmanager
def checkpointed_layers(model: Module, layers: bool | Sequence[str]) -> Iterator[None]:
    """Checkpoint layers of a model that are called in a `with` block, in addition to those marked by `checkpoint`."""
    chosen = [module for module in layers_to_checkpoint(model, layers) if not module.checkpointed]
    for module in chosen:
        vars(module)["checkpointed"] = True  # Not an assignment, which would count as a change of settings.
    try:
        yield
    finally:
        for module in chosen:
            del vars(module)["checkpointed"]
