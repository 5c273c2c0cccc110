"""The variables that a trainer's steps use, under names that do not depend on the other contents of the graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from .._core import Device, Tensor
from ..errors import GraphError
from ..graph import Graph
from .step import averaged
from .trainer_type import Trainer


def variables_of(trainer: Trainer) -> dict[str, Tensor]:
    """Return a dict of the variables that a trainer's steps use.

    The model's variables are keyed by path, and all others by name, in order of creation. A graph makes names unique by
    appending a number; here, the numbers only count this trainer's variables.
    """
    found = dict(trainer.network.named_variables())
    _name(trainer, found, lambda variable: trainer._used is None or variable in trainer._used)
    return found


def dormant_of(trainer: Trainer) -> dict[str, Tensor]:
    """Return a dict of the variables that a trainer's steps have used but do not use with the current settings.

    Examples are optimizer states of frozen layers, which steps use again once the layers are unfrozen.
    """
    used = trainer._used
    if used is None:
        return {}
    found = variables_of(trainer)
    known = set(found)
    _name(trainer, found, lambda variable: variable not in used)
    return {name: variable for name, variable in found.items() if name not in known}


def _name(trainer: Trainer, found: dict[str, Tensor], wanted: Callable[[Tensor], bool]) -> None:
    """Add to `found` the trainer's wanted variables that belong to no module, unless the name is taken.

    States of a parameter are named after its path, which differs from its name in the graph if that name was taken.
    """
    own, counts = set(found.values()), dict[str, int]()
    paths = {v.name: path for path, v in found.items()}
    for variable in trainer.graph.variables:
        if variable in own or variable in trainer._before_us or not wanted(variable):
            continue
        parameter, slash, state = variable.name.partition("/")
        name = paths[parameter] + slash + state if parameter in paths else variable.name
        stem = re.sub(r"_\d+$", "", name)
        number = counts.get(stem, 0)
        counts[stem] = number + 1
        found.setdefault(stem if number == 0 else f"{stem}_{number}", variable)


@contextmanager
def averages_in_place(
    graph: Graph, averages: Mapping[Tensor, Tensor], device: Device | str | None = None
) -> Iterator[None]:
    """Replace the values of weights by their moving averages within a `with` block."""
    weights = list(averages)
    found = graph.variable_values([*weights, *averages.values()], device=device)
    own = dict(zip(weights, found, strict=False))
    means = {v: averaged(own[v], mean) for v, mean in zip(weights, found[len(weights) :], strict=True)}
    graph.set_variables(means, device=device)
    try:
        yield
        now = dict(zip(weights, graph.variable_values(weights, device=device), strict=True))
    finally:
        graph.set_variables(own, device=device)
    _require_unchanged(means, now)


def _require_unchanged(averages: Mapping[Tensor, np.ndarray], now: Mapping[Tensor, np.ndarray]) -> None:
    """Raise GraphError if variables have been set while averages replaced them, because the new values are lost."""
    changed = [v.name for v, value in now.items() if value.tobytes() != averages[v].tobytes()]
    if changed:
        raise GraphError(
            f"weights that are set within averaged_weights() are lost at its end, got new values of '{changed[0]}': "
            "set them outside of the block"
        )
