"""Data sets of texts, completions, and conversations in JSONL files, as batches of tokens and labels.

The labels are the next tokens; those that do not count, such as the tokens of a prompt and padding, are IGNORED. Short
samples can be packed into rows, in which they do not see each other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._checks import Size, checked
from .._display import shown
from ..data.buckets import BatchesByLength
from ..data.files import DataError
from ..errors import GraphError, ShapeError
from .chat_template import answered
from .tokenizer import Tokenizer

IGNORED = -100
"""Label that does not count in the loss, as in PyTorch."""
_SHORTEST = 16  # Length of the first bucket.
Records = str | os.PathLike[str] | Sequence[Mapping[str, Any]]
Sample = tuple[np.ndarray, np.ndarray]


class TokenBatches(BatchesByLength):
    """Batches of tokens and labels, which `Trainer.fit` trains a language model with.

    Without packing, a batch is a pair of int32 arrays (batch_size, L): tokens and labels. Samples of similar length
    form a batch, which is padded at the end to one of a few lengths L, so that few programs are compiled. With packing,
    each row holds several samples, and the first item is a dict of "tokens" and "positions", both (batch_size,
    max_length). All batches have batch_size rows; missing ones hold only padding.

    Args:
        samples: Pairs of int32 arrays: tokens and labels of one length.
        batch_size: Number of rows of a batch.
        max_length: Length of the longest row.
        pack: Whether rows hold several samples.
        shuffle: Whether each epoch has a different order.
        seed: Seed of the order.

    Attributes:
        lengths: Numbers of tokens of the samples.
        boundaries: Lengths that batches are padded to.

    Example:
        >>> samples = [(np.arange(n, dtype=np.int32), np.arange(1, n + 1, dtype=np.int32)) for n in (3, 5, 2)]
        >>> data = mg.lm.TokenBatches(samples, batch_size=2, max_length=8, pack=True, shuffle=False)
        >>> [(x["positions"].tolist(), y.shape) for x, y in data]
        [([[0, 1, 2, 3, 4, 0, 1, 2], [0, 1, 0, 0, 0, 0, 0, 0]], (2, 8))]
    """

    def __init__(
        self,
        samples: Sequence[Sample],
        batch_size: int = 8,
        max_length: int | None = None,
        pack: bool = False,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        if not samples:
            raise ShapeError("TokenBatches: samples must not be empty")
        if batch_size < 1:
            raise ShapeError(f"batch_size must be at least 1, got {batch_size}")
        self.data, self.pack = list(samples), pack
        self.lengths = np.array([len(tokens) for tokens, _ in samples], np.int64)
        longest = int(self.lengths.max())
        length = longest if max_length is None else max_length
        if longest > length:
            raise ShapeError(f"TokenBatches: a sample has {longest} tokens, more than max_length={length}")
        self.boundaries = [length]
        if not pack:
            shorter = [_SHORTEST << i for i in range(32) if _SHORTEST << i < longest]
            self.boundaries = [*shorter, max(longest, _SHORTEST) if max_length is None else length]
        rows = _packed(self.lengths, length) if pack else [[i] for i in range(len(self.data))]
        self.rows = rows
        self._divide(self.boundaries, [int(self.lengths[row].sum()) for row in rows])
        self._begin(len(rows), batch_size, shuffle, seed, False)

    def _batch(self, picked: np.ndarray) -> Any:
        most = max(int(self.lengths[self.rows[i]].sum()) for i in picked)
        shape = self.batch_size // self.shards[1], self.boundaries[int(np.searchsorted(self.boundaries, most))]
        tokens, positions, labels = (
            np.zeros(shape, np.int32),
            np.zeros(shape, np.int32),
            np.full(shape, IGNORED, np.int32),
        )
        for row, i in enumerate(picked):
            first = 0
            for sample in self.rows[i]:
                part = slice(first, first + int(self.lengths[sample]))
                tokens[row, part], labels[row, part] = self.data[sample]
                positions[row, part] = np.arange(int(self.lengths[sample]))
                first = part.stop
        return ({"tokens": tokens, "positions": positions} if self.pack else tokens), labels


def _packed(lengths: np.ndarray, room: int) -> list[list[int]]:
    """Divide samples among as few rows as the rule of the longest first and the fullest row that fits leads to."""
    rows: list[list[int]] = []
    by_room: list[list[int]] = [[] for _ in range(room + 1)]  # Rows by the number of tokens that they still hold.
    for i in np.argsort(-lengths, kind="stable"):
        need = int(lengths[i])
        free = next((left for left in range(need, room + 1) if by_room[left]), None)
        if free is None:
            rows.append([])
            free, row = room, len(rows) - 1
        else:
            row = by_room[free].pop()
        rows[row].append(int(i))
        by_room[free - need].append(row)
    return rows


@checked
def text_dataset(
    data: Records,
    tokenizer: Tokenizer,
    *,
    batch_size: Size = 8,
    max_length: Size = 512,
    pack: bool = False,
    shuffle: bool = True,
    seed: int = 0,
    ignore: Sequence[str] = (),
) -> TokenBatches:
    """Return batches of texts, all of whose tokens count.

    A text that is longer than max_length is divided into several samples. The tokenizer's end token follows each text.

    Args:
        data: JSONL file whose lines are objects with the entry "text", or a list of such dicts.
        tokenizer: Tokenizer of the model.
        batch_size: Number of rows of a batch. Defaults to 8.
        max_length: Maximum number of tokens of a row. Defaults to 512.
        pack: Whether rows hold several samples, which do not see each other. Defaults to False.
        shuffle: Whether each epoch has a different order. Defaults to True.
        seed: Seed of the order. Defaults to 0.
        ignore: Further entries of the lines, which are not used. Defaults to none.

    Returns:
        An iterable over pairs of tokens and labels; see `TokenBatches`.

    Raises:
        DataError: If a line is invalid; the message has its number.

    Example:
        >>> import tokenizers
        >>> backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
        >>> backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        >>> data = mg.lm.text_dataset([{"text": "a b b"}], mg.lm.Tokenizer(backend), batch_size=1)
        >>> [(x[0, :3].tolist(), y[0, :3].tolist()) for x, y in data]
        [([0, 1, 0], [1, 1, -100])]
    """

    def samples(record: Mapping[str, Any]) -> Iterator[tuple[list[int], list[bool]]]:
        tokens = tokenizer.encode(_string(record, "text")) + _end(tokenizer)
        for first in range(0, max(len(tokens) - 1, 1), max_length):
            part = tokens[first : first + max_length + 1]
            yield part, [True] * len(part)

    found = _samples(data, ("text",), ignore, samples, max_length, truncate=False)
    return TokenBatches(found, batch_size, max_length, pack, shuffle, seed)


@checked
def completion_dataset(
    data: Records,
    tokenizer: Tokenizer,
    *,
    batch_size: Size = 8,
    max_length: Size = 512,
    pack: bool = False,
    truncate: bool = False,
    shuffle: bool = True,
    seed: int = 0,
    ignore: Sequence[str] = (),
) -> TokenBatches:
    """Return batches of prompts with completions, of which only the completions and the end token count.

    Args:
        data: JSONL file whose lines are objects with the entries "prompt" and "completion", or a list of such dicts.
        tokenizer: Tokenizer of the model.
        batch_size: Number of rows of a batch. Defaults to 8.
        max_length: Maximum number of tokens of a row. Defaults to 512.
        pack: Whether rows hold several samples, which do not see each other. Defaults to False.
        truncate: Whether to drop the end of longer samples, which otherwise are an error, and samples of which no
            completion is left. Defaults to False.
        shuffle: Whether each epoch has a different order. Defaults to True.
        seed: Seed of the order. Defaults to 0.
        ignore: Further entries of the lines, which are not used. Defaults to none.

    Returns:
        An iterable over pairs of tokens and labels; see `TokenBatches`.

    Raises:
        DataError: If a line is invalid or too long; the message has its number.

    Example:
        >>> import tokenizers
        >>> backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
        >>> backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        >>> records = [{"prompt": "a a", "completion": " b b"}]
        >>> data = mg.lm.completion_dataset(records, mg.lm.Tokenizer(backend), batch_size=1)
        >>> [(x[0, :4].tolist(), y[0, :4].tolist()) for x, y in data]
        [([0, 0, 1, 0], [-100, 1, 1, -100])]
    """

    def samples(record: Mapping[str, Any]) -> Iterator[tuple[list[int], list[bool]]]:
        prompt = tokenizer.encode(_string(record, "prompt"))
        answer = tokenizer.encode(_string(record, "completion"), special=False) + _end(tokenizer)
        yield prompt + answer, [False] * len(prompt) + [True] * len(answer)

    found = _samples(data, ("prompt", "completion"), ignore, samples, max_length, truncate)
    return TokenBatches(found, batch_size, max_length, pack, shuffle, seed)


@checked
def chat_dataset(
    data: Records,
    tokenizer: Tokenizer,
    *,
    batch_size: Size = 8,
    max_length: Size = 512,
    pack: bool = False,
    truncate: bool = False,
    shuffle: bool = True,
    seed: int = 0,
    ignore: Sequence[str] = (),
    variables: Mapping[str, Any] | None = None,
) -> TokenBatches:
    """Return batches of conversations, of which only the assistant's answers count, with the tokens that end them.

    The tokenizer's chat template renders the conversations. If it marks answers with {% generation %}, those parts
    count. Otherwise, an answer is what the template adds for it after the prompt for the answer.

    Args:
        data: JSONL file whose lines are objects with the entry "messages", a list of objects with "role" and "content",
            and optionally "tools"; or a list of such dicts.
        tokenizer: Tokenizer of the model, with a chat template.
        batch_size: Number of rows of a batch. Defaults to 8.
        max_length: Maximum number of tokens of a row. Defaults to 512.
        pack: Whether rows hold several conversations, which do not see each other. Defaults to False.
        truncate: Whether to drop the end of longer conversations, which otherwise are an error, and conversations of
            which no answer is left. Defaults to False.
        shuffle: Whether each epoch has a different order. Defaults to True.
        seed: Seed of the order. Defaults to 0.
        ignore: Further entries of the lines, which are not used. Defaults to none.
        variables: Further variables of the template, such as enable_thinking. Defaults to none.

    Returns:
        An iterable over pairs of tokens and labels; see `TokenBatches`.

    Raises:
        DataError: If a line is invalid or too long, or the template rejects a conversation; the message has its number.

    Example:
        >>> import tokenizers
        >>> backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0, "hi": 1, "yes": 2}, unk_token="?"))
        >>> backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        >>> template = "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}"
        >>> template += "{% if add_generation_prompt %}assistant {% endif %}"
        >>> tokenizer = mg.lm.Tokenizer(backend, {"chat_template": template})
        >>> talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
        >>> [(x[0, :3].tolist(), y[0, :3].tolist()) for x, y in mg.lm.chat_dataset([{"messages": talk}], tokenizer)]
        [([0, 1, 0], [-100, -100, 2])]
    """

    def samples(record: Mapping[str, Any]) -> Iterator[tuple[list[int], list[bool]]]:
        text, spans = answered(tokenizer, _messages(record), record.get("tools"), variables or {})
        encoding = tokenizer.backend.encode(text, add_special_tokens=False)
        begins = np.array([first for first, _ in encoding.offsets], np.int64)
        ends = np.array([last for _, last in encoding.offsets], np.int64)
        counted = np.zeros(len(begins), bool)
        for first, last in spans:  # A token counts if its first character that is not before the answer is in it.
            counted |= (ends > first) & (begins < last)
        yield list(encoding.ids), counted.tolist()

    found = _samples(data, ("messages",), ("tools", *ignore), samples, max_length, truncate)
    return TokenBatches(found, batch_size, max_length, pack, shuffle, seed)


# --- lines ------------------------------------------------------------------------------------------------------------


def records_of(data: Records) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects of a JSONL file, or of a list, each with where it is, such as "train.jsonl, line 3".

    Raises:
        DataError: If the file cannot be read, or a line is not a JSON object.
    """
    if not isinstance(data, (str, os.PathLike)):
        for i, record in enumerate(data):
            yield f"item {i}", record
        return
    path = Path(data)
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{where}: a line must be a JSON object, got {shown(line.decode(errors='replace'))}: {error}"
            ) from error
        if not isinstance(record, dict):
            raise DataError(f"{where}: a line must be a JSON object, got {shown(record)}")
        yield where, record


def _samples(
    data: Records,
    keys: Sequence[str],
    ignored: Sequence[str],
    convert: Callable[[Mapping[str, Any]], Iterator[tuple[list[int], list[bool]]]],
    longest: int,
    truncate: bool,
) -> list[Sample]:
    """Return the tokens and labels of all records."""
    found = []
    for where, record in records_of(data):
        try:
            _require_keys(record, keys, ignored)
            converted = list(convert(record))
        except (GraphError, DataError) as error:
            raise DataError(f"{where}: {error}") from error
        for tokens, counted in converted:
            if len(tokens) - 1 > longest:
                if not truncate:
                    raise DataError(
                        f"{where}: the sample has {len(tokens) - 1} tokens, more than max_length={longest}: raise "
                        "max_length, or pass truncate=True to drop the end"
                    )
                tokens, counted = tokens[: longest + 1], counted[: longest + 1]
            if not any(counted[1:]):
                if truncate:
                    continue
                raise DataError(f"{where}: no token of the sample counts")
            row = np.array(tokens, np.int32)
            found.append((row[:-1], np.where(counted[1:], row[1:], np.int32(IGNORED))))
    if not found:
        raise DataError(f"{data if isinstance(data, (str, os.PathLike)) else 'the list'} has no samples")
    return found


def _require_keys(record: Mapping[str, Any], keys: Sequence[str], ignored: Sequence[str]) -> None:
    if missing := [key for key in keys if key not in record]:
        raise DataError(f"the entry '{missing[0]}' is missing, got {', '.join(map(repr, record)) or 'no entries'}")
    if unknown := [key for key in record if key not in keys and key not in ignored]:
        raise DataError(f"the entry {unknown[0]!r} is unknown: to skip it, pass ignore=({unknown[0]!r},)")


def _string(record: Mapping[str, Any], key: str) -> str:
    if not isinstance(record[key], str):
        raise DataError(f"'{key}' must be a string, got {shown(record[key])}")
    return str(record[key])


def _messages(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    messages = record["messages"]
    if not isinstance(messages, list) or not all(
        isinstance(m, Mapping) and isinstance(m.get("role"), str) for m in messages
    ):
        raise DataError(f"'messages' must be a list of objects with 'role' and 'content', got {shown(messages)}")
    return list(messages)


def _end(tokenizer: Tokenizer) -> list[int]:
    """Return the token that ends a text, or nothing if the tokenizer has none."""
    text = tokenizer.special("eos_token")
    number = None if text is None else tokenizer.backend.token_to_id(text)
    return sorted(tokenizer.ends)[:1] if number is None else [int(number)]
