"""The encoders BERT and ModernBERT, with or without the head that predicts masked tokens."""

from __future__ import annotations

import numpy as np

from ...errors import UnsupportedError
from ..architecture import Architecture
from ..settings import Settings
from ..weights import Names, Rule, linear, norm, plain, projection, untransposed
from .family import Family


def _classes(s: Settings, *known: str) -> str:
    """Return the class of the model that wrote the file, which determines its head."""
    named = s.get("architectures", [known[0]], list)
    if len(named) != 1 or named[0] not in known:
        raise UnsupportedError(f"{s.where}: architectures {named} is not supported; supported are {', '.join(known)}")
    return str(named[0])


def _bert(s: Settings) -> Architecture:
    s.ignore("classifier_dropout", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
             "pooler_size_per_head", "pooler_type", "directionality")  # fmt: skip
    s.require(add_cross_attention=False, is_decoder=False, position_embedding_type="absolute")
    width, heads, longest = s.count("hidden_size"), s.count("num_attention_heads"), s.count("max_position_embeddings")
    masked = _classes(s, "BertModel", "BertForMaskedLM") == "BertForMaskedLM"
    return Architecture(
        vocabulary=s.count("vocab_size"), width=width, layers=s.count("num_hidden_layers"), heads=heads, kv_heads=heads,
        head_dim=width // heads, hidden=s.count("intermediate_size"), max_length=longest, learned_positions=longest,
        causal=False, activation=s.activation("hidden_act", "gelu"), gated=False, norm="layer", norm_bias=True,
        epsilon=s.number("layer_norm_eps", 1e-12), norm_order="after", embedding_norm=True, final_norm=False,
        qkv_bias=True, output_bias=True, hidden_bias=True, token_types=s.count("type_vocab_size", 2),
        tied=s.flag("tie_word_embeddings", True), head=masked, head_bias=True, head_transform=masked,
        head_transform_bias=True, pooler=not masked, embedding_dropout=s.number("hidden_dropout_prob", 0.1),
        residual_dropout=s.number("hidden_dropout_prob", 0.1),
        attention_dropout=s.number("attention_probs_dropout_prob", 0.1),
    )  # fmt: skip


def _bert_rules(a: Architecture) -> list[Rule]:
    tables = {"word": "embedding", "position": "position_embedding", "token_type": "type_embedding"}
    rules = [plain(f"bert.embeddings.{t}_embeddings.weight", f"{o}.weight") for t, o in tables.items()]
    rules += norm("bert.embeddings.LayerNorm", "embedding_norm", bias=True)
    for i in range(a.layers):
        theirs, ours = f"bert.encoder.layer.{i}", f"layers.{i}"
        for name in ("query", "key", "value"):
            rules += projection(f"{theirs}.attention.self.{name}", f"{ours}.attention.{name}", bias=True)
        rules += projection(f"{theirs}.attention.output.dense", f"{ours}.attention.output", bias=True)
        rules += norm(f"{theirs}.attention.output.LayerNorm", f"{ours}.attention_norm", bias=True)
        rules += projection(f"{theirs}.intermediate.dense", f"{ours}.feed_forward.up", bias=True)
        rules += projection(f"{theirs}.output.dense", f"{ours}.feed_forward.down", bias=True)
        rules += norm(f"{theirs}.output.LayerNorm", f"{ours}.feed_forward_norm", bias=True)
    if a.pooler:
        rules += projection("bert.pooler.dense", "pooler", bias=True)
    if a.head:
        rules += projection("cls.predictions.transform.dense", "head_transform", bias=True)
        rules += norm("cls.predictions.transform.LayerNorm", "head_norm", bias=True)
        rules.append(plain("cls.predictions.bias", "head_bias" if a.tied else "head.bias"))
        rules += [] if a.tied else [linear("cls.predictions.decoder.weight", "head.weight")]
    return rules


def _bert_names(a: Architecture) -> Names:
    copies = {"cls.predictions.bias": "cls.predictions.decoder.bias"}
    if a.tied:
        copies["bert.embeddings.word_embeddings.weight"] = "cls.predictions.decoder.weight"
    constants = {
        r"bert\.embeddings\.position_ids": lambda array: np.array_equal(array.reshape(-1), np.arange(array.size)),
    }
    renamed = {r"\.LayerNorm\.gamma$": ".LayerNorm.weight", r"\.LayerNorm\.beta$": ".LayerNorm.bias"}
    return Names("bert.", ("cls.",), copies, constants, renamed)


def _modernbert(s: Settings) -> Architecture:
    s.ignore(
        "classifier_dropout", "classifier_pooling", "cls_token_id", "deterministic_flash_attn",
        "initializer_cutoff_factor", "reference_compile", "repad_logits_with_grad", "sep_token_id",
        "sparse_pred_ignore_index", "layer_norm_eps", "position_embedding_type",
    )  # fmt: skip
    s.require(sparse_prediction=False)
    width, heads, layers = s.count("hidden_size"), s.count("num_attention_heads"), s.count("num_hidden_layers")
    longest, every = s.count("max_position_embeddings"), s.count("global_attn_every_n_layers", 3)
    types = s.layer_types(layers)
    types = types or ["sliding_attention" if i % every else "full_attention" for i in range(layers)]
    window = s.count("local_attention", 128) // 2 + 1
    head_dim = width // heads
    whole = s.rotary(head_dim, longest, 160000.0, "full_attention", "global_rope_theta")
    local = s.rotary(head_dim, longest, 10000.0, "sliding_attention", "local_rope_theta")
    masked = _classes(s, "ModernBertModel", "ModernBertForMaskedLM") == "ModernBertForMaskedLM"
    biased, bias, dropout = s.flag("attention_bias"), s.flag("norm_bias"), s.number("attention_dropout", 0.0)
    activation = s.activation("hidden_activation", "gelu")
    if masked and s.activation("classifier_activation", "gelu") != activation:
        s.require(classifier_activation=s.entries["hidden_activation"])
    s.ignore("classifier_activation")
    return Architecture(
        vocabulary=s.count("vocab_size"), width=width, layers=layers, heads=heads, kv_heads=heads, head_dim=head_dim,
        hidden=s.count("intermediate_size"), max_length=longest, causal=False, activation=activation, norm="layer",
        norm_bias=bias, epsilon=s.number("norm_eps", 1e-5), embedding_norm=True, first_norm=False, qkv_bias=biased,
        output_bias=biased, hidden_bias=s.flag("mlp_bias"),
        rotary=tuple(local if kind == "sliding_attention" else whole for kind in types),
        windows=tuple(window if kind == "sliding_attention" else None for kind in types),
        tied=s.flag("tie_word_embeddings", True), head=masked, head_bias=s.flag("decoder_bias", True),
        head_transform=masked, head_transform_bias=s.flag("classifier_bias"),
        embedding_dropout=s.number("embedding_dropout", 0.0), attention_dropout=dropout,
        attention_output_dropout=dropout, hidden_dropout=s.number("mlp_dropout", 0.0),
    )  # fmt: skip


def _modernbert_rules(a: Architecture) -> list[Rule]:
    rules = [plain("model.embeddings.tok_embeddings.weight", "embedding.weight")]
    rules += norm("model.embeddings.norm", "embedding_norm", bias=a.norm_bias)
    rules += norm("model.final_norm", "norm", bias=a.norm_bias)
    for i in range(a.layers):
        theirs, ours = f"model.layers.{i}", f"layers.{i}"
        attention, network = f"{ours}.attention", f"{ours}.feed_forward"
        if i:
            rules += norm(f"{theirs}.attn_norm", f"{ours}.attention_norm", bias=a.norm_bias)
        rules += norm(f"{theirs}.mlp_norm", f"{ours}.feed_forward_norm", bias=a.norm_bias)
        parts = [f"{attention}.{name}" for name in ("query", "key", "value")]
        rules += projection(f"{theirs}.attn.Wqkv", *parts, bias=a.qkv_bias)
        rules += projection(f"{theirs}.attn.Wo", f"{attention}.output", bias=a.output_bias)
        rules += projection(f"{theirs}.mlp.Wi", f"{network}.gate", f"{network}.up", bias=a.hidden_bias)
        rules += projection(f"{theirs}.mlp.Wo", f"{network}.down", bias=a.hidden_bias)
    if a.head:
        rules += projection("head.dense", "head_transform", bias=a.head_transform_bias)
        rules += norm("head.norm", "head_norm", bias=a.norm_bias)
        if a.head_bias:
            rules.append(untransposed("decoder.bias", "head_bias" if a.tied else "head.bias"))
        rules += [] if a.tied else [linear("decoder.weight", "head.weight")]
    return rules


def _modernbert_names(a: Architecture) -> Names:
    copies = {"model.embeddings.tok_embeddings.weight": "decoder.weight"} if a.tied else {}
    return Names("model.", ("head.", "decoder."), copies)


FAMILIES = (
    Family(("bert",), _bert, _bert_rules, _bert_names),
    Family(("modernbert",), _modernbert, _modernbert_rules, _modernbert_names),
)
