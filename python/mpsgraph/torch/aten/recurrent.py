"""Translations of recurrent layers.

`torch/recurrent.py` replaces LSTM, GRU and RNN in captured graphs with operations for a single layer in one direction,
forward and backward, which are translated here. Calls in exported graphs are traced to the same operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from ..._core import Tensor
from ..recurrent import IN_LAYERS
from ._table import Call, aten, shape_of

own = partial(aten, domain="mpsgraph")


@aten.rows({"lstm": IN_LAYERS[torch.lstm], "gru": IN_LAYERS[torch.gru]})
def in_layers(
    call: Call, function: Callable[..., Any], x: Tensor, states: Any, parameters: Sequence[Tensor], biases: bool,
    layers: int, dropout: float, training: bool, both: bool, *how: bool,
) -> Any:  # fmt: skip
    if not isinstance(biases, bool):
        call.refuse("packed sequences are not supported")
    if len(shape_of(x)) != 3 or len(parameters) != (4 if biases else 2) * layers * (2 if both else 1):
        call.refuse("inputs without a batch axis and projections (proj_size) are not supported")
    return call.traced(function, x, states, parameters, biases, layers, dropout, training, both, *how)


@own("lstm_layer")
def lstm_layer(
    call: Call, x: Tensor, h: Tensor, c: Tensor, inputs: Tensor, recurrent: Tensor, bias: Tensor, reverse: bool
) -> list[Tensor | None]:
    """Translate one LSTM layer.

    Returns the hidden states, the cell states, and the gates, which are None unless the backward pass reads them.
    """
    training = call.gives(2)
    found = call.g.lstm(x, recurrent, inputs, bias, h, c, reverse=reverse, produce_cell=True, training=training)
    return [*found] if training else [*found, None]


@own("lstm_layer_backward")
def lstm_layer_backward(
    call: Call, to_states: Tensor, to_cells: Tensor | None, cells: Tensor, gates: Tensor, x: Tensor, h: Tensor,
    c: Tensor, inputs: Tensor, recurrent: Tensor, bias: Tensor, reverse: bool,
) -> list[Tensor]:  # fmt: skip
    to_x, to_recurrent, to_inputs, to_bias, to_h, to_c = call.g.lstm_gradients(
        x, recurrent, to_states, gates, cells, inputs, bias, h, c, cell_gradient=to_cells, reverse=reverse
    )
    return [to_x, to_h, to_c, to_inputs, to_recurrent, to_bias]


@own("gru_layer")
def gru_layer(
    call: Call, x: Tensor, h: Tensor, inputs: Tensor, recurrent: Tensor, bias: Tensor, secondary: Tensor, reverse: bool
) -> list[Tensor | None]:
    training = call.gives(1)
    found = call.g.gru(
        x, recurrent, inputs, bias, h, secondary_bias=secondary, reverse=reverse, training=training,
        reset_gate_first=True, reset_after=True,
    )  # fmt: skip
    return [*found] if training else [*found, None]


@own("gru_layer_backward")
def gru_layer_backward(
    call: Call, to_states: Tensor, states: Tensor, gates: Tensor, x: Tensor, h: Tensor, inputs: Tensor,
    recurrent: Tensor, bias: Tensor, secondary: Tensor, reverse: bool,
) -> list[Tensor]:  # fmt: skip
    to_x, to_recurrent, to_inputs, to_bias, to_h, to_secondary = call.g.gru_gradients(
        x, recurrent, to_states, gates, states, inputs, bias, h, secondary_bias=secondary, reverse=reverse,
        reset_gate_first=True, reset_after=True,
    )  # fmt: skip
    return [to_x, to_h, to_inputs, to_recurrent, to_bias, to_secondary]


@own("rnn_layer")
def rnn_layer(
    call: Call, x: Tensor, h: Tensor, inputs: Tensor, recurrent: Tensor, bias: Tensor, activation: str, reverse: bool
) -> list[Tensor | None]:
    training = call.gives(1)
    found = call.g.single_gate_rnn(
        x, recurrent, inputs, bias, h, activation=activation, reverse=reverse, training=training
    )
    return [*found] if training else [*found, None]


@own("rnn_layer_backward")
def rnn_layer_backward(
    call: Call, to_states: Tensor, sums: Tensor, x: Tensor, h: Tensor, inputs: Tensor, recurrent: Tensor,
    bias: Tensor, activation: str, reverse: bool,
) -> list[Tensor]:  # fmt: skip
    to_x, to_recurrent, to_inputs, to_bias, to_h = call.g.single_gate_rnn_gradients(
        x, recurrent, to_states, sums, inputs, bias, h, activation=activation, reverse=reverse
    )
    return [to_x, to_h, to_inputs, to_recurrent, to_bias]
