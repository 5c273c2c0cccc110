"""Files of Hugging Face's PEFT: adapter_config.json and adapter_model.safetensors, read and written.

An entry of the configuration, or a tensor, that cannot be expressed is an error; nothing in a file is ignored. Names of
layers in files are those of the transformers library for language models, and the paths of the layers otherwise.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._checks import checked
from .._core import Tensor
from ..errors import CheckpointError, GraphError, UnsupportedError
from ..nn.adapters import DEFAULT, Adapted, FullCopies, LoRA, LowRank, is_projection, projection_sizes
from ..nn.embedding import Embedding
from ..nn.module import Module
from ..nn.normalization import LayerNorm, RMSNorm
from ..nn.parts import all_variables, graph_of, is_built, name_children, own_variables
from ..nn.quantized import QuantizedEmbedding, QuantizedLinear
from ..nn.state import Value, bits_of, slot_of, value_of, wide_of
from ..nn.weights.files import read_values
from .adapters import adapter_names, layers_of, replace_layers, select_adapters
from .decoder import Decoder, LanguageModel
from .families import family_of
from .peft_config import PeftConfig, read_config, write_config
from .storage import write_safetensors
from .weights import Rule, norm, plain, projection

PathLike = str | os.PathLike[str]
_PREFIX = "base_model.model."
_TENSORS = "adapter_model.safetensors"
_PARTS = {"lora_A.weight": "A", "lora_B.weight": "B", "lora_magnitude_vector": "M", "lora_magnitude_vector.weight": "M"}


@dataclass(frozen=True)
class Site:
    """A projection in PEFT's files, and the layers whose outputs it concatenates, of which there usually is one."""

    theirs: str
    ours: tuple[str, ...]


class Names:
    """The layers of a model under the names that files have for them.

    Args:
        model: Model that has been called.

    Attributes:
        layers: Layers of the model, keyed by path.
        rules: Rules of the model's tensors, keyed by the tensors' names in files.
        sites: Projections, keyed by name.
        heads: Names of the projections that compute logits.
    """

    def __init__(self, model: Module) -> None:
        if not any(is_built(part) for _, part in model.named_modules()):
            raise GraphError(f"{type(model).__name__} has no variables yet: call it with a tensor first")
        self.layers = dict(layers_of(model))
        self.prefix, self.headed = "", True
        self.transposed = False
        if isinstance(model, LanguageModel) and model.configuration:
            family, a = family_of(model.configuration["model_type"]), model.architecture
            rules = family.rules(a)
            self.prefix, self.headed = family.names(a).prefix, a.head
            self.transposed = model.configuration["model_type"] == "gpt2"
        else:
            rules = [rule for path, layer in self.layers.items() for rule in _rules_of(path, layer)]
        self.rules = {name: rule for rule in rules for name in rule.theirs}
        self.sites: dict[str, Site] = {}
        for rule in rules:
            paths = tuple(path.removesuffix(".weight") for path in rule.ours)
            matrix = len(rule.theirs) == 1 and all(path.endswith(".weight") for path in (*rule.theirs, *rule.ours))
            if matrix and all(_is_site(self.layers.get(path)) for path in paths):
                name = self.in_file(rule.theirs[0]).removesuffix(".weight")
                self.sites[name] = Site(name, paths)
        self.heads = {name for name, site in self.sites.items() if site.ours == ("head",)}

    def in_file(self, name: str) -> str:
        """Return the name in files of a tensor that a rule names; encoders without a head lack the prefix."""
        return name if self.headed else name.removeprefix(self.prefix)

    def modules(self) -> list[str]:
        """Return the names in files of all layers with tensors."""
        return list(dict.fromkeys(self.in_file(name).rpartition(".")[0] for name in self.rules))


def _inner(layer: Module) -> Module:
    return layer.layer if isinstance(layer, Adapted) else layer


def _is_site(layer: Module | None) -> bool:
    return layer is not None and (is_projection(_inner(layer)))


def _rules_of(path: str, layer: Module) -> list[Rule]:
    """Return the rules of a layer of a module that is not a language model, with PyTorch's names and layouts."""
    layer = _inner(layer)
    own = own_variables(layer)
    if is_projection(layer):
        return projection(path, path, bias="bias" in own and not isinstance(layer, QuantizedLinear))
    if isinstance(layer, (LayerNorm, RMSNorm)) and "gamma" in own:
        return norm(path, path, bias="beta" in own)
    return [plain(f"{path}.weight", f"{path}.weight")] if isinstance(layer, Embedding) else []


# --- saving -----------------------------------------------------------------------------------------------------------


@checked
def save_adapters(model: Module, path: PathLike, name: str | None = None) -> None:
    """Write an adapter as a folder that `lm.load_adapters` and Hugging Face's PEFT read.

    Args:
        model: Model with the adapter.
        path: Folder to write, which is created if it does not exist.
        name: Name of the adapter. None, the default, means the only one.

    Raises:
        GraphError: If the model does not have the adapter, or has several and no name is passed.
        UnsupportedError: If PEFT's format cannot express the adapter.
        CheckpointError: If the files cannot be written.

    Source: the files that peft 0.21 writes.

    Example:
        >>> import os, tempfile
        >>> model = mg.nn.Sequential(mg.nn.Linear(4))
        >>> _ = model(mg.Graph().placeholder((-1, 3)))
        >>> _ = mg.lm.add_adapters(model, targets=["0"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mg.lm.save_adapters(model, folder)
        ...     sorted(os.listdir(folder))
        ['adapter_config.json', 'adapter_model.safetensors']
    """
    known = adapter_names(model)
    if name is None and len(known) != 1:
        raise GraphError(
            f"save_adapters: the model has {len(known)} adapters ({', '.join(known)}): pass the name of one of them"
            if known else "save_adapters: the model has no adapters: add them with add_adapters"
        )  # fmt: skip
    name = known[0] if name is None else name
    if name not in known:
        raise GraphError(f"save_adapters: the model has no adapter '{name}', only {', '.join(known) or 'none'}")
    names = Names(model)
    config, state = described(model, names, name)
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_safetensors(folder / _TENSORS, {_PREFIX + key: value for key, value in state.items()})
        write_config(folder, config)
    except OSError as error:
        raise CheckpointError(f"save_adapters: {folder} cannot be written: {error}") from error


def described(model: Module, names: Names, name: str) -> tuple[PeftConfig, dict[str, Value]]:
    """Return the configuration and the tensors of an adapter in PEFT's format."""
    state: dict[str, Value] = {}
    found: dict[str, tuple[int, float, LowRank]] = {}
    placed: set[str] = set()
    for site in names.sites.values():
        layers = [names.layers[path] for path in site.ours]
        parts = [part.adapters.get(name) if isinstance(part, LoRA) else None for part in layers]
        if any(part is not None for part in parts):
            placed.update(site.ours)
            tensors, rank, scale, first = _joined(site, layers, parts)
            found[site.theirs] = rank, scale, first
            state |= {f"{site.theirs}.{part}": value for part, value in tensors.items()}
    wholly = _full_tensors(names, name)
    state |= wholly
    left = [
        path for path, layer in names.layers.items()
        if isinstance(layer, LoRA) and name in layer.adapters and path not in placed
    ]  # fmt: skip
    if left:
        raise UnsupportedError(f"save_adapters: the layer '{left[0]}' has no name in PEFT's files")
    kinds = {(a.dropout.rate, a.dora, a.rank_stabilized) for _, _, a in found.values()}
    if len(kinds) > 1:
        raise UnsupportedError(
            "save_adapters: PEFT's files have one dropout, use_dora, and use_rslora for all layers of an adapter, but "
            "the layers of this one differ: give them the same values"
        )
    dropout, dora, stabilized = next(iter(kinds), (0.0, False, False))
    alphas = {site: scale * (rank**0.5 if stabilized else rank) for site, (rank, scale, _) in found.items()}
    rank = _most_common(rank for rank, _, _ in found.values())
    alpha = _most_common(alphas.values())
    causal = isinstance(model, Decoder) and bool(model.configuration)
    config = PeftConfig(
        rank=rank, alpha=alpha, dropout=dropout, dora=dora, rank_stabilized=stabilized,
        targets=_targets(found, names), task="CAUSAL_LM" if causal else None,
        ranks={site: own for site, (own, _, _) in found.items() if own != rank},
        alphas={site: own for site, own in alphas.items() if own != alpha},
        full=list(dict.fromkeys(key.rpartition(".")[0] for key in wholly)), transposed=names.transposed,
    )  # fmt: skip
    return config, state


def _most_common(numbers: Iterable[Any]) -> Any:
    counts = Counter(numbers).most_common(1)
    return counts[0][0] if counts else 8


def _targets(found: Mapping[str, Any], names: Names) -> list[str]:
    """Return the last parts of the names of the layers if these identify the layers, and otherwise whole names."""
    ends = {site.rpartition(".")[2] for site in found}
    modules = set(names.modules()) | set(names.sites)
    alike = {module for module in modules if module.rpartition(".")[2] in ends}
    return sorted(ends if alike == set(found) else found)


def _joined(site: Site, layers: list[Module], parts: list[Any]) -> tuple[dict[str, Value], int, float, LowRank]:
    """Return PEFT's tensors for the adapters of the layers of a site, with their rank, scale, and first adapter.

    If a site joins several layers, their adapters become one whose rank is the sum of theirs, unless all of them have
    the same matrix `down`.
    """
    first: LowRank = next(part for part in parts if part is not None)
    held = [None if part is None else _arrays(part) for part in parts]
    dtype = value_of(graph_of(first.down).variable_values([first.down])[0]).dtype
    if len(parts) == 1:
        assert held[0] is not None
        tensors = {"lora_A.weight": held[0]["down"].T, "lora_B.weight": held[0]["up"].T}
        if first.dora:
            tensors["lora_magnitude_vector"] = held[0]["magnitude"]
        return {k: _value(v, dtype) for k, v in tensors.items()}, first.rank, first.scale, first
    if any(part is None or part.dora != first.dora for part in parts) and first.dora:
        raise UnsupportedError(
            f"save_adapters: PEFT has one DoRA adapter for all parts of {site.theirs}, so {', '.join(site.ours)} must "
            "all have one"
        )
    given = [h for h in held if h is not None]
    shared = all(np.array_equal(h["down"], given[0]["down"]) for h in given)
    rank = first.rank if shared else sum(part.rank for part in parts if part is not None)
    rows, start = [], 0
    for layer, part, own in zip(layers, parts, held, strict=True):
        up = np.zeros((rank, projection_sizes(_inner(layer))[1]), given[0]["up"].dtype)
        if own is not None:
            up[start : start + part.rank] = own["up"] * (part.scale / first.scale)
            start += 0 if shared else part.rank
        rows.append(up.T)
    down = given[0]["down"] if shared else np.concatenate([h["down"] for h in given], 1)
    tensors = {"lora_A.weight": down.T, "lora_B.weight": np.concatenate(rows)}
    if first.dora:
        tensors["lora_magnitude_vector"] = np.concatenate([h["magnitude"] for h in given])
    return {k: _value(v, dtype) for k, v in tensors.items()}, rank, first.scale, first


def _arrays(part: LowRank) -> dict[str, np.ndarray]:
    own = own_variables(part)
    values = graph_of(part.down).variable_values(list(own.values()))
    return {key: _numbers(value_of(value)) for key, value in zip(own, values, strict=True)}


def _numbers(value: Value) -> np.ndarray:
    return wide_of(value.array) if value.dtype.name == "bfloat16" else value.array


def _value(array: np.ndarray, dtype: Any) -> Value:
    return Value(bits_of(array) if dtype.name == "bfloat16" else np.ascontiguousarray(array), dtype)


def _full_tensors(names: Names, name: str) -> dict[str, Value]:
    """Return the tensors of the layers that an adapter trains in full."""
    copies = {
        path: layer.adapters[name] for path, layer in names.layers.items()
        if isinstance(layer, FullCopies) and name in layer.adapters
    }  # fmt: skip
    found: dict[str, Value] = {}
    placed: set[Tensor] = set()
    for rule in dict.fromkeys(names.rules.values()):
        split = [path.rpartition(".") for path in rule.ours]
        if not any(layer in copies for layer, _, _ in split):
            continue
        if any(layer not in copies for layer, _, _ in split):
            raise UnsupportedError(
                f"save_adapters: {', '.join(rule.ours)} are one tensor in PEFT's files, so an adapter must train all "
                "of them in full or none"
            )
        variables = [own_variables(copies[layer])[variable] for layer, _, variable in split]
        placed.update(variables)
        values = [value_of(v) for v in graph_of(variables[0]).variable_values(variables)]
        arrays = rule.write([value.array for value in values])
        for key, array in zip(rule.theirs, arrays, strict=True):
            found[names.in_file(key)] = Value(np.ascontiguousarray(array), values[0].dtype)
    for path, copy in copies.items():
        if lost := [v for v in all_variables(copy).values() if v not in placed]:
            raise UnsupportedError(f"save_adapters: '{path}' has a variable without a name in PEFT's files: {lost[0]}")
    return found


# --- loading ----------------------------------------------------------------------------------------------------------


@checked
def load_adapters(model: Module, path: PathLike, name: str = DEFAULT) -> list[str]:
    """Add an adapter from a folder that `lm.save_adapters` or Hugging Face's PEFT has written, and select it.

    Args:
        model: Model that the adapter was trained for, which may be quantized.
        path: Folder with adapter_config.json and adapter_model.safetensors.
        name: Name of the adapter in the model. Defaults to "default".

    Returns:
        The paths of the layers that have got the adapter.

    Raises:
        CheckpointError: If a file is missing or damaged, or its layers, tensors, or shapes do not fit the model. The
            model is unchanged in this case.
        UnsupportedError: If the file has another kind of adapter than LoRA and DoRA, or an option that cannot be
            expressed.
        GraphError: If the model has an adapter with this name.

    Source: the files that peft 0.21 writes.

    Example:
        >>> import tempfile
        >>> models = [mg.nn.Sequential(mg.nn.Linear(4)) for _ in range(2)]
        >>> for model in models:
        ...     _ = model(mg.Graph().placeholder((-1, 3)))
        >>> _ = mg.lm.add_adapters(models[0], targets=["0"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mg.lm.save_adapters(models[0], folder)
        ...     mg.lm.load_adapters(models[1], folder)
        ['0']
    """
    if name in adapter_names(model):
        raise GraphError(f"load_adapters: the model has an adapter '{name}': remove it first, or pass another name")
    folder, names = Path(path), Names(model)
    config = read_config(folder)
    if not (folder / _TENSORS).is_file():
        if (folder / "adapter_model.bin").is_file():
            raise UnsupportedError(
                f"{folder} has adapter_model.bin, which can run code when it is read: save it with PEFT as safetensors"
            )
        raise CheckpointError(f"{folder} has no {_TENSORS}: pass the folder of an adapter")
    state = {key: value_of(value) for key, value in read_values(folder / _TENSORS).items()}
    parts, rest = _sorted_tensors(state)
    plans = _plans(names, config, parts)
    copies = _copies(names, config, rest)

    def wrapped(path: str, layer: Module) -> Module | None:
        if path in copies:
            if isinstance(layer, FullCopies):
                layer.add(name)
                return None
            return FullCopies(layer, name)
        if path not in plans:
            return None
        options = plans[path][0]
        if isinstance(layer, LoRA):
            layer.add(name, **options)
            return None
        return LoRA(layer, name=name, **options)

    model.freeze()
    replace_layers(model, wrapped)
    name_children(model)
    after = dict(layers_of(model))
    values: dict[Tensor, np.ndarray] = {}
    for where, (_, arrays) in plans.items():
        values |= {variable: arrays[key] for key, variable in own_variables(_adapter(after[where], name)).items()}
    for where, arrays in copies.items():
        values |= {variable: arrays[key] for key, variable in own_variables(_adapter(after[where], name)).items()}
    graph_of(next(iter(values))).set_variables(values)
    select_adapters(model, name)
    return [where for where in after if where in plans or where in copies]


def _adapter(layer: Module, name: str) -> Module:
    assert isinstance(layer, Adapted)
    return layer.adapters[name]


def _sorted_tensors(state: Mapping[str, Value]) -> tuple[dict[str, dict[str, Value]], dict[str, Value]]:
    """Divide the tensors of a file into those of low-rank adapters, by projection, and all others."""
    parts: dict[str, dict[str, Value]] = {}
    rest = {}
    for key, value in state.items():
        if not key.startswith(_PREFIX):
            raise CheckpointError(f"names of tensors in {_TENSORS} must begin with {_PREFIX}, got '{key}'")
        key = key.removeprefix(_PREFIX)
        end = next((end for end in _PARTS if key.endswith("." + end)), None)
        if end is not None:
            parts.setdefault(key.removesuffix("." + end), {})[_PARTS[end]] = value
        elif "lora_" in key:
            raise UnsupportedError(
                f"the tensor '{key}' is not supported: adapters of embeddings, biases, and single parameters cannot "
                "be expressed, only those of projections"
            )
        else:
            rest[key] = value
    return parts, rest


_Plan = tuple[dict[str, Any], dict[str, np.ndarray]]


def _plans(names: Names, config: PeftConfig, parts: Mapping[str, Mapping[str, Value]]) -> dict[str, _Plan]:
    """Return the options of each layer's adapter and the values of its variables, keyed by path."""
    wanted = config.resolved(names.sites, names.heads)
    if unknown := sorted(parts.keys() - names.sites.keys()):
        raise CheckpointError(f"the adapter has tensors for '{unknown[0]}', which the model does not have")
    if missing := sorted(wanted - parts.keys()):
        raise CheckpointError(f"target_modules includes '{missing[0]}', but {_TENSORS} has no tensors for it")
    if extra := sorted(parts.keys() - wanted):
        raise CheckpointError(f"{_TENSORS} has tensors for '{extra[0]}', which target_modules does not include")
    plans: dict[str, _Plan] = {}
    for theirs, tensors in parts.items():
        site = names.sites[theirs]
        expected = {"A", "B", *(["M"] if config.dora else [])}
        if tensors.keys() != expected:
            has, needs = ", ".join(sorted(tensors)), ", ".join(sorted(expected))
            raise CheckpointError(f"the adapter of '{theirs}' must have the tensors {needs} (use_dora), got {has}")
        rank, alpha = config.rank_of(theirs), config.alpha_of(theirs)
        inner = [_inner(names.layers[where]) for where in site.ours]
        sizes = [projection_sizes(layer) for layer in inner]
        total = sum(outputs for _, outputs in sizes)
        shapes = {"A": (rank, sizes[0][0]), "B": (total, rank), "M": (total,)}
        for part, value in tensors.items():
            if value.array.shape != shapes[part]:
                raise CheckpointError(
                    f"tensor {part} of the adapter of '{theirs}' must have shape {shapes[part]}, got "
                    f"{value.array.shape}"
                )
        ends = np.cumsum([outputs for _, outputs in sizes])[:-1]
        ups = np.split(tensors["B"].array, ends)
        magnitudes = np.split(tensors["M"].array, ends) if config.dora else [None] * len(ups)
        dtype = tensors["A"].dtype
        for where, up, magnitude in zip(site.ours, ups, magnitudes, strict=True):
            if isinstance(names.layers[where], FullCopies):
                raise UnsupportedError(f"load_adapters: '{where}' is trained in full by another adapter")
            arrays = {"down": tensors["A"].array.T, "up": up.T}
            if magnitude is not None:
                arrays["magnitude"] = magnitude
            options = {
                "rank": rank, "alpha": alpha, "dropout": config.dropout, "dora": config.dora,
                "rank_stabilized": config.rank_stabilized, "dtype": dtype.name,
            }  # fmt: skip
            plans[where] = options, {key: np.ascontiguousarray(array) for key, array in arrays.items()}
    return plans


def _copies(names: Names, config: PeftConfig, rest: Mapping[str, Value]) -> dict[str, dict[str, np.ndarray]]:
    """Return the values of the layers that the adapter trains in full, keyed by path and variable."""
    modules = names.modules()
    for end in config.full:
        if not any(module.endswith(end) for module in modules):
            raise CheckpointError(f"modules_to_save has '{end}', but the model has no such layer")
    wanted = {module for module in modules if any(module.endswith(end) for end in config.full)}
    tensors = {names.in_file(key): rule for key, rule in names.rules.items()}
    needed = {key for key in tensors if key.rpartition(".")[0] in wanted}
    if missing := sorted(needed - rest.keys()):
        raise CheckpointError(f"modules_to_save includes '{missing[0]}', but {_TENSORS} does not have it")
    if extra := sorted(rest.keys() - needed):
        raise CheckpointError(
            f"{_TENSORS} has the tensor '{extra[0]}', which modules_to_save does not include and the model cannot use"
        )
    found: dict[str, dict[str, np.ndarray]] = {}
    for rule in dict.fromkeys(tensors[key] for key in rest):
        split = [path.rpartition(".") for path in rule.ours]
        layers = [_inner(names.layers[layer]) for layer, _, _ in split]
        if any(isinstance(layer, (QuantizedLinear, QuantizedEmbedding)) for layer in layers):
            raise UnsupportedError(f"load_adapters: {split[0][0]} is quantized, so modules_to_save cannot replace it")
        variables = [own_variables(layer)[own] for layer, (_, _, own) in zip(layers, split, strict=True)]
        slots = [slot_of(variable) for variable in variables]
        given = [rest[names.in_file(key)] for key in rule.theirs]
        arrays = rule.read([value.array for value in given], [slot.shape for slot in slots])
        for (layer, _, own), array, slot in zip(split, arrays, slots, strict=True):
            if array.shape != slot.shape or given[0].dtype != slot.dtype:
                raise CheckpointError(
                    f"{layer}.{own} must be {slot.dtype} {slot.shape}, got {given[0].dtype} {array.shape} in {_TENSORS}"
                )
            if isinstance(names.layers[layer], LoRA) or layer == "embedding" and "head" not in names.layers:
                raise UnsupportedError(f"load_adapters: '{layer}' cannot be trained in full, see add_adapters")
            found.setdefault(layer, {})[own] = np.ascontiguousarray(array)
    return found
