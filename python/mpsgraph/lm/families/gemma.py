"""Gemma, Gemma 2, and the text models of Gemma 3."""

from __future__ import annotations

import math
from typing import Any

from ..architecture import Architecture
from ..settings import Settings
from .family import Family
from .llama import common, decoder_names, decoder_rules


def _gemma(s: Settings, head_dim: int = 256, **more: Any) -> Architecture:
    biased = s.flag("attention_bias")
    s.require(use_bidirectional_attention=False)
    s.ignore("hidden_act")  # hidden_activation takes precedence, and older files state it for other programs.
    fields = {
        "qkv_bias": biased,
        "output_bias": biased,
        "activation": s.activation("hidden_activation", "gelu_pytorch_tanh"),
        "norm_offset": 1.0,
        "embedding_scale": math.sqrt(s.count("hidden_size")),
        "tied": s.flag("tie_word_embeddings", True),
        "head_dim": s.count("head_dim", head_dim),
    }
    return common(s, **{**fields, **more})


def _first(s: Settings) -> Architecture:
    rotary = s.rotary(s.count("head_dim", 256), s.count("max_position_embeddings"))
    return _gemma(s, rotary=(rotary,) * s.count("num_hidden_layers"))


def _second(s: Settings) -> Architecture:
    layers, head_dim = s.count("num_hidden_layers"), s.count("head_dim", 256)
    s.ignore("cache_implementation")
    rotary = s.rotary(head_dim, s.count("max_position_embeddings"))
    types = s.layer_types(layers) or ["sliding_attention" if i % 2 == 0 else "full_attention" for i in range(layers)]
    return _sandwich(s, types, (rotary,) * layers, soft_cap=50.0, logit_cap=30.0)


def _third(s: Settings) -> Architecture:
    layers, head_dim, longest = (
        s.count("num_hidden_layers"),
        s.count("head_dim", 256),
        s.count("max_position_embeddings"),
    )
    s.ignore("cache_implementation")
    pattern = s.get("sliding_window_pattern", s.get("_sliding_window_pattern", 6, int), int)
    s.ignore("_sliding_window_pattern")
    types = s.layer_types(layers)
    types = types or ["sliding_attention" if (i + 1) % pattern else "full_attention" for i in range(layers)]
    whole = s.rotary(head_dim, longest, 1e6, "full_attention")
    local = s.rotary(head_dim, longest, 1e4, "sliding_attention", "rope_local_base_freq", scaled=False)
    rotary = tuple(local if kind == "sliding_attention" else whole for kind in types)
    return _sandwich(s, types, rotary, soft_cap=None, logit_cap=None, qk_norm=True)


def _sandwich(
    s: Settings, types: list[str], rotary: tuple[Any, ...], soft_cap: float | None, logit_cap: float | None, **more: Any
) -> Architecture:
    """Translate the entries of Gemma 2 and 3, which normalize both sides of each sublayer."""
    window, scale = s.get("sliding_window", 4096, int), s.number("query_pre_attn_scalar", 256) ** -0.5
    caps: dict[str, Any] = {}
    for key, field, default in (
        ("attn_logit_softcapping", "soft_cap", soft_cap), ("final_logit_softcapping", "logit_cap", logit_cap),
    ):  # fmt: skip
        stated = s.get(key, None, (int, float))
        caps[field] = default if key not in s.entries else stated
    return _gemma(
        s, norm_order="both", rotary=rotary, scales=(scale,) * len(types), **caps, **more,
        windows=tuple(window if kind == "sliding_attention" else None for kind in types),
    )  # fmt: skip


FAMILIES = (
    Family(("gemma",), _first, decoder_rules, decoder_names),
    Family(("gemma2",), _second, decoder_rules, decoder_names),
    Family(("gemma3_text",), _third, decoder_rules, decoder_names),
)
