"""Settings: the entries of a config.json, each of which a family must translate, check, or list as having no effect.

An entry that remains unused is refused, because it might change the results of the model.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .._display import shown
from ..errors import CheckpointError, UnsupportedError
from .architecture import Rotary

NO_EFFECT = {
    "_name_or_path", "architectures", "auto_map", "bos_token_id", "dtype", "eos_token_id", "finetuning_task",
    "gradient_checkpointing", "id2label", "initializer_factor", "initializer_range", "is_llama_config", "label2id",
    "model_type", "output_attentions", "output_hidden_states", "pad_token_id", "problem_type", "return_dict",
    "task_specific_params", "tokenizer_class", "torch_dtype", "torchscript", "transformers.js_config",
    "transformers_version", "unsloth_fixed", "unsloth_version", "use_cache", "use_return_dict",
}  # fmt: skip
"""Entries that any family may have and that do not change what the model computes."""

_ACTIVATIONS = {
    "silu": "silu", "swish": "silu", "gelu": "gelu", "relu": "relu", "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh",
}  # fmt: skip
_REQUIRED = object()


class Settings:
    """The entries of a config.json, which remembers which of them have been read.

    Args:
        entries: Entries of the file.
        where: Name of the file, for error messages.
    """

    def __init__(self, entries: Mapping[str, Any], where: str = "config.json") -> None:
        self.entries, self.where, self.used = entries, where, set[str]()

    def get(self, key: str, default: Any = _REQUIRED, kind: type | tuple[type, ...] = object) -> Any:
        """Return an entry, marked as read; null counts as missing.

        Raises:
            CheckpointError: If the entry has the wrong type, or is missing and has no default.
        """
        self.used.add(key)
        value = self.entries.get(key)
        if value is None:
            if default is _REQUIRED:
                raise CheckpointError(f"{self.where} must have the entry '{key}', which is missing")
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind in (int, float, (int, float))):
            names = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
            raise CheckpointError(f"{self.where}: '{key}' must be {names}, got {shown(value)}")
        return value

    def count(self, key: str, default: Any = _REQUIRED) -> int:
        """Return an entry that is an int of at least 1."""
        value = self.get(key, default, int)
        if value is not default and value < 1:
            raise CheckpointError(f"{self.where}: '{key}' must be at least 1, got {value}")
        return int(value)

    def number(self, key: str, default: Any = _REQUIRED) -> float:
        """Return an entry that is a number."""
        return float(self.get(key, default, (int, float)))

    def flag(self, key: str, default: bool = False) -> bool:
        """Return an entry that is true or false."""
        return bool(self.get(key, default, bool))

    def activation(self, key: str, default: Any = _REQUIRED) -> str:
        """Return the name of an activation as `Architecture` has it."""
        name = self.get(key, default, str)
        if name not in _ACTIVATIONS:
            raise UnsupportedError(
                f"{self.where}: {key} {shown(name)} is not supported; supported are {', '.join(_ACTIVATIONS)}"
            )
        return _ACTIVATIONS[name]

    def require(self, **wanted: Any) -> None:
        """Refuse entries that differ from the only supported value.

        Raises:
            UnsupportedError: If an entry is present and has another value.
        """
        for key, only in wanted.items():
            if (value := self.get(key, only)) != only:
                raise UnsupportedError(f"{self.where}: {key}={shown(value)} is not supported, only {shown(only)}")

    def ignore(self, *keys: str) -> None:
        """Mark entries that do not change what the model computes."""
        self.used.update(keys)

    def finish(self, ignored: Collection[str] = ()) -> None:
        """Refuse entries that have not been read.

        Args:
            ignored: Further entries to ignore, at the caller's request.

        Raises:
            UnsupportedError: If there are any; the message lists them.
        """
        left = sorted(
            key
            for key, value in self.entries.items()
            if key not in self.used and key not in NO_EFFECT and key not in ignored and value is not None
        )
        if left:
            raise UnsupportedError(
                f"{self.where} has entries that this family does not support, so the model could compute something "
                f"else: {', '.join(left)}; if they have no effect, pass ignore={shown(left)}"
            )

    def layer_types(self, layers: int) -> list[str] | None:
        """Return the entry layer_types, one of "full_attention" and "sliding_attention" for each layer, or None."""
        types = self.get("layer_types", None, list)
        if types is None:
            return None
        if len(types) != layers or not set(types) <= {"full_attention", "sliding_attention"}:
            raise UnsupportedError(
                f'{self.where}: layer_types must have "full_attention" or "sliding_attention" for each of the {layers} '
                f"layers, got {shown(types)}"
            )
        return list(types)

    def rotary(
        self,
        head_dim: int,
        max_length: int,
        base: float = 10000.0,
        layer_type: str | None = None,
        key: str = "rope_theta",
        scaled: bool = True,
    ) -> Rotary:
        """Return the rotary encoding that rope_theta, rope_scaling, and rope_parameters describe.

        Args:
            head_dim: Number of features of each head.
            max_length: Longest sequence, which some scalings use.
            base: Base if the file does not state one. Defaults to 10000.
            layer_type: Type of the layers, if the types have different encodings.
            key: Name of the entry with the base. Defaults to "rope_theta".
            scaled: Whether rope_scaling applies to these layers. Defaults to True.
        """
        stated = self.get("rope_parameters", {}, dict)
        if layer_type is not None and layer_type in stated:
            stated = stated[layer_type]
        scaling = self.get("rope_scaling", {}, dict)
        entries = {**(scaling if scaled else {}), **stated}
        outer_base = self.number(key, base)
        base = float(entries.pop("rope_theta", None) or outer_base)
        outer = self.get("partial_rotary_factor", 1.0, (int, float))
        share = entries.pop("partial_rotary_factor", None) or outer
        dimensions = int(head_dim * share)
        kind = entries.pop("rope_type", None) or entries.get("type") or "default"
        entries.pop("type", None)
        kind = {"su": "longrope"}.get(kind, kind)
        original = "original_max_position_embeddings"
        outside = self.get(original, None, int)
        if kind in ("llama3", "yarn", "longrope", "dynamic"):
            if outside is not None and kind != "dynamic":
                entries[original] = outside
            entries[original] = entries.get(original) or max_length
            if kind == "dynamic":
                entries[original] = max_length
        else:
            entries.pop(original, None)  # These kinds do not depend on it.
        if kind in ("yarn", "longrope") and entries.get("factor") is None:
            entries["factor"] = max_length / entries[original]
        return Rotary(
            base,
            None if dimensions == head_dim else dimensions,
            None if kind == "default" and not entries else {"rope_type": kind, **entries},
        )
