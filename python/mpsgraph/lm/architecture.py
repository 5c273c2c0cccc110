"""Architecture: the sizes and choices that determine what a language model computes.

A family of checkpoints (families/) translates its config.json into an Architecture, from which `Decoder` and `Encoder`
are built. Everything that differs between families is a field here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._core import Tensor
from .._display import shown
from ..errors import GraphError
from ..nn.activations import gelu, silu
from ..nn.parts import graph_of

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": silu,
    "gelu": gelu,
    "gelu_tanh": lambda x: gelu(x, "tanh"),
    "relu": lambda x: graph_of(x).relu(x),
}
_CHOICES = {
    "activation": tuple(_ACTIVATIONS),
    "norm": ("rms", "layer"),
    "norm_order": ("before", "after", "both"),
}


@dataclass(frozen=True)
class Rotary:
    """Rotary position encoding of a layer; see `nn.RotaryPositions`.

    Args:
        base: Base of the rotation frequencies. Defaults to 10000.
        dimensions: Number of features of each head that rotate, or None, the default, for all.
        scaling: Scaling for longer sequences, or None, the default.

    Example:
        >>> mg.lm.Rotary(scaling={"rope_type": "linear", "factor": 2.0}).base
        10000.0
    """

    base: float = 10000.0
    dimensions: int | None = None
    scaling: dict[str, Any] | None = None


@dataclass(frozen=True)
class Architecture:
    """Sizes and choices of a language model.

    Args:
        vocabulary: Number of tokens.
        width: Number of features of a token between layers.
        layers: Number of layers.
        heads: Number of query heads.
        kv_heads: Number of key and value heads.
        head_dim: Number of features of each head.
        hidden: Number of features inside the feed-forward network.
        max_length: Longest sequence for which the model was made. Only learned positions enforce it.
        causal: Whether each token attends only to itself and earlier tokens. Defaults to True.
        activation: "silu", "gelu", "gelu_tanh", or "relu", of the feed-forward network. Defaults to "silu".
        gated: Whether the feed-forward network multiplies the activation by a second projection. Defaults to True.
        norm: "rms" or "layer". Defaults to "rms".
        norm_offset: Number added to the learned scale of RMS normalizations. Defaults to 0.
        norm_bias: Whether layer normalizations have an offset. Defaults to False.
        epsilon: Epsilon of the normalizations. Defaults to 1e-6.
        norm_order: Whether a sublayer is normalized "before" it, "after" its residual sum, or on "both" sides inside
            the residual branch. Defaults to "before".
        embedding_norm: Whether the embeddings are normalized. Defaults to False.
        first_norm: Whether the first layer normalizes the input of its attention. Defaults to True.
        final_norm: Whether the output of the last layer is normalized. Defaults to True.
        qkv_bias: Whether the projections of queries, keys, and values have biases. Defaults to False.
        output_bias: Whether the output projection of attention has a bias. Defaults to False.
        hidden_bias: Whether the projections of the feed-forward network have biases. Defaults to False.
        qk_norm: Whether the queries and keys of each head are normalized. Defaults to False.
        scales: Factor of the attention scores of each layer, or None, the default, for 1 / sqrt(head_dim).
        soft_cap: Cap of the attention scores, or None, the default.
        sinks: Whether attention has sinks; see `nn.MultiheadAttention`. Defaults to False.
        logit_cap: Cap of the logits, or None, the default.
        embedding_scale: Factor of the embeddings. Defaults to 1.
        rotary: Rotary encoding of each layer, None for a layer without one. Defaults to none in all layers.
        windows: Sliding window of each layer, None for a layer without one. Defaults to none in all layers.
        learned_positions: Number of learned positions; 0, the default, means none.
        token_types: Number of token types that are embedded; 0, the default, means none.
        tied: Whether the logits use the transposed embedding. Defaults to False.
        head: Whether the model has logits. Defaults to True.
        head_bias: Whether the logits have a bias. Defaults to False.
        head_transform: Whether a projection, an activation, and a normalization precede the logits. Defaults to False.
        head_transform_bias: Whether that projection has a bias. Defaults to False.
        pooler: Whether an encoder projects its first token to a summary of the sequence. Defaults to False.
        experts: Number of experts of the feed-forward network; 0, the default, means no experts.
        experts_per_token: Number of experts that process each token. Defaults to 0.
        expert_hidden: Number of features inside each expert. Defaults to 0.
        expert_layers: Whether each layer has experts. Defaults to no layer.
        normalize_experts: Whether the weights of a token's experts are scaled so that they sum to 1. Defaults to False.
        embedding_dropout: Dropout probability of the embeddings in training mode. Defaults to 0.
        residual_dropout: Dropout probability of the output of each sublayer. Defaults to 0.
        attention_dropout: Dropout probability of the attention weights. Defaults to 0.
        attention_output_dropout: Dropout probability of the output of attention, or None, the default, for
            residual_dropout.
        hidden_dropout: Dropout probability inside the feed-forward network. Defaults to 0.

    Raises:
        GraphError: If a choice is unknown, or a value for each layer has the wrong length.

    Example:
        >>> sizes = dict(vocabulary=100, width=32, layers=2, heads=4, kv_heads=2, head_dim=8, hidden=64, max_length=64)
        >>> mg.lm.Architecture(**sizes, rotary=(mg.lm.Rotary(), None)).rotary[0].base
        10000.0
    """

    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    max_length: int
    causal: bool = True
    activation: str = "silu"
    gated: bool = True
    norm: str = "rms"
    norm_offset: float = 0.0
    norm_bias: bool = False
    epsilon: float = 1e-6
    norm_order: str = "before"
    embedding_norm: bool = False
    first_norm: bool = True
    final_norm: bool = True
    qkv_bias: bool = False
    output_bias: bool = False
    hidden_bias: bool = False
    qk_norm: bool = False
    scales: tuple[float, ...] | None = None
    soft_cap: float | None = None
    sinks: bool = False
    logit_cap: float | None = None
    embedding_scale: float = 1.0
    rotary: tuple[Rotary | None, ...] = ()
    windows: tuple[int | None, ...] = ()
    learned_positions: int = 0
    token_types: int = 0
    tied: bool = False
    head: bool = True
    head_bias: bool = False
    head_transform: bool = False
    head_transform_bias: bool = False
    pooler: bool = False
    experts: int = 0
    experts_per_token: int = 0
    expert_hidden: int = 0
    expert_layers: tuple[bool, ...] = ()
    normalize_experts: bool = False
    embedding_dropout: float = 0.0
    residual_dropout: float = 0.0
    attention_dropout: float = 0.0
    attention_output_dropout: float | None = None
    hidden_dropout: float = 0.0

    def __post_init__(self) -> None:
        for field, choices in _CHOICES.items():
            if getattr(self, field) not in choices:
                known = ", ".join(f'"{choice}"' for choice in choices)
                raise GraphError(f"Architecture: {field} must be one of {known}, got {shown(getattr(self, field))}")
        for field, default in (("rotary", None), ("windows", None), ("expert_layers", False), ("scales", None)):
            given = getattr(self, field)
            if given == ():
                object.__setattr__(self, field, (default,) * self.layers)
            elif given is not None and len(given) != self.layers:
                raise GraphError(
                    f"Architecture: {field} must have one value for each of the {self.layers} layers, got {len(given)}"
                )
        if self.experts and not 1 <= self.experts_per_token <= self.experts:
            raise GraphError(
                f"Architecture: experts_per_token must be from 1 to experts={self.experts}, got "
                f"{self.experts_per_token}"
            )

    def activate(self, x: Tensor) -> Tensor:
        """Apply the activation of the feed-forward network.

        Args:
            x: Floating-point tensor of any shape.

        Returns:
            A tensor with the shape and dtype of x.
        """
        return _ACTIVATIONS[self.activation](x)
