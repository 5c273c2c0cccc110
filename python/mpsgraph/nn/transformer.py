"""Transformer encoders and decoders: attention and feed-forward layers, each added to what goes around it.

The defaults, the names of the parts and the order of the operations are PyTorch's, except that the batch comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

from .._core import Tensor
from .._display import shown
from ..errors import GraphError, ShapeError
from .activations import gelu
from .attention import MultiheadAttention
from .key_value_cache import KeyValueCache
from .layers import Dropout, Linear, size_of
from .module import Module, graph_of
from .normalization import LayerNorm
from .positions import AttentionPositions

Activation = str | Callable[[Tensor], Tensor]
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": lambda x: graph_of(x).relu(x), "gelu": gelu}


class _TransformerLayer(Module):
    """What the layers of encoder and decoder share."""

    passes_mask = True

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        *,
        epsilon: float = 1e-5,
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
        """A part of the layer added to what goes around it, normalized before the part or behind the sum."""
        if self.norm_first:
            return x + self._dropped(part(norm(x)))
        return norm(x + self._dropped(part(x)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self._dropped(self.activation(self.linear1(x))))

    def _dropped(self, x: Tensor) -> Tensor:
        return self.dropout(x) if self.dropout.rate else x


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention, then a feed-forward network, each added to its input. Vaswani et al., arXiv:1706.03762.

    x = norm1(x + self_attn(x)); result = norm2(x + linear2(activation(linear1(x)))); with norm_first
    x = x + self_attn(norm1(x)); result = x + linear2(activation(linear1(norm2(x)))) (Xiong et al., arXiv:2002.04745).
    Args: d_model, the features; num_heads; dim_feedforward, those in between; dropout, of both parts, of what is in
    between and of the attention's weights; activation, "relu", "gelu" or a function; epsilon of the normalizations;
    batch_first; norm_first; bias, of maps and normalizations; num_kv_heads and positions, of the self-attention. A call
    takes (N, T, d_model) and mask, key_padding_mask, is_causal and cache as MultiheadAttention does. Errors:
    ShapeError, GraphError, DTypeError.

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
        def attend(y: Tensor) -> Tensor:
            return self.self_attn(y, mask=mask, key_padding_mask=key_padding_mask, is_causal=is_causal, cache=cache)

        return self._added(self._added(x, self.norm1, attend), self.norm2, self._feed_forward)


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to an encoder's result, then a feed-forward network, each added to its input.

    Args: as TransformerEncoderLayer's. Parts: self_attn, multihead_attn, linear1, linear2, norm1 to norm3. A call takes
    (N, T, d_model) and memory (N, S, any size), what the encoder found; mask, key_padding_mask, is_causal and cache
    of the self-attention; memory_mask and memory_key_padding_mask of the other. Errors: ShapeError, GraphError,
    DTypeError.

    >>> g = mg.Graph()
    >>> x, memory = g.placeholder((-1, 20, 32)), g.placeholder((-1, 30, 16))
    >>> mg.nn.TransformerDecoderLayer(32, 4, 64)(x, memory, is_causal=True).shape
    (-1, 20, 32)
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        *,
        epsilon: float = 1e-5,
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
        if memory is None:
            raise ShapeError("TransformerDecoderLayer takes what to attend to as its second argument, memory")

        def attend(y: Tensor) -> Tensor:
            return self.self_attn(y, mask=mask, key_padding_mask=key_padding_mask, is_causal=is_causal, cache=cache)

        def attend_to_memory(y: Tensor) -> Tensor:
            return self.multihead_attn(y, memory, mask=memory_mask, key_padding_mask=memory_key_padding_mask)

        y = self._added(self._added(x, self.norm1, attend), self.norm2, attend_to_memory)
        return self._added(y, self.norm3, self._feed_forward)


class TransformerEncoder(Module):
    """Equal layers, one after another, with variables of their own; then a normalization where given.

    Args: layer, of which each is a copy and that has no variables yet; num_layers; norm, a module for the result, as
    norm_first wants. A call takes what the layer's takes. Errors: GraphError, and those of the layers.

    >>> g = mg.Graph()
    >>> layer = mg.nn.TransformerEncoderLayer(32, 4, 64, norm_first=True)
    >>> mg.nn.TransformerEncoder(layer, 6, mg.nn.LayerNorm())(g.placeholder((-1, 20, 32))).shape
    (-1, 20, 32)
    """

    def __init__(self, layer: TransformerEncoderLayer, num_layers: int, norm: Module | None = None) -> None:
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
        for layer in self.layers:
            x = layer(x, mask=mask, key_padding_mask=key_padding_mask, is_causal=is_causal, cache=cache)
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """Equal layers that attend to an encoder's result, one after another; then a normalization where given.

    Args: as TransformerEncoder's, with a TransformerDecoderLayer. A call takes what the layer's takes.

    >>> g = mg.Graph()
    >>> x, memory = g.placeholder((-1, 20, 32)), g.placeholder((-1, 30, 32))
    >>> decoder = mg.nn.TransformerDecoder(mg.nn.TransformerDecoderLayer(32, 4, 64), 2)
    >>> decoder(x, memory, is_causal=True).shape
    (-1, 20, 32)
    """

    def __init__(self, layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
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
        raise ShapeError(f"{what}: there must be a layer at least, got {count}")
    if layer._graph is not None:
        raise GraphError(f"{what}: the layer has variables already and cannot be copied: give one that was not called")
    return [deepcopy(layer) for _ in range(count)]
