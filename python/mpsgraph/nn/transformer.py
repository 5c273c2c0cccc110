"""Transformer encoder and decoder layers and stacks: attention and feed-forward sublayers with residual connections.

Defaults, names of sublayers, and order of operations are PyTorch's, except that the batch comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

from .._checks import BelowOne, NotNegative, Size
from .._core import Tensor
from .._display import shown
from ..errors import GraphError, ShapeError
from .activations import gelu
from .attention import MultiheadAttention
from .key_value_cache import KeyValueCache
from .layers import Dropout, Linear, size_of
from .module import Module
from .normalization import LayerNorm
from .parts import graph_of, is_built
from .positions import AttentionPositions

Activation = str | Callable[[Tensor], Tensor]
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": lambda x: graph_of(x).relu(x), "gelu": gelu}


class _TransformerLayer(Module):
    """Base class of the encoder and decoder layers."""

    passes_mask = True

    def __init__(
        self,
        d_model: Size,
        num_heads: Size,
        dim_feedforward: Size = 2048,
        dropout: BelowOne = 0.1,
        activation: Activation = "relu",
        *,
        epsilon: NotNegative = 1e-5,
        batch_first: bool = True,
        norm_first: bool = False,
        bias: bool = True,
        num_kv_heads: int | None = None,
        positions: AttentionPositions | None = None,
    ) -> None:
        if isinstance(activation, str) and activation not in _ACTIVATIONS:
            raise GraphError(
                f'{type(self).__name__}: activation must be "relu", "gelu" or a function, got {shown(activation)}'
            )
        self.activation = _ACTIVATIONS[activation] if isinstance(activation, str) else activation
        self.d_model, self.norm_first = d_model, norm_first
        self.self_attn = MultiheadAttention(
            d_model, num_heads, dropout=dropout, bias=bias, batch_first=batch_first,
            num_kv_heads=num_kv_heads, positions=positions,
        )  # fmt: skip
        self.linear1, self.linear2 = Linear(dim_feedforward, bias=bias), Linear(d_model, bias=bias)
        self.norm1, self.norm2 = (LayerNorm(epsilon=epsilon, center=bias) for _ in range(2))
        self.dropout = Dropout(dropout)

    def build(self, x: Tensor) -> None:
        size_of(x, -1, self.d_model, type(self).__name__)

    def _added(self, x: Tensor, norm: Module, part: Callable[[Tensor], Tensor]) -> Tensor:
        """Add a sublayer's result to its input (the residual connection).

        The normalization is applied before the sublayer or after the sum.
        """
        if self.norm_first:
            return x + self._dropped(part(norm(x)))
        return norm(x + self._dropped(part(x)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self._dropped(self.activation(self.linear1(x))))

    def _dropped(self, x: Tensor) -> Tensor:
        return self.dropout(x) if self.dropout.rate else x


class TransformerEncoderLayer(_TransformerLayer):
    """Transformer encoder layer: self-attention and a feed-forward network, each with a residual connection.

    Computes x = norm1(x + self_attn(x)) and then norm2(x + linear2(activation(linear1(x)))). With norm_first it
    computes x = x + self_attn(norm1(x)) and then x + linear2(activation(linear1(norm2(x)))). Keeps the shape (N, T,
    d_model) of the input; see `forward` for masks.

    Args:
        d_model: Number of features.
        num_heads: Number of attention heads, a divisor of d_model.
        dim_feedforward: Number of features between the two linear layers. Defaults to 2048.
        dropout: Dropout probability of both sublayers, the hidden activations, and the attention weights. Defaults to
            0.1.
        activation: "relu" (the default), "gelu", or a function of a tensor.
        epsilon: Added to the variance in the normalizations. Defaults to 1e-5.
        batch_first: Whether data is (N, T, features), the default, or (T, N, features).
        norm_first: Whether to normalize before each sublayer instead of after its residual sum. Defaults to False.
        bias: Whether linear layers and normalizations have biases. Defaults to True.
        num_kv_heads: Number of key and value heads of the self-attention. None, the default, means num_heads.
        positions: Position encoding of the self-attention, such as RotaryPositions. Defaults to none.

    Attributes:
        self_attn: MultiheadAttention layer.
        linear1: Linear layer to dim_feedforward features.
        linear2: Linear layer back to d_model features.
        norm1: LayerNorm of the attention sublayer.
        norm2: LayerNorm of the feed-forward sublayer.

    Raises:
        ShapeError: If num_heads does not divide d_model, or the input does not have d_model features.
        GraphError: If activation is unknown.
        DTypeError: If a mask is neither bool nor floating-point.

    Source: Vaswani et al., arXiv:1706.03762; Xiong et al., arXiv:2002.04745 for norm_first.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.TransformerEncoderLayer(32, 4, 64)(g.placeholder((-1, 20, 32))).shape
        (-1, 20, 32)
    """

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Apply the layer.

        Args:
            x: (N, T, d_model), or (T, N, d_model) if batch_first is False.
            mask: Attention mask that broadcasts to (N, num_heads, T, T): bool, where True excludes a key, or floating
                point, added to the scores.
            key_padding_mask: (N, T), where True excludes a key for all queries, or floating point, added to the scores.
                If None, the mask attached to the keys, if any, is used (see nn.masks).
            is_causal: Whether to exclude keys after the query. Defaults to False.
            cache: KeyValueCache of the self-attention, which then attends to the stored steps as well. Defaults to
                none.

        Returns:
            A tensor with the shape of x.

        Raises:
            ShapeError: If x is not 3-D or does not have d_model features.
            DTypeError: If a mask is neither bool nor floating-point.
        """

        def attend(y: Tensor) -> Tensor:
            return self.self_attn(y, mask=mask, key_padding_mask=key_padding_mask, is_causal=is_causal, cache=cache)

        return self._added(self._added(x, self.norm1, attend), self.norm2, self._feed_forward)


class TransformerDecoderLayer(_TransformerLayer):
    """Transformer decoder layer: self-attention, attention to an encoder's output, and a feed-forward network.

    Each sublayer has a residual connection and a normalization, as in TransformerEncoderLayer. Keeps the shape (N, T,
    d_model) of the input; see `forward` for the encoder's output and masks.

    Args:
        d_model: Number of features.
        num_heads: Number of attention heads, a divisor of d_model.
        dim_feedforward: Number of features between the two linear layers. Defaults to 2048.
        dropout: Dropout probability of the sublayers, the hidden activations, and the attention weights. Defaults to
            0.1.
        activation: "relu" (the default), "gelu", or a function of a tensor.
        epsilon: Added to the variance in the normalizations. Defaults to 1e-5.
        batch_first: Whether data is (N, T, features), the default, or (T, N, features).
        norm_first: Whether to normalize before each sublayer instead of after its residual sum. Defaults to False.
        bias: Whether linear layers and normalizations have biases. Defaults to True.
        num_kv_heads: Number of key and value heads of the self-attention. None, the default, means num_heads.
        positions: Position encoding of the self-attention, such as RotaryPositions. Defaults to none.

    Attributes:
        self_attn: MultiheadAttention layer over the input.
        multihead_attn: MultiheadAttention layer over the encoder's output.
        linear1: Linear layer to dim_feedforward features.
        linear2: Linear layer back to d_model features.
        norm1: LayerNorm of the self-attention sublayer.
        norm2: LayerNorm of the sublayer that attends to the encoder's output.
        norm3: LayerNorm of the feed-forward sublayer.

    Raises:
        ShapeError: If num_heads does not divide d_model, the input does not have d_model features, or memory is
            missing.
        GraphError: If activation is unknown.
        DTypeError: If a mask is neither bool nor floating-point.

    Example:
        >>> g = mg.Graph()
        >>> x, memory = g.placeholder((-1, 20, 32)), g.placeholder((-1, 30, 16))
        >>> mg.nn.TransformerDecoderLayer(32, 4, 64)(x, memory, is_causal=True).shape
        (-1, 20, 32)
    """

    def __init__(
        self,
        d_model: Size,
        num_heads: Size,
        dim_feedforward: Size = 2048,
        dropout: BelowOne = 0.1,
        activation: Activation = "relu",
        *,
        epsilon: NotNegative = 1e-5,
        batch_first: bool = True,
        norm_first: bool = False,
        bias: bool = True,
        num_kv_heads: int | None = None,
        positions: AttentionPositions | None = None,
    ) -> None:
        super().__init__(
            d_model, num_heads, dim_feedforward, dropout, activation,
            epsilon=epsilon, batch_first=batch_first, norm_first=norm_first, bias=bias,
            num_kv_heads=num_kv_heads, positions=positions,
        )  # fmt: skip
        self.multihead_attn = MultiheadAttention(
            d_model, num_heads, dropout=dropout, bias=bias, batch_first=batch_first
        )
        self.norm3 = LayerNorm(epsilon=epsilon, center=bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Apply the layer.

        Args:
            x: (N, T, d_model), or (T, N, d_model) if batch_first is False.
            memory: Output of the encoder, (N, S, features). Required.
            mask: Attention mask that broadcasts to (N, num_heads, T, T): bool, where True excludes a key, or floating
                point, added to the scores.
            memory_mask: The same for the attention to memory, (N, num_heads, T, S).
            key_padding_mask: (N, T), where True excludes a key for all queries, or floating point, added to the scores.
                If None, the mask attached to the keys, if any, is used (see nn.masks).
            memory_key_padding_mask: The same for the keys of memory, (N, S).
            is_causal: Whether to exclude keys after the query. Defaults to False.
            cache: KeyValueCache of the self-attention, which then attends to the stored steps as well. Defaults to
                none.

        Returns:
            A tensor with the shape of x.

        Raises:
            ShapeError: If x or memory is not 3-D, x does not have d_model features, or memory is missing.
            DTypeError: If a mask is neither bool nor floating-point.
        """
        if memory is None:
            raise ShapeError("TransformerDecoderLayer needs the encoder's output as its second argument, memory")

        def attend(y: Tensor) -> Tensor:
            return self.self_attn(y, mask=mask, key_padding_mask=key_padding_mask, is_causal=is_causal, cache=cache)

        def attend_to_memory(y: Tensor) -> Tensor:
            return self.multihead_attn(y, memory, mask=memory_mask, key_padding_mask=memory_key_padding_mask)

        y = self._added(self._added(x, self.norm1, attend), self.norm2, attend_to_memory)
        return self._added(y, self.norm3, self._feed_forward)


class TransformerEncoder(Module):
    """Stack of encoder layers, with separate variables for each, and an optional final normalization.

    Args:
        layer: Encoder layer that has not been called; each layer of the stack is a copy of it.
        num_layers: Number of layers.
        norm: Module applied to the output of the last layer, for layers with norm_first. Defaults to none.

    Attributes:
        layers: The layers of the stack.

    Raises:
        ShapeError: If num_layers is below 1.
        GraphError: If layer has already been called.

    Example:
        >>> g = mg.Graph()
        >>> layer = mg.nn.TransformerEncoderLayer(32, 4, 64, norm_first=True)
        >>> mg.nn.TransformerEncoder(layer, 6, mg.nn.LayerNorm())(g.placeholder((-1, 20, 32))).shape
        (-1, 20, 32)
    """

    def __init__(self, layer: TransformerEncoderLayer, num_layers: Size, norm: Module | None = None) -> None:
        self.layers, self.norm = _copies(layer, num_layers, type(self).__name__), norm

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Apply all layers, each with the same masks.

        Args:
            x: (N, T, d_model), or (T, N, d_model) if the layers have batch_first=False.
            mask: Attention mask that broadcasts to (N, num_heads, T, T): bool, where True excludes a key, or floating
                point, added to the scores.
            key_padding_mask: (N, T), where True excludes a key for all queries, or floating point, added to the scores.
                If None, the mask attached to the keys, if any, is used (see nn.masks).
            is_causal: Whether to exclude keys after the query. Defaults to False.
            cache: KeyValueCache of the self-attention, which then attends to the stored steps as well. Defaults to
                none.

        Returns:
            A tensor with the shape of x.

        Raises:
            ShapeError: If x is not 3-D or does not have d_model features.
            DTypeError: If a mask is neither bool nor floating-point.
        """
        for layer in self.layers:
            x = layer(x, mask=mask, key_padding_mask=key_padding_mask, is_causal=is_causal, cache=cache)
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """Stack of decoder layers, with separate variables for each, and an optional final normalization.

    Args:
        layer: Decoder layer that has not been called; each layer of the stack is a copy of it.
        num_layers: Number of layers.
        norm: Module applied to the output of the last layer, for layers with norm_first. Defaults to none.

    Attributes:
        layers: The layers of the stack.

    Raises:
        ShapeError: If num_layers is below 1.
        GraphError: If layer has already been called.

    Example:
        >>> g = mg.Graph()
        >>> x, memory = g.placeholder((-1, 20, 32)), g.placeholder((-1, 30, 32))
        >>> decoder = mg.nn.TransformerDecoder(mg.nn.TransformerDecoderLayer(32, 4, 64), 2)
        >>> decoder(x, memory, is_causal=True).shape
        (-1, 20, 32)
    """

    def __init__(self, layer: TransformerDecoderLayer, num_layers: Size, norm: Module | None = None) -> None:
        self.layers, self.norm = _copies(layer, num_layers, type(self).__name__), norm

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Apply all layers, each with the same memory and masks.

        Args:
            x: (N, T, d_model), or (T, N, d_model) if the layers have batch_first=False.
            memory: Output of the encoder, (N, S, features). Required.
            mask: Attention mask that broadcasts to (N, num_heads, T, T): bool, where True excludes a key, or floating
                point, added to the scores.
            memory_mask: The same for the attention to memory, (N, num_heads, T, S).
            key_padding_mask: (N, T), where True excludes a key for all queries, or floating point, added to the scores.
                If None, the mask attached to the keys, if any, is used (see nn.masks).
            memory_key_padding_mask: The same for the keys of memory, (N, S).
            is_causal: Whether to exclude keys after the query. Defaults to False.
            cache: KeyValueCache of the self-attention, which then attends to the stored steps as well. Defaults to
                none.

        Returns:
            A tensor with the shape of x.

        Raises:
            ShapeError: If x or memory is not 3-D, x does not have d_model features, or memory is missing.
            DTypeError: If a mask is neither bool nor floating-point.
        """
        for layer in self.layers:
            x = layer(
                x,
                memory,
                mask=mask,
                memory_mask=memory_mask,
                key_padding_mask=key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                is_causal=is_causal,
                cache=cache,
            )
        return x if self.norm is None else self.norm(x)


def _copies(layer: _TransformerLayer, count: int, what: str) -> list[_TransformerLayer]:
    if count < 1:
        raise ShapeError(f"{what}: num_layers must be at least 1, got {count}")
    if is_built(layer):
        raise GraphError(
            f"{what}: layer already has variables and cannot be copied: pass a layer that has not been called"
        )
    return [deepcopy(layer) for _ in range(count)]
