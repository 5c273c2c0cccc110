"""Texts as numbers: tokens by the library `tokenizers`, and pieces of a long text to learn what comes next from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .._checks import Size, checked
from .._display import shown
from .._optional import require
from ..errors import DTypeError, GraphError, ShapeError
from .files import DataError


@checked
def tokenized(
    texts: Iterable[str], tokenizer: Any, max_length: Size | None = None, *, special_tokens: bool = True
) -> list[np.ndarray]:
    """The numbers of each text's tokens, int32 (tokens,): sequences for `bucketed`.

    Args: texts; tokenizer, a `tokenizers.Tokenizer`, one of `transformers` that has `encode`, or the path of a
    tokenizer.json; max_length, behind which tokens are cut off; special_tokens, whether the tokenizer adds those that
    it has for beginnings and ends. Errors: DataError for a file that is none, GraphError for what is no tokenizer;
    ImportError without tokenizers, where a path is given.

    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> words = Tokenizer(models.WordLevel({"[UNK]": 0, "the": 1, "cat": 2}, unk_token="[UNK]"))
    >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> [tokens.tolist() for tokens in mg.data.tokenized(["the cat", "the dog sat"], words)]
    [[1, 2], [1, 0, 0]]
    """
    if isinstance(tokenizer, (str, os.PathLike)):
        library: Any = require("tokenizers", "data", "a tokenizer's file")
        try:
            tokenizer = library.Tokenizer.from_file(os.fspath(tokenizer))
        except Exception as error:  # the library raises plain Exception
            path = shown(os.fspath(tokenizer))
            raise DataError(f"tokenized: {path} cannot be read as a tokenizer: {shown(str(error))}") from error
    given = list(texts)
    if wrong := [text for text in given if not isinstance(text, str)]:
        raise GraphError(f"tokenized: texts are strings, got {shown(wrong[0])}")
    if hasattr(tokenizer, "encode_batch"):
        numbers = [found.ids for found in tokenizer.encode_batch(given, add_special_tokens=special_tokens)]
    elif hasattr(tokenizer, "encode"):
        numbers = [tokenizer.encode(text, add_special_tokens=special_tokens) for text in given]
    else:
        raise GraphError(f"tokenized: a tokenizer has encode, as tokenizers.Tokenizer has, got {shown(tokenizer)}")
    return [np.array(found[:max_length], np.int32) for found in numbers]


@checked
class Windows:
    """Pieces of a long row of tokens by number: (piece, the same one further on).

    >>> pieces = mg.data.windows(np.arange(8), length=3)
    >>> len(pieces), [part.tolist() for part in pieces[1]]
    (2, [[3, 4, 5], [4, 5, 6]])
    """

    def __init__(self, tokens: np.ndarray, length: Size, stride: Size) -> None:
        self.tokens, self.length, self.stride = tokens, length, stride

    def __len__(self) -> int:
        """How many pieces there are."""
        return (len(self.tokens) - 1 - self.length) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        first = index * self.stride
        piece = np.asarray(self.tokens[first : first + self.length + 1]).astype(np.int32)
        return piece[:-1], piece[1:]


@checked
def windows(tokens: np.ndarray | Sequence[np.ndarray], length: Size, stride: Size | None = None) -> Windows:
    """Pieces of a text to learn the next token from: (tokens, the tokens one further on), int32 (length,) each.

    Args: tokens, integers (n,), such as a memory map of a corpus, or a list of such that are put behind each other;
    length of a piece; stride, from one piece's begin to the next's, length when None. Give it to `loaded`. Errors:
    ShapeError for fewer tokens than a piece needs; DTypeError.

    >>> data = mg.data.windows(np.arange(8), length=3)
    >>> [(x.tolist(), y.tolist()) for x, y in (data[i] for i in range(len(data)))]
    [([0, 1, 2], [1, 2, 3]), ([3, 4, 5], [4, 5, 6])]
    """
    row = tokens if isinstance(tokens, np.ndarray) else np.concatenate([np.asarray(t) for t in tokens] or [np.zeros(0)])
    if row.ndim != 1 or len(row) < length + 1:
        raise ShapeError(f"windows: pieces of {length} need {length + 1} tokens in a row, got shape {row.shape}")
    if row.dtype.kind not in "iu":
        raise DTypeError(f"windows: tokens are integers, got an array of {row.dtype}")
    return Windows(row, length, length if stride is None else stride)
