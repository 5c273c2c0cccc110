"""PromptCache: the keys and values of a conversation, kept between calls and on disk."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._checks import Size, checked
from ..errors import CheckpointError, GraphError, ShapeError
from ..nn.parts import all_variables, graph_of
from ..nn.state import value_of
from ..nn.weights.files import read_values
from .decoder import Decoder, LanguageModel
from .engine import CHUNK, Engine, borrow, continued, give_back
from .sampling import Sampler
from .storage import write_safetensors


@checked
class PromptCache:
    """Keys and values of the tokens that a model has processed, for prompts that begin alike.

    Pass it as `lm.stream(..., cache=cache)`. A prompt that begins with the tokens in the cache is processed from the
    first token that differs. In a conversation, each turn therefore processes only the new messages.

    Args:
        model: Decoder.
        max_length: Maximum number of tokens of a prompt and its continuation. Defaults to 4096.
        chunk: Maximum number of tokens of one run. In models with sliding windows, it is also the number of tokens by
            which a long prompt may differ from the cached one. Defaults to 512.

    Attributes:
        tokens: Tokens in the cache.

    Example:
        >>> sizes = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
        >>> more = {"num_attention_heads": 2, "max_position_embeddings": 64}
        >>> model = mg.lm.create({"model_type": "llama", **sizes, **more})
        >>> cache = mg.lm.PromptCache(model, 64)
        >>> first = mg.lm.generate(model, None, [3, 1, 4], max_tokens=2, cache=cache)
        >>> len(cache.tokens)  # the prompt and all generated tokens but the last
        4
    """

    def __init__(self, model: LanguageModel, max_length: Size = 4096, *, chunk: Size = CHUNK) -> None:
        if not isinstance(model, Decoder):
            raise GraphError(f"PromptCache needs a Decoder, got {type(model).__name__}")
        self.model, self.max_length = model, max_length
        self.tokens: list[int] = []
        self._engine: Engine | None = borrow(model, 1, max_length, chunk)

    def close(self) -> None:
        """Release the memory for use by other caches and calls. The cache cannot be used afterwards."""
        if self._engine is not None:
            give_back(self.model, self._engine)
            self._engine = None

    def _continue(
        self, model: LanguageModel, tokens: list[int], count: int, sampler: Sampler, ends: frozenset[int]
    ) -> Iterator[int]:
        """Yield the tokens that follow a prompt, reusing the cached tokens with which it begins."""
        if model is not self.model:
            raise GraphError("cache was created for another model: create a PromptCache for this model")
        engine = self._open()
        if len(tokens) + count > self.max_length:
            count = self.max_length - len(tokens)
            if count < 1:
                raise ShapeError(
                    f"a prompt of {len(tokens)} tokens does not fit into the cache of {self.max_length}: create a "
                    "PromptCache with a larger max_length"
                )
        kept = self._rewound(engine, tokens)
        text = list(tokens)
        try:
            yield from continued(engine, text, text[kept:], count, sampler, ends)
        finally:
            self.tokens = text[: engine.filled]

    def _open(self) -> Engine:
        if self._engine is None:
            raise GraphError("the PromptCache was closed: create a new one")
        return self._engine

    def _rewound(self, engine: Engine, tokens: Sequence[int]) -> int:
        """Forget the cached tokens from the first that differs; return how many remain, fewer than the prompt has."""
        same = 0
        for own, other in zip(self.tokens[: len(tokens) - 1], tokens, strict=False):
            if own != other:
                break
            same += 1
        dropped = engine.filled - same
        if dropped > engine.rewindable:
            engine.reset()
            return 0
        engine.rewind(dropped)
        return same

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the cache to a file.

        Args:
            path: Path of the safetensors file.

        Raises:
            CheckpointError: If the file cannot be written.
        """
        engine = self._open()
        state: dict[str, Any] = {"tokens": np.array(self.tokens, np.int32), "model": _fingerprint(self.model)}
        for name, variable, positions in _held(engine):
            entries = min(engine.filled, positions.shape[1])
            state[name] = value_of(graph_of(variable).variable_value(variable))
            state[name] = type(state[name])(np.ascontiguousarray(state[name].array[:, :, :entries]), state[name].dtype)
        for i, positions in enumerate(engine.positions):
            state[f"positions.{i}"] = positions
        state["history"] = np.ascontiguousarray(engine.history[:, :, : engine.filled])
        state["sizes"] = np.array([engine.filled, engine.chunk, self.max_length, engine.switched], np.int32)
        try:
            write_safetensors(Path(path), {name: value_of(value) for name, value in state.items()})
        except OSError as error:
            raise CheckpointError(f"{path} cannot be written: {error}") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: LanguageModel) -> PromptCache:
        """Read a cache that `save` wrote.

        Args:
            path: Path of the file.
            model: The model with which the cache was written.

        Returns:
            The cache.

        Raises:
            CheckpointError: If the file is damaged or belongs to another model.
        """
        state = read_values(path)
        try:
            held = {name: value_of(value) for name, value in state.items()}
            filled, chunk, longest, switched = (int(n) for n in held["sizes"].array)
            tokens = [int(token) for token in held["tokens"].array]
            if not np.array_equal(held["model"].array, _fingerprint(model)):
                raise CheckpointError(f"{path} was written with another model or other weights")
            cache = cls(model, longest, chunk=chunk)
            engine = cache._open()
            values = {}
            for name, variable, positions in _held(engine):
                whole = np.zeros(variable.shape or (), held[name].array.dtype)
                whole[:, :, : min(filled, positions.shape[1])] = held[name].array
                values[variable] = whole
            for i, positions in enumerate(engine.positions):
                stored = held[f"positions.{i}"].array
                positions[:, : stored.shape[1]] = stored[:, : positions.shape[1]]
            engine.history[:, :, :filled] = held["history"].array
        except (KeyError, ValueError, IndexError) as error:
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(f"{path} is not a prompt cache of this model: {error}") from error
        if values:
            graph_of(next(iter(values))).set_variables(values)
        engine.filled, engine.switched, cache.tokens = filled, bool(switched), tokens
        return cache


def _held(engine: Engine) -> Iterator[tuple[str, Any, np.ndarray]]:
    """Yield the variables of an engine's caches, with names and the positions of their entries."""
    for i, (cache, positions) in enumerate(zip(engine.caches, engine.positions, strict=True)):
        for j, variable in enumerate(cache.variables):
            yield f"cache.{i}.{j}", variable, positions


def _fingerprint(model: LanguageModel) -> np.ndarray:
    """Return 32 bytes that depend on the configuration and on the first values of each variable."""
    digest = hashlib.sha256(json.dumps(model.configuration, sort_keys=True, default=str).encode())
    variables = list(all_variables(model).values())
    for value in graph_of(variables[0]).variable_values(variables):
        array = np.ascontiguousarray(value_of(value).array).reshape(-1)
        digest.update(array[:: max(array.size // 1024, 1)].tobytes())
    return np.frombuffer(digest.digest(), np.uint8).copy()


def continued_by(
    cache: PromptCache, model: LanguageModel, tokens: list[int], count: int, sampler: Sampler, ends: frozenset[int]
) -> Iterator[int]:
    """Yield the tokens that follow a prompt, reusing the tokens in a cache with which the prompt begins."""
    return cache._continue(model, tokens, count, sampler, ends)
