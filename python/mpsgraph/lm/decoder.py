"""Decoder and Encoder: the two models that express all families of language models.

Both are made of the same parts (blocks.py) and configured by an `Architecture`. A decoder predicts the next token; an
encoder returns features of each token, or predicts masked tokens.
"""

from __future__ import annotations

from typing import Any

from .._core import Tensor
from .._dtypes import DTypeLike
from ..errors import ShapeError
from ..nn.embedding import Embedding
from ..nn.initialisers import Initialiser, Normal, zeros
from ..nn.key_value_cache import KeyValueCache
from ..nn.layers import Dropout, Linear, size_in_run
from ..nn.module import Module
from ..nn.parts import graph_of
from ..nn.positions import places_from
from ..nn.quantized import QuantizedEmbedding
from .architecture import Architecture
from .blocks import Layer, norm_of


class LanguageModel(Module):
    """Base class of `Decoder` and `Encoder`: embeddings, layers, and logits.

    Args:
        architecture: Sizes and choices of the model.
        initialiser: Initializer of matrices and embeddings. None, the default, means normal numbers with standard
            deviation 0.02.
        dtype: Element type of the parameters and of the computation. Defaults to "float32".

    Attributes:
        architecture: The argument.
        configuration: Entries of the config.json that describe the model, which `lm.save` writes.
        embedding: Embedding of the tokens, with weight (vocabulary, width).
        layers: List of layers with the attributes attention and feed_forward, among others.

    Example:
        >>> sizes = dict(vocabulary=100, width=32, layers=2, heads=4, kv_heads=2, head_dim=8, hidden=64, max_length=64)
        >>> model = mg.lm.Decoder(mg.lm.Architecture(**sizes))
        >>> isinstance(model, mg.lm.LanguageModel), model.hidden(mg.Graph().placeholder((1, -1), mg.int32)).shape
        (True, (1, -1, 32))
    """

    def __init__(
        self, architecture: Architecture, initialiser: Initialiser | None = None, dtype: DTypeLike = "float32"
    ) -> None:
        a = self.architecture = architecture
        self.configuration: dict[str, Any] = {}
        initialiser = initialiser or Normal(0.0, 0.02)

        def table(rows: int) -> Embedding:
            return Embedding(rows, a.width, weight_initialiser=initialiser, dtype=dtype)

        self.embedding: Embedding | QuantizedEmbedding = table(a.vocabulary)
        if a.learned_positions:
            self.position_embedding = table(a.learned_positions)
        if a.token_types:
            self.type_embedding = table(a.token_types)
        if a.embedding_norm:
            self.embedding_norm = norm_of(a)
        self.dropout = Dropout(a.embedding_dropout)
        self.layers = [Layer(a, i, initialiser) for i in range(a.layers)]
        if a.final_norm:
            self.norm = norm_of(a)
        if a.pooler:
            self.pooler = Linear(a.width, weight_initialiser=initialiser)
        if a.head_transform:
            self.head_transform = Linear(a.width, bias=a.head_transform_bias, weight_initialiser=initialiser)
            self.head_norm = norm_of(a)
        if a.head and not a.tied:
            self.head = Linear(a.vocabulary, bias=a.head_bias, weight_initialiser=initialiser)

    ignored_label = -100
    """Label that a trainer's cross-entropy does not count, as in PyTorch."""

    def build(self, x: Tensor) -> None:
        if self.architecture.head and self.architecture.tied and self.architecture.head_bias:
            weight = self._embedded_type(x)
            self.head_bias = self.add_parameter("head_bias", weight, (self.architecture.vocabulary,), zeros)

    def _embedded_type(self, x: Tensor) -> Tensor:
        """Return a tensor with the dtype of the embedding."""
        self.embedding.ensure_built(x)
        return self.embedding.scales if isinstance(self.embedding, QuantizedEmbedding) else self.embedding.weight

    def hidden(
        self,
        tokens: Tensor,
        *,
        cache: KeyValueCache | None = None,
        key_padding_mask: Tensor | None = None,
        token_types: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """Return the features of the last layer, after the final normalization.

        Args:
            tokens: int32 (N, L).
            cache: KeyValueCache. Defaults to none.
            key_padding_mask: bool (N, L), True where a token is padding. Defaults to none.
            token_types: int32 (N, L), for models that embed token types. Defaults to type 0.
            positions: Positions of the tokens of packed sequences, int32 (N, L): position 0 begins a sequence, whose
                tokens do not see those of other sequences. None, the default, means 0 to L - 1.

        Returns:
            A tensor (N, L, width).
        """
        a, g = self.architecture, graph_of(tokens)
        mask = None if positions is None else _apart(positions)
        if tokens.shape is None or len(tokens.shape) != 2:
            raise ShapeError(f"{type(self).__name__}: tokens must be 2-D (sequences, tokens), got shape {tokens.shape}")
        x = self.embedding(tokens)
        if a.embedding_scale != 1:
            x = x * a.embedding_scale
        if a.token_types:
            types = g.constant([0], dtype="int32") if token_types is None else token_types
            x = x + self.type_embedding(types)
        elif token_types is not None:
            raise ShapeError(f"{type(self).__name__}: token_types must not be passed, the model has no token types")
        if a.learned_positions:
            count = size_in_run(tokens, 1)
            places = places_from(x, 0, count) if cache is None else cache.places(x, count)
            places = places if positions is None else positions
            x = x + self.position_embedding(g.maximum(places, 0))  # Padding has negative positions.
        if a.embedding_norm:
            x = self.embedding_norm(x)
        if a.embedding_dropout:
            x = self.dropout(x)
        for layer in self.layers:
            own = cache.of_window(layer.attention.window) if isinstance(cache, Caches) else cache
            x = layer(
                x, is_causal=a.causal, key_padding_mask=key_padding_mask, cache=own, mask=mask, places=positions
            )  # fmt: skip
        return self.norm(x) if a.final_norm else x

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of the tokens.

        Args:
            hidden: Features of the last layer, (N, L, width).

        Returns:
            A tensor (N, L, vocabulary).
        """
        a, g = self.architecture, graph_of(hidden)
        if a.head_transform:
            hidden = self.head_norm(a.activate(self.head_transform(hidden)))
        if a.tied:
            table = self.embedding
            matrix = table.dense() if isinstance(table, QuantizedEmbedding) else table.weight
            logits = hidden @ g.transpose(matrix, (1, 0))
            logits = logits + self.head_bias if a.head_bias else logits
        else:
            logits = self.head(hidden)
        return g.tanh(logits / a.logit_cap) * a.logit_cap if a.logit_cap else logits


class Decoder(LanguageModel):
    """A language model that predicts the next token from all tokens before it.

    Args:
        architecture: Sizes and choices of the model.
        initialiser: Initializer of matrices and embeddings. None, the default, means normal numbers with standard
            deviation 0.02.
        dtype: Element type of the parameters and of the computation. Defaults to "float32".

    Attributes:
        architecture: The argument.
        configuration: Entries of the config.json that describe the model, which `lm.save` writes.
        embedding: Embedding of the tokens, with weight (vocabulary, width).
        layers: List of layers with the attributes attention and feed_forward, among others.

    Example:
        >>> sizes = dict(vocabulary=100, width=32, layers=2, heads=4, kv_heads=2, head_dim=8, hidden=64, max_length=64)
        >>> model = mg.lm.Decoder(mg.lm.Architecture(**sizes))
        >>> model(mg.Graph().placeholder((1, -1), mg.int32)).shape
        (1, -1, 100)
    """

    def forward(
        self,
        tokens: Tensor,
        *,
        cache: KeyValueCache | None = None,
        key_padding_mask: Tensor | None = None,
        at: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """Return the logits of each next token.

        Args:
            tokens: int32 (N, L).
            cache: KeyValueCache. Defaults to none.
            key_padding_mask: bool (N, L), True where a token is padding. Defaults to none.
            at: Indices along L at which to return logits, int32 (K,). Defaults to all.
            positions: Positions of the tokens of packed sequences, int32 (N, L): position 0 begins a sequence, whose
                tokens do not see those of other sequences. None, the default, means 0 to L - 1.

        Returns:
            A tensor (N, L, vocabulary), or (N, K, vocabulary).

        Raises:
            ShapeError: If tokens is not 2-D.
        """
        hidden = self.hidden(tokens, cache=cache, key_padding_mask=key_padding_mask, positions=positions)
        if at is not None:
            hidden = graph_of(hidden).gather(hidden, at, axis=1, out_of_range="error")
        return self.logits(hidden)


class Encoder(LanguageModel):
    """A language model that computes features of each token from all tokens, such as BERT.

    Args:
        architecture: Sizes and choices of the model, with causal=False.
        initialiser: Initializer of matrices and embeddings. None, the default, means normal numbers with standard
            deviation 0.02.
        dtype: Element type of the parameters and of the computation. Defaults to "float32".

    Attributes:
        architecture: The argument.
        configuration: Entries of the config.json that describe the model, which `lm.save` writes.
        embedding: Embedding of the tokens, with weight (vocabulary, width).
        layers: List of layers with the attributes attention and feed_forward, among others.

    Example:
        >>> sizes = dict(vocabulary=100, width=32, layers=2, heads=4, kv_heads=4, head_dim=8, hidden=64, max_length=64)
        >>> model = mg.lm.Encoder(mg.lm.Architecture(**sizes, causal=False, head=False))
        >>> model(mg.Graph().placeholder((1, -1), mg.int32)).shape
        (1, -1, 32)
    """

    def forward(
        self, tokens: Tensor, *, key_padding_mask: Tensor | None = None, token_types: Tensor | None = None
    ) -> Tensor:
        """Return the logits of masked tokens, or the features of each token if the model has no logits.

        Args:
            tokens: int32 (N, L).
            key_padding_mask: bool (N, L), True where a token is padding. Defaults to none.
            token_types: int32 (N, L), for models that embed token types. Defaults to type 0.

        Returns:
            A tensor (N, L, vocabulary), or (N, L, width) if the architecture has head=False.

        Raises:
            ShapeError: If tokens is not 2-D, or token_types is passed to a model without token types.
        """
        hidden = self.hidden(tokens, key_padding_mask=key_padding_mask, token_types=token_types)
        if self.architecture.pooler:
            self.pooled(hidden)  # Creates the variables of the pooler; the result is not part of the output.
        return self.logits(hidden) if self.architecture.head else hidden

    def pooled(self, hidden: Tensor) -> Tensor:
        """Return a summary of each sequence, computed from its first token.

        Args:
            hidden: Features of the last layer, (N, L, width).

        Returns:
            A tensor (N, width).
        """
        g = graph_of(hidden)
        return g.tanh(self.pooler(g.squeeze(g.slice_axis(hidden, 1, 0, 1), 1)))


def _apart(positions: Tensor) -> Tensor:
    """Return a mask (N, 1, L, L) that is True for tokens of different packed sequences."""
    g = graph_of(positions)
    number = g.cumulative_sum(g.cast(g.equal(positions, 0), "int32"), 1)
    return g.expand_dims(g.not_equal(g.expand_dims(number, 2), g.expand_dims(number, 1)), 1)


class Caches(KeyValueCache):
    """Caches of a model whose layers keep different numbers of tokens: all of them, or those in a sliding window.

    Args:
        whole: Cache of the layers without a window.
        recent: Cache of the layers with a window, which may be shorter.
    """

    def __init__(self, whole: KeyValueCache, recent: KeyValueCache) -> None:
        super().__init__(
            whole.rows, whole.max_length, whole.position, queries=whole.queries, keys=whole.keys, length=whole.length
        )
        self.whole, self.recent = whole, recent

    def of_window(self, window: int | None) -> KeyValueCache:
        """Return the cache of layers with the given window."""
        return self.whole if window is None else self.recent
