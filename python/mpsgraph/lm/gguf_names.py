"""Metadata and names of GGUF files, translated to the entries of config.json and the names of its tensors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._core import float32, uint32
from ..errors import CheckpointError, UnsupportedError
from ..nn.quantized import Packed
from ..nn.state import Value
from .gguf_blocks import GROUP

Values = Mapping[str, Callable[[], np.ndarray]]
Packs = Mapping[str, tuple[int, Callable[[], Packed]]]
"""Number of bits of each matrix that can stay packed, and the function that reads it."""
_KINDS = {
    "llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma": "gemma", "gemma2": "gemma2", "gemma3": "gemma3_text",
    "phi3": "phi3", "gpt2": "gpt2", "smollm3": "smollm3",
}  # fmt: skip
"""Values of model_type by general.architecture."""
_ENTRIES = {
    "context_length": "max_position_embeddings", "embedding_length": "hidden_size", "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size", "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads", "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta", "attention.key_length": "head_dim", "attention.sliding_window": "sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping", "final_logit_softcapping": "final_logit_softcapping",
    "vocab_size": "vocab_size",
}  # fmt: skip
_GPT2_ENTRIES = {
    "context_length": "n_positions", "embedding_length": "n_embd", "block_count": "n_layer",
    "feed_forward_length": "n_inner", "attention.head_count": "n_head",
    "attention.layer_norm_epsilon": "layer_norm_epsilon", "vocab_size": "vocab_size",
}  # fmt: skip
_LAYER = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip
_GEMMA_LAYER = {
    **_LAYER, "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}  # fmt: skip
_GPT2_LAYER = {
    "attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj",
}  # fmt: skip
_PHI3_LAYER = {**_LAYER, "attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}
_LAYERS = {"gemma2": _GEMMA_LAYER, "gemma3_text": _GEMMA_LAYER, "gpt2": _GPT2_LAYER, "phi3": _PHI3_LAYER}


def entries_of(metadata: Mapping[str, Any], values: Values, where: str) -> dict[str, Any]:
    """Return the entries of a config.json for the metadata of a file.

    Raises:
        UnsupportedError: If the architecture or an entry of it is not supported.
    """
    architecture = metadata.get("general.architecture")
    if architecture not in _KINDS:
        raise UnsupportedError(
            f"{where}: the architecture {architecture!r} is not supported; supported are {', '.join(_KINDS)}"
        )
    kind = _KINDS[str(architecture)]
    names = _GPT2_ENTRIES if kind == "gpt2" else _ENTRIES
    own = {
        key.removeprefix(f"{architecture}."): value
        for key, value in metadata.items()
        if key.startswith(f"{architecture}.")
    }
    entries: dict[str, Any] = {"model_type": kind}
    scaling = {key: own.pop(key) for key in list(own) if key.startswith("rope.scaling.")}
    for key, value in own.items():
        if key in names:
            entries[names[key]] = value
        elif key not in ("rope.dimension_count", "attention.value_length", "attention.head_count_kv"):
            raise UnsupportedError(f"{where} has the entry {architecture}.{key}, which is not supported")
    entries.setdefault("vocab_size", len(metadata.get("tokenizer.ggml.tokens", [])))
    entries["tie_word_embeddings"] = "output.weight" not in values
    for key, name in (("bos_token_id", "bos"), ("eos_token_id", "eos"), ("pad_token_id", "padding")):
        if (token := metadata.get(f"tokenizer.ggml.{name}_token_id")) is not None:
            entries[key] = token
    if kind == "gpt2":
        return entries
    heads, width = entries["num_attention_heads"], entries["hidden_size"]
    if isinstance(heads, list) or isinstance(entries.get("num_key_value_heads"), list):
        raise UnsupportedError(f"{where}: different numbers of heads in different layers are not supported")
    head_dim = entries.setdefault("head_dim", width // heads)
    if own.get("attention.value_length", head_dim) != head_dim:
        raise UnsupportedError(
            f"{where}: values must have the size of keys, {head_dim}, got {own['attention.value_length']}"
        )
    _add_rotary(entries, own, scaling, values, where)
    _add_kind(entries, kind, values)
    return entries


def _add_rotary(
    entries: dict[str, Any], own: Mapping[str, Any], scaling: Mapping[str, Any], values: Values, where: str
) -> None:
    """Add the rotary encoding. Some files have the factors of the frequencies as tensors."""
    rotating = own.get("rope.dimension_count", entries["head_dim"])
    if rotating != entries["head_dim"]:
        entries["partial_rotary_factor"] = rotating / entries["head_dim"]
    kind, longest = scaling.get("rope.scaling.type", "none"), entries["max_position_embeddings"]
    original = scaling.get("rope.scaling.original_context_length", longest)
    factor = scaling.get("rope.scaling.factor", 1.0)
    known = {"type", "original_context_length", "factor", "attn_factor", "finetuned"}
    if unknown := sorted(key for key in scaling if key.removeprefix("rope.scaling.") not in known):
        raise UnsupportedError(f"{where} has the entry {unknown[0]}, which is not supported")
    if "rope_freqs.weight" in values:
        factors = values["rope_freqs.weight"]().tolist()
        entries["rope_scaling"] = {
            "rope_type": "longrope", "factor": 1.0, "short_factor": factors, "long_factor": factors,
            "original_max_position_embeddings": longest, "attention_factor": 1.0,
        }  # fmt: skip
    elif "rope_factors_long.weight" in values:
        entries["rope_scaling"] = {
            "rope_type": "longrope", "short_factor": values["rope_factors_short.weight"]().tolist(),
            "long_factor": values["rope_factors_long.weight"]().tolist(), "factor": longest / original,
            "original_max_position_embeddings": original,
        }  # fmt: skip
        if (stated := scaling.get("rope.scaling.attn_factor")) is not None:
            entries["rope_scaling"]["attention_factor"] = stated
    elif kind == "linear" or (kind == "none" and factor not in (0.0, 1.0)):
        entries["rope_scaling"] = {"rope_type": "linear", "factor": factor}
    elif kind == "yarn":
        entries["rope_scaling"] = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
    elif kind != "none":
        raise UnsupportedError(f"{where}: the rotary scaling {kind!r} is not supported")


def _add_kind(entries: dict[str, Any], kind: str, values: Values) -> None:
    """Add entries that the metadata of an architecture imply."""
    if kind in ("gemma2", "gemma3_text"):
        largest = entries["num_hidden_layers"] == {"gemma2": 46, "gemma3_text": 62}[kind]
        per_head = entries["hidden_size"] // entries["num_attention_heads"]
        entries["query_pre_attn_scalar"] = per_head if largest else entries["head_dim"]
    if kind in ("llama", "smollm3", "qwen3"):
        entries["attention_bias"] = "blk.0.attn_q.bias" in values
    if kind == "phi3":
        del entries["head_dim"]


def tensors_of(entries: dict[str, Any], values: Values, packs: Packs, where: str) -> dict[str, Value]:
    """Return the tensors under the names of Hugging Face's libraries, and with their layouts.

    Matrices that stay packed become three tensors each, and are described by the entry "quantization", which is added.

    Raises:
        CheckpointError: If a name is unknown.
    """
    kind, found = entries["model_type"], {}
    names = _LAYERS.get(kind, _LAYER)
    top = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    stem = "model.layers"
    if kind == "gpt2":
        top = {"token_embd": "transformer.wte", "position_embd": "transformer.wpe", "output_norm": "transformer.ln_f",
               "output": "lm_head"}  # fmt: skip
        stem = "transformer.h"
    for name, read in values.items():
        if name in ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"):
            continue  # Part of the entries.
        match = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)", name)
        part = None if match is None else (top if match[1] is None else names).get(match[2])
        if match is None or part is None:
            raise CheckpointError(f"{where} has the tensor '{name}', which this architecture does not have")
        full = f"{part}.{match[3]}" if match[1] is None else f"{stem}.{match[1]}.{part}.{match[3]}"
        heads = None
        if kind == "llama" and match[2] in ("attn_q", "attn_k"):
            heads = entries["num_attention_heads" if match[2] == "attn_q" else "num_key_value_heads"]
        if name in packs and kind != "gpt2":
            bits, read_packed = packs[name]
            base = full.removesuffix(".weight")
            for end, each in zip(("weight", "scales", "biases"), read_packed(), strict=True):
                rows = each if heads is None else _unpermuted(each, heads)
                dtype = uint32 if end == "weight" else float32
                found[f"{base}.{end}"] = Value(np.ascontiguousarray(rows), dtype)
            entries.setdefault("quantization", {"group_size": GROUP, "bits": bits})[base] = {
                "group_size": GROUP, "bits": bits,
            }  # fmt: skip
            continue
        array = read() if heads is None else _unpermuted(read(), heads)
        if kind.startswith("gemma") and match[2].endswith("norm"):
            array = array - 1  # The files have the sum of the scale and one.
        if kind == "gpt2" and match[1] is not None and array.ndim == 2:
            array = array.T
        found[full] = Value(np.ascontiguousarray(array), float32)
    return found


def _unpermuted(array: np.ndarray, heads: int) -> np.ndarray:
    """Reverse the order of a head's rows that llama.cpp uses for Llama, in which pairs that rotate are adjacent."""
    halves = array.reshape(heads, array.shape[0] // heads // 2, 2, *array.shape[1:])
    return halves.swapaxes(1, 2).reshape(array.shape)
