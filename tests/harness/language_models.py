"""Entries of config.json files as their authors published them, with smaller sizes.

The names and the forms of the entries are those of the published files, from which only numbers of layers, features,
heads, and tokens differ. Newer programs write the same facts in another form, which tests cover as well.
"""

from __future__ import annotations

from typing import Any

_SIZES: dict[str, Any] = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
}  # fmt: skip
_LLAMA = {
    **_SIZES, "num_key_value_heads": 2, "hidden_act": "silu", "initializer_range": 0.02, "use_cache": True,
    "rms_norm_eps": 1e-05, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_QWEN = {
    **_LLAMA, "attention_dropout": 0.0, "max_position_embeddings": 64, "max_window_layers": 1, "sliding_window": 6,
    "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "tie_word_embeddings": True, "use_sliding_window": False,
    "torch_dtype": "bfloat16", "transformers_version": "4.43.1",
}  # fmt: skip
_GEMMA = {
    **_LLAMA, "attention_bias": False, "attention_dropout": 0.0, "head_dim": 16, "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 64, "pad_token_id": 0, "rms_norm_eps": 1e-06,
    "rope_theta": 10000.0, "torch_dtype": "float32", "transformers_version": "4.42.0.dev0",
}  # fmt: skip
_PHI3 = {
    **_LLAMA, "_name_or_path": "Phi-3-mini", "attention_bias": False, "attention_dropout": 0.0, "embd_pdrop": 0.0,
    "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config", "AutoModel": "modeling_phi3.Phi3ForCausalLM"},
    "original_max_position_embeddings": 12, "pad_token_id": 0, "resid_pdrop": 0.0, "rope_theta": 10000.0,
    "tie_word_embeddings": False, "architectures": ["Phi3ForCausalLM"], "model_type": "phi3",
}  # fmt: skip

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "llama-2": {
        **_LLAMA, "_name_or_path": "Llama-2-7b-hf", "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "max_position_embeddings": 64, "pretraining_tp": 1, "rope_scaling": None, "tie_word_embeddings": False,
        "torch_dtype": "float16", "transformers_version": "4.31.0.dev0",
    },
    "llama-3.2": {
        **_LLAMA, "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "eos_token_id": [2, 3], "head_dim": 8, "max_position_embeddings": 256, "mlp_bias": False, "model_type": "llama",
        "pretraining_tp": 1, "rope_theta": 500000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "rope_scaling": {
            "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 16,
            "rope_type": "llama3",
        },
    },
    "llama-linear": {
        **_LLAMA, "model_type": "llama", "max_position_embeddings": 64, "architectures": ["LlamaForCausalLM"],
        "rope_scaling": {"type": "linear", "factor": 4.0}, "attention_bias": True, "mlp_bias": True,
    },
    "llama-dynamic": {
        **_LLAMA, "model_type": "llama", "max_position_embeddings": 8, "architectures": ["LlamaForCausalLM"],
        "rope_scaling": {"type": "dynamic", "factor": 2.0},
    },
    "mistral-v0.1": {
        **_LLAMA, "architectures": ["MistralForCausalLM"], "max_position_embeddings": 64, "model_type": "mistral",
        "rope_theta": 10000.0, "sliding_window": 6, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    },
    "mistral-v0.3": {
        **_LLAMA, "architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "max_position_embeddings": 64,
        "model_type": "mistral", "rope_theta": 1000000.0, "sliding_window": None, "tie_word_embeddings": False,
    },
    "qwen2": {**_QWEN, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"},
    "qwen2-window": {
        **_QWEN, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "use_sliding_window": True,
        "tie_word_embeddings": False,
    },
    "qwen2.5-yarn": {
        **_QWEN, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "use_mrope": False,
        "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    },
    "qwen3": {
        **_QWEN, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": False, "head_dim": 16,
        "rope_scaling": None, "sliding_window": None,
    },
    "smollm2": {
        **_LLAMA, "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "is_llama_config": True, "max_position_embeddings": 64, "mlp_bias": False, "model_type": "llama",
        "pretraining_tp": 1, "rope_interleaved": False, "rope_scaling": None, "rope_theta": 100000,
        "tie_word_embeddings": True, "transformers.js_config": {"dtype": "q4"},
    },
    "smollm3": {
        **_LLAMA, "architectures": ["SmolLM3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "layer_types": ["full_attention"] * 3, "max_position_embeddings": 64,
        "max_window_layers": 28, "mlp_bias": False, "model_type": "smollm3", "no_rope_layer_interval": 2,
        "no_rope_layers": [1, 0, 1], "pretraining_tp": 2,
        "rope_scaling": None, "rope_theta": 5000000.0, "sliding_window": None, "use_sliding_window": False,
        "pad_token_id": 0,
    },
    "gemma": {**_GEMMA, "architectures": ["GemmaForCausalLM"], "model_type": "gemma"},
    "gemma-2": {
        **_GEMMA, "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "attn_logit_softcapping": 5.0,
        "cache_implementation": "hybrid", "final_logit_softcapping": 3.0, "query_pre_attn_scalar": 24,
        "sliding_window": 6,
    },
    "gemma-3": {
        **{key: value for key, value in _GEMMA.items() if key != "hidden_act"}, "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text", "attn_logit_softcapping": None, "cache_implementation": "hybrid",
        "final_logit_softcapping": None, "query_pre_attn_scalar": 16, "rope_local_base_freq": 10000,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "rope_theta": 1000000, "sliding_window": 6,
        "sliding_window_pattern": 2,
    },
    "phi-3-mini": {**_PHI3, "max_position_embeddings": 12, "rope_scaling": None, "sliding_window": 6},
    "phi-3-long": {
        **_PHI3, "max_position_embeddings": 96, "sliding_window": 64,
        "rope_scaling": {
            "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.5, 2.0, 4.0, 8.0], "type": "longrope",
        },
    },
    "phi-4-mini": {
        **_PHI3, "max_position_embeddings": 96, "partial_rotary_factor": 0.5, "sliding_window": 64,
        "tie_word_embeddings": True,
        "rope_scaling": {"short_factor": [1.0, 1.0], "long_factor": [1.1, 4.0], "type": "longrope"},
    },
    "gpt2": {
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 1,
        "embd_pdrop": 0.1, "eos_token_id": 2, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
        "model_type": "gpt2", "n_ctx": 64, "n_embd": 32, "n_head": 4, "n_layer": 3, "n_positions": 64,
        "resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
        "summary_type": "cls_index", "summary_use_proj": True, "vocab_size": 96,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    },
    "mixtral": {
        **_LLAMA, "architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "max_position_embeddings": 64,
        "model_type": "mixtral", "num_experts_per_tok": 2, "num_local_experts": 4, "output_router_logits": False,
        "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02, "sliding_window": None, "tie_word_embeddings": False,
    },
    "qwen3-moe": {
        **_QWEN, "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": False, "decoder_sparse_step": 1,
        "head_dim": 16, "mlp_only_layers": [1], "model_type": "qwen3_moe", "moe_intermediate_size": 24,
        "norm_topk_prob": True, "num_experts": 6, "num_experts_per_tok": 3, "output_router_logits": False,
        "rope_scaling": None, "router_aux_loss_coef": 0.001, "sliding_window": None, "tie_word_embeddings": False,
    },
    "bert": {
        **_SIZES, "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1,
        "gradient_checkpointing": False, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "initializer_range": 0.02,
        "layer_norm_eps": 1e-12, "max_position_embeddings": 64, "model_type": "bert", "pad_token_id": 0,
        "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0", "type_vocab_size": 2,
        "use_cache": True,
    },
    "modernbert": {
        **_SIZES, "architectures": ["ModernBertForMaskedLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 1, "classifier_activation": "gelu", "classifier_bias": False, "classifier_dropout": 0.0,
        "classifier_pooling": "mean", "cls_token_id": 1, "decoder_bias": True, "deterministic_flash_attn": False,
        "embedding_dropout": 0.0, "eos_token_id": 2, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0,
        "gradient_checkpointing": False, "hidden_activation": "gelu", "initializer_cutoff_factor": 2.0,
        "initializer_range": 0.02, "layer_norm_eps": 1e-05, "local_attention": 8, "local_rope_theta": 10000.0,
        "max_position_embeddings": 64, "mlp_bias": False, "mlp_dropout": 0.0, "model_type": "modernbert",
        "norm_bias": False, "norm_eps": 1e-05, "pad_token_id": 0, "position_embedding_type": "absolute",
        "sep_token_id": 2, "tie_word_embeddings": True, "torch_dtype": "float32", "transformers_version": "4.47.0",
    },
}  # fmt: skip
"""Entries by a name of the published model, without its size."""
ENCODERS = ("bert", "modernbert")
