"""Test examples/gpt.py: the model learns a text, recites it with a key-value cache, and saves its alphabet."""

import gpt as example
import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

ALPHABET = example.Alphabet("abcd")


def test_gpt_learns_and_recites_a_text(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(example, "WINDOW", 32)
    monkeypatch.setattr(example, "RATE", 5e-3)
    model = example.GPT(4, features=32, layers=1, dropout=0.0)
    history = example.train(model, ALPHABET.encode("abacabad" * 200), 60)
    assert len(history.loss) == 60 and len(history.validation) == 10
    assert 1 < history.loss[0] < 3 and history.validation[-1][1]["loss"] < 0.25, (
        "the loss must fall well below that of guessing, ln 4 = 1.39"
    )
    start = ALPHABET.encode("abacabadabacabad")
    written = nn.generate(model, start, 16, temperature=0.0)
    assert ALPHABET.decode(written) == "abacabad" * 4
    found = nn.generate(model, start, 16, beams=3)
    assert ALPHABET.decode(found) == "abacabad" * 4


def test_saved_weights_include_the_alphabet(tmp_path):
    path, model = tmp_path / "weights.safetensors", example.GPT(4)
    model(mg.Graph(1).placeholder((1, -1), mg.int32))
    mg.checkpoint.save(path, model.state_dict(), {"alphabet": "abcd"})
    loaded, alphabet = example.load(path)
    assert alphabet.characters == "abcd"
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, loaded.state_dict()[name])
    mg.checkpoint.save(path, {"a": np.zeros(1, np.float32)})
    with pytest.raises(mg.data.DataError, match="was not written by --weights"):
        example.load(path)


def test_invalid_training_text_or_prompt_raises(tmp_path):
    assert {"T", "h", "e", " "} <= set(example.read_text(None)), (
        "the text must contain the characters of the default prompt"
    )
    short = tmp_path / "short.txt"
    short.write_text("too short", encoding="utf-8")
    with pytest.raises(mg.data.DataError, match="is too short"):
        example.read_text(short)
    with pytest.raises(mg.data.DataError, match="has not seen"):
        ALPHABET.encode("xyz")
