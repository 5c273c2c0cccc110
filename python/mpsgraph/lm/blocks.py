"""Parts of `Decoder` and `Encoder`: normalizations, feed-forward networks, experts, and layers."""

from __future__ import annotations

from .._core import Tensor
from ..nn.attention import MultiheadAttention
from ..nn.initialisers import Initialiser, zeros
from ..nn.key_value_cache import KeyValueCache
from ..nn.layers import Dropout, Identity, Linear, shape_of_sizes, size_in_run, size_of
from ..nn.module import Module
from ..nn.normalization import LayerNorm, RMSNorm
from ..nn.parts import graph_of
from ..nn.rotary import RotaryPositions
from .architecture import Architecture


class OffsetRMSNorm(RMSNorm):
    """RMS normalization whose learned scale is added to a constant: (offset + gamma) * x / sqrt(mean(x^2) + epsilon).

    Args:
        offset: Number added to gamma.
        epsilon: Added to the mean square.
    """

    def __init__(self, offset: float, epsilon: float) -> None:
        super().__init__(epsilon=epsilon)
        self.offset = offset

    def build(self, x: Tensor) -> None:
        self.gamma = self.add_parameter("gamma", x, [size_of(x, -1, None, "OffsetRMSNorm")], zeros)

    def forward(self, x: Tensor) -> Tensor:
        g = graph_of(x)
        assert self.gamma is not None
        wide = g.cast(x, "float32") if x.dtype.itemsize == 2 else x
        y = wide * g.reciprocal_square_root(g.mean(g.square(wide), -1) + self.epsilon)
        return g.cast(y * (g.cast(self.gamma, wide.dtype) + self.offset), x.dtype)


def norm_of(a: Architecture) -> Module:
    """Return a new normalization of the features."""
    if a.norm == "layer":
        return LayerNorm(epsilon=a.epsilon, center=a.norm_bias)
    return OffsetRMSNorm(a.norm_offset, a.epsilon) if a.norm_offset else RMSNorm(epsilon=a.epsilon)


class FeedForward(Module):
    """Feed-forward network: down(activation(gate(x)) * up(x)), or down(activation(up(x))) without a gate."""

    def __init__(self, a: Architecture, initialiser: Initialiser | None) -> None:
        self.architecture = a
        if a.gated:
            self.gate = Linear(a.hidden, bias=a.hidden_bias, weight_initialiser=initialiser)
        self.up = Linear(a.hidden, bias=a.hidden_bias, weight_initialiser=initialiser)
        self.down = Linear(a.width, bias=a.hidden_bias, weight_initialiser=initialiser)
        self.dropout = Dropout(a.hidden_dropout)

    def forward(self, x: Tensor) -> Tensor:
        a = self.architecture
        y = a.activate(self.gate(x)) * self.up(x) if a.gated else a.activate(self.up(x))
        return self.down(self.dropout(y) if a.hidden_dropout else y)


class Experts(Module):
    """Mixture of experts: a router selects a few gated feed-forward networks for each token and weighs their outputs.

    Attributes:
        router: Linear layer with weight (width, experts).
        gate: Weights of the experts' gates, (experts, width, expert_hidden).
        up: Weights of the experts' inputs, (experts, width, expert_hidden).
        down: Weights of the experts' outputs, (experts, expert_hidden, width).
    """

    gate: Tensor
    up: Tensor
    down: Tensor

    def __init__(self, a: Architecture, initialiser: Initialiser | None) -> None:
        self.architecture, self.initialiser = a, initialiser
        self.router = Linear(a.experts, bias=False, weight_initialiser=initialiser)

    def build(self, x: Tensor) -> None:
        a, initialiser = self.architecture, self.router.weight_initialiser
        inward, outward = (a.experts, a.width, a.expert_hidden), (a.experts, a.expert_hidden, a.width)
        self.gate = self.add_parameter("gate", x, inward, initialiser)
        self.up = self.add_parameter("up", x, inward, initialiser)
        self.down = self.add_parameter("down", x, outward, initialiser)

    def forward(self, x: Tensor) -> Tensor:
        """Return the weighted outputs of each token's experts, with the shape of x (N, L, width).

        All experts process all tokens; the weights of the experts that were not selected are zero.
        """
        a, g = self.architecture, graph_of(x)
        tokens = g.reshape(x, (-1, a.width))
        odds = g.softmax(g.cast(self.router(tokens), "float32"), -1)
        best, chosen = g.top_k(odds, a.experts_per_token, 1)
        if a.normalize_experts:
            best = best / g.reduction_sum(best, 1)
        hot = g.one_hot(chosen, a.experts, dtype="float32")  # (tokens, experts per token, experts)
        weights = g.cast(g.squeeze(g.reduction_sum(hot * g.expand_dims(best, -1), 1), 1), x.dtype)
        each = g.expand_dims(tokens, 0)
        hidden = a.activate(each @ self.gate) * (each @ self.up)
        outputs = hidden @ self.down  # (experts, tokens, width)
        y = g.reduction_sum(outputs * g.expand_dims(g.transpose(weights, (1, 0)), -1), 0)
        return g.reshape(y, shape_of_sizes(x, [size_in_run(x, 0), size_in_run(x, 1), a.width]))


class Layer(Module):
    """A layer: attention and a feed-forward network, each with a residual connection and normalizations.

    Attributes:
        attention_norm: Normalization before attention, or of its residual sum.
        attention: MultiheadAttention layer.
        attention_output_norm: Normalization of the output of attention, with norm_order "both".
        feed_forward_norm: Normalization before the feed-forward network, or of its residual sum.
        feed_forward: FeedForward or Experts.
        feed_forward_output_norm: Normalization of the output of the feed-forward network, with norm_order "both".
    """

    def __init__(self, a: Architecture, index: int, initialiser: Initialiser | None) -> None:
        self.norm_order = a.norm_order
        rotary = a.rotary[index]
        norm = norm_of(a) if a.qk_norm else None
        self.attention_norm = Identity() if index == 0 and not a.first_norm else norm_of(a)
        self.attention = MultiheadAttention(
            a.width, a.heads, num_kv_heads=a.kv_heads, head_dim=a.head_dim, dropout=a.attention_dropout,
            qkv_bias=a.qkv_bias, output_bias=a.output_bias, qk_norm=norm, window=a.windows[index],
            soft_cap=a.soft_cap, sinks=a.sinks, scale=None if a.scales is None else a.scales[index],
            positions=None if rotary is None else RotaryPositions(
                rotary.base, dimensions=rotary.dimensions, scaling=rotary.scaling
            ),
            weight_initialiser=initialiser,
        )  # fmt: skip
        self.feed_forward_norm = norm_of(a)
        self.feed_forward: Module = (Experts if a.expert_layers[index] else FeedForward)(a, initialiser)
        if a.norm_order == "both":
            self.attention_output_norm, self.feed_forward_output_norm = norm_of(a), norm_of(a)
        out = a.residual_dropout if a.attention_output_dropout is None else a.attention_output_dropout
        self.attention_dropout, self.dropout = Dropout(out), Dropout(a.residual_dropout)

    def forward(
        self,
        x: Tensor,
        *,
        is_causal: bool = True,
        key_padding_mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
        mask: Tensor | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """Apply the layer.

        Args:
            x: (N, L, width).
            is_causal: Whether to exclude keys after the query. Defaults to True.
            key_padding_mask: (N, L), True where a token is padding. Defaults to none.
            cache: KeyValueCache. Defaults to none.
            mask: bool (N, 1, L, L), True where a query must not see a key. Defaults to none.
            places: Positions of the tokens, int32 (N, L). None, the default, means 0 to L - 1.

        Returns:
            A tensor with the shape of x.
        """
        before = self.norm_order != "after"
        y = self.attention(
            self.attention_norm(x) if before else x,
            is_causal=is_causal, key_padding_mask=key_padding_mask, cache=cache, mask=mask, places=places,
        )  # fmt: skip
        y = _dropped(self.attention_dropout, y)
        if self.norm_order == "both":
            y = self.attention_output_norm(y)
        x = x + y if before else self.attention_norm(x + y)
        y = _dropped(self.dropout, self.feed_forward(self.feed_forward_norm(x) if before else x))
        if self.norm_order == "both":
            y = self.feed_forward_output_norm(y)
        return x + y if before else self.feed_forward_norm(x + y)


def _dropped(dropout: Dropout, x: Tensor) -> Tensor:
    return dropout(x) if dropout.rate else x
