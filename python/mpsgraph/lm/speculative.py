"""Speculation: a smaller model proposes tokens, which the model checks in one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..errors import GraphError
from .decoder import LanguageModel
from .engine import Engine, borrowed
from .sampling import Sampler


class Speculation:
    """Generates tokens with a model and a smaller draft model.

    The draft model proposes a few tokens. One run of the model then returns its probabilities for all of them. A
    proposal with probability q is accepted with probability min(1, p / q), where p is the model's; the first one that
    is not accepted is replaced by a token drawn from the positive part of p - q. The text is therefore distributed as
    if only the model had written it, and with temperature 0 it is the same text.

    Source: Leviathan et al., arXiv:2211.17192.

    Args:
        model: Decoder that decides.
        draft: Decoder that proposes, with the same vocabulary.
        count: Number of tokens to propose at a time.
        sampler: Sampler of both models.
        ends: Tokens that end a text.
    """

    def __init__(
        self, model: LanguageModel, draft: LanguageModel, count: int, sampler: Sampler, ends: frozenset[int]
    ) -> None:
        if model.architecture.vocabulary != draft.architecture.vocabulary:
            raise GraphError(
                f"draft must have the same vocabulary as model, {model.architecture.vocabulary} tokens, got "
                f"{draft.architecture.vocabulary}"
            )
        self.model, self.draft, self.count, self.sampler, self.ends = model, draft, count, sampler, ends

    def tokens(self, prompt: Sequence[int], count: int) -> Iterator[int]:
        """Yield the tokens that follow a prompt, up to an end token.

        Args:
            prompt: Tokens of the prompt.
            count: Maximum number of tokens.
        """
        text, length = list(prompt), len(prompt)
        room = length + count + self.count + 1
        with borrowed(self.model, 1, room) as engine, borrowed(self.draft, 1, room) as drafting:
            if engine.length is not None or drafting.length is not None:
                raise GraphError(
                    "draft cannot be combined with a rotary scaling that depends on the length (dynamic, longrope)"
                )
            for each in (engine, drafting) if length > 1 else ():  # Only the last logits of the prompt are needed.
                each.run(np.array([text[:-1]], np.int32), np.arange(length - 1, dtype=np.int32)[None])
            while len(text) < length + count:
                proposed, guesses = self._proposed(drafting, text, min(self.count, length + count - len(text) - 1))
                logits = _run(engine, [*text, *proposed], engine.filled)[-len(proposed) - 1 :]
                accepted = self._accepted(text, proposed, guesses, logits)
                kept = len(text) + len(accepted) - 1  # The last token has not been processed yet.
                for each in (engine, drafting):
                    each.rewind(max(each.filled - kept, 0))
                for token in accepted:
                    text.append(token)
                    yield token
                    if token in self.ends:
                        return

    def _proposed(self, engine: Engine, text: list[int], count: int) -> tuple[list[int], list[np.ndarray]]:
        """Return tokens that the draft model proposes, and the probabilities from which it drew each."""
        proposed, guesses = list[int](), list[np.ndarray]()
        for _ in range(count):
            whole = text + proposed
            guesses.append(self.sampler.odds(_run(engine, whole, engine.filled)[-1], whole))
            proposed.append(self.sampler.draw(guesses[-1]))
            if proposed[-1] in self.ends:
                break
        return proposed, guesses

    def _accepted(
        self, text: list[int], proposed: list[int], guesses: list[np.ndarray], logits: np.ndarray
    ) -> list[int]:
        """Return the accepted proposals and the token that follows them."""
        accepted = list[int]()
        for token, guess, own in zip(proposed, guesses, logits, strict=False):
            odds = self.sampler.odds(own, text + accepted)
            if self.sampler.random.random() * guess[token] >= odds[token]:
                rest = np.maximum(odds - guess, 0)
                return [*accepted, self.sampler.draw(rest if rest.any() else odds)]
            accepted.append(token)
            if token in self.ends:
                return accepted
        return [*accepted, self.sampler.draw(self.sampler.odds(logits[len(proposed)], text + accepted))]


def _run(engine: Engine, tokens: list[int], first: int) -> np.ndarray:
    """Process the tokens from index `first` on and return the logits of each."""
    new = np.array([tokens[first:]], np.int32)
    logits = engine.run(new, np.arange(first, len(tokens), dtype=np.int32)[None], every=True)
    return np.asarray(logits[0])
