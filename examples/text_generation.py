"""Text generation: an LSTM learns a text character by character and continues your prompt.

It follows "Build customized ML models" (WWDC20): an embedding by gather, an LSTM, a dense layer, and a character drawn
from the softmax of its logits times the inverse temperature, all in one graph. The state of the network and the last
character stay on the device from one character to the next.
Run: python examples/text_generation.py [--text FILE] [--start WORDS] [--length 600] [--temperature 0.6] [--steps 1500]
[--weights FILE] [--output DIR]; page: docs/examples/text_generation.md.
"""

from __future__ import annotations

import argparse
import pydoc_data.topics
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import mpsgraph as mg
import numpy as np
from mpsgraph import nn
from mpsgraph._optional import require
from mpsgraph.data import DataError

EMBEDDED, HIDDEN = 64, 384
BATCH, WINDOW = 32, 64  # Sequences per training step, and their length.
RATE = 3e-3  # Initial learning rate of Adam; decreases to 0 along a cosine.
HELD_OUT = 0.05  # Fraction of the text, at its end, that is not used for training.
COLDEST = 1e-3  # Lowest temperature, at which the most likely character is certain.
RARE = 20  # Characters that occur less often are removed.


class Network(nn.Module):
    """Maps integer characters (batch, time) and the state before them to logits and the state after them."""

    def __init__(self, characters: int, hidden: int) -> None:
        self.embedding, self.lstm, self.dense = (
            nn.Embedding(characters, EMBEDDED),
            nn.LSTM(hidden),
            nn.Linear(characters),
        )

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        return self.dense(self.lstm(self.embedding(x)))

    def with_state(self, x: mg.Tensor, state: tuple[mg.Tensor, mg.Tensor]) -> tuple[mg.Tensor, tuple]:
        y, state = self.lstm.with_state(self.embedding(x), state)
        return self.dense(y), state


class Writer:
    """Training and text generation in one graph, over the same variables."""

    def __init__(self, alphabet: str, hidden: int = HIDDEN, seed: int = 0) -> None:
        self.g = g = mg.Graph(seed)
        self.alphabet, self.network = alphabet, Network(len(alphabet), hidden)
        self.codes = {character: code for code, character in enumerate(alphabet)}
        # Training: each character is predicted from the previous ones.
        self.text = g.placeholder((-1, -1), mg.int32, "text")
        self.next = g.placeholder((-1, -1), mg.int32, "next")
        self.rate = g.placeholder((), name="rate")
        self.loss = nn.losses.cross_entropy(self.network(self.text), self.next)
        gradients = g.gradients(self.loss, self.network.parameters())
        self.updates = mg.optim.Adam().updates(gradients, self.rate)
        # Writing: the only feed is the inverse temperature, and the drawn character stays in a variable.
        self.state = [g.variable(np.zeros((1, 1, hidden), np.float32), name=name) for name in ("state", "cell")]
        self.last = g.variable(np.zeros((1, 1), np.int32), name="last")
        self.inverse_temperature = g.placeholder((), name="inverse_temperature")
        self.given = g.placeholder((1, -1), mg.int32, "given")
        self.read, self.read_updates = self.drawn(self.given)
        self.write, self.write_updates = self.drawn(self.last)

    def drawn(self, characters: mg.Tensor) -> tuple[mg.Tensor, list[mg.Operation]]:
        """Draw the character that follows (1, n) characters; return it and the updates of the network's state."""
        g = self.g
        logits, state = self.network.with_state(characters, (self.state[0], self.state[1]))
        odds = g.softmax(logits[:, -1] * self.inverse_temperature)
        passed = g.less_than(g.cumulative_sum(odds, -1), g.random_uniform((1, 1)))
        drawn = g.minimum(g.reduction_sum(g.cast(passed, mg.int32), [-1]), len(self.alphabet) - 1)
        kept = [g.assign(v, value) for v, value in zip(self.state, state, strict=True)]
        return drawn, [*kept, g.assign(self.last, drawn)]

    def step(self, text: np.ndarray, rate: float) -> float:
        """Train on (batch, window + 1) characters; return the mean loss before the update, in nats."""
        feeds = {self.text: text[:, :-1], self.next: text[:, 1:], self.rate: np.float32(rate)}
        return float(self.g.run(feeds, self.loss, self.updates))

    def loss_of(self, text: np.ndarray) -> float:
        return float(self.g.run({self.text: text[:, :-1], self.next: text[:, 1:]}, self.loss))

    def encode(self, text: str) -> np.ndarray:
        unknown = sorted(set(text) - self.codes.keys())
        if unknown:
            raise DataError(f"the network has not seen {unknown}, which --start must avoid; it knows {self.alphabet!r}")
        return np.array([self.codes[character] for character in text], np.int32)

    def generate(self, start: str, length: int, temperature: float) -> Iterator[str]:
        """Yield the characters that continue a non-empty prompt; low temperatures prefer likely ones."""
        for variable in self.state:
            self.g.set_variable(variable, np.zeros(variable.shape, np.float32))
        feeds = {self.inverse_temperature: np.float32(1 / temperature), self.given: self.encode(start)[None]}
        drawn = self.g.run(feeds, self.read, self.read_updates)
        del feeds[self.given]
        for left in range(length, 0, -1):
            yield self.alphabet[drawn.item()]
            if left > 1:
                drawn = self.g.run(feeds, self.write, self.write_updates)


def read_text(path: Path | None) -> str:
    """Read a file's text, or Python's own manual, without rare characters."""
    try:
        text = "\n".join(pydoc_data.topics.topics.values()) if path is None else path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a UTF-8 text: {error}") from error
    counts = Counter(text)
    kept = "".join(character for character in text if counts[character] >= RARE)
    if len(kept) < 20 * (WINDOW + 1) / HELD_OUT:
        raise DataError(f"{path} is too short: {len(kept)} characters are left after removing rare ones")
    return kept


def train(writer: Writer, text: str, steps: int, seed: int = 0) -> tuple[list[float], dict[int, float]]:
    """Train; return the loss of every step, and, keyed by step, the loss of the held-out end of the text."""
    rng, codes = np.random.default_rng(seed), writer.encode(text)
    learnt = codes[: int(len(codes) * (1 - HELD_OUT))]
    rows = (len(codes) - len(learnt)) // (WINDOW + 1)
    held_out = codes[-rows * (WINDOW + 1) :].reshape(rows, WINDOW + 1)[:256]
    losses, tests = [], {}
    for step in require("tqdm.auto", "demo", "the progress bar").trange(steps, unit="step"):
        first = rng.integers(len(learnt) - WINDOW, size=(BATCH, 1))
        losses.append(writer.step(learnt[first + np.arange(WINDOW + 1)], RATE * (1 + np.cos(np.pi * step / steps)) / 2))
        if (step + 1) % max(steps // 15, 1) == 0 or step + 1 == steps:
            tests[step + 1] = writer.loss_of(held_out)
    return losses, tests


def load(path: Path, seed: int) -> Writer:
    """Load a writer and the characters that it knows from a weight file; the seed is for drawing characters."""
    weights, stated = mg.checkpoint.load(path)
    if "alphabet" not in stated:
        raise DataError(f"{path} was not written by --weights: it does not contain the network's characters")
    writer = Writer(stated["alphabet"], seed=seed)
    writer.network.load_state_dict(weights)
    return writer


def draw(path: Path, losses: list[float], tests: dict[int, float]) -> None:
    """Draw both losses in bits per character."""
    figure = require("matplotlib.figure", "demo", "the picture").Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(np.arange(1, len(losses) + 1), np.array(losses) / np.log(2), linewidth=0.6, label="training text")
    axes.plot(list(tests), np.array(list(tests.values())) / np.log(2), "o-", label="held-out text")
    axes.set(xlabel="step", ylabel="bits per character", ylim=(0, None))
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="UTF-8 text to learn (default: the manual in pydoc_data.topics)")
    parser.add_argument("--start", default="The ", help="prompt with which the text begins")
    parser.add_argument("--length", type=int, default=600, help="number of characters to write")
    parser.add_argument("--temperature", type=float, default=0.6, help="low: likely characters, high: surprising ones")
    parser.add_argument("--steps", type=int, default=1500, help=f"training steps of {BATCH} times {WINDOW} characters")
    parser.add_argument("--weights", type=Path, help="weight file, which is loaded if it exists and otherwise written")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    options = parser.parse_args()
    if not options.start or not COLDEST <= options.temperature or min(options.length, options.steps) < 1:
        parser.error(f"--start must not be empty, --temperature at least {COLDEST}, --length and --steps at least 1")
    if options.seed < 0 or (options.weights and not options.weights.parent.is_dir()):
        parser.error("--seed must be at least 0, and --weights must be in an existing directory")
    if options.weights and options.weights.exists():
        writer = load(options.weights, options.seed)
        print(f"Using the weights in {options.weights} without training", file=sys.stderr)
    else:
        text = read_text(options.text)
        writer = Writer("".join(sorted(set(text))), seed=options.seed)
        writer.encode(options.start)  # Rejects an unusable prompt before training.
        options.output.mkdir(parents=True, exist_ok=True)
        losses, tests = train(writer, text, options.steps, options.seed)
        draw(options.output / "text_generation.png", losses, tests)
        print(f"{len(text):,} characters; {losses[-1]:.3f} nats per character, {tests[options.steps]:.3f} held out")
        if options.weights:
            mg.checkpoint.save(options.weights, writer.network.state_dict(), {"alphabet": writer.alphabet})
    print(options.start, end="")
    for character in writer.generate(options.start, options.length, options.temperature):
        sys.stdout.write(character)
        sys.stdout.flush()
    print()


if __name__ == "__main__":
    try:
        main()
    except (mg.Error, ImportError, OSError) as error:
        raise SystemExit(f"text_generation.py: {error}") from error
