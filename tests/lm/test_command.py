"""Test the command `mpsgraph lm`: generated text, conversations, and errors."""

import io

import mpsgraph as mg
import pytest
from harness.small_language_model import small_model, word_tokenizer
from mpsgraph.cli import main

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")


@pytest.fixture
def folder(tmp_path):
    mg.lm.save(small_model(), tmp_path / "small", word_tokenizer())
    return tmp_path / "small"


def test_generate_prints_the_text(folder, capsys, tmp_path):
    wanted = mg.lm.generate(*mg.lm.load(folder), "w5 w17 w33", max_tokens=8)
    options = ["lm", "generate", str(folder), "--prompt", "w5 w17 w33", "--max-tokens", "8", "--temperature", "0"]
    for more in ([], ["--draft", str(folder)], *[["--cache", str(tmp_path / "cache.safetensors")]] * 2):
        assert main([*options, *more]) == 0
        assert capsys.readouterr().out == wanted + "\n"
    assert (tmp_path / "cache.safetensors").is_file()


def test_chat_continues_the_conversation(folder, capsys, monkeypatch):
    model, tokenizer = mg.lm.load(folder)
    messages, wanted = [{"role": "system", "content": "w9"}], []
    for text in ("w1 w2", "w3"):
        messages.append({"role": "user", "content": text})
        wanted.append(mg.lm.generate(model, tokenizer, messages, max_tokens=6))
        messages.append({"role": "assistant", "content": wanted[-1]})
    monkeypatch.setattr("sys.stdin", io.StringIO("w1 w2\n\nw3\n"))
    assert main(["lm", "chat", str(folder), "--system", "w9", "--max-tokens", "6", "--temperature", "0"]) == 0
    assert capsys.readouterr().out.splitlines() == wanted


def test_errors_are_one_line(tmp_path, capsys):
    assert main(["lm", "generate", str(tmp_path), "--prompt", "w1"]) == 1
    assert capsys.readouterr().err.startswith("mpsgraph: ")
