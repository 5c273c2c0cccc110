"""Errors for arguments that a checked function does not take: too many by position, or unknown names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from ._display import shown, suggested
from .errors import ArgumentError

Contract: TypeAlias = Any
"""A Contract of `_checks.py`, which imports this file."""

INPUT_SIZES = ("in_features", "in_channels", "input_size", "num_features", "input_dims", "dims")
"""Names that PyTorch and MLX give to input sizes, which layers of this package infer."""

EXTRA_ADVICE = dict.fromkeys(
    ("Trainer.fit", "TrainableModel.fit", "TorchTrainer.fit"),
    "pass a number by name: epochs, iterations, or batch_size, which is Keras's third argument",
)
"""Advice on arguments that were passed by position but must be passed by name, keyed by qualified function name."""


def _few(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def refuse_extra(contract: Contract, args: tuple[Any, ...], options: Mapping[str, Any], twice: str = "") -> NoReturn:
    """Raise the error for more arguments by position than the function takes, or for one passed twice."""
    where, skip = contract.where(args), int(contract.is_method)
    names, extra = contract.by_position[skip:], args[contract.positional :]
    if twice:
        given, taken = shown(args[contract.by_position.index(twice)]), shown(options[twice])
        problem = f"{where} got {twice} twice, as {given} by position and as {taken} by name"
    else:
        taken = f"only {' and '.join(names)} by position" if names else "no arguments by position"
        problem = f"{where} takes {taken}, also got {', '.join(map(shown, extra))}"
    left = [name for name in contract.by_name if name not in options]
    advice = f"pass {'it' if len(extra) == 1 else 'them'} by name ({_few(left)})" if left else "leave them out"
    if twice:
        advice = "pass it once"
    layer = getattr(args[0], "_extra_advice", None) if skip and contract.function.__name__ == "__init__" else None
    if layer is not None:
        advice = ", or ".join(filter(None, (layer(args[1:], len(names) - bool(twice)), advice)))
    raise ArgumentError(f"{problem}: {EXTRA_ADVICE.get(contract.function.__qualname__, advice)}")


def refuse_unknown(contract: Contract, name: str, args: tuple[Any, ...]) -> NoReturn:
    """Raise the error for an argument passed by a name that the function does not have."""
    names = [*contract.by_position[int(contract.is_method) :], *contract.by_name]
    advice = f"its arguments are {', '.join(names)}" if names else "it takes no arguments"
    advice = suggested(name, names) + advice
    if contract.function.__name__ == "__init__" and name in INPUT_SIZES:
        advice = f"input sizes are inferred from the first call, so leave it out; {advice}"
    raise ArgumentError(f"{contract.where(args)} there is no argument {name}: {advice}")
