"""Tokenizer: text to tokens and back, with the tokenizer.json and the chat template of a checkpoint.

The optional package `tokenizers` reads tokenizer.json; the optional package `jinja2` renders chat templates.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._checks import checked
from .._display import shown
from .._optional import require
from ..errors import CheckpointError
from .chat_template import rendered
from .storage import read_json

_UNFINISHED = "\ufffd"  # Replacement character, which an incomplete UTF-8 sequence decodes to.


@checked
class Tokenizer:
    """Converts between text and tokens.

    Args:
        backend: A `tokenizers.Tokenizer`.
        configuration: Entries of tokenizer_config.json, of which the special tokens and chat_template are used.
            Defaults to none.
        ends: Tokens that end a text. Defaults to the configuration's eos_token.

    Attributes:
        backend: The argument.
        configuration: The argument.
        ends: Tokens that end a text, as a frozenset of ints.

    Example:
        >>> import tokenizers
        >>> backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
        >>> backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        >>> tokenizer = mg.lm.Tokenizer(backend)
        >>> tokenizer.encode("b a b"), tokenizer.decode([1, 0])
        ([1, 0, 1], 'b a')
    """

    def __init__(
        self, backend: Any, configuration: Mapping[str, Any] | None = None, ends: Iterable[int] | None = None
    ) -> None:
        self.backend, self.configuration = backend, dict(configuration or {})
        if ends is None:
            end = self.special("eos_token")
            number = None if end is None else backend.token_to_id(end)
            ends = () if number is None else (number,)
        self.ends = frozenset(int(end) for end in ends)

    def __len__(self) -> int:
        return int(self.backend.get_vocab_size())

    def special(self, name: str) -> str | None:
        """Return a special token.

        Args:
            name: Its name in the configuration, such as "bos_token".

        Returns:
            The token's text, or None if the configuration does not have it.
        """
        value = self.configuration.get(name)
        return value["content"] if isinstance(value, Mapping) else value

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Return the tokens of a text.

        Args:
            text: The text.
            special: Whether to add the special tokens that the tokenizer puts around a text, such as its begin.
                Defaults to True.

        Returns:
            A list of tokens.
        """
        return list(self.backend.encode(text, add_special_tokens=special).ids)

    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Return the text of tokens.

        Args:
            tokens: The tokens.
            special: Whether the text contains special tokens. Defaults to False.

        Returns:
            The text.
        """
        return str(self.backend.decode([int(token) for token in tokens], skip_special_tokens=not special))

    def chat(self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Any] | None = None, **more: Any) -> str:
        """Render a conversation as the text that the model continues with its answer.

        Args:
            messages: Messages with the entries "role" ("system", "user", or "assistant") and "content".
            tools: Descriptions of tools, passed on to the template. Defaults to none.
            **more: Further variables of the template, such as enable_thinking. add_generation_prompt defaults to True.

        Returns:
            The text, which ends where the answer begins. It contains all special tokens, so encode it with
            special=False.

        Raises:
            GraphError: If the checkpoint has no chat template, or the template rejects the messages.
            ImportError: If jinja2 is not installed.
        """
        more.setdefault("add_generation_prompt", True)
        return rendered(self, messages, tools, more)[0]

    def save(self, folder: Path) -> None:
        """Write tokenizer.json and tokenizer_config.json.

        Args:
            folder: Existing folder.
        """
        self.backend.save(str(folder / "tokenizer.json"))
        text = json.dumps(self.configuration, indent=2, ensure_ascii=False)
        (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")
        ends = sorted(self.ends)
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}, indent=2) + "\n")


class TextStream:
    """Decodes tokens one after the other, returning only text that later tokens cannot change."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.tokens, self.first, self.done = tokenizer, list[int](), 0, 0

    def add(self, token: int) -> str:
        """Add a token and return the text that is now complete."""
        self.tokens.append(token)
        return self._text(final=False)

    def finish(self) -> str:
        """Return the rest of the text."""
        return self._text(final=True)

    def _text(self, final: bool) -> str:
        """Decode the last tokens with some context, because the text of a token can depend on its predecessors."""
        before = self.tokenizer.decode(self.tokens[self.first : self.done])
        text = self.tokenizer.decode(self.tokens[self.first :])
        if not final and (text.endswith(_UNFINISHED) or len(text) <= len(before)):
            return ""
        self.first, self.done = self.done, len(self.tokens)
        return text[len(before) :]


def load_tokenizer(folder: Path) -> Tokenizer | None:
    """Return the tokenizer of a checkpoint, or None if it has no tokenizer.json."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return None
    tokenizers = require("tokenizers", "lm", "reading tokenizer.json")
    try:
        backend = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # The package raises plain exceptions.
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    configuration = read_json(folder / "tokenizer_config.json") or {}
    for name, value in (read_json(folder / "special_tokens_map.json") or {}).items():
        configuration.setdefault(name, value)
    template = folder / "chat_template.jinja"
    if template.is_file():
        configuration["chat_template"] = template.read_text(encoding="utf-8")
    stated = (read_json(folder / "generation_config.json") or {}).get("eos_token_id")
    if stated is None:
        stated = (read_json(folder / "config.json") or {}).get("eos_token_id")
    ends = [stated] if isinstance(stated, int) else stated
    if ends is not None and not (isinstance(ends, list) and all(isinstance(end, int) for end in ends)):
        raise CheckpointError(f"{folder}: eos_token_id must be an int or a list of ints, got {shown(stated)}")
    return Tokenizer(backend, configuration, ends)
