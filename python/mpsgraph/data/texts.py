"""Text as token indices: tokenization with `tokenizers`, and windows of a long text for next-token training."""

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
    """Convert texts to token indices, as sequences for `bucketed`.

    Args:
        texts: The texts.
        tokenizer: A `tokenizers.Tokenizer`, a tokenizer of `transformers`, another object with an `encode` method, or
            the path of a tokenizer.json.
        max_length: Number of tokens after which a text is cut off. Defaults to no limit.
        special_tokens: Whether to add the tokenizer's tokens for start and end. Defaults to True.

    Returns:
        An int32 array (tokens,) for each text.

    Raises:
        DataError: If the file of the tokenizer cannot be read.
        GraphError: If tokenizer has no encode method, or a text is not a string.
        ImportError: If a path is given and tokenizers is not installed.

    Example:
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
        except Exception as error:  # tokenizers raises plain Exception for invalid files.
            path = shown(os.fspath(tokenizer))
            raise DataError(f"tokenized: {path} cannot be read as a tokenizer: {shown(str(error))}") from error
    given = list(texts)
    if wrong := [text for text in given if not isinstance(text, str)]:
        raise GraphError(f"tokenized: texts must be strings, got {shown(wrong[0])}")
    if hasattr(tokenizer, "encode_batch"):
        numbers = [found.ids for found in tokenizer.encode_batch(given, add_special_tokens=special_tokens)]
    elif hasattr(tokenizer, "encode"):
        numbers = [tokenizer.encode(text, add_special_tokens=special_tokens) for text in given]
    else:
        raise GraphError(
            "tokenized: tokenizer must be a path or have an encode method, as tokenizers.Tokenizer has, got "
            f"{shown(tokenizer)}"
        )
    return [np.array(found[:max_length], np.int32) for found in numbers]


@checked
class Windows:
    """Windows of a long sequence of tokens by index, as returned by `windows`.

    Args:
        tokens: Integer array (n,).
        length: Length of a window.
        stride: Distance between the starts of consecutive windows.

    Example:
        >>> pieces = mg.data.windows(np.arange(8), length=3)
        >>> len(pieces), [part.tolist() for part in pieces[1]]
        (2, [[3, 4, 5], [4, 5, 6]])
    """

    def __init__(self, tokens: np.ndarray, length: Size, stride: Size) -> None:
        self.tokens, self.length, self.stride = tokens, length, stride

    def __len__(self) -> int:
        """Return the number of windows."""
        return (len(self.tokens) - 1 - self.length) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        first = index * self.stride
        piece = np.asarray(self.tokens[first : first + self.length + 1]).astype(np.int32)
        return piece[:-1], piece[1:]


@checked
def windows(tokens: np.ndarray | Sequence[np.ndarray], length: Size, stride: Size | None = None) -> Windows:
    """Create a dataset of windows of a text for next-token training, for use with `loaded`.

    Sample i is a pair of int32 arrays (length,): the tokens of window i, and the tokens one position later.

    Args:
        tokens: Integer array (n,), such as a memory map of a corpus, or a list of arrays to concatenate.
        length: Length of a window.
        stride: Distance between the starts of consecutive windows. None, the default, means length.

    Returns:
        The dataset.

    Raises:
        ShapeError: If tokens is not 1-D or is shorter than length + 1.
        DTypeError: If tokens are not integers.

    Example:
        >>> data = mg.data.windows(np.arange(8), length=3)
        >>> [(x.tolist(), y.tolist()) for x, y in (data[i] for i in range(len(data)))]
        [([0, 1, 2], [1, 2, 3]), ([3, 4, 5], [4, 5, 6])]
    """
    row = tokens if isinstance(tokens, np.ndarray) else np.concatenate([np.asarray(t) for t in tokens] or [np.zeros(0)])
    if row.ndim != 1 or len(row) < length + 1:
        raise ShapeError(
            f"windows: length {length} needs a 1-D array of at least {length + 1} tokens, got shape {row.shape}"
        )
    if row.dtype.kind not in "iu":
        raise DTypeError(f"windows: tokens must be integers, got an array of {row.dtype}")
    return Windows(row, length, length if stride is None else stride)
