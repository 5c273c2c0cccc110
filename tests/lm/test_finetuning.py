"""The commands finetune and merge: training, resuming after the process was killed, and merged checkpoints."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from harness.small_language_model import small_model, word_tokenizer
from mpsgraph import lm
from mpsgraph.cli import main

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

SAMPLES = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lm.save(small_model(), tmp_path / "small", word_tokenizer())
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(SAMPLES):
        words = [f"w{i}" for i in rng.integers(0, 90, int(rng.integers(2, 30)))]
        talk = [{"role": "user", "content": " ".join(words)}, {"role": "assistant", "content": f"{words[0]} w7 w8"}]
        lines.append(json.dumps({"messages": talk}))
    (tmp_path / "train.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def command(folder: Path, output: str, *more: str) -> list[str]:
    return [
        "lm", "finetune", str(folder / "small"), str(folder / "train.jsonl"), "--output", str(folder / output),
        "--rank", "4", "--epochs", "3", "--batch-size", "3", "--rate", "0.01", "--warm-up", "5", "--dropout", "0.1",
        "--max-length", "64", "--save-every", "4", *more,
    ]  # fmt: skip


def bytes_of(folder: Path) -> bytes:
    return (folder / "adapter_model.safetensors").read_bytes()


def test_run_that_was_killed_ends_with_the_same_bytes(folder: Path) -> None:
    assert main(command(folder, "whole")) == 0
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    kills = 0
    for resume in ([], ["--resume"]):
        process = subprocess.Popen(
            [sys.executable, "-m", "mpsgraph", *command(folder, "killed", *resume)], env=environment,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        state = folder / "killed/training.safetensors"
        before = state.stat().st_mtime_ns if resume else 0
        while process.poll() is None and not (state.is_file() and state.stat().st_mtime_ns > before):
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    assert kills == 2 and not (folder / "killed/adapter_model.safetensors").exists()
    assert main(command(folder, "killed", "--resume")) == 0
    assert bytes_of(folder / "killed") == bytes_of(folder / "whole")
    assert main(command(folder, "killed", "--resume")) == 0  # The run has ended, so nothing changes.
    assert bytes_of(folder / "killed") == bytes_of(folder / "whole")


def test_options_of_a_run_are_checked_when_it_is_resumed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(folder, "run", "--resume")) == 1
    assert "holds no run to resume" in capsys.readouterr().err
    assert main(command(folder, "run", "--steps", "2")) == 0
    assert main(command(folder, "run", "--steps", "2")) == 1
    assert "holds a run already: pass resume" in capsys.readouterr().err
    assert main(command(folder, "run", "--steps", "2", "--resume", "--seed", "5")) == 1
    assert "holds a run with seed=0, got 5" in capsys.readouterr().err


def test_checkpoints_contain_only_what_trains(folder: Path) -> None:
    assert main(command(folder, "run", "--steps", "4")) == 0
    tensors, _ = mg.checkpoint.load(folder / "run/training.safetensors")
    assert not any(name.endswith(".weight") or name.endswith("gamma") for name in tensors)
    assert any(name.endswith("adapters.default.down/momentum") for name in tensors)


def test_fine_tuned_model_answers_and_merged_checkpoint_answers_alike(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(folder, "run", "--targets", "all-linear", "--epochs", "12")) == 0
    model, tokenizer = lm.load(folder / "small")
    prompt = [{"role": "user", "content": "w3 w5"}]
    before = lm.generate(model, tokenizer, prompt, max_tokens=4)
    lm.load_adapters(model, folder / "run")
    after = lm.generate(model, tokenizer, prompt, max_tokens=4)
    assert "w7 w8" in after and "w7 w8" not in before
    assert main(["lm", "merge", str(folder / "small"), str(folder / "run"), "--output", str(folder / "merged")]) == 0
    merged, tokenizer = lm.load(folder / "merged")
    assert lm.generate(merged, tokenizer, prompt, max_tokens=4) == after
    capsys.readouterr()
    options = ["lm", "generate", str(folder / "small"), "--adapter", str(folder / "run"), "--prompt", "w3 w5"]
    assert main([*options, "--max-tokens", "4", "--temperature", "0"]) == 0
    assert capsys.readouterr().out == lm.generate(merged, tokenizer, "w3 w5", max_tokens=4) + "\n"


@pytest.mark.parametrize("kind", ["text", "completion"])
def test_kind_of_data_follows_from_its_entries(folder: Path, kind: str) -> None:
    record = {"text": "w1 w2 w3"} if kind == "text" else {"prompt": "w1", "completion": "w2 w3"}
    (folder / "train.jsonl").write_text(json.dumps(record) + "\n")
    assert main(command(folder, "run", "--steps", "2", "--pack", "--validation", str(folder / "train.jsonl"))) == 0
    (folder / "train.jsonl").write_text('{"words": "w1"}\n')
    assert main(command(folder, "other")) == 1
