"""Test examples/fine_tuning.py: an adapter changes the style of a small model, which stays as it was without it."""

import itertools
from pathlib import Path

import fine_tuning as example
import pytest
from mpsgraph import lm

pytest.importorskip("tokenizers")

ANIMALS, PLACES = ("cat", "dog", "cow", "hen"), ("mat", "bed", "hay", "box")


def test_adapter_writes_telegrams_and_leaves_the_model_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(example, "SIZES", {**example.SIZES, "hidden_size": 48, "intermediate_size": 96})
    sentences = [f"The {a} sits on the {p}" for a, p in itertools.product(ANIMALS, PLACES)]
    text = tmp_path / "text.txt"
    text.write_text(". ".join(sentences) + ". ")
    options = ["--text", str(text), "--output", str(tmp_path / "out"), "--length", "24"]
    example.main([*options, "--steps", "120", "--adapter-steps", "150"])
    printed = capsys.readouterr().out
    before, after = (next(line for line in printed.splitlines() if line.startswith(w)) for w in ("before", "after"))
    assert any(sentence in before for sentence in sentences)
    assert after.endswith(" stop") and " on " not in after and " the " not in after
    assert "the model still writes the same text: True" in printed
    model, tokenizer = lm.load(tmp_path / "out/small-model")
    lm.load_adapters(model, tmp_path / "out/telegrams")
    found = lm.generate(model, tokenizer, "The ", max_tokens=24, temperature=0.5, seed=1)
    assert f"The {found}" in after


def test_sentences_consist_of_words() -> None:
    text = "Some words\nform this sentence. 3 numbers do not. It is too short"
    assert example.sentences_of(text) == ["Some words form this sentence"]
