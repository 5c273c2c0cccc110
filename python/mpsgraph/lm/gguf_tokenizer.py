"""The tokenizer in a GGUF file, as a tokenizer of the optional package `tokenizers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._optional import require
from ..errors import UnsupportedError
from .tokenizer import Tokenizer

_NORMAL, _CONTROL, _USER = 1, 3, 4
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_PATTERNS = {
    "gpt-2": None, "default": None, "smollm": "digits", "llama-bpe": _LLAMA3, "llama3": _LLAMA3, "smaug-bpe": _LLAMA3,
    "qwen2": _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}"),
}  # fmt: skip
"""How each kind of tokenizer splits a text into words: a pattern, "digits" for single digits, or GPT-2's way."""


def tokenizer_of(metadata: Mapping[str, Any], where: str) -> Tokenizer | None:
    """Return the tokenizer of a file, or None if it has none.

    Raises:
        UnsupportedError: If the kind of tokenizer is not supported.
        ImportError: If `tokenizers` is not installed.
    """
    kind, tokens = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.tokens")
    if kind is None or tokens is None or kind == "none":
        return None
    tokenizers = require("tokenizers", "lm", "reading the tokenizer of a GGUF file")
    vocabulary = {token: i for i, token in enumerate(tokens)}
    if kind == "gpt2":
        backend = _byte_pairs(tokenizers, metadata, vocabulary, where)
    elif kind == "llama":
        backend = _pieces(tokenizers, metadata, vocabulary)
    else:
        raise UnsupportedError(f"{where}: the tokenizer {kind!r} is not supported; supported are 'gpt2' and 'llama'")
    types = metadata.get("tokenizer.ggml.token_type", [_NORMAL] * len(tokens))
    for added in (_CONTROL, _USER):
        special = [tokenizers.AddedToken(t, normalized=False, special=added == _CONTROL)
                   for t, own in zip(tokens, types, strict=True) if own == added]  # fmt: skip
        (backend.add_special_tokens if added == _CONTROL else backend.add_tokens)(special)
    return _with_special(tokenizers, backend, metadata, list(tokens), kind == "llama")


def _byte_pairs(tokenizers: Any, metadata: Mapping[str, Any], vocabulary: dict[str, int], where: str) -> Any:
    """Return a tokenizer that merges pairs of bytes, as GPT-2's."""
    pre = metadata.get("tokenizer.ggml.pre", "default")
    if pre not in _PATTERNS:
        raise UnsupportedError(
            f"{where}: the pre-tokenizer {pre!r} is not supported; supported are {', '.join(_PATTERNS)}"
        )
    merges = [tuple(merge.split(" ", 1)) for merge in metadata.get("tokenizer.ggml.merges", [])]
    model = tokenizers.models.BPE(vocabulary, merges, ignore_merges=pre in ("llama-bpe", "llama3"))
    backend = tokenizers.Tokenizer(model)
    splits, pattern = tokenizers.pre_tokenizers, _PATTERNS[pre]
    if pattern is None:
        backend.pre_tokenizer = splits.ByteLevel(add_prefix_space=False)
    elif pattern == "digits":
        bytewise = splits.ByteLevel(add_prefix_space=False)
        backend.pre_tokenizer = splits.Sequence([splits.Digits(individual_digits=True), bytewise])
    else:
        split = splits.Split(tokenizers.Regex(pattern), "isolated")
        backend.pre_tokenizer = splits.Sequence([split, splits.ByteLevel(add_prefix_space=False, use_regex=False)])
    backend.decoder = tokenizers.decoders.ByteLevel()
    return backend


def _pieces(tokenizers: Any, metadata: Mapping[str, Any], vocabulary: dict[str, int]) -> Any:
    """Return a tokenizer that merges the pair of pieces with the best score, as SentencePiece's."""
    scores = metadata["tokenizer.ggml.scores"]
    ranked = []
    for piece, index in vocabulary.items():
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in vocabulary and right in vocabulary:
                ranked.append((-scores[index], vocabulary[left], vocabulary[right], (left, right)))
    unknown = metadata.get("tokenizer.ggml.unknown_token_id", 0)
    name = next(token for token, index in vocabulary.items() if index == unknown)
    model = tokenizers.models.BPE(
        vocabulary, [pair for *_, pair in sorted(ranked)], unk_token=name, fuse_unk=True, byte_fallback=True
    )
    backend = tokenizers.Tokenizer(model)
    prefixed = metadata.get("tokenizer.ggml.add_space_prefix", True)
    steps = [tokenizers.normalizers.Prepend("\u2581")] if prefixed else []
    backend.normalizer = tokenizers.normalizers.Sequence([*steps, tokenizers.normalizers.Replace(" ", "\u2581")])
    decoders = tokenizers.decoders
    last = [decoders.Strip(" ", 1, 0)] if prefixed else []
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), *last]
    backend.decoder = decoders.Sequence(steps)
    return backend


def _with_special(
    tokenizers: Any, backend: Any, metadata: Mapping[str, Any], tokens: list[str], begins: bool
) -> Tokenizer:
    """Add the tokens at the beginning and the end of a text, and the chat template."""

    def token(name: str) -> tuple[str, int] | None:
        index = metadata.get(f"tokenizer.ggml.{name}_token_id")
        return None if index is None else (tokens[index], int(index))

    first, last = token("bos"), token("eos")
    before = [first] if first and metadata.get("tokenizer.ggml.add_bos_token", begins) else []
    after = [last] if last and metadata.get("tokenizer.ggml.add_eos_token", False) else []
    if before or after:
        parts = [*(text for text, _ in before), "$A", *(text for text, _ in after)]
        backend.post_processor = tokenizers.processors.TemplateProcessing(single=parts, special_tokens=before + after)
    configuration = {f"{name}_token": found[0] for name, found in (("bos", first), ("eos", last)) if found}
    if (template := metadata.get("tokenizer.chat_template")) is not None:
        configuration["chat_template"] = template
    ends = [found[1] for name in ("eos", "eot") if (found := token(name)) is not None]
    return Tokenizer(backend, configuration, ends)
