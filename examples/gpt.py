"""A small GPT: a transformer learns a text character by character, and continues your prompt with a key-value cache.

It has four layers with rotary positions and is trained by `Trainer` on pieces of the text. `nn.Generator` then writes:
for each new character, only its own keys and values are computed; those of earlier characters are cached. Sampling
supports temperature, top-k, and top-p; `--beams` uses beam search instead.
Run: python examples/gpt.py [--text FILE] [--start WORDS] [--length 600] [--temperature 0.7] [--top-k K] [--top-p P]
[--beams N] [--steps 800] [--weights FILE] [--output DIR]; page: docs/examples/gpt.md.
"""

from __future__ import annotations

import argparse
import pydoc_data.topics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import mpsgraph as mg
import numpy as np
from mpsgraph import nn
from mpsgraph._optional import require
from mpsgraph.data import DataError

FEATURES, LAYERS, HEADS, KV_HEADS = 128, 4, 4, 2
BATCH, WINDOW = 16, 128  # Sequences per training step, and their length.
RATE = 2e-3  # Learning rate of AdamW after a short warm-up; decreases to 0 along a cosine.
HELD_OUT = 0.05  # Fraction of the text, at its end, that is not used for training.
RARE = 20  # Characters that occur less often are removed.


class GPT(nn.Module):
    """Maps integer characters (batch, time) to logits of the next characters, (batch, time, characters)."""

    def __init__(self, characters: int, features: int = FEATURES, layers: int = LAYERS, dropout: float = 0.1) -> None:
        self.embedding = nn.Embedding(characters, features, weight_initialiser=nn.initialisers.Normal(0.0, 0.02))
        layer = nn.TransformerEncoderLayer(
            features, HEADS, 4 * features, dropout, "gelu",
            norm_first=True, num_kv_heads=KV_HEADS, positions=nn.RotaryPositions(),
        )  # fmt: skip
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm())
        self.next = nn.Linear(characters)

    def forward(self, x: mg.Tensor, cache: nn.KeyValueCache | None = None) -> mg.Tensor:
        return self.next(self.layers(self.embedding(x), is_causal=True, cache=cache))


class Alphabet:
    """The characters of a text and their codes."""

    def __init__(self, characters: str) -> None:
        self.characters = characters
        self.codes = {character: code for code, character in enumerate(characters)}

    def encode(self, text: str) -> np.ndarray:
        unknown = sorted(set(text) - self.codes.keys())
        if unknown:
            raise DataError(
                f"the network has not seen {unknown}, which --start must avoid; it knows {self.characters!r}"
            )
        return np.array([self.codes[character] for character in text], np.int32)

    def decode(self, codes: np.ndarray) -> str:
        return "".join(self.characters[code] for code in codes)


def read_text(path: Path | None) -> str:
    """Read a file's text, or Python's own manual, without rare characters."""
    try:
        text = "\n".join(pydoc_data.topics.topics.values()) if path is None else path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a UTF-8 text: {error}") from error
    counts = Counter(text)
    kept = "".join(character for character in text if counts[character] >= RARE)
    if len(kept) < 2 * (WINDOW + 1) / HELD_OUT:
        raise DataError(f"{path} is too short: {len(kept)} characters are left after removing rare ones")
    return kept


def pieces(codes: np.ndarray, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield batches of random pieces of the text, and the same pieces shifted by one character, without end."""
    rng = np.random.default_rng(seed)
    while True:
        first = rng.integers(len(codes) - WINDOW, size=(BATCH, 1))
        window = codes[first + np.arange(WINDOW + 1)]
        yield np.ascontiguousarray(window[:, :-1]), np.ascontiguousarray(window[:, 1:])


def train(model: GPT, codes: np.ndarray, steps: int, seed: int = 0) -> mg.History:
    """Train; the history contains the loss of every step, and regularly that of the held-out end of the text."""
    learnt = codes[: int(len(codes) * (1 - HELD_OUT))]
    rows = (len(codes) - len(learnt)) // (WINDOW + 1)
    rest = codes[-rows * (WINDOW + 1) :].reshape(rows, WINDOW + 1)[:64]
    rate = mg.optim.WarmUp(mg.optim.CosineRate(RATE, steps), max(steps // 20, 1))
    trainer = mg.Trainer(model, optimizer=mg.optim.AdamW(rate), metrics=(), dtype="int32", seed=seed)
    source = pieces(learnt, seed)
    for done in range(0, steps, part := max(steps // 10, 1)):
        held_out = rest[:, :-1].copy(), rest[:, 1:].copy()
        trainer.fit(source, iterations=min(part, steps - done), validation=held_out, progress=False)
        step, found = trainer.history.validation[-1]
        print(f"step {step}: {np.log2(np.e) * found['loss']:.2f} bits per character, held out", file=sys.stderr)
    return trainer.history


def draw(path: Path, history: mg.History) -> None:
    """Draw both losses in bits per character."""
    figure = require("matplotlib.figure", "demo", "the picture").Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    losses = np.array(history.loss) / np.log(2)
    axes.plot(np.arange(1, len(losses) + 1), losses, linewidth=0.6, label="training text")
    steps, values = zip(*((step, found["loss"]) for step, found in history.validation), strict=True)
    axes.plot(steps, np.array(values) / np.log(2), "o-", label="held-out text")
    axes.set(xlabel="step", ylabel="bits per character", ylim=(0, None))
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


def load(path: Path) -> tuple[GPT, Alphabet]:
    """Load a network and the characters that it knows from a weight file."""
    weights, stated = mg.checkpoint.load(path)
    if "alphabet" not in stated:
        raise DataError(f"{path} was not written by --weights: it does not contain the network's characters")
    alphabet = Alphabet(stated["alphabet"])
    model = GPT(len(alphabet.characters))
    model(mg.Graph().placeholder((1, -1), mg.int32))
    model.load_state_dict(weights)
    return model, alphabet


def write(model: GPT, alphabet: Alphabet, options: argparse.Namespace) -> None:
    """Print the prompt and its continuation as it is generated, then the time per character."""
    start = alphabet.encode(options.start)
    generator = nn.Generator(model, max_length=WINDOW, rows=options.beams or 1, seed=options.seed)
    print(options.start, end="")
    how = {"temperature": options.temperature, "top_k": options.top_k, "top_p": options.top_p}
    times, left = [], options.length
    while left > 0:  # The network was trained on WINDOW characters, so continue from the last half of them.
        start = start[-WINDOW // 2 :]
        count = min(left, WINDOW - len(start))
        found = generator.beam_search(start, count)[0][len(start) :] if options.beams else None
        for code in generator.stream(start[None], count, **how) if found is None else found[:, None]:
            start = np.append(start, code)
            times.append(time.perf_counter())
            sys.stdout.write(alphabet.decode(code))
            sys.stdout.flush()
        left -= count
    print()
    if len(times) > 2 and not options.beams:
        print(f"{np.median(np.diff(times)) * 1e3:.2f} ms per character", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="UTF-8 text to learn (default: the manual in pydoc_data.topics)")
    parser.add_argument("--start", default="The ", help="prompt with which the text begins")
    parser.add_argument("--length", type=int, default=600, help="number of characters to write")
    parser.add_argument("--temperature", type=float, default=0.7, help="low: likely characters, high: surprising ones")
    parser.add_argument("--top-k", type=int, help="sample only from this many of the most likely characters")
    parser.add_argument(
        "--top-p", type=float, help="sample only from the most likely characters with this total probability"
    )
    parser.add_argument("--beams", type=int, help="use beam search with this many beams instead of sampling")
    parser.add_argument("--steps", type=int, default=800, help=f"training steps of {BATCH} times {WINDOW} characters")
    parser.add_argument("--weights", type=Path, help="weight file, which is loaded if it exists and otherwise written")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    options = parser.parse_args()
    if not options.start or not options.temperature >= 0 or min(options.length, options.steps) < 1:
        parser.error("--start must not be empty, --temperature at least 0, --length and --steps at least 1")
    if options.seed < 0 or (options.weights and not options.weights.parent.is_dir()):
        parser.error("--seed must be at least 0, and --weights must be in an existing directory")
    if options.weights and options.weights.exists():
        model, alphabet = load(options.weights)
        print(f"Using the weights in {options.weights} without training", file=sys.stderr)
    else:
        text = read_text(options.text)
        alphabet = Alphabet("".join(sorted(set(text))))
        alphabet.encode(options.start)  # Rejects an unusable prompt before training.
        options.output.mkdir(parents=True, exist_ok=True)
        model = GPT(len(alphabet.characters))
        history = train(model, alphabet.encode(text), options.steps, options.seed)
        draw(options.output / "gpt.png", history)
        print(f"{len(text):,} characters; {history.loss[-1]:.3f} nats per character", file=sys.stderr)
        if options.weights:
            mg.checkpoint.save(options.weights, model.state_dict(), {"alphabet": alphabet.characters})
    write(model, alphabet, options)


if __name__ == "__main__":
    try:
        main()
    except (mg.Error, ImportError, OSError) as error:
        raise SystemExit(f"gpt.py: {error}") from error
