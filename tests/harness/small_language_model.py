"""A small random language model and a tokenizer of words, for tests that need no other library's numbers."""

import mpsgraph as mg
import numpy as np
import tokenizers

SIZES = {
    "model_type": "llama", "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "tie_word_embeddings": False,
}  # fmt: skip
TEMPLATE = (
    "{% for m in messages %}"
    "{% if m.role not in ['system', 'user', 'assistant'] %}{{ raise_exception('unknown role') }}{% endif %}"
    "{{ m.role }} {{ m.content }} {{ eos_token }} {% endfor %}"
    "{% if add_generation_prompt %}assistant{% endif %}"
)


def small_model(seed: int = 0, **more: object) -> mg.lm.LanguageModel:
    """Return a model whose greedy text does not repeat itself at once."""
    model = mg.lm.create({**SIZES, **more}, seed=seed)
    rng = np.random.default_rng(seed)
    model.load_state_dict({
        name: (rng.normal(size=v.shape) * (0.4 if v.ndim > 1 else 0.1) + (v.ndim == 1)).astype(v.dtype)
        for name, v in model.state_dict().items()
    })  # fmt: skip
    return model.eval()


def word_tokenizer(ends: tuple[int, ...] = ()) -> mg.lm.Tokenizer:
    """Return a tokenizer of the words w0 to w92, end, user, and assistant."""
    words = [*(f"w{i}" for i in range(93)), "end", "user", "assistant"]
    backend = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="w0")
    )
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return mg.lm.Tokenizer(backend, {"eos_token": "end", "chat_template": TEMPLATE}, ends)
