"""Llama and the families that share its layout: Mistral, Qwen2, Qwen3, SmolLM3, Mixtral, and Qwen3-MoE.

SmolLM and SmolLM2 are Llama checkpoints.
"""

from __future__ import annotations

from typing import Any

from ..architecture import Architecture
from ..settings import Settings
from ..weights import Names, Rule, linear, norm, plain, projection, stacked
from .family import Family


def common(s: Settings, **more: Any) -> Architecture:
    """Translate the entries that these families share; `more` has the fields that differ."""
    width, heads, layers = s.count("hidden_size"), s.count("num_attention_heads"), s.count("num_hidden_layers")
    head_dim = s.count("head_dim", width // heads)
    longest = s.count("max_position_embeddings")
    s.ignore("pretraining_tp")  # Divided matrix products during pretraining; the result is the same.
    fields = {
        "vocabulary": s.count("vocab_size"),
        "width": width,
        "layers": layers,
        "heads": heads,
        "kv_heads": s.count("num_key_value_heads", heads),
        "head_dim": head_dim,
        "hidden": s.count("intermediate_size"),
        "max_length": longest,
        "activation": s.activation("hidden_act", "silu"),
        "epsilon": s.number("rms_norm_eps", 1e-6),
        "tied": s.flag("tie_word_embeddings"),
        "attention_dropout": s.number("attention_dropout", 0.0),
    }
    if "rotary" not in more:
        fields["rotary"] = (s.rotary(head_dim, longest),) * layers
    return Architecture(**{**fields, **more})


def _llama(s: Settings) -> Architecture:
    s.require(rope_interleaved=False)
    biased = s.flag("attention_bias")
    return common(s, qkv_bias=biased, output_bias=biased, hidden_bias=s.flag("mlp_bias"))


def _mistral(s: Settings) -> Architecture:
    return common(s, windows=(s.get("sliding_window", None, int),) * s.count("num_hidden_layers"))


def _qwen_windows(s: Settings) -> tuple[int | None, ...]:
    """Return the window of each layer; layers from max_window_layers on have one if use_sliding_window is set."""
    layers, window = s.count("num_hidden_layers"), s.get("sliding_window", 4096, int)
    first = s.get("max_window_layers", 28, int)
    types = s.layer_types(layers)
    if not s.flag("use_sliding_window"):
        if types is not None and "sliding_attention" in types:
            s.require(layer_types=["full_attention"] * layers)
        return (None,) * layers
    if types is None:
        types = ["sliding_attention" if i >= first else "full_attention" for i in range(layers)]
    return tuple(window if kind == "sliding_attention" else None for kind in types)


def _qwen2(s: Settings) -> Architecture:
    s.require(use_mrope=False)
    return common(s, qkv_bias=True, windows=_qwen_windows(s))


def _qwen3(s: Settings) -> Architecture:
    biased = s.flag("attention_bias")
    return common(
        s, qkv_bias=biased, output_bias=biased, qk_norm=True, windows=_qwen_windows(s),
        head_dim=s.count("head_dim", 128), rotary=_rotary(s, s.count("head_dim", 128)),
    )  # fmt: skip


def _rotary(s: Settings, head_dim: int, base: float = 10000.0) -> tuple[Any, ...]:
    return (s.rotary(head_dim, s.count("max_position_embeddings"), base),) * s.count("num_hidden_layers")


def _smollm3(s: Settings) -> Architecture:
    s.ignore("max_window_layers")  # layer_types replaces it.
    biased, layers = s.flag("attention_bias"), s.count("num_hidden_layers")
    interval = s.count("no_rope_layer_interval", 4)
    rotated = s.get("no_rope_layers", [int((i + 1) % interval != 0) for i in range(layers)], list)
    rotary = _rotary(s, s.count("hidden_size") // s.count("num_attention_heads"), 2000000.0)
    types, window = s.layer_types(layers), s.get("sliding_window", None, int)
    sliding = s.flag("use_sliding_window") and window is not None
    if types is None:
        types = ["sliding_attention" if sliding and not on else "full_attention" for on in rotated]
    return common(
        s, qkv_bias=biased, output_bias=biased, hidden_bias=s.flag("mlp_bias"),
        tied=s.flag("tie_word_embeddings", True),
        rotary=tuple(each if on else None for each, on in zip(rotary, rotated, strict=True)),
        windows=tuple(window if sliding and kind == "sliding_attention" else None for kind in types),
    )  # fmt: skip


def _mixtral(s: Settings) -> Architecture:
    s.ignore("output_router_logits", "router_aux_loss_coef")
    s.require(router_jitter_noise=0.0)
    layers = s.count("num_hidden_layers")
    return common(
        s, rotary=_rotary(s, s.count("head_dim", s.count("hidden_size") // s.count("num_attention_heads")), 1e6),
        epsilon=s.number("rms_norm_eps", 1e-5), windows=(s.get("sliding_window", None, int),) * layers,
        experts=s.count("num_local_experts"), experts_per_token=s.count("num_experts_per_tok", 2),
        expert_hidden=s.count("intermediate_size"), expert_layers=(True,) * layers, normalize_experts=True,
    )  # fmt: skip


def _qwen3_moe(s: Settings) -> Architecture:
    s.ignore("output_router_logits", "router_aux_loss_coef", "max_window_layers")
    layers, biased = s.count("num_hidden_layers"), s.flag("attention_bias")
    window = s.get("sliding_window", 4096, int) if s.flag("use_sliding_window") else None
    s.ignore("sliding_window")
    step, dense = s.count("decoder_sparse_step", 1), s.get("mlp_only_layers", [], list)
    experts = s.get("num_experts", None, int) or s.count("num_local_experts")
    s.ignore("num_local_experts")
    return common(
        s, qkv_bias=biased, output_bias=biased, qk_norm=True, windows=(window,) * layers, experts=experts,
        experts_per_token=s.count("num_experts_per_tok", 8), expert_hidden=s.count("moe_intermediate_size", 768),
        expert_layers=tuple(i not in dense and (i + 1) % step == 0 for i in range(layers)),
        normalize_experts=s.flag("norm_topk_prob"),
    )  # fmt: skip


def decoder_rules(a: Architecture, experts: tuple[str, str, str, str] = ("", "", "", "")) -> list[Rule]:
    """Return the rules of these families; `experts` has the names of a layer's experts and of their projections."""
    rules = [plain("model.embed_tokens.weight", "embedding.weight"), *norm("model.norm", "norm")]
    rules += [] if a.tied else [linear("lm_head.weight", "head.weight")]
    for i in range(a.layers):
        theirs, ours = f"model.layers.{i}", f"layers.{i}"
        attention, mine = f"{theirs}.self_attn", f"{ours}.attention"
        for letter, name in (("q", "query"), ("k", "key"), ("v", "value")):
            rules += projection(f"{attention}.{letter}_proj", f"{mine}.{name}", bias=a.qkv_bias)
        rules += projection(f"{attention}.o_proj", f"{mine}.output", bias=a.output_bias)
        if a.qk_norm:
            rules += norm(f"{attention}.q_norm", f"{mine}.query_norm") + norm(f"{attention}.k_norm", f"{mine}.key_norm")
        rules += norm(f"{theirs}.input_layernorm", f"{ours}.attention_norm")
        if a.norm_order == "both":
            rules += norm(f"{theirs}.post_attention_layernorm", f"{ours}.attention_output_norm")
            rules += norm(f"{theirs}.pre_feedforward_layernorm", f"{ours}.feed_forward_norm")
            rules += norm(f"{theirs}.post_feedforward_layernorm", f"{ours}.feed_forward_output_norm")
        else:
            rules += norm(f"{theirs}.post_attention_layernorm", f"{ours}.feed_forward_norm")
        if a.expert_layers[i]:
            block, *projections = experts
            rules += projection(f"{theirs}.{block}.gate", f"{ours}.feed_forward.router")
            for name, part in zip(("gate", "up", "down"), projections, strict=True):
                each = [f"{theirs}.{block}.experts.{e}.{part}.weight" for e in range(a.experts)]
                rules.append(stacked(each, f"{ours}.feed_forward.{name}"))
        else:
            for name in ("gate", "up", "down"):
                rules += projection(f"{theirs}.mlp.{name}_proj", f"{ours}.feed_forward.{name}", bias=a.hidden_bias)
    return rules


def decoder_names(a: Architecture) -> Names:
    """Return what files of these families contain besides the rules."""
    copies = {"model.embed_tokens.weight": "lm_head.weight"} if a.tied else {}
    frequencies = r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq"  # Written by older programs.
    plain_frequencies = {r.base for r in a.rotary if r is not None and r.scaling is None}

    def expected(array: Any) -> bool:
        powers = [base ** (-2 * i / (2 * len(array))) for base in plain_frequencies for i in range(len(array))]
        return len(plain_frequencies) == 1 and bool(abs(array - powers).max() < 1e-2)

    return Names("model.", ("lm_head.",), copies, {frequencies: expected})


MIXTRAL = ("block_sparse_moe", "w1", "w3", "w2")
QWEN3_MOE = ("mlp", "gate_proj", "up_proj", "down_proj")
FAMILIES = (
    Family(("llama",), _llama, decoder_rules, decoder_names),
    Family(("mistral",), _mistral, decoder_rules, decoder_names),
    Family(("qwen2",), _qwen2, decoder_rules, decoder_names),
    Family(("qwen3",), _qwen3, decoder_rules, decoder_names),
    Family(("smollm3",), _smollm3, decoder_rules, decoder_names),
    Family(("mixtral",), _mixtral, lambda a: decoder_rules(a, MIXTRAL), decoder_names),
    Family(("qwen3_moe",), _qwen3_moe, lambda a: decoder_rules(a, QWEN3_MOE), decoder_names),
)
