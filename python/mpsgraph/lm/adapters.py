"""Adapters of whole models: add them by pattern, select and weight them, merge and remove them.

The functions work with language models and with any other module. Files in PEFT's format are in peft.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .._checks import BelowOne, Positive, Size, checked
from .._display import shown, suggested
from .._dtypes import DTypeLike
from .._tracking import touch
from ..errors import GraphError, UnsupportedError
from ..nn.adapters import DEFAULT, Adapted, FullCopies, LoRA, is_projection
from ..nn.module import Module
from ..nn.parts import name_children
from ..nn.quantized import QuantizedEmbedding, QuantizedLinear

Targets = str | Sequence[str]
ALL = "all-linear"
"""Pattern of all projections, except those that compute the logits."""
_HEADS = ("head", "head_transform")
_DEEPEST = 8  # A container may contain itself.


@checked
def add_adapters(
    model: Module,
    rank: Size = 8,
    *,
    alpha: Positive | None = None,
    targets: Targets = ("query", "value"),
    dropout: BelowOne = 0.0,
    dora: bool = False,
    rank_stabilized: bool = False,
    full: Sequence[str] = (),
    ranks: Mapping[str, int] | None = None,
    alphas: Mapping[str, float] | None = None,
    name: str = DEFAULT,
    dtype: DTypeLike | None = None,
) -> list[str]:
    """Put a low-rank adapter around projections of a model, and freeze everything else.

    Only the new adapter trains from now on, and only its parameters have gradients and optimizer state. A model can
    hold several adapters; `select_adapters` chooses among them.

    Args:
        model: A language model, or any other module. Its projections may be quantized.
        rank: Rank of the adapter. Defaults to 8.
        alpha: Numerator of the scale alpha / rank. None, the default, means 2 * rank.
        targets: Which projections get an adapter: the ends of their paths, such as "query" or "feed_forward.up"; a
            regular expression that matches whole paths; or "all-linear" for all except those that compute the logits.
            Defaults to ("query", "value").
        dropout: Probability of dropping an input of an adapter in training mode. Defaults to 0.
        dora: Whether to learn the norms of the outputs as well (DoRA). Defaults to False.
        rank_stabilized: Whether the scale is alpha / sqrt(rank) (rsLoRA). Defaults to False.
        full: Ends of the paths of layers that are trained in full, such as "norm" or "head", of which the adapter gets
            a copy. Defaults to none.
        ranks: Other ranks, keyed by the end of a path or a regular expression for it. Defaults to none.
        alphas: Other values of alpha, keyed in the same way. Defaults to none.
        name: Name of the adapter. Defaults to "default".
        dtype: Element type of the adapter. None, the default, means float32, or float64 for a float64 model.

    Returns:
        The paths of the layers that have got the adapter.

    Raises:
        GraphError: If no layer matches, a pattern matches nothing, or the name is taken.
        UnsupportedError: If a pattern matches a layer that is not a projection.

    Source: arXiv:2106.09685 (LoRA), arXiv:2402.09353 (DoRA), arXiv:2312.03732 (rsLoRA).

    Example:
        >>> model = mg.nn.Sequential(mg.nn.Linear(4), mg.nn.ReLU(), mg.nn.Linear(2))
        >>> _ = model(mg.Graph().placeholder((-1, 3)))
        >>> mg.lm.add_adapters(model, rank=2, targets=["0"])
        ['0']
        >>> [path for path, _ in model.named_trainable_parameters()]
        ['0.adapters.default.down', '0.adapters.default.up']
    """
    if name in adapter_names(model):
        raise GraphError(f"add_adapters: the model has an adapter '{name}': remove it first, or pass another name")
    layers = dict(layers_of(model))
    chosen = _chosen(layers, targets)
    wholly = {path for path in layers if any(_ends_with(path, end) for end in full)}
    _require_all_used("full", full, lambda end: any(_ends_with(path, end) for path in layers))
    if both := sorted(wholly & chosen):
        raise GraphError(f"add_adapters: '{both[0]}' is in both targets and full: name it in one of them")
    for what, table in (("ranks", ranks), ("alphas", alphas)):
        _require_all_used(what, table or (), lambda key: any(pattern_matches(path, key) for path in chosen))
    for path in wholly:
        _require_copyable(model, path, layers[path])

    def wrapped(path: str, layer: Module) -> Module | None:
        if path in wholly:
            if isinstance(layer, FullCopies):
                layer.add(name)
                return None
            return FullCopies(layer, name)
        if path not in chosen:
            return None
        own = first_match(path, ranks, rank)
        options: dict[str, Any] = {
            "alpha": first_match(path, alphas, alpha if alpha is not None or own == rank else 2 * rank),
            "dropout": dropout, "dora": dora, "rank_stabilized": rank_stabilized, "dtype": dtype,
        }  # fmt: skip
        if isinstance(layer, LoRA):
            layer.add(name, own, **options)
            return None
        return LoRA(layer, own, name=name, **options)

    model.freeze()
    replace_layers(model, wrapped)
    name_children(model)
    select_adapters(model, name)
    return [path for path in layers if path in chosen | wholly]


@checked
def select_adapters(model: Module, *names: str, weights: Sequence[float] | None = None) -> None:
    """Choose the adapters that are in use; only their parameters train.

    Args:
        model: Model with adapters.
        *names: Names of the adapters, whose changes are added. None at all switches all adapters off.
        weights: Factor of each adapter's change. Defaults to 1 for each.

    Raises:
        GraphError: If the model does not have one of the adapters, or the number of weights is wrong.
        UnsupportedError: If adapters that train layers in full are mixed or weighted.

    Example:
        >>> model = mg.nn.Sequential(mg.nn.Linear(4))
        >>> for name in ("formal", "brief"):
        ...     _ = mg.lm.add_adapters(model, targets=["0"], name=name)
        >>> mg.lm.select_adapters(model, "formal", "brief", weights=(0.7, 0.3))
        >>> model[0].active
        {'formal': 0.7, 'brief': 0.3}
        >>> mg.lm.select_adapters(model)
        >>> model[0].active
        {}
    """
    known = adapter_names(model)
    if unknown := [name for name in names if name not in known]:
        raise GraphError(
            f"select_adapters: the model has no adapter '{unknown[0]}', only {', '.join(known) or 'none'}: "
            f"{suggested(unknown[0], known)}add it with add_adapters or load_adapters"
        )
    if weights is not None and len(weights) != len(names):
        raise GraphError(f"select_adapters: weights must have one number for each of {len(names)} names, got {weights}")
    chosen = dict(zip(names, weights or [1.0] * len(names), strict=True))
    wrappers = list(_adapted(model))
    wrappers.sort(key=lambda layer: isinstance(layer, LoRA))  # FullCopies may refuse, so nothing changes before.
    for layer in wrappers:
        layer.select(chosen)


@checked
def remove_adapters(model: Module, *names: str) -> None:
    """Remove adapters and their parameters. The layers that have no adapters left become as they were.

    When the last adapter is removed, the model is unfrozen.

    Args:
        model: Model with adapters.
        *names: Names of the adapters. None at all removes all.

    Raises:
        GraphError: If the model does not have one of the adapters.

    Example:
        >>> model = mg.nn.Sequential(mg.nn.Linear(4))
        >>> _ = mg.lm.add_adapters(model, targets=["0"])
        >>> mg.lm.remove_adapters(model)
        >>> model[0]
        Linear(4)
    """
    known = adapter_names(model)
    for name in names:
        if name not in known:
            raise GraphError(f"remove_adapters: the model has no adapter '{name}', only {', '.join(known) or 'none'}")

    def removed(path: str, layer: Module) -> Module | None:
        if not isinstance(layer, Adapted):
            return None
        for name in names or list(layer.adapters):
            if name in layer.adapters:
                layer.remove(name)
        return None if layer.adapters else layer.layer

    replace_layers(model, removed)
    if not adapter_names(model):
        model.unfreeze()


@checked
def merge_adapters(model: Module) -> None:
    """Fold the adapters that are in use into the weights of the model, and remove all adapters.

    Sums are computed in float64 and rounded once to the dtype of the weights. A quantized projection becomes a Linear,
    with the dtype of its scales, because packed weights cannot represent the sum. The model is unfrozen.

    Args:
        model: Model with adapters.

    Raises:
        GraphError: If the model has no adapters.

    Example:
        >>> model = mg.nn.Sequential(mg.nn.Linear(4))
        >>> _ = mg.lm.add_adapters(model, targets=["0"])
        >>> before = model(np.ones((1, 3), np.float32)).tolist()
        >>> mg.lm.merge_adapters(model)
        >>> model[0], model(np.ones((1, 3), np.float32)).tolist() == before
        (Linear(4), True)
    """
    if not list(_adapted(model)):
        raise GraphError("merge_adapters: the model has no adapters: add them with add_adapters or load_adapters")
    replace_layers(model, lambda path, layer: layer.merged() if isinstance(layer, Adapted) else None)
    model.unfreeze()


@checked
def adapter_names(model: Module) -> list[str]:
    """Return the names of the adapters of a model, in the order in which they were added.

    Args:
        model: A language model, or any other module.

    Returns:
        A list of names; empty if the model has no adapters.

    Example:
        >>> mg.lm.adapter_names(mg.nn.Linear(2))
        []
    """
    return list(dict.fromkeys(name for layer in _adapted(model) for name in layer.adapters))


def _adapted(model: Module) -> Iterator[Adapted]:
    seen: set[int] = set()
    for _, module in model.named_modules():
        if isinstance(module, Adapted) and id(module) not in seen:
            seen.add(id(module))
            yield module


# --- layers and patterns ----------------------------------------------------------------------------------------------


def layers_of(model: Module) -> Iterator[tuple[str, Module]]:
    """Yield all modules of a model with their paths. Wrappers with adapters stand for the layer that they contain."""
    inside: set[int] = set()
    for path, module in model.named_modules():
        if id(module) in inside:
            continue
        if isinstance(module, Adapted):
            inside.update(id(part) for _, part in module.named_modules() if part is not module)
        yield path, module


def projections_of(model: Module) -> Iterator[tuple[str, Module]]:
    """Yield the projections of a model with their paths; those that have adapters as their wrappers."""
    for path, module in layers_of(model):
        if isinstance(module, LoRA) or is_projection(module):
            yield path, module


def replace_layers(model: Module, new: Callable[[str, Module], Module | None]) -> None:
    """Replace layers of a model.

    Args:
        model: The model.
        new: Function of the path of a layer and the layer that returns the module to put in its place, or None to keep
            the layer and look at the layers in it. A layer in several positions is replaced by the same module.
    """
    made: dict[int, Module] = {}
    before = list(layers_of(model))
    for path, layer in before[1:]:
        if id(layer) not in made and (found := new(path, layer)) is not None:
            made[id(layer)] = found

    def replaced(value: Any, depth: int = 0) -> Any:
        if isinstance(value, Module):
            return made.get(id(value), value)
        if not isinstance(value, (list, tuple, dict)) or depth == _DEEPEST:
            return value
        if isinstance(value, tuple):
            return tuple(replaced(item, depth + 1) for item in value)
        for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
            if (after := replaced(item, depth + 1)) is not item:
                value[key] = after
        return value

    for _, module in before:
        if isinstance(module, Adapted):
            continue
        for name, value in list(vars(module).items()):
            if isinstance(value, (list, dict)):
                replaced(value)
            elif isinstance(value, Module) and id(value) in made:
                setattr(module, name, made[id(value)])
            elif isinstance(value, tuple) and any(id(item) in made for item in value):
                setattr(module, name, replaced(value))
    touch()


def _chosen(layers: Mapping[str, Module], targets: Targets) -> set[str]:
    projections = [path for path, layer in layers.items() if isinstance(layer, LoRA) or is_projection(layer)]
    if targets == ALL:
        chosen = {path for path in projections if path not in _HEADS}
    elif isinstance(targets, str):
        chosen = {path for path in projections if re.fullmatch(targets, path)}
    else:
        chosen = {path for path in layers if any(_ends_with(path, end) for end in targets)}
        _require_all_used("targets", targets, lambda end: any(_ends_with(path, end) for path in layers))
    if wrong := sorted(chosen - set(projections)):
        raise UnsupportedError(
            f"add_adapters: adapters can be put around Linear layers and quantized ones; '{wrong[0]}' is "
            f"{shown(layers[wrong[0]])}"
        )
    if not chosen:
        ends = ", ".join(dict.fromkeys(path.rsplit(".", 1)[-1] for path in projections))
        raise GraphError(
            f"add_adapters: targets={shown(targets)} matches no projection; the model has {ends or 'none'}"
        )
    return chosen


def _require_all_used(what: str, patterns: Any, used: Callable[[str], bool]) -> None:
    for pattern in patterns:
        if not used(pattern):
            raise GraphError(f"add_adapters: {shown(pattern)} in {what} matches no layer: correct it, or leave it out")


def _require_copyable(model: Module, path: str, layer: Module) -> None:
    a = getattr(model, "architecture", None)
    if path == "embedding" and getattr(a, "tied", False):
        raise UnsupportedError(
            "add_adapters: the embedding also computes the logits in this model, so it cannot be trained in full by an "
            "adapter: leave it out of full"
        )
    if isinstance(layer, (QuantizedLinear, QuantizedEmbedding)):
        raise UnsupportedError(
            f"add_adapters: '{path}' is quantized, so it cannot be trained in full: leave it out of full"
        )
    if isinstance(layer, LoRA):
        raise UnsupportedError(
            f"add_adapters: '{path}' has a low-rank adapter, so no other adapter can train it in full"
        )


def _ends_with(path: str, end: str) -> bool:
    return path == end or path.endswith("." + end)


def pattern_matches(path: str, pattern: str) -> bool:
    """Return whether a regular expression matches the end of a path, from the start of one of its parts."""
    return re.fullmatch(rf"(.*\.)?({pattern})", path) is not None


def first_match(path: str, table: Mapping[str, Any] | None, default: Any) -> Any:
    """Return the value of the first pattern in a table that matches the end of a path, or a default."""
    return next((value for pattern, value in (table or {}).items() if pattern_matches(path, pattern)), default)
