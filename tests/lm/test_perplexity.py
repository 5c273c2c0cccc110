"""Test the perplexity of a small trained model at 8, 6, and 4 bits against an affine reference in numpy.

docs/language_models.md states these numbers.
"""

import pydoc_data.topics

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph.nn.quantized import quantized, unpack

LENGTH, SIZES = 64, {
    "model_type": "llama", "vocab_size": 128, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": True,
}  # fmt: skip


def rows_of(text: str) -> np.ndarray:
    tokens = np.frombuffer(text.encode("ascii", "replace"), np.uint8).astype(np.int32) % 128
    return tokens[: len(tokens) // (LENGTH + 1) * (LENGTH + 1)].reshape(-1, LENGTH + 1)


@pytest.fixture(scope="module")
def trained():
    """A character model of Python's help texts, and rows of text that it was not trained on."""
    rows = rows_of("\n".join(pydoc_data.topics.topics.values())[:80000])
    train, test = rows[: len(rows) * 9 // 10], rows[len(rows) * 9 // 10 :]
    mg.random.seed(0)
    model = mg.lm.create(SIZES, seed=0)
    trainer = mg.Trainer(model, optimizer=mg.optim.AdamW(3e-3), metrics=())
    inputs, targets = (np.ascontiguousarray(part) for part in (train[:, :-1], train[:, 1:]))
    trainer.fit(inputs, targets, epochs=7, batch_size=16, progress=False)
    return model.eval(), test


def perplexity(model, rows: np.ndarray) -> float:
    g = model.embedding.weight.graph
    x = g.placeholder((-1, LENGTH), mg.int32)
    scores = g.run({x: np.ascontiguousarray(rows[:, :-1])}, model(x)).numpy().astype(np.float64)
    scores -= scores.max(-1, keepdims=True)
    chosen = np.take_along_axis(scores, rows[:, 1:, None].astype(np.int64), -1)[..., 0]
    return float(np.exp((np.log(np.exp(scores).sum(-1)) - chosen).mean()))


def copy_with(state):
    model = mg.lm.create(SIZES)
    model.load_state_dict(state)
    return model.eval()


@pytest.mark.parametrize("bits", [8, 6, 4])
def test_perplexity_equals_that_of_affine_weights(trained, bits):
    original, rows = trained
    state = original.state_dict()
    model = copy_with(state)
    mg.lm.quantize(model, bits=bits, group_size=32)
    affine = {}
    for name, value in state.items():
        if value.ndim < 2:
            affine[name] = value
            continue
        is_table = name == "embedding.weight"
        words, scales, biases = quantized(value if is_table else np.ascontiguousarray(value.T), bits, 32)
        matrix = np.repeat(scales, 32, -1) * unpack(words, bits) + np.repeat(biases, 32, -1)
        affine[name] = np.ascontiguousarray(matrix if is_table else matrix.T, np.float32)
    plain, found, wanted = (perplexity(m, rows) for m in (original, model, copy_with(affine)))
    print(f"float32 {plain:.4f}, {bits} bits {found:.4f}")
    assert plain < 10 and abs(found / wanted - 1) < 1e-4
    assert abs(found / plain - 1) < {8: 0.005, 6: 0.02, 4: 0.2}[bits]
