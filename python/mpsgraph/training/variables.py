"""The variables that a trainer's steps use, under names that do not depend on what else is in the graph."""

from __future__ import annotations

import re

from .._core import Tensor
from .trainer_type import Trainer


def variables_of(trainer: Trainer) -> dict[str, Tensor]:
    """Return a dict of the variables that a trainer's steps use.

    The model's variables are keyed by path, and all others by name, in order of creation. A graph makes names unique by
    appending a number; here, the numbers only count this trainer's variables.
    """
    own = {v: path for path, v in trainer.network.named_variables().items()}
    found = {path: v for v, path in own.items()}
    counts: dict[str, int] = {}
    for variable in trainer.graph.variables:
        if variable in own or variable in trainer._before_us:
            continue
        stem = re.sub(r"_\d+$", "", variable.name)
        number = counts.get(stem, 0)
        counts[stem] = number + 1
        found[stem if number == 0 else f"{stem}_{number}"] = variable
    return found
