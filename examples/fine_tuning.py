"""Fine-tuning: a small language model learns to write telegrams, with a LoRA adapter an eighth of its size.

The program first trains a model of Llama's architecture on a text and writes it as a checkpoint, unless the checkpoint
exists. It then trains an adapter on sentences of the same text as telegrams, without short words and with "stop" at the
end, and continues the same prompt without and with the adapter.
Run: python examples/fine_tuning.py [--text FILE] [--start WORDS] [--length 120] [--steps 600] [--adapter-steps 200]
[--output DIR]; page: docs/examples/fine_tuning.md.
"""

from __future__ import annotations

import argparse
import json
import pydoc_data.topics
import re
from pathlib import Path

import mpsgraph as mg
import numpy as np
from mpsgraph import lm
from mpsgraph._optional import require

SIZES = {
    "model_type": "llama", "hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 512,
}  # fmt: skip
WINDOW, BATCH = 96, 8  # Length of a training sequence in tokens, and sequences per step.
RATE, ADAPTER_RATE = 2e-3, 5e-3  # Learning rates of AdamW, which fall along a cosine.
RANK = 8
SHORT = {"a", "an", "the", "of", "to", "in", "on", "is", "are", "be", "and", "or", "that", "this", "it", "for", "with"}


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text that consist of words, each without the period at its end."""
    found = re.findall(r"[A-Z][a-z]+(?: [a-z]+){3,14}(?=\.\s)", re.sub(r"\s+", " ", text))
    return list(dict.fromkeys(found))


def telegram(sentence: str) -> str:
    """Return a sentence without its short words, except the first word, and with "stop" instead of a period."""
    first, *rest = sentence.split(" ")
    return " ".join([first, *(word for word in rest if word not in SHORT), "stop"])


def characters_of(sentences: list[str]) -> lm.Tokenizer:
    """Return a tokenizer of single characters, with a token that ends a text."""
    tokenizers = require("tokenizers", "lm", "a tokenizer")
    letters = sorted(set("".join(sentences + [telegram(s) for s in sentences]) + "."))
    words = {token: number for number, token in enumerate(["<end>", *letters])}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<end>"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("."), "isolated")
    backend.decoder = tokenizers.decoders.Fuse()
    return lm.Tokenizer(backend, {"eos_token": "<end>"})


def train(model: lm.LanguageModel, data: lm.TokenBatches, steps: int, rate: float, progress: bool = True) -> mg.Trainer:
    """Train what is not frozen, and return the trainer."""
    schedule = mg.optim.CosineRate(rate, steps)
    trainer = mg.Trainer(model.train(), optimizer=mg.optim.AdamW(schedule), metrics=(), seed=0)
    trainer.fit(data, iterations=steps, progress=progress)
    model.eval()
    return trainer


def draw(model: list[float], adapter: list[float], path: Path) -> None:
    """Draw the losses of the model and of its adapter."""
    figure = require("matplotlib.figure", "demo", "the picture").Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    if model:
        axes.plot(model, label="model, prose")
    axes.plot(range(len(model), len(model) + len(adapter)), adapter, label="adapter, telegrams")
    axes.set(xlabel="step", ylabel="loss per character, nats")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


def write_lines(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="fine-tune a small language model to write telegrams")
    parser.add_argument("--text", type=Path, help="text file to learn (default: the Python manual)")
    parser.add_argument("--start", default="The ", help="text to continue (default: 'The ')")
    parser.add_argument("--length", type=int, default=120, help="characters to write (default: 120)")
    parser.add_argument("--steps", type=int, default=600, help="steps of the model (default: 600)")
    parser.add_argument("--adapter-steps", type=int, default=200, help="steps of the adapter (default: 200)")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder to write")
    options = parser.parse_args(arguments)

    topics = pydoc_data.topics.topics
    text = " ".join(topics.values()) if options.text is None else options.text.read_text(encoding="utf-8")
    sentences = sentences_of(text)
    rng = np.random.default_rng(0)
    rng.shuffle(sentences)
    checkpoint, adapter = options.output / "small-model", options.output / "telegrams"
    options.output.mkdir(parents=True, exist_ok=True)
    losses: list[float] = []
    if not (checkpoint / "config.json").is_file():
        tokenizer = characters_of(sentences)
        model = lm.create({**SIZES, "vocab_size": len(tokenizer)})
        file = write_lines(options.output / "sentences.jsonl", [s + "." for s in sentences])
        data = lm.text_dataset(file, tokenizer, batch_size=BATCH, max_length=WINDOW, pack=True)
        print(f"train the model on {len(sentences)} sentences")
        losses = train(model, data, options.steps, RATE).history.loss
        lm.save(model, checkpoint, tokenizer)

    loaded, read = lm.load(checkpoint)
    assert read is not None
    before = lm.generate(loaded, read, options.start, max_tokens=options.length, temperature=0.5, seed=1)
    file = write_lines(options.output / "telegrams.jsonl", [telegram(s) for s in sentences])
    data = lm.text_dataset(file, read, batch_size=BATCH, max_length=WINDOW, pack=True)
    lm.add_adapters(loaded, RANK, targets="all-linear")
    trained = sum(np.prod(v.shape or ()) for _, v in loaded.named_trainable_parameters())
    whole = sum(np.prod(v.shape or ()) for v in loaded.parameters()) - trained
    print(f"train an adapter with {trained:,} parameters; the model has {whole:,}")
    own = train(loaded, data, options.adapter_steps, ADAPTER_RATE).history.loss
    draw(losses, own, options.output / "fine_tuning.png")
    lm.save_adapters(loaded, adapter)
    after = lm.generate(loaded, read, options.start, max_tokens=options.length, temperature=0.5, seed=1)
    print(f"before: {options.start}{before}\nafter:  {options.start}{after}")
    lm.select_adapters(loaded)
    same = lm.generate(loaded, read, options.start, max_tokens=options.length, temperature=0.5, seed=1)
    print(f"without the adapter, the model still writes the same text: {same == before}")


if __name__ == "__main__":
    main()
