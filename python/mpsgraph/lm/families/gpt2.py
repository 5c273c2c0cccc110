"""GPT-2: learned positions, layer normalization, and matrices that are stored with the inputs first."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..architecture import Architecture
from ..settings import Settings
from ..weights import Names, Rule, linear, norm, plain, untransposed
from .family import Family


def _gpt2(s: Settings) -> Architecture:
    s.ignore(
        "n_ctx", "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
        "summary_type", "summary_use_proj",
    )  # fmt: skip
    s.require(add_cross_attention=False)
    width, heads, layers = s.count("n_embd"), s.count("n_head"), s.count("n_layer")
    scale = (width // heads) ** -0.5 if s.flag("scale_attn_weights", True) else 1.0
    by_layer = s.flag("scale_attn_by_inverse_layer_idx")
    longest = s.count("n_positions")
    return Architecture(
        vocabulary=s.count("vocab_size"), width=width, layers=layers, heads=heads, kv_heads=heads,
        head_dim=width // heads, hidden=s.count("n_inner", 4 * width), max_length=longest, learned_positions=longest,
        activation=s.activation("activation_function", "gelu_new"), gated=False, norm="layer", norm_bias=True,
        epsilon=s.number("layer_norm_epsilon", 1e-5), qkv_bias=True, output_bias=True, hidden_bias=True,
        scales=tuple(scale / (i + 1 if by_layer else 1) for i in range(layers)),
        tied=s.flag("tie_word_embeddings", True), embedding_dropout=s.number("embd_pdrop", 0.1),
        residual_dropout=s.number("resid_pdrop", 0.1), attention_dropout=s.number("attn_pdrop", 0.1),
    )  # fmt: skip


def _matrix(theirs: str, *ours: str) -> list[Rule]:
    return [
        untransposed(f"{theirs}.weight", *(f"{name}.weight" for name in ours)),
        untransposed(f"{theirs}.bias", *(f"{name}.bias" for name in ours)),
    ]


def _rules(a: Architecture) -> list[Rule]:
    rules = [
        plain("transformer.wte.weight", "embedding.weight"),
        plain("transformer.wpe.weight", "position_embedding.weight"),
        *norm("transformer.ln_f", "norm", bias=True),
    ]
    rules += [] if a.tied else [linear("lm_head.weight", "head.weight")]
    for i in range(a.layers):
        theirs, ours = f"transformer.h.{i}", f"layers.{i}"
        rules += norm(f"{theirs}.ln_1", f"{ours}.attention_norm", bias=True)
        rules += norm(f"{theirs}.ln_2", f"{ours}.feed_forward_norm", bias=True)
        rules += _matrix(f"{theirs}.attn.c_attn", *(f"{ours}.attention.{n}" for n in ("query", "key", "value")))
        rules += _matrix(f"{theirs}.attn.c_proj", f"{ours}.attention.output")
        rules += _matrix(f"{theirs}.mlp.c_fc", f"{ours}.feed_forward.up")
        rules += _matrix(f"{theirs}.mlp.c_proj", f"{ours}.feed_forward.down")
    return rules


def _is_causal_mask(array: Any) -> bool:
    size = array.shape[-1]
    return bool(np.array_equal(array.reshape(size, -1).astype(bool), np.tril(np.ones((size, size), bool))))


def _names(a: Architecture) -> Names:
    copies = {"transformer.wte.weight": "lm_head.weight"} if a.tied else {}
    constants = {
        r"transformer\.h\.\d+\.attn\.bias": _is_causal_mask,  # Causal masks, which older programs wrote.
        r"transformer\.h\.\d+\.attn\.masked_bias": lambda array: bool(array.max() <= -1e4),
    }
    return Names("transformer.", ("lm_head.",), copies, constants)


FAMILIES = (Family(("gpt2",), _gpt2, _rules, _names),)
