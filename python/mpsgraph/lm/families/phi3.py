"""Phi-3: Llama's layers with fused projections, and rotary encoding of a part of each head where configured."""

from __future__ import annotations

from ..architecture import Architecture
from ..settings import Settings
from ..weights import Rule, linear, norm, plain, projection
from .family import Family
from .llama import common, decoder_names


def _phi3(s: Settings) -> Architecture:
    s.require(embd_pdrop=0.0)
    layers, longest = s.count("num_hidden_layers"), s.count("max_position_embeddings")
    rotary = s.rotary(s.count("hidden_size") // s.count("num_attention_heads"), longest)
    if rotary.scaling is not None and rotary.scaling["rope_type"] == "yarn":  # The name in early files.
        s.require(rope_scaling={"type": "longrope"})
    return common(
        s, epsilon=s.number("rms_norm_eps", 1e-5), residual_dropout=s.number("resid_pdrop", 0.0), qkv_bias=False,
        windows=(s.get("sliding_window", None, int),) * layers, rotary=(rotary,) * layers,
        output_bias=s.flag("attention_bias"),
    )  # fmt: skip


def _rules(a: Architecture) -> list[Rule]:
    rules = [plain("model.embed_tokens.weight", "embedding.weight"), *norm("model.norm", "norm")]
    rules += [] if a.tied else [linear("lm_head.weight", "head.weight")]
    for i in range(a.layers):
        theirs, ours = f"model.layers.{i}", f"layers.{i}"
        attention, network = f"{ours}.attention", f"{ours}.feed_forward"
        rules += norm(f"{theirs}.input_layernorm", f"{ours}.attention_norm")
        rules += norm(f"{theirs}.post_attention_layernorm", f"{ours}.feed_forward_norm")
        rules += projection(f"{theirs}.self_attn.qkv_proj", *(f"{attention}.{n}" for n in ("query", "key", "value")))
        rules += projection(f"{theirs}.self_attn.o_proj", f"{attention}.output")
        rules += projection(f"{theirs}.mlp.gate_up_proj", f"{network}.gate", f"{network}.up")
        rules += projection(f"{theirs}.mlp.down_proj", f"{network}.down")
    return rules


FAMILIES = (Family(("phi3",), _phi3, _rules, decoder_names),)
