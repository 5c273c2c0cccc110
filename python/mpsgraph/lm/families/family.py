"""Family: the translation of one kind of checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..architecture import Architecture
from ..settings import Settings
from ..weights import Names, Rule


@dataclass(frozen=True)
class Family:
    """How a kind of checkpoint describes its model.

    Attributes:
        types: Values of model_type in config.json.
        architecture: Function that translates the entries of config.json.
        rules: Function that returns the rules of the weights.
        names: Function that returns what else the files contain.
    """

    types: tuple[str, ...]
    architecture: Callable[[Settings], Architecture]
    rules: Callable[[Architecture], list[Rule]]
    names: Callable[[Architecture], Names]
