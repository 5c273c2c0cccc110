"""generate and stream: continue prompts with a decoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._checks import NotNegative, Positive, Share, Size, checked
from .._display import shown
from ..errors import DTypeError, GraphError, OutOfRangeError, ShapeError
from .decoder import LanguageModel
from .engine import borrowed, continued
from .prompt_cache import PromptCache, continued_by
from .sampling import Sampler, TopP
from .speculative import Speculation
from .tokenizer import TextStream, Tokenizer

Prompt = str | Sequence[int] | Sequence[Mapping[str, Any]]


class Piece(str):
    """A piece of generated text, a str with attributes.

    Args:
        text: The text.
        tokens: Tokens that were generated since the previous piece. Defaults to none.
        reason: In the last piece, why generation ended: "stop" (an end token or a stop string) or "length". None, the
            default, in all other pieces.

    Attributes:
        tokens: The tokens, as a tuple.
        reason: The argument.

    Example:
        >>> piece = mg.lm.Piece("text", (5, 7))
        >>> piece, piece.tokens, piece.reason
        ('text', (5, 7), None)
    """

    tokens: tuple[int, ...]
    reason: str | None

    def __new__(cls, text: str, tokens: Sequence[int] = (), reason: str | None = None) -> Piece:
        piece = super().__new__(cls, text)
        piece.tokens, piece.reason = tuple(tokens), reason
        return piece


@checked
def stream(
    model: LanguageModel,
    tokenizer: Tokenizer | None,
    prompt: Prompt,
    *,
    max_tokens: Size = 256,
    temperature: NotNegative = 0.0,
    top_k: Size | None = None,
    top_p: TopP | None = None,
    min_p: Share = 0.0,
    repetition_penalty: Positive = 1.0,
    stop: str | Sequence[str] = (),
    seed: int | None = None,
    cache: PromptCache | None = None,
    draft: LanguageModel | None = None,
    draft_tokens: Size = 4,
) -> Iterator[Piece]:
    """Continue a prompt, yielding text as it is generated.

    Args:
        model: Decoder.
        tokenizer: Tokenizer, or None if the prompt consists of tokens; pieces then have tokens but no text.
        prompt: Text, a list of tokens, or a list of messages with "role" and "content" for the chat template.
        max_tokens: Maximum number of tokens to generate. Defaults to 256.
        temperature: At least 0; 0, the default, always chooses the likeliest token.
        top_k: Choose only from the k likeliest tokens. Defaults to all.
        top_p: Choose only from the likeliest tokens whose probabilities sum to at least this value. Defaults to all.
        min_p: Choose only from tokens whose probability is at least this fraction of the likeliest token's. Defaults
            to 0.
        repetition_penalty: Number by which positive logits of tokens in the prompt and the text so far are divided,
            and negative ones multiplied. Defaults to 1, no penalty.
        stop: Text or texts at which generation ends; they are not part of the result. Defaults to none.
        seed: Seed of the random numbers. None, the default, means a random seed.
        cache: PromptCache with which the model continues: tokens that it already holds are not processed again.
            Defaults to none.
        draft: A smaller model with the same tokens, which proposes tokens that the model then checks together. The
            result is distributed as without it. Defaults to none.
        draft_tokens: Number of tokens that the draft model proposes at a time. Defaults to 4.

    Returns:
        An iterator over Piece, a str with the attributes tokens and reason.

    Raises:
        GraphError: If the model is not a Decoder, or arguments cannot be combined.
        ShapeError: If the prompt is empty or too long.
        OutOfRangeError: If a token is outside the vocabulary.

    Example:
        >>> sizes = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
        >>> more = {"num_attention_heads": 2, "max_position_embeddings": 64}
        >>> model = mg.lm.create({"model_type": "llama", **sizes, **more})
        >>> pieces = list(mg.lm.stream(model, None, [3, 1, 4], max_tokens=3))
        >>> sum(len(piece.tokens) for piece in pieces), pieces[-1].reason
        (3, 'length')
    """
    sampler = Sampler(
        repetition_penalty=repetition_penalty, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed
    )
    tokens = tokens_of(tokenizer, prompt)
    count = allowed(model, len(tokens), max_tokens)
    checked_tokens(model, [tokens])
    stops = stops_of(tokenizer, stop)
    ends = frozenset() if tokenizer is None else tokenizer.ends
    if draft is not None:
        if cache is not None:
            raise GraphError("stream: draft and cache cannot be combined: pass only one of them")
        checked_tokens(draft, [tokens])
        source = Speculation(model, draft, draft_tokens, sampler, ends).tokens(tokens, count)
    else:
        source = _drawn(model, tokens, count, sampler, ends, cache)
    return _pieces(source, tokenizer, stops, ends)


def _drawn(
    model: LanguageModel,
    tokens: list[int],
    count: int,
    sampler: Sampler,
    ends: frozenset[int],
    cache: PromptCache | None,
) -> Iterator[int]:
    """Yield the tokens that follow a prompt, up to an end token."""
    if cache is not None:
        yield from continued_by(cache, model, tokens, count, sampler, ends)
        return
    with borrowed(model, 1, len(tokens) + count) as engine:
        yield from continued(engine, list(tokens), tokens, count, sampler, ends)


def _pieces(
    source: Iterator[int], tokenizer: Tokenizer | None, stops: tuple[str, ...], ends: frozenset[int]
) -> Iterator[Piece]:
    """Turn tokens into text, holding back text that could be the beginning of a stop string."""
    text = None if tokenizer is None else TextStream(tokenizer)
    waiting, tokens, reason = "", list[int](), "length"
    for token in source:
        tokens.append(token)
        if token in ends:
            reason = "stop"
            break
        if text is None:
            yield Piece("", (token,))
            tokens.clear()
            continue
        waiting += text.add(token)
        if (found := _first(waiting, stops)) is not None:
            yield Piece(waiting[:found], tokens, "stop")
            return
        sure = len(waiting) - _held(waiting, stops)
        if sure:
            yield Piece(waiting[:sure], tokens)
            waiting, tokens = waiting[sure:], []
    if text is not None:
        waiting += text.finish()
        if (found := _first(waiting, stops)) is not None:
            waiting, reason = waiting[:found], "stop"
    yield Piece(waiting, tokens, reason)


def _first(text: str, stops: tuple[str, ...]) -> int | None:
    """Return the index at which the first stop string begins, or None."""
    return min((i for stop in stops if (i := text.find(stop)) >= 0), default=None)


def _held(text: str, stops: tuple[str, ...]) -> int:
    """Return the length of the longest end of a text with which a stop string begins."""
    longest = max((len(stop) - 1 for stop in stops), default=0)
    for size in range(min(longest, len(text)), 0, -1):
        if any(stop.startswith(text[-size:]) for stop in stops):
            return size
    return 0


@checked
def generate(
    model: LanguageModel,
    tokenizer: Tokenizer | None,
    prompt: Prompt | Sequence[Prompt],
    *,
    max_tokens: Size = 256,
    temperature: NotNegative = 0.0,
    top_k: Size | None = None,
    top_p: TopP | None = None,
    min_p: Share = 0.0,
    repetition_penalty: Positive = 1.0,
    stop: str | Sequence[str] = (),
    seed: int | None = None,
    cache: PromptCache | None = None,
    draft: LanguageModel | None = None,
    draft_tokens: Size = 4,
) -> Any:
    """Continue a prompt, or several prompts at once.

    Several prompts, which may differ in length, are processed as one batch. Each result is the same as for the prompt
    alone, up to rounding; the samples of prompt i are drawn with seed + i.

    Args:
        model: Decoder.
        tokenizer: Tokenizer, or None if the prompts consist of tokens; the result then consists of tokens, too.
        prompt: Text, a list of tokens, or a list of messages with "role" and "content" for the chat template; or a list
            of several of these.
        max_tokens: Maximum number of tokens to generate. Defaults to 256.
        temperature: At least 0; 0, the default, always chooses the likeliest token.
        top_k: Choose only from the k likeliest tokens. Defaults to all.
        top_p: Choose only from the likeliest tokens whose probabilities sum to at least this value. Defaults to all.
        min_p: Choose only from tokens whose probability is at least this fraction of the likeliest token's. Defaults
            to 0.
        repetition_penalty: Number by which positive logits of tokens in the prompt and the text so far are divided,
            and negative ones multiplied. Defaults to 1, no penalty.
        stop: Text or texts at which generation ends; they are not part of the result. Defaults to none.
        seed: Seed of the random numbers. None, the default, means a random seed.
        cache: PromptCache with which the model continues a single prompt. Defaults to none.
        draft: A smaller model with the same tokens, which proposes tokens for a single prompt. Defaults to none.
        draft_tokens: Number of tokens that the draft model proposes at a time. Defaults to 4.

    Returns:
        The text that follows the prompt, or a list of tokens if tokenizer is None; a list of these for several prompts.

    Raises:
        GraphError: If the model is not a Decoder, or arguments cannot be combined.
        ShapeError: If a prompt is empty or too long.
        OutOfRangeError: If a token is outside the vocabulary.

    Example:
        >>> sizes = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
        >>> more = {"num_attention_heads": 2, "max_position_embeddings": 64}
        >>> model = mg.lm.create({"model_type": "llama", **sizes, **more})
        >>> one, two = mg.lm.generate(model, None, [[3, 1, 4], [2, 7]], max_tokens=3)
        >>> one == mg.lm.generate(model, None, [3, 1, 4], max_tokens=3)
        True
    """
    options: dict[str, Any] = {
        "max_tokens": max_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p,
        "repetition_penalty": repetition_penalty, "seed": seed,
    }  # fmt: skip
    if not _is_batch(prompt):
        single: Any = prompt
        pieces = stream(
            model, tokenizer, single, stop=stop, cache=cache, draft=draft, draft_tokens=draft_tokens, **options
        )
        return joined(pieces, tokenizer)
    if cache is not None or draft is not None:
        raise GraphError("generate: cache and draft need a single prompt, got several")
    return _batch(model, tokenizer, list(prompt), stop, options)


def joined(pieces: Iterator[Piece], tokenizer: Tokenizer | None) -> Any:
    """Return the text of all pieces, or their tokens if there is no tokenizer."""
    if tokenizer is not None:
        return "".join(pieces)
    return [token for piece in pieces for token in piece.tokens]


def _is_batch(prompt: Any) -> bool:
    if isinstance(prompt, str) or not len(prompt):
        return False
    return not isinstance(prompt[0], (int, np.integer, Mapping))


def _batch(
    model: LanguageModel, tokenizer: Tokenizer | None, prompts: list[Any], stop: Any, options: dict[str, Any]
) -> list[Any]:
    """Continue several prompts; shorter ones are padded at the front."""
    seed, max_tokens = options.pop("seed"), options.pop("max_tokens")
    rows = [tokens_of(tokenizer, prompt) for prompt in prompts]
    checked_tokens(model, rows)
    longest, stops = max(map(len, rows)), stops_of(tokenizer, stop)
    count = allowed(model, longest, max_tokens)
    ends = frozenset() if tokenizer is None else tokenizer.ends
    samplers = [Sampler(seed=None if seed is None else seed + i, **options) for i in range(len(rows))]
    tokens = np.zeros((len(rows), longest), np.int32)
    positions = np.full((len(rows), longest), -1, np.int32)
    for i, row in enumerate(rows):
        tokens[i, longest - len(row) :] = row
        positions[i, longest - len(row) :] = np.arange(len(row))
    texts = [_Text(tokenizer, stops, ends) for _ in rows]
    with borrowed(model, len(rows), longest + count) as engine:
        for step in range(count):
            logits = engine.run(tokens, positions)
            for row, text, sampler, own in zip(rows, texts, samplers, logits, strict=True):
                row.append(0 if text.done else sampler.choose(own, row))
                text.add(row[-1])
            if all(text.done for text in texts) or step == count - 1:
                break
            tokens = np.array([[row[-1]] for row in rows], np.int32)
            positions = positions[:, -1:] + 1
    return [text.result() for text in texts]


class _Text:
    """The generated part of one row of a batch."""

    def __init__(self, tokenizer: Tokenizer | None, stops: tuple[str, ...], ends: frozenset[int]) -> None:
        self.tokenizer, self.stops, self.ends = tokenizer, stops, ends
        self.tokens, self.done = list[int](), False

    def add(self, token: int) -> None:
        if self.done:
            return
        self.tokens.append(token)
        stopped = self.stops and self.tokenizer is not None and self._stop() is not None
        self.done = token in self.ends or bool(stopped)

    def _stop(self) -> int | None:
        assert self.tokenizer is not None
        return _first(self.tokenizer.decode(self.tokens), self.stops)

    def result(self) -> Any:
        if self.tokenizer is None:
            return self.tokens
        return "".join(_pieces(iter(self.tokens), self.tokenizer, self.stops, self.ends))


def tokens_of(tokenizer: Tokenizer | None, prompt: Any) -> list[int]:
    """Return the tokens of a prompt: text, tokens, or messages."""
    if isinstance(prompt, str):
        tokens = None if tokenizer is None else tokenizer.encode(prompt)
    elif len(prompt) and isinstance(prompt[0], Mapping):
        tokens = None if tokenizer is None else tokenizer.encode(tokenizer.chat(prompt), special=False)
    else:
        array = np.asarray(prompt)
        if array.size and (array.ndim != 1 or array.dtype.kind not in "iu"):
            raise DTypeError(f"a prompt must be text, a list of int tokens, or a list of messages, got {shown(prompt)}")
        tokens = [int(token) for token in prompt]
    if tokens is None:
        raise GraphError("a prompt of text or messages needs a tokenizer, got None: pass a list of tokens")
    if not tokens:
        raise ShapeError("a prompt must have at least one token, got none")
    return tokens


def checked_tokens(model: LanguageModel, rows: Sequence[Sequence[int]]) -> None:
    """Refuse tokens outside the vocabulary."""
    vocabulary = model.architecture.vocabulary
    for row in rows:
        if wrong := [token for token in row if not 0 <= token < vocabulary]:
            raise OutOfRangeError(f"token {wrong[0]} is out of range: the model's tokens are 0 to {vocabulary - 1}")


def allowed(model: LanguageModel, length: int, count: int) -> int:
    """Return how many tokens can follow a prompt: count, or fewer if the model's learned positions end earlier."""
    most = model.architecture.learned_positions
    if most and length >= most:
        raise ShapeError(f"a prompt must have fewer tokens than the model has positions, {most}, got {length}")
    return min(count, most - length) if most else count


def stops_of(tokenizer: Tokenizer | None, stop: str | Sequence[str]) -> tuple[str, ...]:
    """Return the stop strings, without empty ones."""
    stops = tuple(text for text in ([stop] if isinstance(stop, str) else stop) if text)
    if stops and tokenizer is None:
        raise GraphError("stop needs a tokenizer, got None: stop strings are compared with text")
    return stops
