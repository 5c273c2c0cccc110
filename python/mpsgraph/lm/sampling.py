"""Sampler: chooses the next token from logits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import numpy as np

from .._checks import Bounds, NotNegative, Positive, Share, Size, checked

TopP = Annotated[float, Bounds("above 0 and at most 1", lambda v: 0 < v <= 1)]


@checked
class Sampler:
    """Chooses tokens from logits, with the usual restrictions.

    The restrictions apply in the order of the arguments, as in Hugging Face's transformers: first the repetition
    penalty, then the temperature, and then top_k, top_p, and min_p.

    Args:
        repetition_penalty: Number by which positive logits of tokens that occurred are divided, and negative ones
            multiplied. Defaults to 1, no penalty.
        temperature: Divisor of the logits; 0, the default, chooses the likeliest token.
        top_k: Choose only from the k likeliest tokens. Defaults to all.
        top_p: Choose only from the likeliest tokens whose probabilities sum to at least this value. Defaults to all.
        min_p: Choose only from tokens whose probability is at least this fraction of the likeliest token's. Defaults
            to 0.
        seed: Seed of the random numbers. None, the default, means a random seed.

    Example:
        >>> sampler = mg.lm.Sampler(temperature=1.0, top_k=2)
        >>> sampler.odds(np.log([0.5, 0.3, 0.2])).round(3).tolist()
        [0.625, 0.375, 0.0]
    """

    def __init__(
        self,
        *,
        repetition_penalty: Positive = 1.0,
        temperature: NotNegative = 0.0,
        top_k: Size | None = None,
        top_p: TopP | None = None,
        min_p: Share = 0.0,
        seed: int | None = None,
    ) -> None:
        self.repetition_penalty, self.temperature = repetition_penalty, temperature
        self.top_k, self.top_p, self.min_p = top_k, top_p, min_p
        self.random = np.random.default_rng(None if seed is None else seed % 2**64)

    def odds(self, logits: np.ndarray, seen: Iterable[int] = ()) -> np.ndarray:
        """Return the probability of each token.

        Args:
            logits: Logits, (vocabulary,).
            seen: Tokens that occurred. Defaults to none.

        Returns:
            Probabilities, float64 (vocabulary,).
        """
        scores = self._penalized(np.asarray(logits, np.float64), seen)
        if self.temperature == 0:
            odds = np.zeros(len(scores))
            odds[np.argmax(scores)] = 1.0
            return odds
        scores = (scores - scores.max()) / self.temperature
        if self.top_k is not None and self.top_k < len(scores):
            smallest = np.partition(scores, -self.top_k)[-self.top_k]
            scores = np.where(scores < smallest, -np.inf, scores)
        odds = np.exp(scores)
        odds /= odds.sum()
        if self.top_p is not None and self.top_p < 1:
            order = np.argsort(-odds, kind="stable")
            sums = np.cumsum(odds[order])
            odds[order[1:][sums[:-1] >= self.top_p]] = 0.0
        if self.min_p:
            odds[odds < self.min_p * odds.max()] = 0.0
        return np.asarray(odds / odds.sum())

    def choose(self, logits: np.ndarray, seen: Iterable[int] = ()) -> int:
        """Return a token.

        Args:
            logits: Logits, (vocabulary,).
            seen: Tokens that occurred. Defaults to none.

        Returns:
            The token.
        """
        if self.temperature == 0:
            plain = self.repetition_penalty == 1
            return int(np.argmax(logits if plain else self._penalized(np.asarray(logits, np.float64), seen)))
        return self.draw(self.odds(logits, seen))

    def draw(self, odds: np.ndarray) -> int:
        """Return a token drawn from probabilities.

        Args:
            odds: Probabilities, (vocabulary,).

        Returns:
            The token.
        """
        sums = np.cumsum(odds)
        index = int(np.searchsorted(sums, self.random.random() * sums[-1], side="right"))
        return min(index, int(np.flatnonzero(odds)[-1]))

    def _penalized(self, scores: np.ndarray, seen: Iterable[int]) -> np.ndarray:
        if self.repetition_penalty == 1:
            return scores
        scores, tokens = scores.copy(), np.unique(np.fromiter(seen, np.int64))
        held = scores[tokens]
        scores[tokens] = np.where(held > 0, held / self.repetition_penalty, held * self.repetition_penalty)
        return scores
