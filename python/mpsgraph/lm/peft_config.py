"""adapter_config.json of PEFT: the entries that can be expressed, and refusal of all others."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._display import shown
from ..errors import CheckpointError, UnsupportedError
from .adapters import ALL, first_match
from .storage import read_json

_FILE = "adapter_config.json"
_NO_EFFECT = {
    "auto_mapping", "base_model_name_or_path", "inference_mode", "megatron_core", "peft_version", "revision",
    "fan_in_fan_out", "loftq_config", "eva_config", "corda_config", "lora_ga_config", "qalora_group_size",
    "runtime_config", "ensure_weight_tying",
}  # fmt: skip
"""Entries that do not change what a saved adapter computes, given the entries that are checked."""
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "bias": ("none",), "lora_bias": (False,), "megatron_config": (), "layer_replication": (), "target_parameters": (),
    "trainable_token_indices": (), "alora_invocation_tokens": (), "use_qalora": (False,), "use_bdlora": (False,),
    "arrow_config": (), "kasa_config": (), "velora_config": (), "monteclora_config": (),
    "init_lora_weights": (True, False, "gaussian", "eva", "orthogonal", "kaiming"),
}  # fmt: skip
"""Entries that are supported only with these values, or null or empty ones."""
_TASKS = (None, "CAUSAL_LM", "FEATURE_EXTRACTION")


@dataclass(frozen=True)
class PeftConfig:
    """The entries of adapter_config.json.

    Attributes:
        rank: r.
        alpha: lora_alpha.
        dropout: lora_dropout.
        dora: use_dora.
        rank_stabilized: use_rslora.
        targets: target_modules: ends of names, or a regular expression.
        task: task_type.
        ranks: rank_pattern.
        alphas: alpha_pattern.
        full: modules_to_save.
        transposed: fan_in_fan_out.
        excluded: exclude_modules.
        layers: layers_to_transform.
        layer_lists: layers_pattern.
    """

    rank: int
    alpha: float
    dropout: float
    dora: bool
    rank_stabilized: bool
    targets: str | list[str]
    task: str | None = None
    ranks: dict[str, int] = field(default_factory=dict)
    alphas: dict[str, float] = field(default_factory=dict)
    full: list[str] = field(default_factory=list)
    transposed: bool = False
    excluded: str | list[str] | None = None
    layers: list[int] | None = None
    layer_lists: list[str] | None = None

    def rank_of(self, name: str) -> int:
        """Return the rank of a layer's adapter."""
        return int(first_match(name, self.ranks, self.rank))

    def alpha_of(self, name: str) -> float:
        """Return the alpha of a layer's adapter."""
        return float(first_match(name, self.alphas, self.alpha))

    def resolved(self, names: Collection[str], heads: Collection[str]) -> set[str]:
        """Return the names of the layers that target_modules includes.

        Args:
            names: Names of all projections.
            heads: Names of those that compute logits, which "all-linear" leaves out.
        """
        if isinstance(self.targets, str) and self.targets.lower() == ALL:
            found = set(names) - set(heads)
        else:
            found = {name for name in names if _matches(name, self.targets)}
            if self.layers is not None and not isinstance(self.targets, str):
                found = {name for name in found if name in self.targets or self._index(name) in self.layers}
        if self.excluded:
            found = {name for name in found if not _matches(name, self.excluded)}
        return found

    def _index(self, name: str) -> int | None:
        """Return the index of the layer that contains a projection."""
        for part in self.layer_lists or [r"[^.]*"]:
            if match := re.match(rf".*\.{part}\.(\d+)\.", name):
                return int(match[1])
        return None


def _matches(name: str, patterns: str | list[str]) -> bool:
    if isinstance(patterns, str):
        return re.fullmatch(patterns, name) is not None
    return name in patterns or any(name.endswith("." + end) for end in patterns)


def read_config(folder: Path) -> PeftConfig:
    """Read and check the configuration of an adapter.

    Raises:
        CheckpointError: If the file is missing, or an entry is missing or has the wrong type.
        UnsupportedError: If an entry cannot be expressed.
    """
    entries = read_json(folder / _FILE)
    if not isinstance(entries, dict):
        raise CheckpointError(
            f"{folder} has no {_FILE}: pass the folder of an adapter" if entries is None
            else f"{folder / _FILE} must contain a JSON object, got {shown(entries)}"
        )  # fmt: skip
    where = folder / _FILE
    kind = entries.pop("peft_type", None)
    if kind != "LORA":
        raise UnsupportedError(f"{where}: adapters of type {shown(kind)} are not supported, only LORA")
    for key, allowed in _NEUTRAL.items():
        value = entries.pop(key, None)
        empty = value is None or value == {} or value == []
        if not empty and not any(value == each and type(value) is type(each) for each in allowed):
            only = ", ".join(map(shown, allowed)) or "null"
            raise UnsupportedError(f"{where}: {key}={shown(value)} is not supported, only {only}")
    for key in _NO_EFFECT:
        entries.pop(key, None)

    def take(key: str, kinds: type | tuple[type, ...], default: Any) -> Any:
        value = entries.pop(key, None)
        value = default if value is None else value
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            raise CheckpointError(f"{where}: '{key}' has an invalid value, {shown(value)}")
        return value

    def words(key: str, *, required: bool = False) -> Any:
        value = take(key, (str, list, type(None)), None)
        good = value is None or isinstance(value, str) or all(isinstance(each, str) for each in value)
        if not good or (required and value is None):
            raise CheckpointError(f"{where}: '{key}' must be a string or a list of strings, got {shown(value)}")
        return value

    task = take("task_type", (str, type(None)), None)
    if task not in _TASKS:
        raise UnsupportedError(f"{where}: task_type={shown(task)} is not supported, only CAUSAL_LM and null")
    ranks, alphas = take("rank_pattern", dict, {}), take("alpha_pattern", dict, {})
    layers = take("layers_to_transform", (int, list, type(None)), None)
    lists = words("layers_pattern")
    full = words("modules_to_save")
    config = PeftConfig(
        rank=take("r", int, 8), alpha=float(take("lora_alpha", (int, float), 8)),
        dropout=float(take("lora_dropout", (int, float), 0.0)), dora=take("use_dora", bool, False),
        rank_stabilized=take("use_rslora", bool, False), targets=words("target_modules", required=not full) or [],
        task=task, ranks=ranks, alphas=alphas, full=[full] if isinstance(full, str) else full or [],
        excluded=words("exclude_modules"), layers=[layers] if isinstance(layers, int) else layers,
        layer_lists=[lists] if isinstance(lists, str) else lists,
    )  # fmt: skip
    if left := sorted(key for key, value in entries.items() if value not in (None, False, {}, [])):
        raise UnsupportedError(f"{where} has entries that are not supported: {', '.join(left)}")
    numbers = [config.rank, config.alpha, *ranks.values(), *alphas.values()]
    if not all(isinstance(n, (int, float)) and n > 0 for n in numbers) or not 0 <= config.dropout < 1:
        raise CheckpointError(f"{where}: ranks and alphas must be above 0, and lora_dropout in [0, 1)")
    return config


def write_config(folder: Path, config: PeftConfig) -> None:
    """Write the configuration of an adapter."""
    alphas: Mapping[str, Any] = {"": config.alpha, **config.alphas}
    whole = {key: int(value) if float(value).is_integer() else value for key, value in alphas.items()}
    entries = {
        "peft_type": "LORA", "task_type": config.task, "base_model_name_or_path": None, "inference_mode": True,
        "r": config.rank, "lora_alpha": whole.pop(""), "lora_dropout": config.dropout, "use_dora": config.dora,
        "use_rslora": config.rank_stabilized, "target_modules": config.targets, "rank_pattern": config.ranks,
        "alpha_pattern": whole, "modules_to_save": config.full or None, "fan_in_fan_out": config.transposed,
        "bias": "none", "init_lora_weights": True,
    }  # fmt: skip
    partial = folder / f"{_FILE}.partial"
    partial.write_text(json.dumps(entries, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(folder / _FILE)
